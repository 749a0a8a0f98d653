"""What Keras finds in the place of an activation that only the user knows, and explanations that explain nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from sqp_keras.family.keras2 import hard_sigmoid_keras2
from sqp_keras.models import sites
from sqp_keras.private import activation_table
from sqp_tflite.errors import UnknownNameError
from sqp_tflite.source.config_json import words
from sqp_tflite.wording import listed


def stand_in(name: str, known: str, layer: bool) -> Any:
    """Returns an object that Keras accepts as the function or, in newer files, as the layer with that name.

    Args:
        name: The name in the file.
        known: The activation that it stands for.
        layer: Whether a newer file names a layer by it.

    Raises:
        UnknownNameError: No activation has that name.
    """
    meant = sites.identify(known).name
    try:
        function = hard_sigmoid_keras2 if meant == hard_sigmoid_keras2.__name__ else keras.activations.get(meant)
    except ValueError as error:
        raise UnknownNameError(
            f"--map {name}={known} must name an activation of Keras. Received: `{known}`. "
            f"For example: {listed(('softplus', 'elu', 'silu'))}."
        ) from error

    def from_config(config: dict[str, Any]) -> Any:
        return keras.layers.Activation(function, name=config.get("name"))

    if layer:
        return type(name, (), {"from_config": staticmethod(from_config)})
    function_like = lambda x: function(x)  # noqa: E731 (Keras wants a fresh callable that it may put attributes on)
    function_like.__name__ = function.__name__
    function_like.__module__ = function.__module__
    function_like.from_config = from_config  # type: ignore[attr-defined]
    return function_like


def object_of(name: str, objects: Mapping[str, Any]) -> Any:
    """Returns what a name stands for among objects, or among those that are registered; None for nothing."""
    return objects.get(name) or keras.saving.get_registered_object(name)


def defined(name: str, objects: Mapping[str, Any]) -> bool:
    """Returns whether Keras finds something under a name: it wants it letter by letter, "Softplus" is nothing to it."""
    table = activation_table()
    known = sites.identify(name).name != sites.UNKNOWN if table is None else name in table
    return known or object_of(name, objects) is not None


def refuse_idle(config: Any, path: Path, names: Mapping[str, str]) -> None:
    """Raises if a name that the user explains changes nothing: it is misspelt, or already means something.

    Args:
        config: The file's configuration.
        path: Names it in messages.
        names: What the user explains.

    Raises:
        UnknownNameError: It does.
    """
    held = set(words(config))
    for name, known in names.items():
        if defined(name, {}):
            raise UnknownNameError(
                f"--map {name}={known} must explain a name that is unknown. Received: `{name}`, which is known as an "
                "activation. Exchange activations with --replace."
            )
        if name not in held:
            raise UnknownNameError(
                f"--map {name}={known} must explain a name in the file. Received: `{name}`, which `{path}` does not "
                "have. Leave it out, or look at the spelling."
            )


def refuse_overruled(names: Mapping[str, str], imported: Mapping[str, Any], held: set[str], classes: set[str]) -> None:
    """Raises if a name that the user explains is what an import defines, or is not what Keras looks for.

    Args:
        names: What the user explains.
        imported: What was taken out of modules, by name; the modules are imported.
        held: Every text of the file's configuration.
        classes: The names under which its classes were registered.

    Raises:
        UnknownNameError: It is.
    """
    for name, known in names.items():
        full = [word for word in held if word == name or word.rpartition(">")[2] == name]
        if name.rpartition(">")[2] in imported or any(keras.saving.get_registered_object(word) for word in full):
            raise UnknownNameError(
                f"--map {name}={known} must explain a name that is unknown. Received: `{name}`, which an import "
                "defines as it was in training. Omit --map, or the import."
            )
        registered = next((word for word in full if word != name and word in classes), None)
        if registered and name not in classes:
            raise UnknownNameError(
                f"--map {name}={known} must explain a name as it was registered. Received: `{name}`, which is "
                f"`{registered}` in the file. Write --map {shlex.quote(f'{registered}={known}')}."
            )

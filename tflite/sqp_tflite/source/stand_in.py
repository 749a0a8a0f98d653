"""What Keras finds in the place of an activation that only the user knows."""

from __future__ import annotations

from typing import Any

import keras

from sqp_keras.family.keras2 import hard_sigmoid_keras2
from sqp_keras.models import sites
from sqp_tflite.errors import BadInputError
from sqp_tflite.wording import listed


def stand_in(name: str, known: str, layer: bool) -> Any:
    """Returns an object that Keras accepts as the function or, in newer files, as the layer with that name.

    Args:
        name: The name in the file.
        known: The activation that it stands for.
        layer: Whether a newer file names a layer by it.

    Raises:
        BadInputError: No activation has that name.
    """
    meant = sites.identify(known).name
    try:
        function = hard_sigmoid_keras2 if meant == hard_sigmoid_keras2.__name__ else keras.activations.get(meant)
    except ValueError as error:
        raise BadInputError(
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

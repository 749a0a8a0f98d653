"""What a model file names and Keras does not define: the user explains it or imports it, and the rest is refused.

Nothing is ever guessed from a part of a name: what a name resembles is not what it computes.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras

from sqp_keras.models import sites
from sqp_keras.private import activation_table
from sqp_tflite.errors import UnknownNameError
from sqp_tflite.source.config_json import nodes, placed, words
from sqp_tflite.source.stand_in import defined, object_of, refuse_idle, refuse_overruled, stand_in
from sqp_tflite.wording import joined, said, shortened

_MOST_LISTED = 3
_LONGEST_NAME = 80
_LONGEST_CAUSE = 200
_KNOWN_PACKAGES = ("keras", "tensorflow", "sqp_keras")
_STANDARD_FUNCTIONS = ("function", "builtin_function_or_method")
_ACTIVATIONS = ("activation", "function")
_LAYERS = ("activation", "backward_layer", "cell", "cells", "layer", "layers")
"""Keys of a configuration under which an activation, and under which a layer stands."""

_NOWHERE = ("", "builtins", "__main__")
"""Modules that say nothing: Keras's for functions, and a script's own."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What the user says about a file.

    Attributes:
        names: What unknown activation names stand for.
        imports: Modules to import, "MODULE", and objects to take out of one, "MODULE:NAME".
        trust: Whether the file's own code may run and what it names may be imported.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    trust: bool = False


@dataclass(frozen=True, slots=True)
class _Named:
    """A class or function that a file names and nothing defines.

    Attributes:
        name: As the file has it: "Own", "my_softplus" or "package>my_softplus".
        registered: Under what a class was registered, "" for a function.
        module: Where the file says that it is, "" where it does not.
        function: Whether it is a function.
        layer: Where it is used.
        place_in: The key that it stands under there: "activation", "kernel_initializer", "layers".
    """

    name: str
    registered: str
    module: str
    function: bool
    layer: str
    place_in: str

    @property
    def key(self) -> str:
        """Returns under what Keras looks for it."""
        return self.name if self.function else self.registered or self.name

    @property
    def may_be_activation(self) -> bool:
        """Returns whether an activation is meant to stand in its place, and Keras would find it there.

        A class among a model's layers is any layer, unless it is called like an activation.
        """
        if self.function:
            return self.place_in.endswith(_ACTIVATIONS)
        called = sites.identify(self.name.rpartition(">")[2]).name != sites.UNKNOWN
        return bool(self.registered) and (self.place_in == "activation" or (self.place_in in ("", *_LAYERS) and called))

    @property
    def package(self) -> str:
        """Returns the package that it was registered for: often, but not always, the name of a module."""
        package, sign, _ = self.key.partition(">")
        return package if sign and package != "Custom" else ""  # Keras's name where it was given none.

    @property
    def place(self) -> str:
        """Returns the module to import by what the file says, "" where it says none."""
        if self.module not in _NOWHERE and (_importable(self.module) or not _importable(self.package)):
            return self.module
        return self.package if _importable(self.package) else ""


def custom_objects(config: dict[str, Any], path: Path, explained: Explained) -> dict[str, Any]:
    """Returns what names in a file stand for; imports what the user lets it import.

    Args:
        config: The file's configuration.
        path: Names it in messages.
        explained: What the user says about it.

    Raises:
        BadInputError: Something is explained or imported in vain, or cannot be imported.
    """
    classes = {
        _text(node.get("registered_name"))
        for _, node in nodes(config)
        if node.get("class_name") not in _STANDARD_FUNCTIONS
    }
    objects = {name: stand_in(name, known, name in classes) for name, known in explained.names.items()}
    refuse_idle(config, path, explained.names)
    held = set(words(config))
    imported = import_all(explained.imports)
    refuse_overruled(explained.names, imported, held, classes)
    for name, found in imported.items():
        places = [word for word in held if word.rpartition(">")[2] == name]
        if not places:
            raise UnknownNameError(
                f"--import MODULE:{name} must take something that the file names. Received: `{name}`, which `{path}` "
                "does not have. Leave it out, or look at the spelling."
            )
        objects |= dict.fromkeys(places, found)
    modules = {given.partition(":")[0] for given in explained.imports}
    for named in list(_unknown(config, objects)):
        # Only a class is taken unasked: a function of the module might do anything.
        if (named.module in modules and not named.function) or (explained.trust and named.place == named.module != ""):
            objects[named.key] = _out_of(named, explained)
        elif explained.trust and named.place:
            _import(named.place, f"`--trust-code` imports `{named.place}`, which `{named.key}` names")
    return objects


def refuse_unknown(config: dict[str, Any], path: Path, explained: Explained, objects: Mapping[str, Any]) -> None:
    """Raises if a file names what neither Keras nor the user defines.

    Args:
        config: The file's configuration.
        path: Names it in messages.
        explained: What the user says about it.
        objects: What `custom_objects` returned.

    Raises:
        UnknownNameError: It does; all names are listed with what to do.
    """
    unknown: dict[str, _Named] = {}
    for named in _unknown(config, objects):
        unknown.setdefault(named.key, named)
    if unknown:
        raise _refusal(list(unknown.values()), path, explained)


@contextlib.contextmanager
def in_scope(objects: Mapping[str, Any], config: dict[str, Any]) -> Iterator[None]:
    """Lets Keras find objects by their names while the block runs, also where a file names one by a bare string.

    Args:
        objects: What `custom_objects` returned.
        config: The file's configuration.
    """
    table = activation_table()
    given: dict[str, Any] = {}
    if table is not None:  # Keras's own strings keep their meaning.
        given = {name: found for name in _strings(config) if name not in table and (found := object_of(name, objects))}
        table.update(given)
    try:
        with keras.saving.custom_object_scope(dict(objects)):
            yield
    finally:
        for name in given:
            table.pop(name, None)  # type: ignore[union-attr]


def import_all(modules: Iterable[str]) -> dict[str, Any]:
    """Imports modules, as the user asked for, and returns the objects taken out of them by name.

    Args:
        modules: Each "MODULE" or "MODULE:NAME". The current folder counts, as for `python -m`.

    Raises:
        BadInputError: One cannot be imported, or does not have the object.
    """
    found = {}
    for given in modules:
        module, _, name = given.partition(":")
        held = _import(module, f"`--import {given}` must name a module that Python can import")
        if name:
            if not hasattr(held, name):
                raise UnknownNameError(
                    f"`--import {given}` must name something in `{module}`. Received: `{name}`, which "
                    f"`{getattr(held, '__file__', module)}` does not define. Look at the spelling."
                )
            found[name] = getattr(held, name)
    return found


def remedy(names: Iterable[str]) -> str:
    """Returns what to do about classes that a file names without saying where they are."""
    options = " ".join(f"--import {shlex.quote(f'MODULE:{name}')}" for name in list(names)[:_MOST_LISTED])
    return f"Name the modules that define them: {options}."


def _import(module: str, rule: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Standard output may be the file or the report.
            return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # The user's module raises every kind.
        cause = said(error, _LONGEST_CAUSE)
        raise UnknownNameError(
            f"{rule}. Received: {type(error).__name__}: {cause}. Run the command in the folder that holds the module, "
            f"or install its package; see all of it with python -c 'import {module}'."
        ) from error


def _importable(module: str) -> bool:
    """Whether there is a module of that name, or the package that it would be in; nothing is run to find out."""
    top = module.partition(".")[0]
    if not top.isidentifier():
        return False
    return importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is not None


def _out_of(named: _Named, explained: Explained) -> Any:
    by = f"--import {named.module}" if named.module in explained.imports else "--trust-code"
    held = _import(named.module, f"`{by}` imports `{named.module}`, which `{named.key}` names")
    if keras.saving.get_registered_object(named.key) is not None:
        return keras.saving.get_registered_object(named.key)
    last = named.name.rpartition(">")[2]
    if not hasattr(held, last):
        raise UnknownNameError(
            f"`{by}` must find what the file names. Received: `{last}`, which `{named.module}` does not define now. "
            f"Say where it is: --import {shlex.quote(f'MODULE:{last}')}."
        )
    return getattr(held, last)


def _strings(config: Any) -> set[str]:
    """The activations that a file names by a bare string, as Keras 2 did."""
    return {
        value
        for _, node in nodes(config)
        for key, value in node.items()
        if key.endswith("activation") and isinstance(value, str)
    }


def _unknown(config: Any, objects: Mapping[str, Any]) -> Iterator[_Named]:
    for layer, place, node in placed(config):
        for key, value in node.items():
            if key.endswith("activation") and isinstance(value, str) and not defined(value, objects):
                yield _Named(value, "", "", True, layer, key)
        named = _reference(node, layer, place)
        if named is None or named.module.split(".")[0] in _KNOWN_PACKAGES:
            continue
        known = object_of(named.key, objects) or (not named.function and objects.get(named.name))
        if not known and not (named.module == "builtins" and defined(named.name, objects)):
            yield named


def _reference(node: dict[str, Any], layer: str, place: str) -> _Named | None:
    """The class or function that an object of the configuration names; None where it says neither module nor name."""
    if "class_name" not in node or "config" not in node:
        return None
    if node.get("module") is None and node.get("registered_name") is None:
        return None  # An old file's: Keras knows only its own and registered ones.
    function = node["class_name"] in _STANDARD_FUNCTIONS
    name = node["config"] if function else node["class_name"]
    registered = "" if function else _text(node.get("registered_name"))
    module = _text(node.get("module"))
    return _Named(name, registered, module, function, layer, place) if isinstance(name, str) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_PYTHONS_OWN = sys.stdlib_module_names - {"builtins"}
"""Python's modules, none of which defines a layer; Keras writes `builtins` for functions that are registered."""


def _refusal(unknown: list[_Named], path: Path, explained: Explained) -> UnknownNameError:
    shown = [f"`{shortened(one.key, _LONGEST_NAME)}` in `{shortened(one.layer, _LONGEST_NAME)}`" for one in unknown]
    first = unknown[0]
    if any(named.module.partition(".")[0] in _PYTHONS_OWN for named in unknown):
        raise UnknownNameError(
            f"`{path}` names parts of Python's own library, which no model consists of. Received: "
            f"{joined(shown, _MOST_LISTED)}. The file may be made to do harm: fetch the model again from a source that "
            "you trust."
        )
    options = dict.fromkeys(_import_option(named, explained) for named in unknown[:_MOST_LISTED])
    ways = [f"import what defines it: {' '.join(options)}"]
    if not explained.trust and any(named.place for named in unknown):
        ways.append("let the file import what it names: --trust-code")
    if first.may_be_activation:
        ways.append(f"if you know which activation of Keras it is: {_map_option(first)}")
    if first.function and first.may_be_activation:
        ways.append("export the live model in Python with quantize='int8', lowering='table'")
    return UnknownNameError(
        f"`{path}` names what neither Keras nor sqp_keras defines. Received: {joined(shown, _MOST_LISTED)}. One of "
        f"these: {'; '.join(ways)}."
    )


def _import_option(named: _Named, explained: Explained) -> str:
    last = named.name.rpartition(">")[2]
    for given in explained.imports:  # Imported, but not registered there.
        module = given.partition(":")[0]
        if hasattr(sys.modules.get(module), last):
            return f"--import {shlex.quote(f'{module}:{last}')}"
    if named.place and len(named.place) <= _LONGEST_NAME:
        return f"--import {shlex.quote(named.place)}"
    if ">" in named.key:
        return "--import MODULE"
    return f"--import {shlex.quote(f'MODULE:{last}')}" if len(last) <= _LONGEST_NAME else "--import MODULE:NAME"


def _map_option(named: _Named) -> str:
    """A command to paste, in which only ACT is open; that, too, is named where the file's name is an activation's."""
    if len(named.key) > _LONGEST_NAME or not named.key.isprintable():
        return "--map NAME=ACT"
    known = sites.identify(named.key.rpartition(">")[2])
    act = known.name if known.name != sites.UNKNOWN and named.function else "ACT"
    return f"--map {shlex.quote(f'{named.key}={act}')}"

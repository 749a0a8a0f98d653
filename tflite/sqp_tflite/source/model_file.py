"""Opens a saved Keras model after checking what the file would make Keras do.

The configuration inside a file is read before Keras sees it: code is refused and never run, and all names that nothing
defines are listed together.
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from sqp_keras.models import sites
from sqp_tflite.errors import BadInputError
from sqp_tflite.files import check_model
from sqp_tflite.limits import Limit
from sqp_tflite.source import archives, declared, hdf5, hooks
from sqp_tflite.source.config_json import parsed
from sqp_tflite.source.keras_errors import cause, out_of_memory, whole_tracebacks
from sqp_tflite.wording import listed, said, shortened

_MOST_LISTED = 3
_KNOWN_PACKAGES = ("keras", "tensorflow", "sqp_keras", "builtins")
_STANDARD_FUNCTIONS = ("function", "builtin_function_or_method")
_NAMESPACES = (
    keras, keras.layers, keras.activations, keras.initializers, keras.regularizers, keras.constraints, keras.random,
    keras.ops, keras.dtype_policies, keras.losses, keras.metrics, keras.optimizers, keras.optimizers.schedules,
)  # fmt: skip
"""Where Keras finds a class that a file names without its module."""

_AGAIN = "Save the model again with model.save('model.keras')."


def open_model(path: Path, names: dict[str, str], trust: bool, limit: Limit) -> Any:
    """Returns the Keras model of a `.keras` or `.h5` file, not compiled.

    Args:
        path: The file.
        names: What unknown activation names stand for.
        trust: Whether code in the file may run.
        limit: What its weights, its configuration and its parts may take.

    Raises:
        BadInputError: See `load.load`.
    """
    config, writer = _config(path, limit)
    stand_ins = {name: _stand_in(name, known) for name, known in names.items()}
    _refuse_idle(config, path, names)
    if not trust:
        _refuse_code(config, path)
        _refuse_unknown(config, path, stand_ins)
    elif os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    weights = declared.Weights(path, limit)
    try:
        with keras.saving.custom_object_scope(stand_ins), whole_tracebacks(), hooks.weighing(weights.add):
            model = keras.saving.load_model(path, compile=False, safe_mode=not trust)
    except Exception as error:  # Keras and the layers' own code raise every kind here.
        if weights.refusal is not None:
            raise weights.refusal from error
        raise BadInputError(
            f"Keras {keras.__version__} cannot open `{path}`{_by(writer)}. Received: {cause(error)}. "
            f"{_way(error, config, writer, set(stand_ins))}"
        ) from error
    if not isinstance(model, keras.Model):
        raise BadInputError(f"`{path}` must hold a Keras model. Received: {type(model).__name__}. {_AGAIN}")
    return model


def _by(writer: str) -> str:
    """Names the Keras that wrote a file, where it is known and another one."""
    return f", written by Keras {writer}" if writer not in ("", keras.__version__) else ""


def _way(error: Exception, config: dict[str, Any], writer: str, known: set[str]) -> str:
    """Returns what to do about a file that Keras does not open."""
    if out_of_memory(error):
        return "Use a machine with more memory, or a smaller model."
    strange = sorted(set(_strange(config)) - known)
    if strange:
        return f"Import the package that defines {listed(strange, _MOST_LISTED)} before you call sqp_tflite.export."
    if _by(writer):
        return f"Open it with Keras {writer} and save it again there, or see it in full with --debug."
    return f"{_AGAIN} If it opens in Keras, see the whole error with --debug."


def _strange(config: dict[str, Any]) -> Iterator[str]:
    """Yields the classes that the file names without a module, as old files do, and that nothing defines."""
    for _, node in _nodes(config):
        name = node.get("class_name")
        if isinstance(name, str) and isinstance(node.get("config"), dict) and not node.get("module"):
            found = keras.saving.get_registered_object(name) or any(hasattr(space, name) for space in _NAMESPACES)
            if not found:
                yield name


def _config(path: Path, limit: Limit) -> tuple[dict[str, Any], str]:
    """Returns the configuration in a file and the version of the Keras that wrote it, "" where that is not known."""
    check_model(path)
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise BadInputError(f"`{path}` cannot be read: {error.strerror}. Check its permissions.") from error
    if head[4:8] == b"TFL3":
        raise BadInputError(f"`{path}` must be a Keras model. Received: a TFLite file; look at it with sqp-inspect.")
    if head[:4] == b"PK\x03\x04":
        return _keras_config(path, limit)
    if head == b"\x89HDF\r\n\x1a\n":
        return _h5_config(path, limit)
    raise BadInputError(
        f"`{path}` must be a Keras model: a .keras or .h5 file or a SavedModel folder. Received: another kind of "
        f"file ({len(head)} bytes read: {head!r}). Save the model with model.save('model.keras')."
    )


def _keras_config(path: Path, limit: Limit) -> tuple[dict[str, Any], str]:
    if path.name.endswith(".npz"):
        raise BadInputError(f"`{path}` must be a Keras model. Received: arrays; pass them with --data {path}.")
    if not path.name.endswith(".keras"):
        raise BadInputError(
            f"`{path}` holds a .keras archive: rename it to end in .keras, since Keras chooses its reader by that."
        )
    try:
        with zipfile.ZipFile(path) as held:
            archives.require(held, f"`{path}`", _AGAIN, limit)
            for info in held.infolist():
                declared.require_member(held, info, path, _AGAIN, limit)
            if "config.json" not in held.namelist():
                raise BadInputError(f"`{path}` must hold a config.json. Received: an archive without it. {_AGAIN}")
            config, metadata = (_json(held, name, path, limit) for name in ("config.json", "metadata.json"))
    except archives.UNREADABLE as error:
        raise BadInputError(
            f"`{path}` is a damaged .keras archive. Received: {said(error)}. It may have been cut short: "
            "copy or save it again."
        ) from error
    return config, _version(metadata.get("keras_version"))


def _version(given: Any) -> str:
    """Returns the version of the Keras that wrote a file, "" where the file does not say it in a readable way."""
    text = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
    return text if isinstance(text, str) and re.fullmatch(r"[\w.+-]{1,30}", text) else ""


def _json(held: zipfile.ZipFile, name: str, path: Path, limit: Limit) -> dict[str, Any]:
    if name == "metadata.json" and name not in held.namelist():
        return {}
    what = f"`{name}` in `{path}`"
    content = archives.content(held, held.getinfo(name))
    declared.require_json(len(content), what, limit)
    return parsed(content, what)


def _h5_config(path: Path, limit: Limit) -> tuple[dict[str, Any], str]:
    import h5py

    if not path.name.endswith((".h5", ".hdf5")):
        raise BadInputError(
            f"`{path}` is an HDF5 file: rename it to end in .h5, since Keras chooses its reader by that."
        )
    try:
        hdf5.require(path, limit)
        with h5py.File(path, "r") as file:
            text, version = _attribute(file, "model_config"), _attribute(file, "keras_version")
    except hdf5.BROKEN as error:
        raise hdf5.damaged(str(path), said(error)) from error
    if text is None:
        raise BadInputError(
            f"`{path}` must hold a whole model. Received: only weights. Load them into their model "
            "and save that with model.save('model.keras')."
        )
    what = f"The attribute `model_config` of `{path}`"
    if not isinstance(text, (str, bytes)):
        raise BadInputError(f"{what} must be text. Received: {type(text).__name__}. {_AGAIN}")
    declared.require_json(len(text), what, limit)
    return parsed(text, what), _version(version)


def _attribute(file: Any, name: str) -> Any:
    # Not `get`, which takes a damaged attribute for a missing one.
    return file.attrs[name] if name in file.attrs.keys() else None  # noqa: SIM118


def _refuse_code(config: Any, path: Path) -> None:
    where = [layer for layer, node in _nodes(config) if _is_code(node)]
    if where:
        raise BadInputError(
            f"A model file must hold data, not code. Received: a lambda (Python bytecode) in "
            f"{listed(dict.fromkeys(where))} of `{path}`; it "
            "was not run. Use a named activation or layer instead, or pass --trust-code if you trust the file's author."
        )


def _is_code(node: dict[str, Any]) -> bool:
    if node.get("class_name") in ("__lambda__", "Lambda"):
        return True
    # Keras writes a lambda given as activation without its class: bytecode in base64, defaults, closure.
    value = node.get("value")
    return isinstance(value, list) and len(value) == 3 and isinstance(value[0], str)


def _refuse_idle(config: Any, path: Path, names: dict[str, str]) -> None:
    """Raises if a name that the user explains changes nothing: it is misspelt, or already means something."""
    held = set(_words(config))
    for name, known in names.items():
        if sites.identify(name).name != sites.UNKNOWN:
            raise BadInputError(
                f"--map {name}={known} must explain a name that is unknown. Received: `{name}`, which is known as an "
                "activation. Exchange activations with --replace."
            )
        if name not in held:
            raise BadInputError(
                f"--map {name}={known} must explain a name in the file. Received: `{name}`, which `{path}` does not "
                "have. Leave it out, or look at the spelling."
            )


def _words(config: Any) -> Iterator[str]:
    if isinstance(config, str):
        yield config
    elif isinstance(config, dict | list):
        for value in config.values() if isinstance(config, dict) else config:
            yield from _words(value)


def _refuse_unknown(config: Any, path: Path, stand_ins: dict[str, Any]) -> None:
    unknown: dict[str, tuple[str, str]] = {}
    for layer, node in _nodes(config):
        for name, hint in _unknown_names(node, stand_ins):
            unknown.setdefault(name, (layer, hint))
    if unknown:
        shown = [
            f"`{shortened(name, 80)}` in `{shortened(layer, 80)}`: {hint}"
            for name, (layer, hint) in list(unknown.items())[:_MOST_LISTED]
        ]
        shown += [f"and {len(unknown) - _MOST_LISTED:,} more"] if len(unknown) > _MOST_LISTED else []
        raise BadInputError(f"`{path}` names what neither Keras nor sqp_keras defines. Received: {'; '.join(shown)}.")


def _unknown_names(node: dict[str, Any], stand_ins: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if key.endswith("activation") and isinstance(value, str) and value not in stand_ins and not _defined(value):
            yield value, _map_hint(value)
    if "class_name" not in node or "config" not in node:
        return
    if node.get("module") is None and node.get("registered_name") is None:
        return
    module, registered = _text(node.get("module")), _text(node.get("registered_name"))
    name = node["config"] if node["class_name"] in _STANDARD_FUNCTIONS else node["class_name"]
    if not isinstance(name, str):
        return
    if name in stand_ins or registered in stand_ins or module.split(".")[0] in _KNOWN_PACKAGES[:-1]:
        return
    known = registered and keras.saving.get_registered_object(registered) is not None
    if known or (module == "builtins" and _defined(name)):
        return
    if node["class_name"] in _STANDARD_FUNCTIONS:
        yield name, _map_hint(name)
    else:
        yield (
            name,
            (
                f"{_import_hint(module, registered)} before you call sqp_tflite.export, map it with "
                f"--map {name}=ACTIVATION if it is an activation, or pass --trust-code to let the file import it"
            ),
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _import_hint(module: str, registered: str) -> str:
    package, sign, _ = registered.partition(">")
    if sign and package != "Custom":  # Keras's name for a class that was registered without a package.
        return f"import the package that registers it as `{registered}` (`{package}`)"
    if module and module != "__main__":
        return f"import the package that defines it (`{module}`)"
    return f"import the module that defines it{f' as `{registered}`' if registered else ''}"


def _defined(name: str) -> bool:
    if keras.saving.get_registered_object(name) is not None:
        return True
    return sites.identify(name).name != sites.UNKNOWN


def _map_hint(name: str) -> str:
    guess = next(
        (known for known in ("softplus", "mish", "silu", "gelu", "elu", "tanh") if known in name.lower()), "ACT"
    )
    return f"say what it stands for: --map {name}={guess}"


def _nodes(config: Any, layer: str = "the model") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(config, dict):
        inner = config.get("config")
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            layer = inner["name"]
        yield layer, config
        for value in config.values():
            yield from _nodes(value, layer)
    elif isinstance(config, list):
        for value in config:
            yield from _nodes(value, layer)


def _stand_in(name: str, known: str) -> Any:
    """Returns an object that Keras accepts as the function or the layer with that name."""
    activation = sites.identify(known)
    if activation.name == sites.UNKNOWN:
        raise BadInputError(f"--map {name}={known} must name an activation of Keras. Received: `{known}`.")
    function = keras.activations.get(activation.name)

    def from_config(config: dict[str, Any]) -> Any:
        return keras.layers.Activation(function, name=config.get("name"))

    function_like = lambda x: function(x)  # noqa: E731 (Keras wants a fresh callable that it may put attributes on)
    function_like.__name__ = function.__name__
    function_like.__module__ = function.__module__
    function_like.from_config = from_config  # type: ignore[attr-defined]
    return function_like

"""Opens a saved Keras model after checking what the file would make Keras do.

The configuration inside a file is read before Keras sees it: code is refused and never run, and all names that nothing
defines are listed together.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from sqp_keras.models import sites
from sqp_tflite.errors import BadInputError
from sqp_tflite.files import check_model

_KNOWN_PACKAGES = ("keras", "tensorflow", "sqp_keras", "builtins")
_STANDARD_FUNCTIONS = ("function", "builtin_function_or_method")


def open_model(path: Path, names: dict[str, str], trust: bool) -> Any:
    """Returns the Keras model of a `.keras` or `.h5` file, not compiled.

    Args:
        path: The file.
        names: What unknown activation names stand for.
        trust: Whether code in the file may run.

    Raises:
        BadInputError: See `load.load`.
    """
    config, writer = _config(path)
    stand_ins = {name: _stand_in(name, known) for name, known in names.items()}
    _refuse_idle(config, path, names)
    if not trust:
        _refuse_code(config, path)
        _refuse_unknown(config, path, stand_ins)
    elif os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with keras.saving.custom_object_scope(stand_ins):
            return keras.saving.load_model(path, compile=False, safe_mode=not trust)
    except Exception as error:  # Keras raises every kind here; the first line says which, --debug shows the rest.
        raise BadInputError(
            f"Keras {keras.__version__} cannot open `{path}`, written by {writer}. Received: {_cause(error)} "
            "Import the package that defines the model's own classes, or install the Keras that wrote it."
        ) from error


def _config(path: Path) -> tuple[Any, str]:
    check_model(path)
    try:
        head = path.open("rb").read(8)
    except OSError as error:
        raise BadInputError(f"`{path}` cannot be read: {error.strerror}. Check its permissions.") from error
    if head[4:8] == b"TFL3":
        raise BadInputError(f"`{path}` must be a Keras model. Received: a TFLite file; look at it with sqp-inspect.")
    if head[:4] == b"PK\x03\x04":
        return _keras_config(path)
    if head == b"\x89HDF\r\n\x1a\n":
        return _h5_config(path)
    raise BadInputError(
        f"`{path}` must be a Keras model: a .keras or .h5 file or a SavedModel folder. Received: another kind of "
        f"file ({len(head)} bytes read: {head!r}). Save the model with model.save('model.keras')."
    )


def _keras_config(path: Path) -> tuple[Any, str]:
    if path.suffix == ".npz":
        raise BadInputError(f"`{path}` must be a Keras model. Received: arrays; pass them with --data {path}.")
    if path.suffix != ".keras":
        raise BadInputError(
            f"`{path}` holds a .keras archive: rename it to end in .keras, since Keras chooses its reader by that."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            if broken:
                raise zipfile.BadZipFile(f"{broken} has a wrong checksum")
            config = json.loads(archive.read("config.json"))
            metadata = json.loads(archive.read("metadata.json")) if "metadata.json" in archive.namelist() else {}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise BadInputError(
            f"`{path}` is a damaged .keras archive. Received: {error}. It may have been cut short: "
            "copy or save it again."
        ) from error
    except (KeyError, ValueError) as error:
        raise BadInputError(
            f"`{path}` must hold a readable config.json. Received: {error}. Save the model again."
        ) from error
    return config, f"Keras {metadata.get('keras_version', 'unknown')}"


def _h5_config(path: Path) -> tuple[Any, str]:
    import h5py

    if path.suffix not in (".h5", ".hdf5"):
        raise BadInputError(
            f"`{path}` is an HDF5 file: rename it to end in .h5, since Keras chooses its reader by that."
        )
    try:
        with h5py.File(path, "r") as file:
            text = file.attrs.get("model_config")
            version = file.attrs.get("keras_version", "unknown")
    except OSError as error:
        raise BadInputError(
            f"`{path}` is a damaged HDF5 file. Received: {error}. It may have been cut short: copy or save it again."
        ) from error
    if text is None:
        raise BadInputError(
            f"`{path}` must hold a whole model. Received: only weights. Load them into their model "
            "and save that with model.save('model.keras')."
        )
    decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    return json.loads(decoded), f"Keras {version.decode() if isinstance(version, bytes) else version}"


def _refuse_code(config: Any, path: Path) -> None:
    where = [layer for layer, node in _nodes(config) if _is_code(node)]
    if where:
        listed = ", ".join(f"`{layer}`" for layer in dict.fromkeys(where))
        raise BadInputError(
            f"A model file must hold data, not code. Received: a lambda (Python bytecode) in {listed} of `{path}`; it "
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
        listed = "; ".join(f"`{name}` in `{layer}`: {hint}" for name, (layer, hint) in unknown.items())
        raise BadInputError(f"`{path}` names what neither Keras nor sqp_keras defines. Received: {listed}.")


def _unknown_names(node: dict[str, Any], stand_ins: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if key.endswith("activation") and isinstance(value, str) and value not in stand_ins and not _defined(value):
            yield value, _map_hint(value)
    if "class_name" not in node or "config" not in node:
        return
    module, registered = node.get("module"), node.get("registered_name")
    name = node["config"] if node["class_name"] in _STANDARD_FUNCTIONS else node["class_name"]
    if not isinstance(name, str) or (module is None and registered is None):
        return
    if name in stand_ins or (registered or "") in stand_ins or str(module).split(".")[0] in _KNOWN_PACKAGES[:-1]:
        return
    known = registered and keras.saving.get_registered_object(registered) is not None
    if known or (module == "builtins" and _defined(name)):
        return
    if node["class_name"] in _STANDARD_FUNCTIONS:
        yield name, _map_hint(name)
    else:
        package = (registered or name).partition(">")[0] if ">" in (registered or "") else module
        yield (
            name,
            (
                f"import the package that defines it (`{package}`) before you call sqp_tflite.export, map it with "
                f"--map {name}=ACTIVATION if it is an activation, or pass --trust-code to let the file import it"
            ),
        )


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


def _cause(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) < 300 else text[:300] + " ..."

"""Opens a saved Keras model after checking what the file would make Keras do.

The configuration inside a file is read before Keras sees it: code is refused and never run, and all names that nothing
defines are listed together.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from sqp_tflite.errors import InputFileError, ModelFileError
from sqp_tflite.files import check_model
from sqp_tflite.limits import Limit
from sqp_tflite.source import archives, declared, hdf5, hooks, keras2_config, keras2_file, keras2_package
from sqp_tflite.source.config_json import nodes, parsed
from sqp_tflite.source.custom_objects import Explained, custom_objects, in_scope, refuse_unknown, remedy
from sqp_tflite.source.file_code import refuse_code
from sqp_tflite.source.keras2_changes import Changes
from sqp_tflite.source.keras_errors import cause, out_of_memory, whole_tracebacks
from sqp_tflite.source.temporary import nothing_left
from sqp_tflite.wording import LONGEST_NAME, said, shortened

_NAMESPACES = (
    keras, keras.layers, keras.activations, keras.initializers, keras.regularizers, keras.constraints, keras.random,
    keras.ops, keras.dtype_policies, keras.losses, keras.metrics, keras.optimizers, keras.optimizers.schedules,
)  # fmt: skip
"""Where Keras finds a class that a file names without its module."""

_AGAIN = "Save the model again with model.save('model.keras')."


@dataclass(frozen=True, slots=True)
class Opened:
    """What a model file holds.

    Attributes:
        model: The Keras model, not compiled.
        config: Its configuration, as the file has it.
        writer: The version of the Keras that wrote it, "" where that is not known.
        notes: What the user should know about how it was read.
    """

    model: Any
    config: dict[str, Any]
    writer: str
    notes: tuple[str, ...] = ()


def open_model(path: Path, explained: Explained, limit: Limit) -> Opened:
    """Returns the Keras model of a `.keras` or `.h5` file, not compiled.

    Args:
        path: The file.
        explained: What the user says about it: names, modules to import, whether code in it may run.
        limit: What its weights, its configuration and its parts may take.

    Raises:
        ModelFileError: See `load.load`.
    """
    config, writer = _config(path, limit)
    old = keras2_config.before_keras3(writer)
    given, changes = config, Changes()
    if old or path.suffix != ".keras":  # An .h5 of Keras 3 names classes without their modules, too.
        config, changes = keras2_config.mended(config)
    objects = custom_objects(config, path, explained)
    if not explained.trust:
        refuse_code(config, path, objects)
    _refuse_torch(config, path)
    refuse_unknown(config, path, explained, objects)
    weights = declared.Weights(path, limit)
    try:
        with in_scope(objects, config), whole_tracebacks(), hooks.weighing(weights.add), nothing_left():
            if config != given:
                model = keras2_file.opened(config, path, explained.trust)
            else:
                model = keras.saving.load_model(path, compile=False, safe_mode=not explained.trust)
    except Exception as error:  # Keras and the layers' own code raise every kind here.
        if weights.refusal is not None:
            raise weights.refusal from error
        if old and not objects and _for_tf_keras(error, config, explained):
            raise keras2_package.NotInKeras3Error(path, writer, _gone(config) or cause(error)) from error
        raise ModelFileError(
            f"Keras {keras.__version__} cannot open `{path}`{_by(writer)}. Received: {cause(error)}. "
            f"{_way(error, config, writer, set(objects))}"
        ) from error
    if not isinstance(model, keras.Model):
        raise ModelFileError(f"`{path}` must hold a Keras model. Received: {type(model).__name__}. {_AGAIN}")
    return Opened(model, config, writer, tuple(filter(None, [changes.note(str(path), writer)])))


def _refuse_torch(config: dict[str, Any], path: Path) -> None:
    for layer, node in nodes(config):
        if node.get("class_name") == "TorchModuleWrapper":
            raise ModelFileError(
                f"A model must consist of Keras layers. Received: `{shortened(layer, LONGEST_NAME)}` of `{path}`, a "
                "module of PyTorch (TorchModuleWrapper), which runs in Keras on PyTorch only. Write it with Keras "
                "layers and copy its weights."
            )


def _by(writer: str) -> str:
    """Names the Keras that wrote a file, where it is known and another one."""
    return f", written by Keras {writer}" if writer not in ("", keras.__version__) else ""


def _way(error: Exception, config: dict[str, Any], writer: str, known: set[str]) -> str:
    """Returns what to do about a file that Keras does not open."""
    if out_of_memory(error):
        return "Use a machine with more memory, or a smaller model."
    strange = sorted(set(_strange(config)) - known)
    if strange:
        return remedy(strange)
    if _by(writer):
        return f"Open it with Keras {writer} and save it again there, or see it in full with --debug."
    return (
        f"{_AGAIN} If Keras cannot open that either, build the model without this layer, or pass the model as it is in "
        "memory to sqp_tflite.export(model)."
    )


def _for_tf_keras(error: Exception, config: dict[str, Any], explained: Explained) -> bool:
    """Whether the package of Keras 2 may try a file: it is not told names, and calls whatever method a file names."""
    kinds = {str(node.get("class_name")) for _, node in nodes(config)}
    calls = not kinds.isdisjoint(keras2_package.CALLS) and not explained.trust
    return not calls and not out_of_memory(error) and not list(_strange(config))


def _gone(config: dict[str, Any]) -> str:
    """Names the layers of classes that Keras 3 does not have, "" for none."""
    pairs = [(shortened(layer, LONGEST_NAME), str(node.get("class_name"))) for layer, node in nodes(config)]
    found = [f"`{layer}` ({kind})" for layer, kind in pairs if kind in keras2_config.GONE]
    return f"{', '.join(found[:3])}, which Keras 3 does not have" if found else ""


def _strange(config: dict[str, Any]) -> Iterator[str]:
    """Yields the classes that the file names without a module, as old files do, and that nothing defines."""
    for _, node in nodes(config):
        name = node.get("class_name")
        if isinstance(name, str) and isinstance(node.get("config"), dict) and not node.get("module"):
            found = keras.saving.get_registered_object(name) or any(hasattr(space, name) for space in _NAMESPACES)
            known = found or name == "Functional" or name in keras2_config.GONE
            if not known and not name.startswith("__"):  # Keras's own, for tensors and the like.
                yield name


def _config(path: Path, limit: Limit) -> tuple[dict[str, Any], str]:
    """Returns the configuration in a file and the version of the Keras that wrote it, "" where that is not known."""
    check_model(path)
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InputFileError(f"`{path}` cannot be read: {error.strerror}. Check its permissions.") from error
    if head[:4] == b"PK\x03\x04":
        return _keras_config(path, limit)
    if head == b"\x89HDF\r\n\x1a\n":
        return _h5_config(path, limit)
    raise ModelFileError(
        f"`{path}` must be a Keras model: a .keras or .h5 file or a SavedModel folder. Received: another kind of "
        f"file ({len(head)} bytes read: {head!r}). Save the model with model.save('model.keras')."
    )


def _keras_config(path: Path, limit: Limit) -> tuple[dict[str, Any], str]:
    if path.name.endswith(".npz"):
        raise ModelFileError(f"`{path}` must be a Keras model. Received: arrays; pass them with --data {path}.")
    if not path.name.endswith(".keras"):
        raise ModelFileError(
            f"`{path}` holds a .keras archive: rename it to end in .keras, since Keras chooses its reader by that."
        )
    try:
        with zipfile.ZipFile(path) as held:
            archives.require(held, f"`{path}`", _AGAIN, limit)
            for info in held.infolist():
                declared.require_member(held, info, path, _AGAIN, limit)
            if "config.json" not in held.namelist():
                raise ModelFileError(f"`{path}` must hold a config.json. Received: an archive without it. {_AGAIN}")
            config, metadata = (_json(held, name, path, limit) for name in ("config.json", "metadata.json"))
    except archives.UNREADABLE as error:
        raise ModelFileError(
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

    try:
        hdf5.require(path, limit)
        with h5py.File(path, "r") as file:
            text, version = _attribute(file, "model_config"), _attribute(file, "keras_version")
    except hdf5.BROKEN as error:
        raise hdf5.damaged(str(path), said(error)) from error
    named = path.name.endswith((".h5", ".hdf5"))
    # Keras 2.12 ended these in .keras.
    if not named and not (path.suffix == ".keras" and keras2_config.before_keras3(_version(version))):
        raise ModelFileError(
            f"`{path}` is an HDF5 file: rename it to end in .h5, since Keras chooses its reader by that."
        )
    if text is None:
        raise ModelFileError(
            f"`{path}` must hold a whole model. Received: only weights. Load them into their model "
            "and save that with model.save('model.keras')."
        )
    what = f"The attribute `model_config` of `{path}`"
    if not isinstance(text, (str, bytes)):
        raise ModelFileError(f"{what} must be text. Received: {type(text).__name__}. {_AGAIN}")
    declared.require_json(len(text), what, limit)
    return parsed(text, what), _version(version)


def _attribute(file: Any, name: str) -> Any:
    # Not `get`, which takes a damaged attribute for a missing one.
    return file.attrs[name] if name in file.attrs.keys() else None  # noqa: SIM118

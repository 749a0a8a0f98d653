"""Opens a file of Keras 2 with Keras 3: the mended configuration, and the weights as the file has them."""

from __future__ import annotations

import contextlib
import copy
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras

from sqp_tflite.source.temporary import stand_for

_MEMBER = "model.weights.h5"
_OLD = "_layer_checkpoint_dependencies"
"""What Keras 2.13 called the layers in a file of weights."""


def opened(config: dict[str, Any], path: Path, trust: bool) -> Any:
    """Returns the model of a file, with its weights.

    Args:
        config: Its mended configuration.
        path: The file, `.keras` or `.h5`, which is only read.
        trust: Whether code in it may run.

    Raises:
        ValueError: The weights are not in the order of the layers. Keras raises every kind besides.
    """
    # Keras takes the configuration apart.
    model = keras.saving.deserialize_keras_object(copy.deepcopy(config), safe_mode=not trust)
    if not isinstance(model, keras.Model):
        return model
    _require_order(model, config)
    if not model.built and not model.weights:
        return model
    with _weights(path) as weights:
        model.load_weights(weights)
    return model


@contextlib.contextmanager
def _weights(path: Path) -> Iterator[Path]:
    """Yields a file that Keras 3 takes the weights from: the user's, or a copy of its weights in today's layout."""
    with tempfile.TemporaryDirectory(prefix="sqp-keras2-") as name:
        if not zipfile.is_zipfile(path):
            # Keras 2.12 gave HDF5 files the ending .keras; Keras 3 goes by the ending.
            yield path if path.suffix in (".h5", ".hdf5") else stand_for(path, Path(name) / "model.h5")
            return
        with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as member, h5py.File(member, "r") as held:
            if _OLD not in held:
                yield path
                return
            with h5py.File(Path(name) / f"copy.{_MEMBER}", "w") as new:
                _copied(held, new)
        yield Path(name) / f"copy.{_MEMBER}"


def _copied(held: Any, new: Any) -> None:
    """Copies the weights of Keras 2.13 and numbers the layers of one class anew: it left numbers out."""
    for name in held:
        if name != _OLD:
            held.copy(name, new) if _OLD not in held[name] else _copied(held[name], new.create_group(name))
            continue
        counted: dict[str, list[tuple[int, str]]] = {}
        for layer in held[_OLD]:
            kind, number = re.fullmatch(r"(.*?)(?:_(\d+))?", layer).groups()  # type: ignore[union-attr]
            counted.setdefault(kind, []).append((int(number or 0), layer))
        for kind, layers in counted.items():
            for place, (_, layer) in enumerate(sorted(layers)):
                _copied(held[_OLD][layer], new.create_group(f"layers/{kind}_{place}" if place else f"layers/{kind}"))


def _require_order(model: Any, config: dict[str, Any]) -> None:
    """Raises unless Keras 3 has the layers in the order of the file, by which it finds the weights of each."""
    for inner, written in _models(model, config):
        have = [layer.name for layer in inner.layers if layer.weights]
        listed = [layer["config"].get("name") for layer in written["config"]["layers"]]
        order = [name for name in listed if name in have]
        if order != have:
            wrong = next(name for name, other in zip(have, order, strict=False) if name != other)
            raise ValueError(f"the weights of `{wrong}` in `{inner.name}` are in another place in the file")


def _models(model: Any, config: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yields every model made of layers, and what the file says of it."""
    layers = config.get("config", {}).get("layers")
    if not isinstance(layers, list) or not isinstance(model, keras.Model):
        return
    yield model, config
    by_name = {layer.name: layer for layer in model.layers}
    for layer in layers:
        name = layer["config"].get("name") if isinstance(layer.get("config"), dict) else None
        if name in by_name:
            yield from _models(by_name[name], layer)

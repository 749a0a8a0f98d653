"""Opens a file of Keras 2 with Keras 3: the mended configuration, and the weights as the file has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras


def opened(config: dict[str, Any], path: Path, trust: bool) -> Any:
    """Returns the model of a file, with its weights.

    Args:
        config: Its mended configuration.
        path: The file, `.keras` or `.h5`, which is only read.
        trust: Whether code in it may run.

    Raises:
        ValueError: The weights are not in the order of the layers. Keras raises every kind besides.
    """
    model = keras.saving.deserialize_keras_object(config, safe_mode=not trust)
    if not isinstance(model, keras.Model):
        return model
    _require_order(model, config)
    if not model.built and not model.weights:
        return model
    model.load_weights(path)
    return model


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

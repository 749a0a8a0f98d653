"""What a model's layers say about the inputs that it was trained on: their scale, and recorded statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from sqp_keras import private
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.made_up import Scale, made_up

RATIO = 8.0
"""A spread that is this many times the recorded one, or a mean that is this many recorded deviations away, is a wrong
scale. Right data reach 1.3 and 0.5 (models trained for a few epochs, and the zoo of the tests with its random
statistics); data that are 255 times too large reach 75 and 73."""

SHRUNK = {"Normalization": 1.0 / 8.0, "BatchNormalization": 1.0 / 50.0}
"""A spread that is this share of the recorded one is a wrong scale. The moving variance of a batch normalisation that
was trained for a few steps is still near 1, whatever it saw: right data reach 0.14 there, data 255 times smaller 0.0012
to 0.01. A Normalization holds exact numbers: right data reach 0.82, data 16 times too small 0.06."""

SHRINKS = 0.5
"""A Rescaling by less than this brings a known range of numbers to one of 1 or 2."""

LIVE = 1e-9
"""A channel whose variance is a smaller share of the largest was constant in training: it has no scale."""

_ROWS = 64

_KEEP_VALUES = (
    "Reshape", "Flatten", "Permute", "Resizing", "CenterCrop", "Identity", "Dropout", "GaussianNoise", "ZeroPadding1D",
    "ZeroPadding2D", "ZeroPadding3D", "Cropping1D", "Cropping2D", "Cropping3D",
)  # fmt: skip
"""Layers that leave the scale of numbers as it is."""


_CATEGORIES = ((keras.layers.Embedding, "input_dim"), (keras.layers.CategoryEncoding, "num_tokens"))
"""Layers that read numbers of categories, and what they call how many there are."""


def recorders(model: Any) -> Iterator[Any]:
    """Yields the layers that record or state what their inputs are, in order."""
    kinds = (keras.layers.Rescaling, keras.layers.Normalization, keras.layers.BatchNormalization)
    return (layer for layer in model.layers if isinstance(layer, kinds))


def seen_by(layer: Any, loaded: Loaded, arrays: Sequence[NDArray[Any]]) -> NDArray[Any] | None:
    """Returns what a layer of a functional model receives, float64; None where that is not one finite array.

    Args:
        layer: One of the model's.
        loaded: The model.
        arrays: Its inputs, in order, each of shape (samples, ...); of many samples some are used.
    """
    model = loaded.model
    given = {spec.name: array for spec, array in zip(loaded.inputs, arrays, strict=True)}
    calls = private.calls_of(layer)
    if calls is None or len(calls) != 1 or not isinstance(layer.input, keras.KerasTensor):
        return None
    if {tensor.name for tensor in model.inputs} != set(given):
        return None
    part = keras.Model(model.inputs, layer.input)
    chosen = [given[tensor.name][:: max(1, len(arrays[0]) // _ROWS)][:_ROWS] for tensor in model.inputs]
    seen = keras.ops.convert_to_numpy(keras.ops.cast(part(chosen, training=False), "float32"))
    return np.asarray(seen, np.float64) if np.isfinite(seen).all() else None


def statistics(layer: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Returns the mean and the variance that a layer recorded, one number per channel; None if it recorded nothing."""
    if isinstance(layer, keras.layers.BatchNormalization):
        mean, variance = (np.asarray(part, np.float64) for part in (layer.moving_mean, layer.moving_variance))
        return (None, None) if not mean.any() and (variance == 1).all() else (mean, variance)
    held = [getattr(layer, name, None) for name in ("mean", "variance")]
    if any(part is None for part in held):
        return None, None
    return np.asarray(held[0], np.float64).ravel(), np.asarray(held[1], np.float64).ravel()


def _axes_of(layer: Any) -> tuple[int, ...]:
    """Returns the axes along which a layer has statistics of their own."""
    axis = layer.axis
    return () if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def scales(loaded: Loaded) -> dict[str, Scale]:
    """Returns what numbers the model's inputs take, by name, as far as its layers say so.

    A Normalization or BatchNormalization that reads an input says what its mean and deviation were, a Rescaling from
    where to where it reaches. A BatchNormalization behind other layers says how far ordinary inputs must spread.

    Args:
        loaded: The model; a SavedModel says nothing.
    """
    model = loaded.model
    tensors = list(getattr(model, "inputs", None) or ())
    if len(tensors) != len(loaded.inputs):
        return {}
    found = {}
    for spec, tensor in zip(loaded.inputs, tensors, strict=True):
        reader = _reader(model, tensor)
        scale = None if reader is None else _scale(reader, spec.shape)
        if scale is not None:
            found[spec.name] = scale
    left = [spec.name for spec in loaded.inputs if spec.name not in found and spec.dtype.startswith("float")]
    width = _width(loaded, found) if left else 1.0
    return found | {name: Scale(width=width) for name in left if width != 1.0}


def _reader(model: Any, tensor: Any) -> Any:
    """The layer that reads an input, behind layers that keep its numbers; None where there is not exactly one."""
    while True:
        readers = [layer for layer in model.layers if _reads(layer, tensor)]
        if len(readers) != 1:
            return None
        (reader,) = readers
        inner = list(getattr(reader, "inputs", None) or ()) if isinstance(reader, keras.Model) else []
        if len(inner) == 1:
            return _reader(reader, inner[0])
        if type(reader).__name__ not in _KEEP_VALUES or not isinstance(reader.output, keras.KerasTensor):
            return reader
        tensor = reader.output


def _reads(layer: Any, tensor: Any) -> bool:
    return any(held is tensor for node in private.calls_of(layer) or () for held in node.input_tensors)


def _scale(reader: Any, shape: tuple[int, ...]) -> Scale | None:
    categories = next((getattr(reader, name) for kind, name in _CATEGORIES if isinstance(reader, kind)), None)
    if categories:
        return Scale((categories - 1) / 2, (categories - 1) / 2, even=True)
    if isinstance(reader, keras.layers.Rescaling):
        return _rescaled(reader, shape)
    if not isinstance(reader, (keras.layers.Normalization, keras.layers.BatchNormalization)):
        return None
    mean, variance = statistics(reader)
    if mean is None or variance is None or getattr(reader, "invert", False):
        return None
    deviation = np.sqrt(np.maximum(variance, 0.0))
    if mean.size == math.prod(shape):
        return Scale(mean.reshape(shape), deviation.reshape(shape))
    if mean.size == shape[-1] and _axes_of(reader) in ((-1,), (len(shape),)):
        return Scale(mean, deviation)
    # Channels elsewhere, or behind a layer that moves them: one number for all.
    return Scale(float(mean.mean()), float(np.sqrt(np.mean(deviation**2) + mean.var())))


def _rescaled(reader: Any, shape: tuple[int, ...]) -> Scale | None:
    scale, offset = (np.abs(np.asarray(part, np.float64)) for part in (reader.scale, reader.offset))
    if scale.max() > SHRINKS or scale.min() <= 0 or np.broadcast(scale, offset, np.empty(shape)).shape != shape:
        return None
    # From 0 to 1 without an offset; with one, as far on both sides of 0.
    half = np.where(offset > 0, offset, 0.5) / scale
    return Scale(half, half, even=True)


def _width(loaded: Loaded, found: dict[str, Scale]) -> float:
    """How many times as far as normal numbers the inputs spread, by a BatchNormalization behind other layers."""
    layer = next((one for one in recorders(loaded.model) if isinstance(one, keras.layers.BatchNormalization)), None)
    mean, variance = (None, None) if layer is None else statistics(layer)
    if mean is None or variance is None:
        return 1.0
    inputs, sets = made_up(loaded.inputs, found)
    seen = seen_by(layer, loaded, [array[: sets[0][1]] for array in inputs])
    live = variance > LIVE * variance.max()
    if seen is None or not live.any():
        return 1.0
    spread = spread_of(seen, layer)
    if spread.shape != variance.shape:
        return 1.0
    ratio = float(np.median(spread[live] / np.sqrt(variance[live])))
    return 1.0 if SHRUNK["BatchNormalization"] <= ratio <= RATIO or ratio <= 0 else 1.0 / ratio


def spread_of(seen: NDArray[Any], layer: Any) -> NDArray[Any]:
    """Returns the standard deviation of what a layer receives, one number per channel."""
    return np.asarray(seen.std(axis=axes_over(seen, layer)).ravel())


def axes_over(seen: NDArray[Any], layer: Any) -> tuple[int, ...]:
    """Returns the axes of what a layer receives that its statistics are taken over."""
    own = {axis % seen.ndim for axis in _axes_of(layer)}
    return tuple(axis for axis in range(seen.ndim) if axis not in own)

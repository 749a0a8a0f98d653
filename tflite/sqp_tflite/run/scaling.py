"""Compares the samples with the inputs that the model saw in training, as far as its layers recorded them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from sqp_keras import private
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.samples import Samples

RATIO = 8.0
"""A spread that is this many times the recorded one, or a mean that is this many recorded deviations away, is a wrong
scale. Right data reach 1.3 and 0.5 (models trained for a few epochs, and the zoo of the tests with its random
statistics); data that are 255 times too large reach 75 and 73."""

SHRUNK = {"Normalization": 1.0 / 8.0, "BatchNormalization": 1.0 / 50.0}
"""A spread that is this share of the recorded one is a wrong scale. The moving variance of a batch normalisation that
was trained for a few steps is still near 1, whatever it saw: right data reach 0.14 there, data 255 times smaller 0.0012
to 0.01. A Normalization holds exact numbers: right data reach 0.82, data 16 times too small 0.06."""

ENOUGH = 16
"""With fewer samples a spread says little."""

NARROW, WIDE = 1.0 / 32.0, 32.0
"""A Rescaling leaves a range of 1 or 2; dark pictures reach 0.08, data that were already scaled 0.004, 16 bits 257."""

_ROWS = 64
_DEAD = 1e-9


def scaling_warnings(loaded: Loaded, samples: Samples) -> tuple[str, ...]:
    """Returns a warning for the first layer whose record does not fit the samples; none for seeded samples.

    A Normalization layer holds the mean and the variance of the training data, the first BatchNormalization those of
    its own inputs, which the layers in front of it compute from the samples. A Rescaling in front says what
    range its inputs have. A BatchNormalization that was never trained says nothing.

    Args:
        loaded: The model.
        samples: The user's data.
    """
    model = loaded.model
    if not samples.given or len(samples) < ENOUGH or not getattr(model, "inputs", None):
        return ()
    for layer in _recorders(model):
        seen = _inputs_of(layer, loaded, samples)
        if seen is None:
            continue
        said = _rescaled(layer, seen) if isinstance(layer, keras.layers.Rescaling) else _recorded(layer, seen)
        if said:
            return (
                f"{said} Are the inputs scaled as in training (0 to 1, 0 to 255, standardised)? Pass --data with "
                "the numbers that the model was trained on.",
            )
        if isinstance(layer, keras.layers.BatchNormalization):
            return ()
    return ()


def _recorders(model: Any) -> Iterator[Any]:
    kinds = (keras.layers.Rescaling, keras.layers.Normalization, keras.layers.BatchNormalization)
    return (layer for layer in model.layers if isinstance(layer, kinds))


def _inputs_of(layer: Any, loaded: Loaded, samples: Samples) -> NDArray[Any] | None:
    """What a layer of a functional model receives for the samples; None where that is not one array."""
    model = loaded.model
    given = {spec.name: array for spec, array in zip(loaded.inputs, samples.inputs, strict=True)}
    calls = private.calls_of(layer)
    if calls is None or len(calls) != 1 or not isinstance(layer.input, keras.KerasTensor):
        return None
    if {tensor.name for tensor in model.inputs} != set(given):
        return None
    part = keras.Model(model.inputs, layer.input)
    arrays = [given[tensor.name][:: max(1, len(samples) // _ROWS)][:_ROWS] for tensor in model.inputs]
    seen = keras.ops.convert_to_numpy(keras.ops.cast(part(arrays, training=False), "float32"))
    return np.asarray(seen, np.float64) if np.isfinite(seen).all() else None


def _rescaled(layer: Any, seen: NDArray[Any]) -> str:
    scale = np.max(np.abs(np.asarray(layer.scale, np.float64)))
    if scale > 0.5:
        return ""
    width = float(np.ptp(seen)) * float(scale)
    if NARROW <= width <= WIDE:
        return ""
    return (
        f"`{layer.name}` multiplies its inputs by {scale:.3g}, which leaves a range of {width:.2g} of the samples "
        f"({seen.min():.3g} to {seen.max():.3g})."
    )


def _recorded(layer: Any, seen: NDArray[Any]) -> str:
    mean, variance = _statistics(layer)
    if mean is None or variance is None:
        return ""
    axes = tuple(axis for axis in range(seen.ndim) if axis not in {at % seen.ndim for at in _axes(layer)})
    spread, centre = seen.std(axis=axes).ravel(), seen.mean(axis=axes).ravel()
    # A channel that was constant in training has no scale.
    live = variance > _DEAD * variance.max()
    if mean.shape != centre.shape or not live.any():
        return ""
    deviation = np.sqrt(variance[live])
    ratio = float(np.median(spread[live] / deviation))
    away = float(np.median(np.abs(centre - mean)[live] / deviation))
    if SHRUNK[_kind(layer)] <= ratio <= RATIO and away <= RATIO:
        return ""
    return (
        f"The samples do not fit the model's training: what `{layer.name}` receives spreads {ratio:.3g} times as far "
        f"as in training, and its mean is {away:.3g} standard deviations away."
    )


def _kind(layer: Any) -> str:
    return "Normalization" if isinstance(layer, keras.layers.Normalization) else "BatchNormalization"


def _axes(layer: Any) -> tuple[int, ...]:
    axis = layer.axis
    return () if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def _statistics(layer: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The mean and the variance that a layer recorded; None for one that recorded nothing."""
    if isinstance(layer, keras.layers.BatchNormalization):
        mean, variance = (np.asarray(part, np.float64) for part in (layer.moving_mean, layer.moving_variance))
        return (None, None) if not mean.any() and (variance == 1).all() else (mean, variance)
    held = [getattr(layer, name, None) for name in ("mean", "variance")]
    if any(part is None for part in held):
        return None, None
    return np.asarray(held[0], np.float64).ravel(), np.asarray(held[1], np.float64).ravel()

"""Compares the samples with the inputs that the model saw in training, as far as its layers recorded them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from sqp_tflite.source.load import Loaded
from sqp_tflite.source.records import (
    LIVE,
    RATIO,
    SHRINKS,
    SHRUNK,
    axes_over,
    recorders,
    seen_by,
    spread_of,
    statistics,
)
from sqp_tflite.source.samples import Samples

ENOUGH = 16
"""With fewer samples a spread says little."""

NARROW, WIDE = 1.0 / 32.0, 32.0
"""A Rescaling leaves a range of 1 or 2; dark pictures reach 0.08, data that were already scaled 0.004, 16 bits 257."""


def scaling_warnings(loaded: Loaded, samples: Samples) -> tuple[str, ...]:
    """Returns a warning for the first layer whose record does not fit the samples; none for made-up samples.

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
    for layer in recorders(model):
        seen = seen_by(layer, loaded, samples.inputs)
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


def _rescaled(layer: Any, seen: NDArray[Any]) -> str:
    scale = np.max(np.abs(np.asarray(layer.scale, np.float64)))
    if scale > SHRINKS:
        return ""
    width = float(np.ptp(seen)) * float(scale)
    if NARROW <= width <= WIDE:
        return ""
    return (
        f"`{layer.name}` multiplies its inputs by {scale:.3g}, which leaves a range of {width:.2g} of the samples "
        f"({seen.min():.3g} to {seen.max():.3g})."
    )


def _recorded(layer: Any, seen: NDArray[Any]) -> str:
    mean, variance = statistics(layer)
    if mean is None or variance is None:
        return ""
    spread, centre = spread_of(seen, layer), seen.mean(axis=axes_over(seen, layer)).ravel()
    live = variance > LIVE * variance.max()
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

"""Inputs at the ends of a file's input range, and beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.graph import Tensor
from sqp_tflite.source.samples import Samples

DATA, ENDS, BEYOND = "data", "ends", "beyond"
"""The sets that `sqp-check` compares on."""

_COUNT = 8
_SEED = 20210102


def extremes(tensors: Sequence[Tensor], given: Samples) -> dict[str, Samples]:
    """Returns two sets of samples: at the ends of each input's range, and twice as far from its middle.

    The range of a quantised input is the range of its codes; the range of a float input is that of the given samples.
    In each set one sample has all elements at the lower end, one at the upper end, and the rest are seeded mixtures.

    Args:
        tensors: The file's inputs, in the order of the samples.
        given: The user's samples, or seeded ones.
    """
    generator = np.random.default_rng(_SEED)
    sets: dict[str, list[NDArray[Any]]] = {ENDS: [], BEYOND: []}
    for tensor, values in zip(tensors, given.inputs, strict=True):
        low, high = _range(tensor, values)
        if np.issubdtype(values.dtype, np.integer) or values.dtype == np.bool_:
            # The elements are indices: there is nothing beyond them.
            low, high, reach = float(values.min()), float(values.max()), 0.0
        else:
            reach = (high - low) / 2 or max(abs(high), 1.0)
        pattern = generator.integers(0, 2, (_COUNT, *values.shape[1:])).astype(bool)
        pattern[0], pattern[1] = False, True
        sets[ENDS].append(np.where(pattern, high, low).astype(values.dtype))
        sets[BEYOND].append(np.where(pattern, high + reach, low - reach).astype(values.dtype))
    return {name: Samples(tuple(arrays), None, given=False) for name, arrays in sets.items()}


def _range(tensor: object, values: NDArray[Any]) -> tuple[float, float]:
    quantization = getattr(tensor, "quantization", None)
    dtype = np.dtype(getattr(tensor, "dtype", "float32"))
    if quantization is None or not np.issubdtype(dtype, np.integer):
        return float(values.min()), float(values.max())
    limits, scale, zero = np.iinfo(dtype), quantization.scales[0], quantization.zero_points[0]
    return (limits.min - zero) * scale, (limits.max - zero) * scale

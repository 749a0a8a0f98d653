"""TFLM's fixed-point inverse square root: five Newton steps on numbers with three integer bits, over numpy arrays.

x' = x (3 - a x^2) / 2 for a in [1/4, 1), in 32 bits of which 28 lie behind the point. Source: gemmlowp's fixed point as
TFLM's RSQRT uses it; `templates` holds the same in C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import Multiplier, requantized

KEPT_BITS = 20
HALF_ROOT_OF_TWO = 1518500250
ONE_AND_A_HALF = (1 << 28) + (1 << 27)


def _high(a: NDArray[np.int64], b: NDArray[np.int64] | int) -> NDArray[np.int64]:
    return (a * b + (1 << 30)) >> 31


def _saturated(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.clip(values, -(2**31), 2**31 - 1)


def inverse_root(value: int) -> Multiplier:
    """Returns 1 / sqrt(value) as a multiplier whose shift goes to the left.

    Args:
        value: At least 1.
    """
    if value <= 1:
        return Multiplier(2**31 - 1, 0)
    shift = 11
    while value >= 1 << 29:
        value, shift = value // 4, shift + 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    shift, value = shift - pairs, value << (2 * pairs)
    given = np.int64(value >> 1)
    half = np.asarray((given + (given >> 31) + 1) >> 1)
    x = np.asarray(1 << 28, np.int64)
    for _ in range(5):
        cubed = _saturated(_high(_high(x, x), x) << 6)
        x = _saturated((_high(x, ONE_AND_A_HALF) - _high(half, cubed)) << 3)
    result = int(_high(x, HALF_ROOT_OF_TWO))
    return Multiplier(result << -shift, 0) if shift < 0 else Multiplier(result, -shift)


def rsqrt_codes(values: NDArray[np.int64], by: Multiplier) -> NDArray[np.int64]:
    """Returns the inverse roots of integers > 0, times a multiplier."""
    flat = []
    for value in values.reshape(-1).tolist():
        root = inverse_root(max(value, 1))
        kept = requantized(np.asarray(1, np.int64), Multiplier(root.value, root.shift + KEPT_BITS))
        flat.append(int(requantized(kept, Multiplier(by.value, by.shift - KEPT_BITS))))
    return np.asarray(flat, np.int64).reshape(values.shape)

"""Measures the error of a function and its slope in units in the last place (ULP) of the true value, in every dtype."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import tensorflow as tf

FORMATS = {"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126), "float64": (52, -1022)}
"""Stored bits of the significand and exponent of the smallest normal number."""


class Errors(NamedTuple):
    """Max errors of one implementation, in ULP; inf where a finite truth became inf or NaN."""

    value: float
    slope: float
    correctly_rounded: float


def inputs(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Returns float64 numbers that are exact in `dtype`: all finite ones of a half, else random bits and the edges."""
    if dtype in ("float16", "bfloat16"):
        x = tf.cast(tf.bitcast(tf.constant(np.arange(2**16, dtype=np.uint16)), dtype), tf.float64).numpy()
        return x[np.isfinite(x)]
    rng = np.random.default_rng(seed)
    bits, kind = (np.uint32, np.float32) if dtype == "float32" else (np.uint64, np.float64)
    limits = np.finfo(kind)
    x = np.concatenate([
        rng.integers(0, np.iinfo(bits).max, count - 2 * (count // 10), dtype=bits, endpoint=True).view(kind),
        rng.normal(0, 3, count // 10).astype(kind),
        (10.0 ** rng.uniform(-9, 6, count // 10) * rng.choice([-1, 1], count // 10)).astype(kind),
        np.asarray([0, limits.max, limits.tiny, limits.smallest_subnormal, 1, 2, 2.0**62, 2.0**63], kind),
        -np.asarray([0, limits.max, limits.tiny, limits.smallest_subnormal, 1, 2, 2.0**62, 2.0**63], kind),
    ])  # fmt: skip
    return x[np.isfinite(x)].astype(np.float64)


class Truth(NamedTuple):
    """A true number as the sum of a float64 and what it lacks."""

    high: np.ndarray
    low: np.ndarray


@functools.cache
def doubles(count: int, b: float) -> tuple[Truth, Truth]:
    """Returns value and slope for the float64 inputs, from arithmetic with 160 bits."""
    values, slopes = [], []
    with mpmath.workprec(160):
        for v in inputs("float64", count).tolist():
            root = mpmath.sqrt(mpmath.mpf(v) ** 2 + b)
            y = (v + root) / 2 if v >= 0 else b / (2 * (root - v))
            for number, found in ((y, values), (y / root, slopes)):
                found.append((float(number), float(number - float(number))))
    return Truth(*np.array(values).T), Truth(*np.array(slopes).T)


def truth(x: np.ndarray, b: float) -> tuple[Truth, Truth]:
    """Returns value and slope in float64, whose error is far below an ULP of float32."""
    b = float(np.float32(b))  # b is rounded to the dtype of the arithmetic.
    z = np.abs(x) / 2
    h = z + np.sqrt(z * z + b / 4)
    y = np.where(x < 0, b / 4 / h, h)
    return Truth(y, np.zeros_like(y)), Truth(1 / (1 + b / 4 / y / y), np.zeros_like(y))


def ulp(value: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the distance of neighbouring numbers of `dtype` at `value`."""
    bits, smallest = FORMATS[dtype]
    return 2.0 ** (np.maximum(np.frexp(np.abs(value))[1] - 1, smallest) - bits)


def largest(error: np.ndarray) -> float:
    """Returns the max of errors; NaN counts as infinite."""
    return float(np.max(np.where(np.isnan(error), np.inf, error), initial=0.0))


def compare(got: np.ndarray, want: Truth, dtype: str) -> float:
    """Returns the max error in ULP where the truth is a normal finite number.

    Smaller numbers may be flushed to zero, as TensorFlow does in bfloat16, float32 and float64 (in float16 it does
    not); a truth within a few ULP of the smallest normal number may come out below it and be flushed, too.
    """
    bits, smallest = FORMATS[dtype]
    normal = want.high >= 2.0**smallest * (1 + 2.0 ** (3 - bits))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs((got - want.high) - want.low)[normal] / ulp(want.high[normal], dtype)
        flushed = np.where(got[~normal] <= 2.0**smallest * (1 + 2.0 ** (4 - bits)), 0.0, np.inf)
    return max(largest(error), largest(flushed))


def measure(function: Callable[[Any], Any], x: np.ndarray, want: tuple[Truth, Truth], dtype: str) -> Errors:
    """Returns the errors of `function`, a TensorFlow function of one tensor, over `x`."""
    tensor = tf.cast(tf.constant(x), dtype)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = function(tensor)
    slope = tf.cast(tape.gradient(y, tensor), tf.float64).numpy()
    y = tf.cast(y, tf.float64).numpy()
    rounded = tf.cast(tf.cast(tf.constant(want[0].high), dtype), tf.float64).numpy()
    return Errors(compare(y, want[0], dtype), compare(slope, want[1], dtype), float(np.mean(y == rounded)))

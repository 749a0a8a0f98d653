"""Squareplus and its derivatives as plain expressions, for any array namespace.

y = (x + s) / 2 = max(x, 0) + c / (z + sqrt(z*z + c))        s = sqrt(x*x + b), z = abs(x) / 2, c = b / 4

Nothing cancels on either side: the fraction is the left tail, y(-abs(x)), and y(x) - y(-x) = x. The derivatives need
only the output:

dy/dx = y / (y + c/y)        dy/db = 1 / (4*s) = y / (4*(y*y + c))

A namespace is a module with `abs`, `sqrt`, `minimum` and `maximum`: `tensorflow`, `jax.numpy` or `keras.ops`.
"""

from typing import Any

import numpy as np

LARGEST_SQUARE_ROOT = {"float32": 2.0**62, "float64": 2.0**510}
"""Up to here z*z and y*y are far from overflow; past it c is below the last bit of z*z for every admitted b."""

LARGEST = {"float32": float(np.finfo(np.float32).max), "float64": float(np.finfo(np.float64).max)}
"""The largest finite number."""


def compute_dtype(dtype: str) -> str:
    """Returns the dtype that the arithmetic for inputs of `dtype` runs in: never a half."""
    return "float64" if dtype == "float64" else "float32"


def value(ns: Any, x: Any, c: Any, dtype: str, bounded: bool = False) -> Any:
    """Returns squareplus of `x`, both of compute dtype `dtype`, for c = b/4 > 0; `bounded` if x*x cannot overflow.

    Equal to the bit to max(x, 0) + tail. But TensorFlow would begin with that maximum and hold it to the end, a third
    buffer beside the two of the tail; here the first one is free again by then.
    """
    z = ns.abs(x) * 0.5
    if bounded:
        root = ns.sqrt(z * z + c)
    else:
        # Past the limit z itself is the root. Clamped after squaring, where TensorFlow can work in place.
        square = ns.minimum(z * z, LARGEST_SQUARE_ROOT[dtype] ** 2)
        root = ns.maximum(ns.sqrt(square + c), z)
    tail = c / (z + root)
    return ns.maximum(x + tail, tail)


def _bounded(ns: Any, y: Any, c: Any, dtype: str) -> tuple[Any, Any]:
    """Returns y kept where its square is finite, and y*y + c."""
    y = ns.minimum(y, LARGEST_SQUARE_ROOT[dtype])
    return y, y * y + c


def slope(ns: Any, y: Any, c: Any, dtype: str) -> Any:
    """Returns dy/dx = y / (y + c/y), also right for y = 0 (slope 0) and y = inf (slope 1).

    It is safe: where c/y overflows, the slope is below the smallest number, and where c/y underflows, the slope is 1.
    Shorter forms fail: XLA turns 1 / (1 + (c/y)/y) into a quotient by y*y, which underflows.
    """
    y = ns.minimum(y, LARGEST[dtype])
    return y / (y + c / y)


def slope_by_y(ns: Any, y: Any, c: Any, dtype: str) -> Any:
    """Returns the derivative of dy/dx with respect to y: 2*y*c / (y*y + c)**2."""
    y, d = _bounded(ns, y, c, dtype)
    return 2.0 * (y / d) * (c / d)


def slope_by_c(ns: Any, y: Any, c: Any, dtype: str) -> Any:
    """Returns the derivative of dy/dx with respect to c at fixed y: -(y / (y*y + c))**2."""
    y, d = _bounded(ns, y, c, dtype)
    r = y / d
    return -r * r


def value_by_c(ns: Any, y: Any, c: Any, dtype: str) -> Any:
    """Returns dy/dc = 1 / (y + c/y) = y / (y*y + c) at fixed x."""
    y, d = _bounded(ns, y, c, dtype)
    return y / d

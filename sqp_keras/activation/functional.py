"""Squareplus and its inverse as functions."""

import importlib
import math
import numbers
from typing import Any

import keras
import numpy as np
from keras import ops

from sqp_keras import forms, symbolic
from sqp_keras.activation import formulas
from sqp_keras.activation.constants import B_CURVATURE, B_LARGEST, B_SMALLEST

# The derivative rules for the Keras backend in use; the other backends differentiate the formula themselves.
_RULES = (
    importlib.import_module(f"sqp_keras.backends.{keras.config.backend()}")
    if keras.config.backend() in ("tensorflow", "jax")
    else None
)


def squareplus(x: Any, b: Any = B_CURVATURE) -> Any:
    """Returns (x + sqrt(x*x + b)) / 2, a smooth rectifier, in the dtype of `x`.

    y = (x + s) / 2    dy/dx = y / s    dy/db = 1 / (4*s)    s = sqrt(x*x + b)

    Finite and without cancellation for every finite input; halves are computed in float32 and rounded once. The
    gradient needs only the output. b = 0 gives relu with the derivative 1/2 at 0.

    Args:
        x: Tensor of any Keras backend, NumPy array, list, number or `KerasTensor`; integers become `floatx`.
        b: Size of the bend: 0 or a number in [1e-30, 1e30], or a tensor of positive numbers that broadcasts with `x`.

    Returns:
        A tensor of the shape of `x` (of the broadcast shape if `b` is a tensor).

    Raises:
        TypeError: `x` is sparse, ragged, complex or not an array, or `b` is not a number.
        ValueError: `b` is outside the range.

    Example:
        >>> float(squareplus(0.0))
        1.0

    Source: Barron, "Squareplus: A Softplus-Like Algebraic Rectifier", 2021.
    """
    form = forms.current()
    if form is not None:
        return form("squareplus", x, b=b)
    if isinstance(x, keras.KerasTensor):
        return symbolic.call("squareplus", x, b=b)
    x, b = floating(x), checked_b(b)
    if isinstance(b, float):
        return _rectifier(x) if b == 0 else _squareplus(x, b / 4)
    wide = formulas.compute_dtype(keras.backend.standardize_dtype(x.dtype))
    c = ops.cast(ops.convert_to_tensor(b), wide) / 4
    if tuple(c.shape) != tuple(x.shape) and not _fits(c.shape, x.shape):
        x = ops.broadcast_to(x, np.broadcast_shapes(tuple(c.shape), tuple(x.shape)))
    return _squareplus(x, c)


def squareplus_inverse(y: Any, b: Any = B_CURVATURE) -> Any:
    """Returns the x with squareplus(x, b) = y, which is y - b/(4y), in the dtype of `y`.

    For the bias of a positive head that starts at a known value, and for initialisers.

    Args:
        y: Tensor, array, list or number; positive. For b = 0 also 0, which gives 0.
        b: As in `squareplus`.

    Returns:
        A tensor of the shape of `y`; NaN where `y` is negative, -inf where it is 0 and b is not.

    Raises:
        TypeError: `y` is sparse, ragged, complex or not an array, or `b` is not a number.
        ValueError: `b` is outside the range.
    """
    y, b = floating(y), checked_b(b)
    dtype = keras.backend.standardize_dtype(y.dtype)
    wide = formulas.compute_dtype(dtype)
    y = ops.cast(y, wide)
    if isinstance(b, float) and b == 0:
        x = y
    else:
        x = y - (b if isinstance(b, float) else ops.cast(ops.convert_to_tensor(b), wide)) / 4 / y
    return ops.cast(ops.where(y < 0, ops.full_like(y, math.nan), x), dtype)


def checked_b(b: Any) -> Any:
    """Returns `b` as a float if it is a single number, unchanged if it is a tensor; raises if it is neither."""
    if isinstance(b, np.ndarray | np.generic | list | tuple) and not np.isscalar(b) and np.ndim(b) > 0:
        array = np.asarray(b)
        if array.dtype.kind not in "fiu" or not ((array >= B_SMALLEST) & (array <= B_LARGEST)).all():
            raise ValueError(
                f"An array `b` holds numbers from {B_SMALLEST:g} to {B_LARGEST:g}. Received: b={b}. "
                "For b=0 pass the single number 0."
            )
        return array
    if isinstance(b, np.ndarray | np.generic):
        b = b.item()
    if isinstance(b, bool) or not isinstance(b, numbers.Real):
        if keras.ops.is_tensor(b) or isinstance(b, keras.Variable):
            return b
        raise TypeError(f"`b` is a number or a tensor. Received: b={b!r} of type {type(b).__name__}. Pass e.g. b=4.0.")
    b = float(b)
    if not (b == 0 or B_SMALLEST <= b <= B_LARGEST):
        raise ValueError(
            f"`b` is 0 or a finite number from {B_SMALLEST:g} to {B_LARGEST:g}. Received: b={b}. "
            "Pass e.g. b=4.0, or 0 for relu."
        )
    return b


def floating(x: Any) -> Any:
    """Returns `x` as a floating-point tensor of the backend; raises if squareplus is not defined for it."""
    kind = type(x).__name__
    if "Sparse" in kind or "Ragged" in kind or kind in ("BCOO", "JAXSparse") or getattr(x, "sparse", False) is True:
        raise TypeError(
            "squareplus needs a dense tensor: squareplus(0) is sqrt(b)/2, so absent entries would not stay absent. "
            f"Received: {kind}. Convert it first, e.g. with `tf.sparse.to_dense(x)` or `x.to_tensor()`."
        )
    x = ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return x
    if dtype == "bool" or "int" in dtype:
        return ops.cast(x, keras.config.floatx())
    raise TypeError(
        f"squareplus takes real numbers in float16, bfloat16, float32 or float64. Received: dtype {dtype}. "
        "Cast `x` first, e.g. with `keras.ops.cast(x, 'float32')`."
    )


def _fits(small: Any, large: Any) -> bool:
    """Whether `small` broadcasts to `large` without enlarging it; an unknown size counts as large."""
    if len(small) > len(large):
        return False
    tail = tuple(large)[len(large) - len(small) :]
    return all(have in (1, want) or want is None for have, want in zip(small, tail, strict=True))


def _squareplus(x: Any, c: Any) -> Any:
    if _RULES is not None:
        return _RULES.squareplus(x, c)
    dtype = keras.backend.standardize_dtype(x.dtype)
    wide = formulas.compute_dtype(dtype)
    return ops.cast(formulas.value(ops, ops.cast(x, wide), c, wide), dtype)


def _rectifier(x: Any) -> Any:
    # Without a rule of our own: relu's value, and through the absolute value the slope 1/2 at 0.
    return _RULES.rectifier(x) if _RULES is not None else x * 0.5 + ops.abs(x) * 0.5

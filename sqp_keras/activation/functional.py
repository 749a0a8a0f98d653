"""Squareplus and its inverse as functions."""

import importlib
import math
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from sqp_keras import accept, forms, symbolic
from sqp_keras.activation import formulas
from sqp_keras.activation.constants import B_CURVATURE, B_LARGEST, B_LEARNT_SMALLEST, B_SMALLEST

# The derivative rules for the Keras backend in use; the other backends differentiate the formula themselves.
_RULES = (
    importlib.import_module(f"sqp_keras.backends.{keras.config.backend()}")
    if keras.config.backend() in ("tensorflow", "jax", "torch")
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
        TypeError: `x` is sparse, ragged, complex or not an array, or `b` is not a number; or `x` is a `KerasTensor` and
            `b` not a single number.
        ValueError: `b` is outside the range.

    Example:
        >>> float(squareplus(0.0))
        1.0

    Source: Barron, "Squareplus: A Softplus-Like Algebraic Rectifier", 2021.
    """
    form = forms.current()
    if form is not None:
        return form("squareplus", x, b=b)
    if isinstance(x, keras.KerasTensor) or isinstance(b, keras.KerasTensor):
        return symbolic.call("squareplus", x, b=_symbolic_b(b))
    x, b = floating(x), checked_b(b)
    if _needs_a_wider_output(x, b):
        return ops.cast(squareplus(ops.cast(x, "float32"), b), "float16")
    if isinstance(b, float):
        return _rectifier(x) if b == 0 else _squareplus(x, b / 4)
    wide = formulas.compute_dtype(keras.backend.standardize_dtype(x.dtype))
    c = ops.cast(ops.convert_to_tensor(b), wide) / 4
    if tuple(c.shape) != tuple(x.shape) and not _fits(c.shape, x.shape):
        x = ops.broadcast_to(x, _common_shape("x", x, c))
    return _squareplus(x, c)


def _needs_a_wider_output(x: Any, b: Any) -> bool:
    """Returns whether outputs in float16 get too small to tell the slope by: at b = 1e-30 they are 0 up to x = 0."""
    if keras.backend.standardize_dtype(x.dtype) != "float16" or not isinstance(b, float | np.ndarray):
        return False
    return bool(0 < np.min(b) < B_LEARNT_SMALLEST)


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
    y, b = floating(y, "y"), checked_b(b)
    if not isinstance(b, float) and not _fits(b.shape, y.shape):
        _common_shape("y", y, b)
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
    if isinstance(b, list | tuple | np.ndarray):
        array = _array(b)
        if array.ndim:
            return array
        b = array.item()
    if not accept.is_number(b):
        if (keras.ops.is_tensor(b) or isinstance(b, keras.Variable)) and not accept.is_sparse(b):
            return b
        accept.wrong_type("b", "a number or a tensor", b, "Pass e.g. b=4.0.")
    try:
        number = float(b)
    except OverflowError:
        number = math.inf
    if not (number == 0 or B_SMALLEST <= number <= B_LARGEST):
        rule = f"0 or a finite number from {B_SMALLEST:g} to {B_LARGEST:g}"
        accept.wrong_value("b", rule, b, "Pass e.g. b=4.0, or 0 for relu.")
    return number


def _symbolic_b(b: Any) -> float:
    """Returns the number `b` of a call in a functional model, whose layer holds it."""
    found = None if isinstance(b, keras.KerasTensor) else checked_b(b)
    if not isinstance(found, float):
        accept.wrong_type(
            "b",
            "a single number in a call that builds a functional model, since the model saves it",
            b,
            'Use the layer: Squareplus(learn_b="channel", b_initializer=keras.initializers.Constant(b)), with '
            "trainable=False if it stays as it is.",
        )
    return found


def _array(b: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(b)
    except ValueError:  # Rows of different lengths.
        array = np.empty(0)
    numeric = array.dtype.kind in "fiu" or array.ndim == 0
    if not (numeric and array.size and (array.ndim == 0 or ((array >= B_SMALLEST) & (array <= B_LARGEST)).all())):
        raise ValueError(
            f"An array `b` holds numbers from {B_SMALLEST:g} to {B_LARGEST:g}. Received: b={accept.shown(b)}. "
            "For b=0 pass the single number 0."
        )
    return array


def floating(x: Any, name: str = "x") -> Any:
    """Returns `x` as a floating-point tensor of the backend; raises if squareplus is not defined for it.

    Args:
        x: What the user passed.
        name: The parameter.
    """
    x = accept.tensor(name, x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    return x if "float" in dtype else ops.cast(x, keras.config.floatx())


def _common_shape(name: str, x: Any, b: Any) -> tuple[Any, ...]:
    """Returns the shape to which `x` and a tensor `b` broadcast."""
    try:
        return np.broadcast_shapes(tuple(b.shape), tuple(x.shape))
    except (TypeError, ValueError) as error:  # Sizes that differ, or are not known yet.
        raise ValueError(
            f"`b` broadcasts with `{name}`. Received: shapes {tuple(b.shape)} and {tuple(x.shape)}. Pass a number, or "
            "one b per entry of the last axis."
        ) from error


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

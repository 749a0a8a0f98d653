"""Activations with exp or log, written with additions, multiplications and square roots."""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import keras
from keras import ops

from sqp_keras import accept, forms, symbolic
from sqp_keras.family.coefficients import PASSED, POSITIVE, Part, Root, Sum, above_zero, find
from sqp_keras.family.lines import lines
from sqp_keras.family.names import canonical

_WIDE = {"float16": "float32", "bfloat16": "float32"}


def algebraic(
    x: Any,
    of: str,
    terms: int | None = None,
    *,
    alpha: float = 1.0,
    upper: float | None = None,
    positive: bool = False,
    coefficients: Sum | None = None,
) -> Any:
    """Returns an activation as a short sum of square roots, in the dtype of `x`.

    y = a0 + a1*x + sum_i w_i*sqrt((x - c_i)**2 + b_i)

    elu, selu, celu, exponential and softsign have a kink in a derivative (or grow without bound), so x is clipped to
    one side of it by a minimum or maximum. What the activation never passes, the sum does not either: softplus and
    exponential are 0 or more, log_sigmoid 0 or less, sigmoid is in [0, 1], tanh and softsign in [-1, 1], by a clip at
    the end. All else is ADD, MUL and SQRT. docs/algebraic.md lists every sum
    with its max error in value and slope. Halves are computed in float32; in float32 rounding adds about 1e-7*abs(x)
    up to abs(x) = 4096. Further out and at infinity the result is the activation's limit; files for devices leave that
    selection out.

    Args:
        x: Tensor, array, list, number or `KerasTensor`.
        of: Keras's name for the activation: softplus, sigmoid, tanh, silu (swish), gelu, elu, selu, celu, mish,
            softsign, log_sigmoid, softmax (last axis), exponential (needs `upper`). "gelu_tanh" is gelu with
            `approximate=True`. Activations without exp and log (relu, hard_sigmoid, ...) are computed as they are.
        terms: Number of square roots; None for the fewest within 1e-3 of the activation.
        alpha: Of elu and celu.
        upper: Of exponential: its largest input; above it the value stays at exp(upper).
        positive: Of softplus, sigmoid and exponential: keep the values above 0, for a logarithm, a square root or a
            division behind it. The least value is 2**-15 (times exp(upper) for exponential), or the sum's max error if
            that is smaller; the max error stays the same. Costs at most one MAXIMUM.
        coefficients: The sum itself, if it is not the one of this release.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no such sum, or `positive` does not fit the activation.

    Example:
        >>> round(float(algebraic(0.0, of="softplus")), 3)
        0.693
    """
    name, terms, alpha, upper = checked(of, terms, alpha, upper, positive)
    if coefficients is not None and not isinstance(coefficients, Sum):
        accept.wrong_type("coefficients", "a sum of square roots", coefficients, "Leave it out for this release's.")
    if isinstance(x, keras.KerasTensor):
        held = None if coefficients is None else coefficients.config()
        arguments = {"of": name, "terms": terms, "alpha": alpha, "upper": upper, "positive": positive}
        return symbolic.call("algebraic", x, **arguments, coefficients=held)
    x = accept.tensor("x", x)
    if name == "softmax":
        return softmax(x, axis=-1)
    if name in PASSED:
        return keras.activations.get(name)(x)
    made = coefficients or find(name, terms, alpha, upper)
    return apply(x, name, terms, above_zero(name, made, upper) if positive else made)


def checked(
    of: Any, terms: Any, alpha: Any, upper: Any, positive: Any = False
) -> tuple[str, int | None, float, float | None]:
    """Returns the arguments of an algebraic activation in one form, Keras's name first, without `positive`.

    Raises:
        TypeError: One is of another type.
        ValueError: One is out of range, or `positive` is True for an activation that is not above 0 everywhere.
    """
    name = canonical(accept.name_of_activation("of", of))
    if accept.boolean("positive", positive) and name not in POSITIVE:
        raise ValueError(
            f"`positive` is for activations that are above 0 everywhere: {', '.join(POSITIVE)}. Received: of={name!r}. "
            "Leave it out, or add a constant where you need one."
        )
    count = None if terms is None else accept.whole("terms", terms, 1)
    above = None if upper is None else accept.number("upper", upper, remedy="Pass the largest input, at most 80.")
    return name, count, accept.number("alpha", alpha), above


def apply(x: Any, of: str, terms: int | None, made: Sum) -> Any:
    """Returns the sum `made` of `x`, through the form in use if there is one."""
    form = forms.current()
    if form is not None:
        return form("algebraic", x, of=of, terms=terms, coefficients=made)
    x = ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    if "float" not in dtype:
        dtype = keras.config.floatx()
    return ops.cast(_everywhere(ops.cast(x, _WIDE.get(dtype, dtype)), of, made), dtype)


def _everywhere(x: Any, of: str, made: Sum) -> Any:
    """Returns the sum of `x`, and the line that the activation is where roots would cancel or overflow."""
    ends = lines(of, made)
    if ends is None:
        return evaluate(x, made)
    with keras.name_scope(forms.LIMITS_SCOPE):
        far = ops.abs(x) > ends.reach
        near = ops.where(far, ops.zeros_like(x), x)
        line = ops.where(x > 0, _line(x, *ends.right), _line(x, *ends.left))
    y = evaluate(near, made)
    with keras.name_scope(forms.LIMITS_SCOPE):
        return ops.where(far, line, y)


def _line(x: Any, slope: float, value: float) -> Any:
    # Without a product with 0, which is NaN for infinities.
    if not slope:
        return ops.full_like(x, value)
    x = x if slope == 1.0 else x * slope
    return x + value if value else x


def evaluate(x: Any, made: Sum, using: Any = ops) -> Any:
    """Returns the sum of `x` in float32 or float64: ADD, MUL, SQRT, and clips where the sum has them.

    The clips of the value come last, where a converter makes them part of the last ADD.

    Args:
        x: Whatever adds and multiplies.
        made: The sum.
        using: What has sqrt, relu, minimum and maximum of such values.
    """
    total: Any = None
    for part in made.parts:
        value = _part(_held(x, part, using), part, using)
        total = value if total is None else total + value
    if made.offset:
        total = total + made.offset
    if made.rectifier:
        rectified = using.relu(x)
        total = total + (rectified if made.rectifier == 1.0 else rectified * made.rectifier)
    return clipped(total, made.low, made.high, using)


def softmax(x: Any, axis: int | tuple[int, ...] = -1, factors: Any = None) -> Any:
    """Returns softmax without exp and without a division; each row's sum is 1 up to rounding.

    Within 1.7e-4 for up to 100 values, 5e-4 for up to 1000. exp(t) for t = x - max(x) <= 0 is the fourth power of a
    sum of roots for exp(t/4), clipped to t >= -56; 1/s is the square of rsqrt(s).
    Ops: REDUCE_MAX, SUB, MINIMUM, MAXIMUM, ADD, MUL, SQRT, MEAN, RSQRT.

    Args:
        x: Tensor, array or list of at least one axis.
        axis: The axis (or axes) along which the result sums to 1. Their sizes must be known.
        factors: 0 for a value that does not count and 1 for the others, a tensor that broadcasts to `x`; None if all
            count. Where none does, each gets the same share.
    """
    x = ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    x = ops.cast(x, _WIDE.get(dtype, dtype))
    factors = factors if factors is None else ops.cast(factors, x.dtype)
    return ops.cast(_normalised(x, axis, factors), dtype)


def _normalised(x: Any, axis: int | tuple[int, ...], factors: Any) -> Any:
    axes = axis if isinstance(axis, tuple) else (axis,)
    if not all(-len(x.shape) <= one < len(x.shape) for one in axes):
        raise ValueError(f"`axis` is an axis of the input. Received: axis={axis} for shape {x.shape}. Pass e.g. -1.")
    sizes = [x.shape[one] for one in axes]
    if None in sizes:
        raise ValueError(
            f"An algebraic softmax needs to know how many values it normalises. Received: shape {x.shape}, axis {axis}."
            " Give the model's input a fixed size."
        )
    # What does not count is made the least of all and not merely low: integers have one step for all values.
    above = x if factors is None else (x - ops.min(x, axis=axes, keepdims=True)) * factors
    power = _written(_fourth_power, above - ops.max(above, axis=axes, keepdims=True))
    if factors is not None:
        # Where nothing counts, as for a padded query, all values are equal: so does softmax of very low values.
        power = power * factors + (1.0 - ops.max(factors, axis=axes, keepdims=True))
    with keras.name_scope(forms.SHARE_SCOPE):
        # The mean instead of the sum: MEAN is the reduction that every runtime has.
        mean, size = ops.mean(power, axis=axes, keepdims=True), float(math.prod(sizes))
        return power * _written(lambda one: _reciprocal(one * size), mean)


def _written(function: Callable[[Any], Any], x: Any) -> Any:
    """Returns a function of each value, which a model of integers holds like an activation: as a table or in float."""
    form = forms.current()
    return function(x) if form is None or not forms.for_integers() else form("function", x, function=function)


def _fourth_power(x: Any) -> Any:
    # Without its lower end, which an even power does not need.
    root = evaluate(x * 0.25, dataclasses.replace(find("exponential", None, 1.0, 0.0), low=None))
    # A power instead of the root itself: never negative, and the many small values of a long row stay small.
    square = root * root
    return square * square


def _reciprocal(total: Any) -> Any:
    # The root is squared, not the total: in integers the square of a small total is next to nothing.
    root = ops.rsqrt(total)
    return root * root


def _held(x: Any, part: Part, using: Any) -> Any:
    return clipped(x if part.high is None else using.minimum(x, part.high), part.low, None, using)


def clipped(x: Any, low: float | None, high: float | None, using: Any = ops) -> Any:
    """Returns x held between two numbers, None for no end; `using` as in `evaluate`."""
    if low is not None:
        x = using.relu(x) if low == 0.0 else using.maximum(x, low)
    return x if high is None else using.minimum(x, high)


def _part(t: Any, part: Part, using: Any) -> Any:
    """Returns a part, written for z = slope*t: a slope of 1/2 then folds into the layer in front."""
    slope = part.slope
    scaled = slope == 0.5
    z = t * slope if scaled else t
    factor = slope if scaled else 1.0
    groups = _groups(Root(r.weight / factor, r.centre * factor, r.b * factor * factor) for r in part.roots)
    total = z if scaled else (t * slope if slope else None)
    for roots in groups:
        value = _root(z, roots[0], using)
        for root in roots[1:]:
            value = value + _root(z, root, using)
        weight = roots[0].weight
        value = value if weight == 1.0 else value * weight
        total = value if total is None else total + value
    return total


def _groups(roots: Iterable[Root]) -> list[list[Root]]:
    """Returns the roots grouped by weight, so that each weight is applied once; opposite weights are neighbours."""
    by_weight: dict[float, list[Root]] = {}
    for root in sorted(roots, key=lambda root: (abs(root.weight), root.weight)):
        by_weight.setdefault(root.weight, []).append(root)
    return list(by_weight.values())


def _root(t: Any, root: Root, using: Any) -> Any:
    moved = t + (-root.centre) if root.centre else t
    return using.sqrt(moved * moved + root.b)

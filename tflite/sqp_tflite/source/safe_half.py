"""Squareplus and sums of roots in a form that stays finite in half precision, for every input.

A square of x/2 is infinite there from abs(x) = 512 on. So x is held in a range, and what lies beyond it is the line
that the function approaches:

    squareplus: y = max(x, z + sqrt(z*z + b/4))    z = clip(x/256, -1, 1) * 128
    sums:       y = sum(clip(x)) + slope * max(x - reach, 0)

The clip to [-1, 1] is part of the MUL in front of it (RELU_N1_TO_1), and all scales are powers of two, which change no
bit. Squareplus becomes MUL MUL MUL ADD SQRT ADD MAXIMUM. Without a clip four operators are enough, 128 * (w + sqrt(w*w
+ b/4 / 128**2)) for w = x/256; but there w*w is subnormal for abs(x) < 2, and some GPUs flush subnormals to 0.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from sqp_keras.family.algebraic import clipped, evaluate
from sqp_keras.family.coefficients import Sum
from sqp_keras.family.lines import lines

HELD = 128.0
"""What is squared is at most this: 128**2 and the largest b beside it are far below 65504."""

WIDEST = 8.0
"""Up to this b the bend has ended at abs(x) = 2 * HELD: beyond it squareplus is max(x, 0) to b / (8 * HELD), which is
3e-5 of abs(x), less than a file of float32 may be off. A wider bend is scaled."""

SQUAREPLUS_OPS = ("MUL", "MUL", "MUL", "ADD", "SQRT", "ADD", "MAXIMUM")


def form(name: str, x: Any, **parameters: Any) -> Any:
    """Returns an activation in the form that stays finite; see `sqp_keras.forms.Form`."""
    x = tf.convert_to_tensor(x)
    if name == "squareplus":
        return squareplus(x, parameters["b"])
    return roots(x, parameters["of"], parameters["coefficients"])


def squareplus(x: Any, b: Any) -> Any:
    """Returns squareplus of a tensor as MUL MUL MUL ADD SQRT ADD MAXIMUM; a b above 8 costs one MUL.

    In float32 it is the usual form up to abs(x) = 256; beyond it is off by b / 1024 at most, on the left.

    Args:
        x: A float tensor.
        b: A number, or a tensor; its values up to 128 keep to the bound of half precision.
    """
    number = isinstance(b, (int, float))
    if number and b == 0:
        return tf.nn.relu(x)
    scale = _scale(b) if number else 1.0
    quarter = b / 4.0 / scale**2 if number else tf.cast(tf.convert_to_tensor(b), x.dtype) * 0.25
    z = _held(x, 2.0 * HELD * scale) * HELD
    y = z + tf.sqrt(z * z + quarter)
    return tf.maximum(x, y if scale == 1.0 else y * scale)


def _scale(b: float) -> float:
    scale = 1.0
    while b > WIDEST * scale**2:
        scale *= 2.0
    return scale


def roots(x: Any, of: str, made: Sum) -> Any:
    """Returns a sum of roots of a tensor; one whose own clips hold its input is written as always.

    Args:
        x: A float tensor.
        of: The activation.
        made: Its sum.
    """
    ends = lines(of, made)
    if ends is None:
        return evaluate(x, made)
    reach = 2.0 * HELD if all(part.slope == 0.5 for part in made.parts) else HELD
    total = evaluate(_held(x, reach) * reach, dataclasses.replace(made, low=None, high=None))
    if ends.right[0]:
        total = total + _times(tf.nn.relu(x - reach), ends.right[0])
    if ends.left[0]:
        total = total + _times(tf.minimum(x + reach, 0.0), ends.left[0])
    return clipped(total, made.low, made.high)


def _held(x: Any, reach: float) -> Any:
    """X / reach in [-1, 1]."""
    return tf.clip_by_value(x * (1.0 / reach), -1.0, 1.0)


def _times(x: Any, slope: float) -> Any:
    return x if slope == 1.0 else x * slope

"""How far the outputs may differ only because sums of square roots are rounded, which no order of adding avoids."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops
from numpy.typing import NDArray

from sqp_keras import forms
from sqp_keras.activation.functional import squareplus
from sqp_keras.family.algebraic import evaluate
from sqp_keras.family.coefficients import Part, Root, Sum
from sqp_tflite.run.reference import reference
from sqp_tflite.source import hooks
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.samples import Samples

UNIT = 2.0**-22
"""What rounding changes in a sum of square roots, over the size of its terms: four units of float32. For x up to 3e4
the sums of all activations are off by at most 2.7 of these units (selu with one root: 3.5), at the median by 0.2."""

_DRAWS = 3
"""Patterns of signs, each with its opposite."""

_ONE_AT_A_TIME = threading.Lock()
"""Interpreters are judged side by side, and Keras's layers are not made for two callers."""


def rounding(loaded: Loaded, inputs: Samples) -> Callable[[], tuple[NDArray[Any], ...]]:
    """Returns a function that measures how far rounding moves each output, computed when it is first called.

    Its result has one array for each output, of shape (samples,): the largest difference between Keras's outputs when
    every sum of square roots is moved up or down, at random, by what rounding may change in it. All zeros for a model
    without such sums.

    Args:
        loaded: The model that the file is compared with.
        inputs: The samples.
    """

    @functools.cache
    def measured() -> tuple[NDArray[Any], ...]:
        found = [reference(loaded, inputs)]
        for seed in range(_DRAWS):
            found += [_moved(loaded, inputs, seed, sign) for sign in (1.0, -1.0)]
        return tuple(_width([one[name] for one in found]) for name in found[0])

    def once() -> tuple[NDArray[Any], ...]:
        with _ONE_AT_A_TIME:
            return measured()

    return once


def _width(values: list[NDArray[Any]]) -> NDArray[Any]:
    """The largest less the smallest value of each element, of each sample its widest.

    The reference may be at one end, the file at the other.
    """
    stacked = np.stack(values).reshape(len(values), len(values[0]), -1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(np.ptp(stacked, axis=0), posinf=0.0).max(axis=-1, initial=0.0))


def _moved(loaded: Loaded, inputs: Samples, seed: int, sign: float) -> dict[str, NDArray[Any]]:
    """Keras's outputs with every sum moved; the opposite sign of one seed moves it the other way."""
    generator = np.random.default_rng(seed)

    def form(name: str, x: Any, **parameters: Any) -> Any:
        x = ops.convert_to_tensor(x)
        with forms.use(None):
            if name == "squareplus":
                # y and b/(4y) make the root: both halves of the sum that a file holds.
                value = squareplus(x, **parameters)
                size, low, high = ops.abs(x) + value, None, None
            else:
                made = parameters["coefficients"]
                value, size, low, high = evaluate(x, made), _size(x, made), made.low, made.high
        signs = generator.choice((-UNIT, UNIT), size=tuple(x.shape)) * sign
        value = value + size * ops.convert_to_tensor(signs.astype(np.float32))
        value = value if low is None else ops.maximum(value, low)
        return value if high is None else ops.minimum(value, high)

    with forms.use(form), hooks.stock_squareplus_in_form():
        return reference(loaded, inputs)


def _size(x: Any, made: Sum) -> Any:
    """The sum of the sizes of a sum's terms."""
    return abs(made.offset) + abs(made.rectifier) * ops.relu(x) + sum(_part(x, part) for part in made.parts)


def _part(x: Any, part: Part) -> Any:
    held = x if part.high is None else ops.minimum(x, part.high)
    held = held if part.low is None else ops.maximum(held, part.low)
    return abs(part.slope) * ops.abs(held) + sum(_root(held, root) for root in part.roots)


def _root(held: Any, root: Root) -> Any:
    return abs(root.weight) * ops.sqrt(ops.square(held - root.centre) + root.b)

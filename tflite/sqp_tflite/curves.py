"""Activation curves for the report: what a layer computed before, what the file computes, and the difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sqp_tflite.report import Report

LOW, HIGH, POINTS = -8.0, 8.0, 321
"""Where activations bend; further out they are straight or flat."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One activation, sampled.

    Attributes:
        title: What it is, e.g. "gelu" or "squareplus (b=4)".
        now: What the file computes, in words.
        layers: Whose activation it is.
        x: Shape (POINTS,).
        before: What the Keras model computes, float64.
        after: What the export writes, float64.
    """

    title: str
    now: str
    layers: tuple[str, ...]
    x: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Returns after - before."""
        return self.after - self.before


def curves(report: Report) -> tuple[Curve, ...]:
    """Returns one curve per kind of activation: the replaced ones, then the squarepluses in their float32 form.

    An activation whose code is not known here (a user's own, a learnt b) has no curve.
    """
    found = [*_replaced(report), *_squarepluses(report)]
    return tuple(curve for curve in found if np.isfinite(curve.before).all() and np.isfinite(curve.after).all())


def _replaced(report: Report) -> list[Curve]:
    groups: dict[tuple[str, str, int], list[str]] = {}
    for change in report.replacements:
        groups.setdefault((change.was, change.now, change.terms), []).append(change.layer)
    x = np.linspace(LOW, HIGH, POINTS)
    drawn = []
    for (was, now, terms), layers in groups.items():
        before, after = _function(was), _function(now, terms or None)
        if before and after:
            drawn.append(Curve(was, now, tuple(layers), x, before(x), after(x)))
    return drawn


def _squarepluses(report: Report) -> list[Curve]:
    replaced = {change.layer for change in report.replacements}
    groups: dict[str, list[str]] = {}
    for row in report.plan:
        if row.layer not in replaced and re.fullmatch(r"squareplus \(b=[\d.e+-]+\)", row.activation):
            groups.setdefault(row.activation, []).append(row.layer)
    x = np.linspace(LOW, HIGH, POINTS)
    drawn = []
    for name, layers in groups.items():
        b = float(name.partition("=")[2].rstrip(")"))
        half = (x / 2).astype(np.float32)
        form = half + np.sqrt(half * half + np.float32(b / 4))
        drawn.append(
            Curve(name, "z + sqrt(z*z + b/4) in float32, z = x/2", tuple(layers), x, (x + np.sqrt(x * x + b)) / 2, form)
        )
    return drawn


def _function(name: str, terms: int | None = None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Returns a function of float64 arrays for an activation's name as reports spell it; None where it isn't known."""
    import keras

    import sqp_keras

    word = name.split("(")[0].strip()
    parameters = re.findall(r"(\w+)=([\d.e+-]+)", name)
    keywords = {key: float(value) for key, value in parameters if key in ("b", "alpha", "negative_slope")}
    kind, _, of = word.partition(" ")
    try:
        if kind == "algebraic":
            algebraic = sqp_keras.algebraic
            return lambda x: _array(algebraic(x, of=of or word, terms=terms))
        if kind == "squareplus":
            return lambda x: _array(sqp_keras.squareplus(x, **keywords))
        activation = keras.activations.get(word)
    except (ValueError, TypeError, AttributeError):
        return None
    if activation is None or word == "softmax":
        return None
    return lambda x: _array(activation(keras.ops.convert_to_tensor(x, dtype="float32"), **keywords))


def _array(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.float64)

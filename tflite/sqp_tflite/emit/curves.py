"""Activation curves for the report: what a layer computed before, what the file computes, and the difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.read import read
from sqp_tflite.report import Report

_MOST_TABLES = 6

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
    x: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]

    @property
    def error(self) -> NDArray[Any]:
        """Returns after - before."""
        return self.after - self.before


def curves(report: Report, content: bytes | None = None) -> tuple[Curve, ...]:
    """Returns curves of the activations: tables as they stand in the file, else replaced ones and squarepluses.

    An activation whose code is not known here (a user's own, a learnt b) has no curve.

    Args:
        report: What the export found.
        content: The file; without it a table lowering has no curves.
    """
    if report.lowering == "table" and report.quantize in ("int8", "int16x8"):
        found = _tables(report, content) if content else []
    elif report.lowering == "integer" and report.quantize in ("int8", "int16x8"):
        found = _replaced(report)
    else:
        found = [*_replaced(report), *_squarepluses(report)]
    return tuple(curve for curve in found if np.isfinite(curve.before).all() and np.isfinite(curve.after).all())


def _replaced(report: Report) -> list[Curve]:
    groups: dict[tuple[str, str, int | None], list[str]] = {}
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


def _tables(report: Report, content: bytes) -> list[Curve]:
    """The tables of an int8 file over the codes that go in, beside the Keras function; the largest few differences.

    Squareplus's half may stand in the layer before the table: then the table's input is x/2. Which one it is shows in
    the values, since the wrong one is off by far more than a step.
    """
    graph = read(content).main
    makers = graph.makers()
    names = {row.layer: row.activation.partition(" -> ")[0] for row in report.plan}
    drawn = []
    for op in (op for op in graph.ops if op.name == "GATHER"):
        entries, source = graph.tensors[op.inputs[0]].values, op.inputs[1]
        while source in makers and makers[source].name in ("ADD", "CAST"):
            source = makers[source].inputs[0]
        codes_in, codes_out = graph.tensors[source].quantization, graph.tensors[op.outputs[0]].quantization
        layer = report.memory.steps[op.index].layer if op.index < len(report.memory.steps) else ""
        before = _function(names.get(layer, ""))
        if entries is None or entries.dtype != np.int8 or not (codes_in and codes_out and before):
            continue
        x = (np.arange(-128, 128) - codes_in.zero_points[0]) * codes_in.scales[0]
        after = (entries.reshape(-1)[:256].astype(np.float64) - codes_out.zero_points[0]) * codes_out.scales[0]
        x = min((x, 2 * x), key=lambda values: float(np.abs(before(values) - after).max()))
        words = f"a table of 256 codes, one step is {codes_out.scales[0]:.2g}"
        drawn.append(Curve(names[layer], words, (layer,), x, before(x), after))
    return sorted(drawn, key=lambda curve: -float(np.abs(curve.error).max()))[:_MOST_TABLES]


def _function(name: str, terms: int | None = None) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    """Returns a function of float64 arrays for an activation's name as reports spell it; None where it isn't known."""
    import keras

    import sqp_keras

    if not name:
        return None
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
    return lambda x: _array(activation(keras.ops.convert_to_tensor(x, dtype="float64"), **keywords))


def _array(values: object) -> NDArray[Any]:
    return np.asarray(values, dtype=np.float64)

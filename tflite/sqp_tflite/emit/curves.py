"""Activation curves for the report: what the Keras layer computes, what the file computes, and the difference."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite import accept
from sqp_tflite.flatbuffer.read import bytes_of, opened
from sqp_tflite.ops.combinations import INTEGER_IO
from sqp_tflite.report import Activation, Report

_MOST_TABLES = 6

LOW, HIGH, POINTS = -8.0, 8.0, 321
"""The range in which activations bend; outside it they are straight or flat."""

_Function = Callable[[NDArray[Any]], NDArray[Any]]

_NOT_ELEMENTWISE = frozenset(("softmax", "log_softmax", "sparsemax", "glu", "get", "serialize", "deserialize"))
"""Members of `keras.activations` that have no curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One activation, sampled.

    Attributes:
        title: Its name, e.g. "gelu" or "squareplus (b=4)".
        now: A description of what the file computes.
        layers: The layers with this activation.
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
    """Returns curves of the activations: the file's tables, or else the replaced activations and squarepluses.

    An activation without a known function (user code, a learnt b) has no curve.

    Args:
        report: The report of the export.
        content: The file; without it the table lowering has no curves.

    Raises:
        BadInputError: `report` is not a report, or `content` not a TFLite file's bytes.
    """
    if not isinstance(report, Report):
        accept.refuse("`report`", "the report of an export", report, "Pass export(...).report.")
    content = None if content is None else bytes_of(content, "`content`")[0]
    integer = report.quantize in INTEGER_IO
    if report.lowering == "table" and integer:
        found = _tables(report, content) if content else []
    elif report.lowering == "integer" and integer:
        found = _replaced(report)
    else:
        found = [*_replaced(report), *_squarepluses(report)]
    return tuple(curve for curve in found if np.isfinite(curve.before).all() and np.isfinite(curve.after).all())


def _replaced(report: Report) -> list[Curve]:
    words = {change.layer: change.now for change in report.replacements}
    groups: dict[tuple[Activation, Activation, str], list[str]] = {}
    for row in report.plan:
        if row.was is not None:
            groups.setdefault((row.was, row.now, words.get(row.layer, str(row.now))), []).append(row.layer)
    x = np.linspace(LOW, HIGH, POINTS)
    drawn = []
    for (was, now, said), layers in groups.items():
        before, after = _values(was, x), _values(now, x)
        if before is not None and after is not None:
            drawn.append(Curve(str(was), said, tuple(layers), x, before, after))
    return drawn


def _squarepluses(report: Report) -> list[Curve]:
    groups: dict[float, list[str]] = {}
    for row in report.plan:
        b = _b(row.now)
        if row.was is None and b is not None:
            groups.setdefault(b, []).append(row.layer)
    x = np.linspace(LOW, HIGH, POINTS)
    half = (x / 2).astype(np.float32)
    drawn = []
    for b, layers in groups.items():
        form = half + np.sqrt(half * half + np.float32(b / 4))
        title, words = str(Activation("squareplus", (("b", b),))), "z + sqrt(z*z + b/4) in float32, z = x/2"
        drawn.append(Curve(title, words, tuple(layers), x, (x + np.sqrt(x * x + b)) / 2, form))
    return drawn


def _tables(report: Report, content: bytes) -> list[Curve]:
    """The tables of an int8 file over their input codes, with the Keras function; those with the largest differences.

    Squareplus's factor 1/2 may be folded into the layer before the table: then the table's input is x/2. The values
    show which case it is, since the wrong one is off by far more than a step.
    """
    graph = opened(content, "`content`")[1].main
    makers = graph.makers()
    activations = {row.layer: row.was or row.now for row in report.plan}
    drawn = []
    for op in (op for op in graph.ops if op.name == "GATHER"):
        entries, source = graph.tensors[op.inputs[0]].values, op.inputs[1]
        while source in makers and makers[source].name in ("ADD", "CAST"):
            source = makers[source].inputs[0]
        codes_in, codes_out = graph.tensors[source].quantization, graph.tensors[op.outputs[0]].quantization
        layer = report.memory.steps[op.index].layer if op.index < len(report.memory.steps) else ""
        before = _function(activations[layer]) if layer in activations else None
        if entries is None or entries.dtype != np.int8 or not (codes_in and codes_out and before):
            continue
        x = (np.arange(-128, 128) - codes_in.zero_points[0]) * codes_in.scales[0]
        after = (entries.reshape(-1)[:256].astype(np.float64) - codes_out.zero_points[0]) * codes_out.scales[0]
        x = min((x, 2 * x), key=lambda values: float(np.abs(before(values) - after).max()))
        words = f"a table of 256 codes, one step is {codes_out.scales[0]:.2g}"
        drawn.append(Curve(str(activations[layer]), words, (layer,), x, before(x), after))
    return sorted(drawn, key=lambda curve: -float(np.abs(curve.error).max()))[:_MOST_TABLES]


def _values(activation: Activation, x: NDArray[Any]) -> NDArray[Any] | None:
    """The activation's values, float64; None if its function is not known."""
    function = _function(activation)
    return None if function is None else function(x)


def _b(activation: Activation) -> float | None:
    """The b of a squareplus that is a fixed number."""
    given = dict(activation.parameters)
    if activation.name != "squareplus" or given.get("learn_b"):
        return None
    b = given.get("b")
    return 4.0 if b is None else float(b)


def _function(activation: Activation) -> _Function | None:
    """Returns an activation as a function of float64 arrays; None if there is none (user code, a learnt b)."""
    import keras

    import sqp_keras

    name, given = activation.name, dict(activation.parameters)
    if name == "squareplus":
        b = _b(activation)
        return None if b is None else lambda x: _array(sqp_keras.squareplus(x, b=b))
    if name == "algebraic":
        of, terms, upper = str(given.get("of")), given.get("terms"), given.get("upper")
        numbers: dict[str, Any] = {"terms": terms, "upper": upper, "alpha": given.get("alpha") or 1.0}
        return lambda x: _array(sqp_keras.algebraic(x, of, **numbers))
    if name == "gelu_tanh":
        return _function(Activation("gelu", (("approximate", True),)))
    function = None if name in _NOT_ELEMENTWISE else getattr(keras.activations, name, None)
    if function is None:
        return None
    takes = inspect.signature(function)
    settings = {key: value for key, value in given.items() if key in takes.parameters and value is not None}
    try:
        takes.bind(None, **settings)
    except TypeError:
        return None
    return lambda x: _array(function(keras.ops.convert_to_tensor(x, dtype="float64"), **settings))


def _array(values: object) -> NDArray[Any]:
    return np.asarray(values, dtype=np.float64)

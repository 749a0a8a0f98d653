"""SVG drawings of a report: operators with their memory, memory over time, activation curves.

Colours are CSS classes; the page's style sheet defines them for light and dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.emit.curves import Curve
from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES, TYPE_CHANGES, Graph, Op, Subgraph
from sqp_tflite.ops import policy
from sqp_tflite.report import Report

FAMILIES = (
    ("linear", "sums of products, pooling", policy.LINEAR),
    ("arithmetic", "arithmetic", policy.ARITHMETIC),
    ("clip", "clips and comparisons", policy.COMPARING),
    ("move", "moves data", policy.DATA_MOVING),
    ("type", "changes the type", policy.CHANGING_TYPE),
)
"""Class, meaning and operators of each family; operators without a family are refused."""

ROW, BOX, WIDTH = 34, 214, 372
_LEFT = 34
"""Room on the left for the arcs of tensors that skip operators."""


def family(op: Op, target: str) -> str:
    """Returns the class of an operator: "refused" if the policy or the target does not allow it."""
    if policy.broken_rule(op.name, op.dtype, target):
        return "refused"
    return next((name for name, _, ops in FAMILIES if op.name in ops), "refused")


def graph_drawing(graph: Graph, report: Report) -> str:
    """Returns the main graph: one row per operator in the order of execution, tensors as lines, memory as bars."""
    main, steps = graph.main, report.memory.steps
    height = ROW * (len(main.ops) + 2) + 8
    largest = max((step.live_bytes for step in steps), default=0) or 1
    makers = {tensor: op.index for tensor, op in main.makers().items()}
    integer = graph.integer
    parts = [_port(graph, main.inputs, -1, "input")]
    parts += [
        _edge(makers.get(t, -1), op.index) for op in main.ops for t in op.inputs if t in makers or t in main.inputs
    ]
    parts += [_edge(makers[tensor], len(main.ops)) for tensor in main.outputs if tensor in makers]
    for op in main.ops:
        layer = steps[op.index].layer if op.index < len(steps) else ""
        parts.append(_box(main, op, layer, report.target, integer))
        if op.index < len(steps):
            parts.append(_bar(op.index, steps[op.index].live_bytes, largest))
    parts.append(_port(graph, main.outputs, len(main.ops), "output"))
    label = f"{len(main.ops)} operators in order of execution, with the bytes of memory during each"
    return _svg(WIDTH, height, label, parts, "graph")


def memory_drawing(report: Report) -> str:
    """Returns the memory over time as steps, with its peak and the RAM budget; "" for a file without operators."""
    steps = report.memory.steps
    if not steps:
        return ""
    width, height, left, bottom = 720, 216, 8, 26
    most = max(step.live_bytes for step in steps) or 1
    budget = report.memory.ram_budget or 0
    # A budget far above the tensors would flatten the drawing: only the text below shows it.
    top = max(most, budget) if budget <= 2 * most else most
    wide = (width - 2 * left) / len(steps)

    def y(size: float) -> float:
        return round(height - bottom - (height - bottom - 36) * size / top, 1)

    points = [f"{left},{y(0)}"]
    for index, step in enumerate(steps):
        points += [
            f"{left + index * wide:.1f},{y(step.live_bytes)}",
            f"{left + (index + 1) * wide:.1f},{y(step.live_bytes)}",
        ]
    points.append(f"{width - left},{y(0)}")
    peak = max(range(len(steps)), key=lambda index: steps[index].live_bytes)
    parts = [
        f'<polygon class="area" points="{" ".join(points)}"/>',
        f'<path class="axis" d="M{left},{y(0)}H{width - left}"/>',
    ]
    parts += [
        f'<rect class="hover" x="{left + index * wide:.1f}" y="20" width="{wide:.1f}" height="{y(0) - 20}">'
        f"<title>{escape(step.op)} in {escape(step.layer)}: {step.live_bytes:,} bytes</title></rect>"
        for index, step in enumerate(steps)
    ]
    middle = left + (peak + 0.5) * wide
    anchor = "start" if middle < width / 3 else "end" if middle > 2 * width / 3 else "middle"
    text = f"{steps[peak].live_bytes:,} bytes in {escape(_short(steps[peak].layer, 30))}"
    level = y(steps[peak].live_bytes)
    parts.append(f'<circle class="peak" cx="{middle:.1f}" cy="{level}" r="4"/>')
    parts.append(f'<text class="strong" x="{middle:.1f}" y="{level - 9}" text-anchor="{anchor}">{text}</text>')
    if 0 < budget <= top:
        parts.append(f'<path class="budget" d="M{left},{y(budget)}H{width - left}"/>')
        parts.append(f'<text x="{width - left}" y="{y(budget) - 5}" text-anchor="end">--ram {budget:,}</text>')
    parts.append(f'<text x="{left}" y="{height - 6}">first operator</text>')
    parts.append(f'<text x="{width - left}" y="{height - 6}" text-anchor="end">last operator</text>')
    return _svg(width, height, "Bytes of all tensors that are needed, operator by operator", parts, "memory")


def curve_drawing(curve: Curve) -> str:
    """Returns an activation before and after, and below it the difference on its own scale."""
    width, upper, gap, lower = 340, 180, 26, 70
    low, high = float(min(curve.before.min(), curve.after.min())), float(max(curve.before.max(), curve.after.max()))
    pad = (high - low or 1.0) * 0.06
    low, high = low - pad, high + pad
    worst = float(np.abs(curve.error).max())

    def x(values: Any) -> Any:
        return (values - curve.x[0]) / (curve.x[-1] - curve.x[0]) * (width - 16) + 8

    def y(values: Any) -> Any:
        return upper - (values - low) / (high - low) * (upper - 12) - 4

    zero = upper + gap + lower / 2
    error = zero - curve.error / (worst or 1.0) * (lower / 2 - 4)
    level, middle = float(y(0.0)), float(x(0.0))
    parts = []
    if curve.x[0] < 0 < curve.x[-1]:
        parts.append(f'<path class="axis" d="M{middle:.1f},4V{upper}"/>')
        parts.append(f'<text x="{middle:.1f}" y="{upper + 16}" text-anchor="middle">0</text>')
    parts += [f'<path class="axis" d="M8,{level:.1f}H{width - 8}"/>'] if low < 0 < high else []
    parts += [
        f'<path class="before" d="{_line(x(curve.x), y(curve.before))}"/>',
        f'<path class="after" d="{_line(x(curve.x), y(curve.after))}"/>',
        f'<text x="8" y="{upper + 16}">{curve.x[0]:.3g}</text>',
        f'<text x="{width - 8}" y="{upper + 16}" text-anchor="end">{curve.x[-1]:.3g}</text>',
        f'<path class="axis" d="M8,{zero:.1f}H{width - 8}"/>',
        f'<path class="error" d="{_line(x(curve.x), error)}"/>',
        f'<text x="8" y="{upper + gap + lower + 12}">difference, max {worst:.2g}</text>',
    ]
    label = f"{curve.title} before and after, max difference {worst:.2g}"
    return _svg(width, upper + gap + lower + 18, label, parts, "curve")


def _svg(width: float, height: float, label: str, parts: Iterable[str], kind: str) -> str:
    head = f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}"'
    return f'{head} style="max-width:{width:g}px">' + "".join(parts) + "</svg>"


def _y(row: int) -> int:
    """The top of a row; row -1 is that of the model's inputs."""
    return 4 + ROW * (row + 1)


def _box(main: Subgraph, op: Op, layer: str, target: str, integer: bool) -> str:
    top = _y(op.index)
    island = integer and op.dtype in FLOAT_DTYPES and op.name not in TYPE_CHANGES
    shape = main.tensors[op.outputs[0]].shape if op.outputs else ()
    kind = family(op, target)
    rule = policy.broken_rule(op.name, op.dtype, target)
    about = f"{op.name} version {op.version}, {op.dtype}, {'x'.join(map(str, shape))}, {layer}. {rule or ''}"
    below = f"{_tail(layer, 14)} + {op.fused}" if op.fused else _tail(layer, 24)
    mark = "\u2715 " if kind == "refused" else ""
    extra = " island" if island else ""
    return (
        f'<g class="op {kind}{extra}"><title>{escape(about)}</title>'
        f'<rect x="{_LEFT}" y="{top}" width="{BOX}" height="{ROW - 6}" rx="5"/>'
        f'<text class="strong" x="{_LEFT + 9}" y="{top + 12}">{mark}{escape(_short(op.name, 22))}</text>'
        f'<text class="right" x="{_LEFT + BOX - 8}" y="{top + 12}">{escape(op.dtype)}</text>'
        f'<text class="small" x="{_LEFT + 9}" y="{top + 24}">{escape(below)}</text>'
        f'<text class="small right" x="{_LEFT + BOX - 8}" y="{top + 24}">{_size(shape)}</text></g>'
    )


def _size(shape: Sequence[int]) -> str:
    """Without the batch."""
    return "\u00d7".join(map(str, shape[1:]))


def _bar(row: int, size: int, largest: int) -> str:
    top, left = _y(row), _LEFT + BOX + 10
    peak = " most" if size == largest else ""
    length = max(1.0, (WIDTH - left - 50) * size / largest)
    return (
        f'<rect class="bar{peak}" x="{left}" y="{top + 7}" width="{length:.1f}" height="{ROW - 20}" rx="2"/>'
        f'<text class="small" x="{left + length + 4:.1f}" y="{top + 18}">{_human(size)}</text>'
    )


def _edge(start: int, end: int) -> str:
    """A tensor's line: straight down to the next row, or an arc on the left past skipped rows."""
    middle = _LEFT + 18
    if end - start == 1:
        return f'<path class="edge" d="M{middle},{_y(start) + ROW - 6}V{_y(end)}"/>'
    reach = min(28, 8 + 2 * (end - start))
    top, bottom = _y(start) + (ROW - 6) / 2, _y(end) + (ROW - 6) / 2
    out = _LEFT - reach
    return f'<path class="edge" d="M{_LEFT},{top:g}C{out},{top:g} {out},{bottom:g} {_LEFT},{bottom:g}"/>'


def _port(graph: Graph, tensors: Sequence[int], row: int, kind: str) -> str:
    names = ", ".join(graph.main.tensors[tensor].name for tensor in tensors)
    top = _y(row)
    return (
        f'<g class="port"><title>{escape(kind)}: {escape(names)}</title>'
        f'<rect x="{_LEFT}" y="{top}" width="{BOX}" height="{ROW - 6}" rx="14"/>'
        f'<text x="{_LEFT + 14}" y="{top + 18}">{escape(_short(f"{kind}: {names}", 32))}</text></g>'
    )


def _line(x: NDArray[Any], y: NDArray[Any]) -> str:
    return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _tail(text: str, length: int) -> str:
    return text if len(text) <= length else "\u2026" + text[1 - length :]


def _human(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} K" if size < 1 << 20 else f"{size / (1 << 20):.1f} M"

"""Ranges from which integers compute without rounding, or spend no codes on what nothing reads.

A range decides the scale of a tensor. The range seen on the data is the right one, unless another loses less.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sqp_tflite.flatbuffer.chains import Walker
from sqp_tflite.flatbuffer.graph import Op, Subgraph

Range = tuple[float, float]

_CLIPS = frozenset("RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1".split())
_MOVES = frozenset("RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE SLICE STRIDED_SLICE SPLIT SPLIT_V UNPACK".split())
"""Operators whose outputs have the scale of their input, and need no more of it than they give on."""

_LARGEST = frozenset("REDUCE_MAX MAX_POOL_2D RESHAPE".split())
_STEPS = 255


def settled(ranges: Mapping[str, Range], graph: Subgraph, tables: frozenset[str]) -> dict[str, Range]:
    """Returns the ranges of tensors of an int8 model that need another one than was seen; the others are left out.

    - What is only read through slices and clips has the range of what they let through: then all have one scale.
    - x - max(x) is exact in the scale of x: it is a whole number of steps.
    - A table of max(x, 0), min(x, 0) or abs(x) is exact in the scale of x.

    Args:
        ranges: {tensor: (smallest, largest)} on the data.
        graph: The float graph.
        tables: Outputs of the operators that become tables.
    """
    found = narrowed(ranges, graph)
    walker, makers = Walker(graph), graph.makers()
    for op in graph.ops:
        name = graph.tensors[op.outputs[0]].name if op.outputs else ""
        if name not in ranges:
            continue
        now = {**ranges, **found}
        if op.name == "SUB" and _from_largest(op, makers):
            step = _step(now.get(graph.tensors[op.inputs[0]].name))
            found |= {name: (-_STEPS * step, 0.0)} if step else {}
        elif name in tables and (whole := _whole(graph, walker, op, now)):
            found[name] = whole
    return found


def narrowed(ranges: Mapping[str, Range], graph: Subgraph) -> dict[str, Range]:
    """Returns the range of what is read of each tensor that is only read through slices and clips, if it is narrower.

    Args:
        ranges: {tensor: (smallest, largest)} on the data.
        graph: The float graph.
    """
    found: dict[str, Range] = {}
    readers: dict[int, list[Op]] = {}
    for op in graph.ops:
        for index in op.inputs:
            readers.setdefault(index, []).append(op)
    for op in reversed(graph.ops):
        for index in op.outputs:
            name, reading = graph.tensors[index].name, readers.get(index, [])
            if name not in ranges or index in graph.outputs or not reading:
                continue
            if not all(reader.name in _CLIPS | _MOVES for reader in reading):
                continue
            results = [graph.tensors[i].name for reader in reading for i in reader.outputs]
            needed = [found.get(result, ranges.get(result)) for result in results]
            known = [span for span in needed if span is not None]
            if len(known) < len(needed):
                continue
            span = min(low for low, _ in known), max(high for _, high in known)
            if span[0] > ranges[name][0] or span[1] < ranges[name][1]:
                found[name] = span
    return found


def _step(span: Range | None) -> float:
    return (max(span[1], 0.0) - min(span[0], 0.0)) / _STEPS if span else 0.0


def _from_largest(op: Op, makers: Mapping[int, Op]) -> bool:
    """Returns whether an operator computes x - max(x)."""
    index, reduced = op.inputs[1], False
    while index != op.inputs[0] and (maker := makers.get(index)) is not None and maker.name in _LARGEST:
        index, reduced = maker.inputs[0], reduced or maker.name != "RESHAPE"
    return reduced and index == op.inputs[0]


def _whole(graph: Subgraph, walker: Walker, op: Op, ranges: Mapping[str, Range]) -> Range | None:
    """Returns the range in which a table rounds nothing; None where there is none."""
    chain = walker.chain(op.outputs[0])
    if chain is None or chain.channels != 1:
        return None
    span, step = ranges.get(graph.tensors[chain.source].name), 0.0
    if span is None or not (step := _step(span)):
        return None
    first = round(min(span[0], 0.0) / step)
    codes = np.arange(first, first + _STEPS + 1)
    results = walker.evaluate(chain, (codes * step)[:, None]).reshape(-1) / step
    steps = np.rint(results)
    if np.abs(results - steps).max() > 1e-6 or np.ptp(np.append(steps, 0)) > _STEPS or not np.ptp(steps):
        return None
    low = min(float(steps.min()), 0.0)
    return low * step, (low + _STEPS) * step

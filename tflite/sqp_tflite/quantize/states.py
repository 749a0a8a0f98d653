"""The ranges of states: an output that goes back in as an input has the same range at both ends."""

from __future__ import annotations

from collections.abc import Mapping

from sqp_tflite.flatbuffer.graph import Subgraph

_MOVES = frozenset("RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE".split())
"""Operators that only move numbers: their output has the scale of their input."""


def shared(
    ranges: Mapping[str, tuple[float, float]], graph: Subgraph, states: tuple[tuple[int, int], ...]
) -> dict[str, tuple[float, float]]:
    """Returns the ranges with one range for both ends of each state, which spans both.

    From the same range the quantiser makes the same scale and zero point, so that the codes go back in as they are.

    Args:
        ranges: {tensor: (smallest, largest)} on the data.
        graph: The float graph.
        states: Pairs (place of an output, place of the input that it goes back into).
    """
    found = dict(ranges)
    made_by = {index: op for op in graph.ops for index in op.outputs}
    for out, into in states:
        ends = [graph.inputs[into], graph.outputs[out]]
        while (op := made_by.get(ends[-1])) is not None and op.name in _MOVES:
            ends.append(op.inputs[0])
        names = [graph.tensors[index].name for index in ends if graph.tensors[index].name in ranges]
        if names:
            low, high = zip(*(ranges[name] for name in names), strict=True)
            found |= dict.fromkeys(names, (min(low), max(high)))
    return found

"""States in an integer file: one range for both ends, and 16 bits for those that add up small numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqp_tflite.flatbuffer.graph import Op, Subgraph
from sqp_tflite.ops.policy import runtime_of

_MOVES = frozenset("RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE STRIDED_SLICE SLICE CONCATENATION".split())
"""Operators that only move numbers: their output has the scale of their inputs."""


_SUMS = frozenset("ADD SUB".split())
_ARITHMETIC = _SUMS | {"MUL"}


@dataclass(frozen=True, slots=True)
class Accumulators:
    """States that are sums over time, such as an LSTM's c: a step of int8 is more than what they gain in one step.

    Attributes:
        ops: Names of the tensors that the operators of these sums write.
        inputs: Names of the states' inputs.
        outputs: Names of their outputs.
        places: Pairs (place of the output, place of the input).
    """

    ops: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    places: tuple[tuple[int, int], ...] = ()


def widens(target: str) -> bool:
    """Returns whether an interpreter has a QUANTIZE from int8 to int16, which tflite-runtime 2.14 refuses.

    Without it a file gets DEQUANTIZE and QUANTIZE (`narrowing.widen_by_float`).

    Args:
        target: One of `policy.TARGETS`.
    """
    return runtime_of(target) != "tflite-runtime"


NO_ACCUMULATORS = Accumulators()


def accumulators(graph: Subgraph, states: tuple[tuple[int, int], ...], kept: frozenset[str]) -> Accumulators:
    """Returns the states whose new value is a sum of products, one of them of the old value.

    Args:
        graph: The float graph.
        states: Pairs (place of an output, place of the input that it goes back into).
        kept: Names of tensors whose operators have another form: those of activations.
    """
    makers = graph.makers()
    found = Accumulators()
    for out, into in states:
        end, after, before = graph.outputs[out], {graph.inputs[into]}, set[int]()
        for op in graph.ops:
            if op.name in _ARITHMETIC and not after.isdisjoint(op.inputs):
                after |= set(op.outputs)
        left = [end]
        while left:
            maker = makers.get(left.pop())
            if maker is not None and maker.name in _ARITHMETIC and maker.outputs[0] not in before:
                before |= set(maker.outputs)
                left += maker.inputs
        path = after & before
        sums = [makers[index] for index in path if makers[index].name in _SUMS]
        beside = {index for op in sums for index in op.inputs if index in before}
        names = frozenset(graph.tensors[index].name for index in path | beside)
        if sums and names.isdisjoint(kept):
            found = Accumulators(
                found.ops | names,
                found.inputs | {graph.tensors[graph.inputs[into]].name},
                found.outputs | {graph.tensors[end].name},
                (*found.places, (out, into)),
            )
    return found


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
    moves = [op for op in graph.ops if op.name in _MOVES]
    for out, into in states:
        ends = {graph.inputs[into], graph.outputs[out]}
        while True:
            met = [
                {*_moved(graph, op), *op.outputs}
                for op in moves
                if not ends.isdisjoint({*_moved(graph, op), *op.outputs})
            ]
            if set().union(*met) <= ends:
                break
            ends = ends.union(*met)
        names = [name for index in sorted(ends) if (name := graph.tensors[index].name) in ranges]
        if names:
            low, high = zip(*(found[name] for name in names), strict=True)
            found |= dict.fromkeys(names, (min(low), max(high)))
    return found


def _moved(graph: Subgraph, op: Op) -> set[int]:
    """The tensors whose numbers an operator moves: not constants, which are shapes and places."""
    return {index for index in op.inputs if index >= 0 and not graph.tensors[index].constant}

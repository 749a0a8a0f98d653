"""Takes out of a file in the schema's object form what nothing depends on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any


def drop_unused(model: Any) -> None:
    """Drops operators of the main graph, other graphs, tensors, buffers and operator codes that nothing depends on.

    If the main graph calls another one, all but its operators are kept: they may refer to each other's tensors.

    Args:
        model: The schema's `ModelT`; changed.
    """
    graph = model.subgraphs[0]
    graph.operators = _needed(graph.operators, graph.outputs)
    if not any(map(_calls, graph.operators)):
        model.subgraphs = [graph]
        model.signatureDefs = [one for one in model.signatureDefs or () if int(one.subgraphIndex) == 0]
    if len(model.subgraphs) == 1:
        _drop_tensors(graph, [*itertools.chain(*named_ends(model))])
        _drop_codes(model, graph)
        _drop_buffers(model, graph)


def named_ends(model: Any) -> tuple[list[Any], list[Any]]:
    """Returns the entries of the main graph's signatures, inputs and outputs, each with the index of a tensor."""
    signatures = [one for one in model.signatureDefs or () if int(one.subgraphIndex) == 0]
    return [entry for one in signatures for entry in one.inputs or ()], [
        entry for one in signatures for entry in one.outputs or ()
    ]


def _calls(operator: Any) -> bool:
    """Whether an operator runs another graph: a loop, a branch, a call."""
    tables = (table for table in (operator.builtinOptions, operator.builtinOptions2) if table is not None)
    return any("subgraph" in field.lower() for table in tables for field in vars(table))


def _needed(operators: list[Any], outputs: Iterable[int]) -> list[Any]:
    """The operators that something depends on, and those that act by themselves (they write no tensor)."""
    wanted = {int(index) for index in outputs}
    kept = []
    for operator in reversed(operators):
        if not len(operator.outputs) or any(int(index) in wanted for index in operator.outputs):
            kept.append(operator)
            wanted |= {int(index) for index in operator.inputs}
    return kept[::-1]


def _drop_tensors(graph: Any, named: list[Any]) -> None:
    used = {int(i) for operator in graph.operators for i in [*operator.inputs, *operator.outputs] if i >= 0}
    used |= {int(i) for i in [*graph.inputs, *graph.outputs]} | {int(entry.tensorIndex) for entry in named}
    # The scales inside of a fused recurrent operator.
    used |= {int(i) for operator in graph.operators for i in _list(operator.intermediates) if i >= 0}
    place = {old: new for new, old in enumerate(sorted(used))}
    graph.tensors = [graph.tensors[old] for old in place]
    for operator in graph.operators:
        operator.inputs = [place[int(i)] if i >= 0 else -1 for i in operator.inputs]
        operator.outputs = [place[int(i)] for i in operator.outputs]
        if operator.intermediates is not None and len(operator.intermediates):
            operator.intermediates = [place[int(i)] if i >= 0 else -1 for i in operator.intermediates]
    graph.inputs, graph.outputs = [place[int(i)] for i in graph.inputs], [place[int(i)] for i in graph.outputs]
    for entry in named:
        entry.tensorIndex = place[int(entry.tensorIndex)]


def _drop_codes(model: Any, graph: Any) -> None:
    codes = {old: new for new, old in enumerate(sorted({operator.opcodeIndex for operator in graph.operators}))}
    model.operatorCodes = [model.operatorCodes[old] for old in codes]
    for operator in graph.operators:
        operator.opcodeIndex = codes[operator.opcodeIndex]


def _drop_buffers(model: Any, graph: Any) -> None:
    # Buffer 0 is the empty one of all computed tensors.
    holders = [*graph.tensors, *(model.metadata or ())]
    buffers = {old: new for new, old in enumerate(sorted({0, *(holder.buffer for holder in holders)}))}
    model.buffers = [model.buffers[old] for old in buffers]
    for holder in holders:
        holder.buffer = buffers[holder.buffer]


def _list(values: Any) -> list[Any]:
    return [] if values is None else list(values)

"""Finds softmax and log-softmax in a finished file: as an operator, or spelled with EXP, SUM and DIV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE, FUSABLE, apply
from sqp_tflite.flatbuffer.functions import places
from sqp_tflite.flatbuffer.graph import Op, Subgraph

_OPERATORS = {"SOFTMAX": "softmax", "LOG_SOFTMAX": "log_softmax"}
_REDUCING: Mapping[str, Any] = {"REDUCE_MAX": np.max, "SUM": np.sum}
_NAMES = ELEMENTWISE.union(_REDUCING)
_LAST = ("DIV", "MUL", "SUB", "EXP", "LOG")
"""Operators that end a spelled one."""
_MOST_OPS = 24
_MOST_ELEMENTS = 1 << 20
_CLOSE = 1e-5


@dataclass(frozen=True, slots=True)
class Softmax:
    """A softmax over the last axis.

    Attributes:
        name: "softmax" or "log_softmax".
        source: Index of the tensor that it is computed from.
        result: Index of its result.
        ops: Places of its operators.
        beta: Factor of the source.
    """

    name: str
    source: int
    result: int
    ops: tuple[int, ...]
    beta: float = 1.0


def softmaxes(graph: Subgraph) -> dict[int, Softmax]:
    """Returns the softmaxes of a graph by the index of their result.

    One that is spelled is known by its values, on seeded numbers: programs differ in whether they subtract the largest
    value first.

    Args:
        graph: The graph.
    """
    found, makers = dict[int, Softmax](), graph.makers()
    for op in graph.ops:
        if op.name in _OPERATORS:
            beta = float(op.options.get("beta", 1.0))
            found[op.outputs[0]] = Softmax(_OPERATORS[op.name], op.inputs[0], op.outputs[0], (op.index,), beta)
        elif op.name in _LAST and len(op.outputs) == 1:
            spelled = _spelled(graph, makers, op.outputs[0])
            if spelled is not None:
                found[op.outputs[0]] = spelled
    # A log-softmax may be the logarithm of a softmax, which then is a part of it.
    inner = {place for one in found.values() for place in one.ops if len(one.ops) > 1}
    return {index: one for index, one in found.items() if not _inside(one, found.values(), inner)}


def _inside(one: Softmax, others: Any, inner: set[int]) -> bool:
    return any(set(one.ops) < set(other.ops) for other in others) if inner.issuperset(one.ops) else False


def _spelled(graph: Subgraph, makers: Mapping[int, Op], result: int) -> Softmax | None:
    tensor = graph.tensors[result]
    if tensor.dtype != "float32" or not tensor.shape or tensor.elements > _MOST_ELEMENTS or tensor.shape[-1] < 2:
        return None
    cone = _cone(graph, makers, result)
    names = {makers[index].name for index in cone}
    if "EXP" not in names or "SUM" not in names:
        return None
    sources = {i for index in cone for i in makers[index].inputs if i >= 0 and graph.tensors[i].shape == tensor.shape}
    for source in sorted(source for source in sources if not graph.tensors[source].constant):
        ops = places(graph, makers, source, result, _NAMES)
        name = _name(graph, source, result, ops) if ops and {"EXP", "SUM"} <= {graph.ops[p].name for p in ops} else ""
        if name:
            return Softmax(name, source, result, ops)
    return None


def _cone(graph: Subgraph, makers: Mapping[int, Op], result: int) -> set[int]:
    """The tensors that a result depends on through operators that a softmax may have, the nearest ones."""
    found, waiting = set[int](), [result]
    while waiting and len(found) <= _MOST_OPS:
        index = waiting.pop(0)
        op = makers.get(index)
        if index in found or op is None or op.name not in _NAMES or op.fused not in FUSABLE:
            continue
        found.add(index)
        waiting += [i for i in op.inputs if i >= 0 and not graph.tensors[i].constant]
    return found


def _name(graph: Subgraph, source: int, result: int, ops: tuple[int, ...]) -> str:
    shape = graph.tensors[source].shape
    x = np.random.default_rng(0).normal(0.0, 2.0, shape)
    try:
        made = _evaluated(graph, {source: x}, ops)[result]
    except (ValueError, IndexError, TypeError):  # Shapes that do not broadcast, options of a form that is not known.
        return ""
    power = np.exp(x - x.max(-1, keepdims=True))
    truths = {"softmax": power / power.sum(-1, keepdims=True)}
    truths["log_softmax"] = x - x.max(-1, keepdims=True) - np.log(power.sum(-1, keepdims=True))
    fits = (name for name, truth in truths.items() if made.shape == shape and np.allclose(made, truth, _CLOSE, _CLOSE))
    return next(fits, "")


def _evaluated(graph: Subgraph, held: dict[int, NDArray[Any]], ops: tuple[int, ...]) -> dict[int, NDArray[Any]]:
    for place in ops:
        op = graph.ops[place]
        operands = [held[i] if i in held else np.asarray(graph.tensors[i].values) for i in op.inputs if i >= 0]
        if op.name in _REDUCING:
            axes = tuple(int(axis) for axis in operands[1].reshape(-1))
            made = _REDUCING[op.name](operands[0], axis=axes, keepdims=bool(op.options.get("keepDims")))
        else:
            made = apply(op.name, operands, op.options)
        held[op.outputs[0]] = np.asarray(made).reshape(graph.tensors[op.outputs[0]].shape)
    return held

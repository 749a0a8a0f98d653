"""Finds functions of one tensor in a finished file, and which activation each of them is.

Programs spell an activation in many ways: log(1 + exp(x)), logaddexp with a SELECT against overflow, erf written as a
polynomial, codes with scales between. So an activation is known by its values, computed in float64 from the operators,
not by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.chains import Chain, Walker, channels_of
from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE, FUSABLE, UNARY, apply
from sqp_tflite.flatbuffer.graph import TYPE_CHANGES, Op, Subgraph

_CLOSE = 2e-5
"""How far values may be off, absolute below 1 and relative above: constants in a file are float32, and some programs
write erf as a polynomial. gelu and its form with tanh are 5e-4 apart."""

_MOST_OPS = 80
"""No program spells an activation with more operators."""

_LEAST_B = 1e-6
"""Below it squareplus is relu to float32."""

_FAR = (15.0, 20.0, 30.0, 50.0, 80.0)


@dataclass(frozen=True, slots=True)
class Known:
    """An activation that a file computes.

    Attributes:
        name: Keras's, or "gelu_tanh", or "squareplus".
        parameter: alpha of elu, b of squareplus; 1 for the others.
    """

    name: str
    parameter: float = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """An activation in a file, and where it is computed."""

    chain: Chain
    known: Known


def roots(graph: Subgraph) -> dict[int, int]:
    """Returns {tensor: the tensor that it is a function of, element by element, as far back as that goes}.

    A constant per channel ends such a function: it belongs to a scale or an offset, not to an activation.
    """
    found: dict[int, int] = {}
    for op in graph.ops:
        root = _root(graph, op, found)
        if root is not None:
            found[op.outputs[0]] = root
    return found


def _root(graph: Subgraph, op: Op, found: Mapping[int, int]) -> int | None:
    if op.name not in ELEMENTWISE and op.name not in TYPE_CHANGES:
        return None
    if len(op.outputs) != 1 or (op.name == "CAST" and op.dtype not in ("bool", "float32")):
        return None
    result, of = graph.tensors[op.outputs[0]], set[int]()
    for operand in graph.operands(op):
        if not operand.constant:
            of.add(found.get(operand.index, operand.index))
        elif operand.values is None or channels_of(operand.values, result.shape) != 1:
            return None
    if len(of) != 1:
        return None
    (root,) = of
    return root if graph.tensors[root].shape == result.shape else None


def between(graph: Subgraph, makers: Mapping[int, Op], source: int, result: int) -> Chain | None:
    """Returns the chain from one tensor to another of the same root, None where the second depends on more.

    Args:
        graph: Holds them.
        makers: Of the graph.
        source: Index of the first.
        result: Index of the second.
    """
    ops = places(graph, makers, source, result, ELEMENTWISE.union(TYPE_CHANGES))
    return Chain(source, result, ops, 1) if ops else None


def places(
    graph: Subgraph, makers: Mapping[int, Op], source: int, result: int, names: frozenset[str]
) -> tuple[int, ...]:
    """Returns the operators between two tensors in execution order; () where the second depends on more, or on others.

    Args:
        graph: Holds them.
        makers: Of the graph.
        source: Index of the first.
        result: Index of the second.
        names: The operators that may be between them.
    """
    ops, waiting = set[int](), [result]
    while waiting:
        index = waiting.pop()
        if index == source:
            continue
        op = makers.get(index)
        if op is None or len(ops) > _MOST_OPS or op.name not in names or op.fused not in FUSABLE:
            return ()
        if op.index not in ops:
            ops.add(op.index)
            waiting += [operand.index for operand in graph.operands(op) if not operand.constant]
    return tuple(sorted(ops))


def activations(graph: Subgraph, wanted: Callable[[Op], bool]) -> tuple[Found, ...]:
    """Returns the activations of a float graph, each with as many operators as belong to it; none share an operator.

    Args:
        graph: The graph.
        wanted: Whether an operator makes an activation worth finding; each holds such an operator.
    """
    makers, walker, names = graph.makers(), Walker(graph), dict[str, Known | None]()
    groups: dict[int, list[int]] = {}
    for tensor, root in roots(graph).items():
        groups.setdefault(root, []).append(tensor)
    found: list[Found] = []
    for root, members in groups.items():
        if not any(wanted(makers[index]) for index in members):
            continue
        taken = set[int]()
        for chain in _chains(graph, makers, [root, *members]):
            if taken.isdisjoint(chain.ops) and any(wanted(graph.ops[place]) for place in chain.ops):
                spelled = _spelled(graph, chain)
                if spelled not in names:
                    names[spelled] = known(walker, chain)
                name = names[spelled]
                if name is not None:
                    taken.update(chain.ops)
                    found.append(Found(chain, name))
    return tuple(found)


def _chains(graph: Subgraph, makers: Mapping[int, Op], members: list[int]) -> Iterator[Chain]:
    """Yields the chains between float tensors of a group, the longest for each end first, the last ends first."""
    floats = [index for index in members if graph.tensors[index].dtype == "float32"]
    for last in range(len(floats) - 1, 0, -1):
        for first in range(last):
            chain = between(graph, makers, floats[first], floats[last])
            if chain is not None:
                yield chain


def _spelled(graph: Subgraph, chain: Chain) -> str:
    """What a chain says, without its place in the file: equal ones are computed once."""
    place = {chain.source: "x"} | {graph.ops[op].outputs[0]: f"{number}" for number, op in enumerate(chain.ops)}
    words = []
    for number in chain.ops:
        op = graph.ops[number]
        operands = [place.get(i) or repr(graph.tensors[i].values) for i in op.inputs if i >= 0]
        words.append(f"{op.name}({', '.join(operands)}){dict(op.options)}")
    return ";".join(words)


def known(walker: Walker, chain: Chain) -> Known | None:
    """Returns which activation a chain of float operators computes; None if it is none of those that are known."""
    x = _grid()
    values = np.asarray(walker.evaluate(chain, x[:, None]), np.float64).reshape(-1)
    if values.shape != x.shape or not np.isfinite(values).all():
        return None
    for name, truth in _truths().items():
        if _equal(values, truth):
            return Known(name)
    return _with_parameter(x, values)


def _with_parameter(x: NDArray[Any], values: NDArray[Any]) -> Known | None:
    alpha = -float(values[x == -_FAR[2]][0])
    if alpha > 0 and _equal(values, np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))):
        return Known("elu", alpha)
    b = (2.0 * float(values[x == 0.0][0])) ** 2
    return Known("squareplus", b) if b > _LEAST_B and _equal(values, squareplus(x, b)) else None


def squareplus(x: NDArray[Any], b: float) -> NDArray[Any]:
    """Returns (x + sqrt(x*x + b)) / 2 in float64, without cancellation below 0 (Barron 2021, arXiv:2112.11687)."""
    root = np.sqrt(np.square(x) + b)
    return np.asarray(np.where(x > 0, (x + root) / 2.0, b / (2.0 * (root + np.abs(x)))))


def _equal(values: NDArray[Any], truth: NDArray[Any]) -> bool:
    return bool(np.all(np.abs(values - truth) <= _CLOSE * np.maximum(1.0, np.abs(truth))))


@cache
def _grid() -> NDArray[Any]:
    return np.concatenate([np.linspace(-12.0, 12.0, 481), np.array(_FAR), -np.array(_FAR)])


@cache
def _truths() -> Mapping[str, NDArray[Any]]:
    """The activations without a parameter, on the grid."""
    x = _grid()
    softplus = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    gelu = {form: apply("GELU", [x], {"approximate": form}).astype(np.float64) for form in (False, True)}
    return MappingProxyType(
        {
            "softplus": softplus,
            "log_sigmoid": x - softplus,
            "sigmoid": UNARY["LOGISTIC"](x),
            "tanh": np.tanh(x),
            "silu": x * UNARY["LOGISTIC"](x),
            "elu": UNARY["ELU"](x),
            "selu": _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0.0))),
            "mish": x * np.tanh(softplus),
            "gelu": gelu[False],
            "gelu_tanh": gelu[True],
        }
    )


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805

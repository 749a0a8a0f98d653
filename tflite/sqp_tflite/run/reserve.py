"""How far the inputs of square roots are, on the data, from where their squares overflow in half precision."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.agreement import Reserve
from sqp_tflite.flatbuffer.chains import Chain, Walker
from sqp_tflite.flatbuffer.functions import between
from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.run import interpreters
from sqp_tflite.run.half import lacking

ROOTS = ("SQRT", "RSQRT")
CLIPS = ("MINIMUM", "MAXIMUM", "RELU", "RELU6", "RELU_N1_TO_1")

_MOST_STEPS = 4
"""Clips and scales in front of a square in one form."""

LEAST = 2.0
"""With a smaller reserve the user is told: a device sees larger inputs than a sample of them has."""

_HALVES = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
"""All finite halves that are 0 or more, in order."""


@dataclass(frozen=True, slots=True)
class _Root:
    """The roots of one tensor t: x is `factor` * t, and t overflows from -`low` down and from `high` up."""

    layer: str
    tensor: str
    factor: float
    low: float
    high: float


def reserves(
    content: bytes, graph: Graph, inputs: tuple[NDArray[np.generic], ...], layers: LayerNames | None = None
) -> tuple[Reserve, ...]:
    """Returns for each squareplus and sum of roots in a float file how far its inputs are from half's overflow.

    Args:
        content: The file.
        graph: The same, read.
        inputs: The data, one array per input in the file's order, shape (samples, ...).
        layers: Names the Keras layers.

    Returns () for a file that cannot be emulated in half precision, and without LiteRT, which runs it.
    """
    if lacking(graph) or not interpreters.installed("litert"):
        return ()
    found = _roots(graph.main, layers or LayerNames())
    if not found:
        return ()
    names = tuple(dict.fromkeys(root.tensor for root in found))
    try:
        spans = interpreters.within("litert", "sqp_tflite.run.layer_errors:spans_here", content, inputs, names)
    except interpreters.RuntimeFailedError:  # The rows of the comparison say why.
        return ()
    return tuple(_reserve(root, *spans[root.tensor]) for root in found)


def overflowing(found: tuple[Reserve, ...], traced: bool) -> tuple[str, ...]:
    """Returns a sentence for each reserve that is too small, and what to do.

    Args:
        found: What `reserves` returned.
        traced: Whether the file is made from a Keras model, which can be written in another form.
    """
    way = "Use --safe-half, or have" if traced else "Have"
    return tuple(
        f"`{row.layer}` gets up to {row.largest:.3g} on the data, and in half precision (a phone's GPU) a square in it "
        f"is infinite from {row.limit:.3g} on, {row.reserve:.2g} times as much. {way} the delegate compute in "
        "float32 (docs/mobile.md)."
        for row in found
        if row.reserve is not None and row.reserve < LEAST
    )


def _reserve(root: _Root, least: float, most: float) -> Reserve:
    sides = [(max(-least, 0.0), root.low), (max(most, 0.0), root.high)]
    x, limit = max(sides, key=lambda side: side[0] / side[1])
    largest = max(abs(least), abs(most)) if np.isinf(limit) else x
    ratio = limit / largest if largest and np.isfinite(limit) else None
    return Reserve(root.layer, root.factor * largest, root.factor * limit if np.isfinite(limit) else None, ratio)


def _roots(main: Subgraph, layers: LayerNames) -> tuple[_Root, ...]:
    """One for each tensor of whose squares roots are taken, in the file's order."""
    makers, walker = main.makers(), Walker(main)
    owners = [layers.of(main.tensors[op.outputs[0]].name) if op.outputs else "" for op in main.ops]
    found: dict[tuple[str, int], list[Chain]] = {}
    roots: dict[tuple[str, int], set[int]] = {}
    for op in main.ops:
        source = _source(main, makers, op) if op.name in ROOTS else None
        chain = None if source is None else between(main, makers, source, op.inputs[0])
        if chain is not None:
            key = owners[op.index], chain.source
            found.setdefault(key, []).append(chain)
            roots.setdefault(key, set()).add(op.outputs[0])
    made = []
    for (layer, source), chains in found.items():
        low, high = (min(_end(walker, chain, sign) for chain in chains) for sign in (-1.0, 1.0))
        own = [op for op, owner in zip(main.ops, owners, strict=True) if owner == layer]
        factor = 2.0 if _halved(own, source, roots[layer, source]) else 1.0
        made.append(_Root(layer, main.tensors[source].name, factor, low, high))
    return tuple(made)


def _source(main: Subgraph, makers: Mapping[int, Op], root: Op) -> int | None:
    """The tensor that goes into an activation's form, of which this is a root of m*m + b; None for another root.

    A form clips, scales and moves it: m = clip(x) * 0.5 + c.
    """
    place = _before(main, makers, root.inputs[0], ("ADD",))
    op = makers.get(place)
    if op is None or op.fused or not (op.name == "SQUARE" or (op.name == "MUL" and op.inputs[0] == op.inputs[1])):
        return None
    place = op.inputs[0]
    place = _before(main, makers, place, ("ADD",))
    for _ in range(_MOST_STEPS):
        place = _before(main, makers, place, ("MUL", *CLIPS))
    return place


def _before(main: Subgraph, makers: Mapping[int, Op], place: int, names: Collection[str]) -> int:
    """The tensor that one of some operators, with a number besides, makes another of; that itself for none."""
    op = makers.get(place)
    if op is None or op.name not in names:
        return place
    computed = [index for index in op.inputs if not _number(main, makers, index)]
    scaled = op.name != "MUL" or all(main.tensors[index].elements == 1 for index in op.inputs if index not in computed)
    return computed[0] if len(computed) == 1 and scaled else place


def _number(main: Subgraph, makers: Mapping[int, Op], index: int) -> bool:
    """Whether a tensor is a constant, or the numbers that a constant of halves stands for."""
    op = makers.get(index)
    return main.tensors[index].constant or (op is not None and op.name == "DEQUANTIZE" and _constant_of(main, op))


def _constant_of(main: Subgraph, op: Op) -> bool:
    return main.tensors[op.inputs[0]].constant


def _end(walker: Walker, chain: Chain, sign: float) -> float:
    """The smallest half on one side of 0 for which a chain overflows; infinity for none."""
    first, last = 0, len(_HALVES)
    while first < last:
        middle = (first + last) // 2
        number = np.float16(sign) * _HALVES[middle].reshape(1, 1)
        if np.isfinite(walker.evaluate(chain, number, np.float16)).all():
            first = middle + 1
        else:
            last = middle
    return float(_HALVES[first]) if first < len(_HALVES) else np.inf


def _halved(own: Sequence[Op], source: int, roots: set[int]) -> bool:
    """Whether a tensor is x/2, the half of which is folded into what makes it.

    The forms of functions that grow are z + roots of z, with z = x/2; the other forms never add x itself.

    Args:
        own: The operators of the layer.
        source: The tensor.
        roots: The roots of it.
    """
    depending = set(roots)
    for op in own:
        if not depending.isdisjoint(op.inputs):
            if op.name == "ADD" and source in op.inputs:
                return True
            depending.update(op.outputs)
    return False

"""CONCATENATION, SPLIT, SLICE, TRANSPOSE, PAD and the like, as copies with strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.gathering import Gathered, gathered
from sqp_tflite.codegen.moving import Copy, Moved, constant_of, fill_of, strides, typed
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor

_MOST_PIECES = 256


def _ends(op: Op, graph: Subgraph) -> tuple[Tensor, Tensor]:
    source, target = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    typed(op, source, target)
    return source, target


def _concatenation(op: Op, graph: Subgraph) -> Moved:
    target = graph.tensors[op.outputs[0]]
    parts = graph.operands(op)
    typed(op, target, *parts)
    if op.fused:
        refuse(op, "has no activation here", op.fused)
    axis = int(op.options.get("axis", 0)) % len(target.shape)
    copies, begin, after = [], 0, math.prod(target.shape[axis + 1 :])
    outer = math.prod(target.shape[:axis])
    for part in parts:
        block = part.shape[axis] * after
        sizes, here = (outer, block), (target.shape[axis] * after, 1)
        copies.append(Copy(part.index, target.index, sizes, (block, 1), here, 0, begin))
        begin += block
    return Moved(graph, tuple(copies), (target.index,))


def _pack(op: Op, graph: Subgraph) -> Moved:
    target = graph.tensors[op.outputs[0]]
    parts = graph.operands(op)
    typed(op, target, *parts)
    axis = int(op.options.get("axis", 0)) % len(target.shape)
    after = math.prod(target.shape[axis + 1 :])
    outer = math.prod(target.shape[:axis])
    step = target.shape[axis] * after
    copies = [
        Copy(part.index, target.index, (outer, after), (after, 1), (step, 1), 0, place * after)
        for place, part in enumerate(parts)
    ]
    return Moved(graph, tuple(copies), (target.index,))


def _parts(op: Op, graph: Subgraph, source: Tensor, axis: int, sizes: Sequence[int]) -> Moved:
    targets = [graph.tensors[index] for index in op.outputs]
    typed(op, source, *targets)
    after = math.prod(source.shape[axis + 1 :])
    outer, step, begin, copies = math.prod(source.shape[:axis]), source.shape[axis] * after, 0, []
    for target, size in zip(targets, sizes, strict=True):
        block = size * after
        copies.append(Copy(source.index, target.index, (outer, block), (step, 1), (block, 1), begin, 0))
        begin += block
    return Moved(graph, tuple(copies), op.outputs)


def _split(op: Op, graph: Subgraph) -> Moved:
    first = op.name == "SPLIT"
    source = graph.tensors[op.inputs[1 if first else 0]]
    axis = int(constant_of(op, graph, 0 if first else 2)[0]) % len(source.shape)
    return _parts(op, graph, source, axis, [graph.tensors[index].shape[axis] for index in op.outputs])


def _unpack(op: Op, graph: Subgraph) -> Moved:
    source = graph.tensors[op.inputs[0]]
    axis = int(op.options.get("axis", 0)) % len(source.shape)
    return _parts(op, graph, source, axis, [1] * len(op.outputs))


def _strided(
    op: Op,
    source: Tensor,
    target: Tensor,
    begins: Sequence[int],
    steps: Sequence[int],
    sizes: Sequence[int],
    graph: Subgraph,
) -> Moved:
    if math.prod(sizes) != target.elements:
        refuse(op, f"must have an output of {math.prod(sizes)} elements", target.shape)
    held = strides(source.shape)
    begin = sum(at * step for at, step in zip(begins, held, strict=True))
    there = tuple(step * by for step, by in zip(held, steps, strict=True))
    copy = Copy(source.index, target.index, tuple(sizes), there, strides(sizes), begin, 0)
    return Moved(graph, (copy,), (target.index,))


def _slice(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    begins = [int(at) for at in constant_of(op, graph, 1)]
    return _strided(op, source, target, begins, [1] * len(begins), target.shape, graph)


def _strided_slice(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    begins, ends, steps = (constant_of(op, graph, place) for place in (1, 2, 3))
    options = op.options
    if options.get("ellipsisMask") or options.get("newAxisMask") or len(begins) != len(source.shape):
        refuse(op, "needs a begin and an end for each axis here", f"{len(begins)} for {len(source.shape)}")
    at, by, sizes = [], [], []
    for axis, size in enumerate(source.shape):
        bit, step = 1 << axis, int(steps[axis])
        begin = None if int(options.get("beginMask", 0)) & bit else int(begins[axis])
        end = None if int(options.get("endMask", 0)) & bit else int(ends[axis])
        if int(options.get("shrinkAxisMask", 0)) & bit:
            begin, end, step = int(begins[axis]) % size, int(begins[axis]) % size + 1, 1
        chosen = range(size)[begin:end:step]
        at.append(chosen.start)
        by.append(step)
        sizes.append(len(chosen))
    return _strided(op, source, target, at, by, sizes, graph)


def _transpose(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    order = [int(axis) % len(source.shape) for axis in constant_of(op, graph, 1)]
    held = strides(source.shape)
    copy = Copy(source.index, target.index, target.shape, tuple(held[axis] for axis in order), strides(target.shape))
    return Moved(graph, (copy,), (target.index,))


def _reverse(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    axes = {int(axis) % len(source.shape) for axis in constant_of(op, graph, 1)}
    begins = [size - 1 if axis in axes else 0 for axis, size in enumerate(source.shape)]
    steps = [-1 if axis in axes else 1 for axis in range(len(source.shape))]
    return _strided(op, source, target, begins, steps, source.shape, graph)


def _pad(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    before = constant_of(op, graph, 1).reshape(-1, 2)[:, 0]
    value = None
    if op.name == "PADV2":
        value = float(constant_of(op, graph, 2)[0])
    held = strides(target.shape)
    begin = sum(int(at) * step for at, step in zip(before, held, strict=True))
    copy = Copy(source.index, target.index, source.shape, strides(source.shape), held, 0, begin)
    return Moved(graph, (copy,), (target.index,), fill_of(target, value))


def _mapped(op: Op, graph: Subgraph, source: Tensor, target: Tensor, maps: Sequence[NDArray[Any]]) -> Moved:
    """Returns copies of what lies at given places along each axis, as few as there are."""
    runs = [_runs(places.tolist()) for places in maps]
    if math.prod(len(one) for one in runs) > _MOST_PIECES:
        refuse(op, "needs whole factors here", f"{source.shape} to {target.shape}")
    held, made, copies = strides(source.shape), strides(target.shape), []
    for choice in np.ndindex(*(len(one) for one in runs)):
        sizes: list[int] = []
        there: list[int] = []
        here: list[int] = []
        begin_from = begin_to = 0
        for axis, place in enumerate(choice):
            first, at, count, step, each = runs[axis][place]
            begin_from, begin_to = begin_from + first * held[axis], begin_to + at * made[axis]
            sizes += [count, each]
            there += [step * held[axis], 0]
            here += [each * made[axis], made[axis]]
        copies.append(Copy(source.index, target.index, tuple(sizes), tuple(there), tuple(here), begin_from, begin_to))
    return Moved(graph, tuple(copies), (target.index,))


def _runs(places: Sequence[int]) -> list[tuple[int, int, int, int, int]]:
    """Returns (first, at, count, step, each): count places, step apart, each one repeated."""
    found, at = [], 0
    while at < len(places):
        each = 1
        while at + each < len(places) and places[at + each] == places[at]:
            each += 1
        step = places[at + each] - places[at] if at + each < len(places) else 1
        count = 1
        while (at + (count + 1) * each) <= len(places) and all(
            one == places[at] + count * step for one in places[at + count * each : at + (count + 1) * each]
        ):
            count += 1
        found.append((places[at], at, count, step, each))
        at += count * each
    return found


def _resize(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    maps = [np.arange(size) for size in source.shape]
    aligned, half = bool(op.options.get("alignCorners")), bool(op.options.get("halfPixelCenters"))
    for axis in (1, 2):
        size, out = source.shape[axis], target.shape[axis]
        near = aligned and out > 1
        factor = np.float32(size - 1) / np.float32(out - 1) if near else np.float32(size) / np.float32(out)
        places = (np.arange(out, dtype=np.float32) + np.float32(0.5 if half else 0.0)) * factor
        chosen = np.floor(places + np.float32(0.5)) if aligned else np.floor(places)
        maps[axis] = np.clip(chosen.astype(np.int64), 0, size - 1)
    return _mapped(op, graph, source, target, maps)


def _gather(op: Op, graph: Subgraph) -> Moved | Gathered:
    if not graph.tensors[op.inputs[1]].constant:
        return gathered(op, graph)
    source, target = _ends(op, graph)
    if int(op.options.get("batchDims", 0) or 0):
        refuse(op, "has no batch dimensions here", op.options["batchDims"])
    axis = int(op.options.get("axis", 0)) % len(source.shape)
    maps = [np.arange(size) for size in source.shape]
    maps[axis] = constant_of(op, graph, 1).astype(np.int64)
    flat = Tensor(
        target.index, target.name, (*source.shape[:axis], len(maps[axis]), *source.shape[axis + 1 :]), target.dtype
    )
    return _mapped(op, graph, source, flat, maps)


def _broadcast_to(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    shape = (1,) * (len(target.shape) - len(source.shape)) + source.shape
    there = tuple(0 if size == 1 else step for size, step in zip(shape, strides(shape), strict=True))
    return Moved(
        graph, (Copy(source.index, target.index, target.shape, there, strides(target.shape)),), (target.index,)
    )


def _mirror_pad(op: Op, graph: Subgraph) -> Moved:
    source, target = _ends(op, graph)
    pads = constant_of(op, graph, 1).reshape(-1, 2)
    again = str(op.options.get("mode")) == "SYMMETRIC"
    maps = [
        _mirrored(size, int(before), int(after), again)
        for size, (before, after) in zip(source.shape, pads, strict=True)
    ]
    return _mapped(op, graph, source, target, maps)


def _mirrored(size: int, before: int, after: int, again: bool) -> NDArray[Any]:
    """Places around an axis that are mirrored at its ends, which come again or not."""
    places = np.abs(np.arange(-before, size + after) + 0.5) - 0.5 if again else np.abs(np.arange(-before, size + after))
    last = size - 0.5 if again else size - 1
    return np.asarray(last - np.abs(places - last)).astype(np.int64)


def _space_to_batch(op: Op, graph: Subgraph) -> Moved:
    """SPACE_TO_BATCH_ND and its reverse: every block-th row and column is an image of its own."""
    source, target = _ends(op, graph)
    block = [int(size) for size in constant_of(op, graph, 1)]
    pads = constant_of(op, graph, 2).reshape(-1, 2)
    there = op.name == "SPACE_TO_BATCH_ND"
    image, parts = (source, target) if there else (target, source)
    batch, copies = image.shape[0], []
    held, made = strides(image.shape), strides(parts.shape)
    for place, shift in enumerate(np.ndindex(*block)):
        begin_image, begin_part, sizes, steps_image, steps_part = (
            0,
            place * batch * made[0],
            [batch],
            [held[0]],
            [made[0]],
        )
        for axis, (at, by) in enumerate(zip(shift, block, strict=True), start=1):
            before = int(pads[axis - 1][0])
            first = max(0, -(-(before - at) // by))
            last = min(parts.shape[axis], -(-(image.shape[axis] + before - at) // by))
            sizes.append(max(last - first, 0))
            begin_image += (first * by + at - before) * held[axis]
            begin_part += first * made[axis]
            steps_image.append(by * held[axis])
            steps_part.append(made[axis])
        rest = math.prod(image.shape[1 + len(block) :])
        sizes.append(rest)
        steps_image.append(1)
        steps_part.append(1)
        if 0 in sizes:
            continue
        forth = (tuple(steps_image), tuple(steps_part)) if there else (tuple(steps_part), tuple(steps_image))
        begins = (begin_image, begin_part) if there else (begin_part, begin_image)
        copies.append(Copy(source.index, target.index, tuple(sizes), *forth, *begins))
    return Moved(graph, tuple(copies), (target.index,), fill_of(target) if there and pads.any() else "")


MOVERS: Mapping[str, Callable[[Op, Subgraph], Moved | Gathered]] = {
    "BATCH_TO_SPACE_ND": _space_to_batch,
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "GATHER": _gather,
    "MIRROR_PAD": _mirror_pad,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "REVERSE_V2": _reverse,
    "SLICE": _slice,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "STRIDED_SLICE": _strided_slice,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
"""How each operator that only moves elements is written."""

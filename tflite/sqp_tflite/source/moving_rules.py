"""Rules of `rewrites` for operators that move, choose or count numbers, and that a device or the quantiser lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sqp_tflite.source.frozen import Frozen

MOST_CATEGORIES = 4096
"""More of them are left as they are: the table of a one-hot has their square of numbers."""


def depth_to_space(graph: Frozen, op: Any) -> None:
    """Every pixel's channels become a square of pixels: RESHAPE, TRANSPOSE, RESHAPE."""
    size, shape = op.get_attr("block_size"), op.inputs[0].shape
    if not _plain_image(op, shape):
        return
    _, height, width, channels = shape.as_list()
    parts = height, width, size, channels // size
    _rearranged(graph, op, graph.name_of(op.inputs[0]), parts, (0, 2, 1, 3))


def space_to_depth(graph: Frozen, op: Any) -> None:
    """Every square of pixels becomes the channels of one: RESHAPE, TRANSPOSE, RESHAPE."""
    size, shape = op.get_attr("block_size"), op.inputs[0].shape
    if not _plain_image(op, shape):
        return
    _, height, width, channels = shape.as_list()
    parts = height // size, size, width // size, size * channels
    _rearranged(graph, op, graph.name_of(op.inputs[0]), parts, (0, 2, 1, 3))


def patches(graph: Frozen, op: Any) -> None:
    """Patches side by side, without overlap, are squares of pixels as channels."""
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    _, rows, columns, _ = op.get_attr("ksizes")
    if list(op.get_attr("strides")) != [1, rows, columns, 1] or set(op.get_attr("rates")) != {1}:
        return
    if not shape.is_fully_defined() or op.outputs[0].dtype.name != "float32":
        return
    (_, height, width, channels), (_, high, wide, _) = shape.as_list(), out.as_list()
    source = graph.name_of(op.inputs[0])
    if (high * rows, wide * columns) != (height, width):
        if high * rows > height or wide * columns > width:  # Filled up with zeros.
            return
        ends = [
            graph.constant(op.name, np.array(place, np.int32))
            for place in ((0,) * 4, (1, high * rows, wide * columns, channels))
        ]
        source = graph.add("Slice", op.name, [source, *ends], like=op)
        graph.node(source).attr["Index"].type = graph.INT32
    _rearranged(graph, op, source, (high, rows, wide, columns * channels), (0, 2, 1, 3))


def _plain_image(op: Any, shape: Any) -> bool:
    plain = op.get_attr("data_format") == b"NHWC" and op.outputs[0].dtype.name == "float32"
    return plain and shape.is_fully_defined() and shape.as_list()[0] == 1


def _rearranged(graph: Frozen, op: Any, source: str, parts: Sequence[int], order: Sequence[int]) -> None:
    """Puts what becomes of the parts in another order in the place of an operation."""
    apart = graph.reshaped(op, source, parts)
    moved = graph.add("Transpose", op.name, [apart, graph.constant(op.name, np.array(order, np.int32))], like=op)
    graph.node(moved).attr["Tperm"].type = graph.INT32
    graph.replace(op, "Identity", [graph.reshaped(op, moved, op.outputs[0].shape.as_list())])


def one_hot(graph: Frozen, op: Any) -> None:
    """A 1 at the place that an index names is a row of a table: GATHER. An index outside gets the row of none."""
    depth, on, off = (graph.value(one) for one in op.inputs[1:4])
    rank = op.inputs[0].shape.rank
    if depth is None or on is None or off is None or rank is None or op.outputs[0].dtype.name != "float32":
        return
    if op.get_attr("axis") not in (-1, rank) or not graph.reads_inputs(op.inputs[0]) or int(depth) > MOST_CATEGORIES:
        return
    graph.replace(op, "Identity", [_rows(graph, op, op.inputs[0], np.eye(int(depth)) * (on - off) + off, float(off))])


def counted(graph: Frozen, op: Any) -> None:
    """How often each number is there is a sum of such rows; whether it is there, the same, 1 at most."""
    size, shape = _size(graph, op.inputs[1]), op.inputs[0].shape
    if size is None or shape.rank != 2 or op.inputs[2].shape.num_elements() != 0 or int(size) > MOST_CATEGORIES:
        return
    if not graph.reads_inputs(op.inputs[0]) or op.outputs[0].dtype.name != "float32":
        return
    rows = _rows(graph, op, op.inputs[0], np.eye(int(size)), 0.0)
    made = graph.add("Sum", op.name, [rows, graph.constant(op.name, np.array([1], np.int32))], like=op)
    graph.node(made).attr["Tidx"].type = graph.INT32
    if op.get_attr("binary_output"):
        made = graph.add("Minimum", op.name, [made, graph.constant(op.name, np.float32(1.0))], like=op)
    graph.replace(op, "Identity", [made])


def _size(graph: Frozen, tensor: Any) -> Any:
    """Returns a number of places; min(n, max(n, ...)) is n."""
    if tensor.op.type == "Minimum" and (inner := tensor.op.inputs[1].op).type == "Maximum":
        most, least = graph.value(tensor.op.inputs[0]), graph.value(inner.inputs[0])
        return most if most is not None and most == least else None
    return graph.value(tensor)


def _rows(graph: Frozen, op: Any, places: Any, table: Any, none: float) -> str:
    """Looks rows up in int32; below 0 and beyond the last one there is a row of `none`."""
    while places.dtype.name == "int64" and places.op.type == "Cast":
        places = places.op.inputs[0]
    source = graph.name_of(places)
    if places.dtype.name != "int32":
        source = graph.add("Cast", op.name, [source])
        types = graph.node(source).attr
        types["SrcT"].type, types["DstT"].type = places.dtype.as_datatype_enum, graph.INT32
    count = len(table)
    for kind, number in (("Maximum", -1), ("Minimum", count), ("AddV2", 1)):
        source = graph.add(kind, op.name, [source, graph.constant(op.name, np.int32(number))])
        graph.node(source).attr["T"].type = graph.INT32
    edge = np.full((1, table.shape[1]), none)
    rows = graph.constant(op.name, np.concatenate([edge, table, edge]).astype(np.float32))
    found = graph.add("GatherV2", op.name, [rows, source, graph.constant(op.name, np.int32(0))])
    types = graph.node(found).attr
    types["Tparams"].type = op.outputs[0].dtype.as_datatype_enum
    types["Tindices"].type = types["Taxis"].type = graph.INT32
    return found


def largest_place(graph: Frozen, op: Any) -> None:
    """Keras puts the least number below 0 in the place of -0 first, which decides between 0 and -0 only."""
    chosen = op.inputs[0].op
    if chosen.type == "Reshape":
        chosen = chosen.inputs[0].op
    if chosen.type != "SelectV2" or (least := graph.value(chosen.inputs[1])) is None:
        return
    if least.size == 1 and -2 * np.finfo(np.float32).tiny < float(least.item()) < 0:
        graph.replace(chosen, "Identity", [graph.name_of(chosen.inputs[2])])


_RESHAPES = ("Reshape", "Squeeze", "ExpandDims", "Identity")


def back_to_integers(graph_def: bytes) -> bytes:
    """Returns the graph without casts of integers to float32 and back: Keras casts a model's inputs to its own type.

    Args:
        graph_def: A serialized GraphDef.
    """
    graph = Frozen(graph_def)
    for op in graph.operations():
        if op.type != "Cast" or op.outputs[0].dtype.name not in ("int32", "int64"):
            continue
        moves, tensor = [], op.inputs[0]
        while tensor.op.type in _RESHAPES:
            moves.append(tensor.op)
            tensor = tensor.op.inputs[0]
        if tensor.op.type != "Cast" or tensor.op.inputs[0].dtype.name != "int32" or tensor.dtype.name != "float32":
            continue
        source = graph.name_of(tensor.op.inputs[0])
        for move in reversed(moves):
            source = graph.copy(move, op.name, [source, *map(graph.name_of, move.inputs[1:])])
            graph.node(source).attr["T"].type = graph.INT32
        if op.outputs[0].dtype.name == "int32":
            graph.replace(op, "Identity", [source])
            continue
        graph.node(op.name).input[:] = [source]
        graph.node(op.name).attr["SrcT"].type = graph.INT32
    return graph.serialized()


_MOST_SLICED = 4
"""Dimensions of what TFLM slices."""


def slices(graph: Frozen, op: Any) -> None:
    """Along one axis of many, such as the time steps of images: all axes before and behind it are joined."""
    shape, out = op.inputs[0].shape, op.outputs[0].shape
    if shape.rank is None or shape.rank <= _MOST_SLICED or not (shape.is_fully_defined() and out.is_fully_defined()):
        return
    bounds, sizes = [graph.value(one) for one in op.inputs[1:4]], shape.as_list()
    if any(bound is None for bound in bounds) or op.get_attr("new_axis_mask"):
        return
    spans = _spans(op, bounds, sizes)
    cut = [axis for axis, span in enumerate(spans) if span != (0, sizes[axis], 1)]
    if len(cut) != 1:
        return
    (axis,) = cut
    joined = (math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :]))
    start, stop, step = spans[axis]
    ends = [(0, start, 0), (joined[0], stop, joined[2]), (1, step, 1)]
    places = [graph.constant(op.name, np.array(place, np.int32)) for place in ends]
    made = graph.add(
        "StridedSlice", op.name, [graph.reshaped(op, graph.name_of(op.inputs[0]), joined), *places], like=op
    )
    graph.node(made).attr["Index"].type = graph.INT32
    if stop < 0:
        graph.node(made).attr["end_mask"].i = 2
    graph.replace(op, "Identity", [graph.reshaped(op, made, out.as_list())])


def _spans(op: Any, bounds: Sequence[Any], sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns where a slice starts and stops along each axis, and its step, as Python's `range` takes them."""
    whole = [(0, size, 1) for size in sizes]
    found: list[tuple[int, int, int]] = []
    for place, (begin, end, step) in enumerate(zip(*bounds, strict=True)):
        bit, axis = 1 << place, len(found)
        if op.get_attr("ellipsis_mask") & bit:
            found += whole[axis : len(sizes) - (len(bounds[0]) - place - 1)]
        elif op.get_attr("shrink_axis_mask") & bit:
            found.append((int(begin) % sizes[axis], int(begin) % sizes[axis] + 1, 1))
        else:
            first = None if op.get_attr("begin_mask") & bit else int(begin)
            last = None if op.get_attr("end_mask") & bit else int(end)
            found.append(slice(first, last, int(step)).indices(sizes[axis]))
    return found + whole[len(found) :]

"""Rules of `rewrites` for single operators that a device or the quantiser lacks, or that the converter gets wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.layer_names import in_scope
from sqp_tflite.source.frozen import Frozen


def bias_of_channels_first(graph: Frozen, op: Any) -> None:
    """Keras adds a tensor of one dimension as a bias, also along the second axis, which the converter takes wrongly."""
    rank = op.inputs[0].shape.rank
    if op.get_attr("data_format") != b"NCHW" or rank is None:
        return
    size = op.inputs[1].shape.as_list()[0]
    bias = graph.reshaped(op, graph.name_of(op.inputs[1]), (size, *[1] * (rank - 2)))
    graph.replace(op, "AddV2", [graph.name_of(op.inputs[0]), bias])


def bounded_root(graph: Frozen, op: Any) -> None:
    """min(1/sqrt(s), c) needs no s below 1/c**2: at s = 0 not every interpreter's 1/sqrt is infinite.

    The minimum stays: without it the converter would recognise L2_NORMALIZATION, which rounds in another way.
    """
    roots = [place for place in (0, 1) if op.inputs[place].op.type == "Rsqrt"]
    most = graph.value(op.inputs[1 - roots[0]]) if len(roots) == 1 else None
    if most is None or most.size != 1 or op.inputs[0].dtype.name != "float32" or not 0 < float(most.item()) < 1e18:
        return
    root = op.inputs[roots[0]].op
    least = graph.constant(op.name, np.float32(1 / float(most.item()) ** 2))
    above = graph.add("Maximum", op.name, [graph.name_of(root.inputs[0]), least], like=op)
    finite = graph.add("Rsqrt", op.name, [above], like=op)
    graph.replace(op, "Minimum", [finite, graph.name_of(op.inputs[1 - roots[0]])])


def minimum_over(graph: Frozen, op: Any) -> None:
    """The smallest of some numbers is the largest of the same with the other sign."""
    turned = graph.add("Neg", op.name, [graph.name_of(op.inputs[0])], like=op)
    largest = _pooled(graph, op, turned)
    if largest:
        graph.replace(op, "Neg", [largest])


def maximum_over(graph: Frozen, op: Any) -> None:
    """REDUCE_MAX over neighbouring axes is a MAX_POOL_2D over the whole of them."""
    largest = _pooled(graph, op, graph.name_of(op.inputs[0]))
    if largest:
        graph.replace(op, "Identity", [largest])


def _pooled(graph: Frozen, op: Any, source: str) -> str:
    """Returns the largest over the axes of a reduction, "" where they are not known or apart."""
    axes, shape = graph.value(op.inputs[1]), op.inputs[0].shape
    if axes is None or not shape.is_fully_defined() or op.inputs[0].dtype.name != "float32":
        return ""
    sizes = shape.as_list()
    places = sorted({int(axis) % len(sizes) for axis in np.ravel(axes)})
    if not places or places != list(range(places[0], places[-1] + 1)):
        return ""
    parts = sizes[: places[0]], sizes[places[0] : places[-1] + 1], sizes[places[-1] + 1 :]
    outer, reduced, inner = (math.prod(part) for part in parts)
    image = graph.reshaped(op, source, (1, outer, reduced, inner))
    pooled = graph.add("MaxPool", op.name, [image], like=op)
    attributes = graph.node(pooled).attr
    attributes["ksize"].list.i[:], attributes["strides"].list.i[:] = [1, 1, reduced, 1], [1, 1, reduced, 1]
    attributes["padding"].s, attributes["data_format"].s = b"VALID", b"NHWC"
    return graph.reshaped(op, pooled, op.outputs[0].shape.as_list())


def leak(graph: Frozen, op: Any) -> None:
    """relu(x) - a*relu(-x), with a slope for each position, is relu(x) + a*(x - relu(x)): no PRELU is recognised."""
    for plus, product in ((0, 1), (1, 0)):
        positive, scaled = op.inputs[plus].op, op.inputs[product].op
        if positive.type != "Relu" or scaled.type != "Mul":
            continue
        for slope, negative in ((0, 1), (1, 0)):
            relu = scaled.inputs[negative].op
            turned = relu.inputs[0].op if relu.type == "Relu" else None
            if turned is None or turned.type != "Neg" or turned.inputs[0].name != positive.inputs[0].name:
                continue
            x = graph.name_of(positive.inputs[0])
            below = graph.add("Sub", op.name, [x, graph.name_of(op.inputs[plus])], like=op)
            slopes = graph.add("Neg", op.name, [graph.name_of(scaled.inputs[slope])], like=op)
            leaked = graph.add("Mul", op.name, [below, slopes], like=op)
            graph.replace(op, "AddV2", [graph.name_of(op.inputs[plus]), leaked])
            return


def rows(graph: Frozen, op: Any) -> None:
    """Places that no input decides, in int32: TFLM looks nothing up by int64."""
    if op.inputs[1].dtype.name != "int64" or graph.reads_inputs(op.inputs[1]):
        return
    places = graph.add("Cast", op.name, [graph.name_of(op.inputs[1])])
    types = graph.node(places).attr
    types["SrcT"].type, types["DstT"].type = op.inputs[1].dtype.as_datatype_enum, graph.INT32
    graph.node(op.name).input[1] = places
    graph.node(op.name).attr["Tindices"].type = graph.INT32


def divided(graph: Frozen, op: Any) -> None:
    """x/y is x * (1/y): 1/y is a function of one tensor, so a table of 256 codes or a float operator can hold it.

    DIV of int8 is wrong by up to half the range on TFLM and LiteRT where y is small, tflite-runtime 2.14 has none, and
    no interpreter has one of int16.
    """
    above, below = op.inputs
    one_number = (held := graph.value(above)) is not None and held.size == 1
    if op.outputs[0].dtype.name != "float32" or one_number or not graph.reads_inputs(below) or in_scope(op.name):
        return
    one = graph.constant(op.name, np.float32(1.0))
    reciprocal = graph.add("RealDiv", op.name, [one, graph.name_of(below)], like=op)
    graph.replace(op, "Mul", [graph.name_of(above), reciprocal])


MOST_STEPS = 512
"""A running sum over more steps would need more than 256 KiB of weights at once: it is made of shorter ones."""


def running_sum(graph: Frozen, op: Any) -> None:
    """A sum of all entries up to each is a product with a triangle of ones, which has an integer form."""
    shape, axis = op.inputs[0].shape, graph.value(op.inputs[1])
    if not shape.is_fully_defined() or axis is None or op.outputs[0].dtype.name != "float32":
        return
    sizes = shape.as_list()
    place = int(axis) % len(sizes)
    steps = sizes[place]
    if steps <= 0:
        return
    order = [*(axis for axis in range(len(sizes)) if axis != place), place]
    swapped = _transposed(graph, op, graph.name_of(op.inputs[0]), order)
    rows = graph.reshaped(op, swapped, (math.prod(sizes) // steps, steps))
    own, reverse = not op.get_attr("exclusive"), op.get_attr("reverse")
    if steps <= MOST_STEPS:
        made = _summed(graph, op, rows, _triangle(steps, own, reverse))
    else:
        made = _in_blocks(graph, op, rows, (math.prod(sizes) // steps, steps))
    back = graph.reshaped(op, made, [sizes[i] for i in order])
    graph.replace(op, "Identity", [_transposed(graph, op, back, np.argsort(order).tolist())])


def _triangle(steps: int, own: bool, reverse: bool) -> NDArray[np.float32]:
    """Returns what sums the entries up to each, `own` says whether with the entry itself."""
    ones = np.triu(np.ones((steps, steps), np.float32), 0 if own else 1)
    return np.ascontiguousarray(ones.T) if reverse else ones


def _summed(graph: Frozen, op: Any, rows: str, weights: NDArray[np.float32]) -> str:
    return graph.add("MatMul", op.name, [rows, graph.constant(op.name, weights)], like=op)


def _in_blocks(graph: Frozen, op: Any, rows: str, sizes: tuple[int, int]) -> str:
    """The sum inside a block, and that of all blocks before it; the last block is filled up with zeros."""
    count, steps = sizes
    block = math.isqrt(steps - 1) + 1
    blocks = -(-steps // block)
    own, reverse = not op.get_attr("exclusive"), op.get_attr("reverse")
    if blocks * block > steps:
        widths = graph.constant(op.name, np.array([(0, 0), (0, blocks * block - steps)], np.int32))
        rows = graph.add("Pad", op.name, [rows, widths], like=op)
    parts = graph.reshaped(op, rows, (count * blocks, block))
    inside = graph.reshaped(op, _summed(graph, op, parts, _triangle(block, own, reverse)), (count, blocks, block))
    whole = graph.reshaped(op, _summed(graph, op, parts, np.ones((block, 1), np.float32)), (count, blocks))
    before = graph.reshaped(op, _summed(graph, op, whole, _triangle(blocks, False, reverse)), (count, blocks, 1))
    made = graph.reshaped(op, graph.add("AddV2", op.name, [inside, before], like=op), (count, blocks * block))
    if blocks * block == steps:
        return made
    ends = [graph.constant(op.name, np.array(place, np.int32)) for place in ((0, 0), (count, steps))]
    cut = graph.add("Slice", op.name, [made, *ends], like=op)
    graph.node(cut).attr["Index"].type = graph.INT32
    return cut


def _transposed(graph: Frozen, op: Any, source: str, order: list[int]) -> str:
    """Returns a tensor with its axes in another order: the tensor itself where the order is its own."""
    if order == sorted(order):
        return source
    made = graph.add("Transpose", op.name, [source, graph.constant(op.name, np.array(order, np.int32))], like=op)
    graph.node(made).attr["Tperm"].type = graph.INT32
    return made


def turned(graph: Frozen, op: Any) -> None:
    """REVERSE_V2, which has no integer form in the quantiser, is a STRIDED_SLICE with a step of -1."""
    rank, axes = op.inputs[0].shape.rank, graph.value(op.inputs[1])
    if rank is None or axes is None or op.outputs[0].dtype.name != "float32":
        return
    steps = np.ones(rank, np.int32)
    steps[np.ravel(axes)] = -1
    ends = [graph.constant(op.name, value) for value in (np.zeros(rank, np.int32), np.zeros(rank, np.int32), steps)]
    graph.replace(op, "StridedSlice", [graph.name_of(op.inputs[0]), *ends])
    attributes = graph.node(op.name).attr
    attributes["Index"].type = graph.INT32
    attributes["begin_mask"].i = attributes["end_mask"].i = 2**rank - 1


def squared_difference(graph: Frozen, op: Any) -> None:
    """The quantiser has no SQUARED_DIFFERENCE for int16, but SUB and MUL."""
    if op.outputs[0].dtype.name != "float32":
        return
    difference = graph.add("Sub", op.name, [graph.name_of(one) for one in op.inputs], like=op)
    graph.replace(op, "Mul", [difference, difference])


def square_of_difference(graph: Frozen, op: Any) -> None:
    """The same where a square of its own follows, which the converter would merge with the difference."""
    if op.inputs[0].op.type == "Sub" and op.outputs[0].dtype.name == "float32":
        graph.replace(op, "Mul", [graph.name_of(op.inputs[0])] * 2)


def selected(graph: Frozen, op: Any) -> None:
    """A condition of another shape, without the batch, is selected by SELECT_V2; one of the same by SELECT."""
    shapes = [tensor.shape for tensor in op.inputs]
    if not all(shape.is_fully_defined() for shape in shapes):
        return
    sizes = [shape.as_list() for shape in shapes]
    if sizes[0] != sizes[1] or sizes[0] != sizes[2] or sizes[0][:1] != [1] or graph.value(op.inputs[0]) is not None:
        return
    places = graph.constant(op.name, np.array(sizes[0][1:], np.int32))
    condition = graph.add("Reshape", op.name, [graph.name_of(op.inputs[0]), places], like=op.inputs[0].op)
    graph.node(condition).attr["T"].type = op.inputs[0].dtype.as_datatype_enum
    graph.node(condition).attr["Tshape"].type = graph.INT32
    graph.node(op.name).input[0] = condition

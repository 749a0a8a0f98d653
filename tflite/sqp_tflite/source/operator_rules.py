"""Rules of `rewrites` for single operators that a device or the quantiser lacks, or that the converter gets wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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

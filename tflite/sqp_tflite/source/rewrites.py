"""Rewrites operations of the frozen graph that a device lacks, or that the converter cannot write, as others.

Each rule replaces one operation by an exact equivalent: the same numbers come out, only copied or computed in another
way (squareplus rounds in another way: it gets the form that every export gives it). The names begin with the name of
what was replaced, so that messages still name the layer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from sqp_keras.forms import LIMITS_SCOPE
from sqp_tflite.layer_names import in_scope
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import kernels
from sqp_tflite.source import moving_rules, operator_rules
from sqp_tflite.source.frozen import Frozen
from sqp_tflite.source.norms import folded
from sqp_tflite.source.rsqrt import with_rsqrt
from sqp_tflite.source.trace import Traced
from sqp_tflite.source.trained_form import in_export_form, passed_through, without_limits

Rules = Mapping[str, Callable[[Frozen, Any], None]]

MOST_REPEATS = 16
"""RESIZE_NEAREST_NEIGHBOR finds an element's source in float32; up to here and half a million elements that is exact.
More copies are concatenated."""

MOST_ELEMENTS = 1 << 19


_AS_GIVEN = ("float32", "bool")
"""Types of inputs that a file takes as the model does."""


def on_device(traced: Traced, wanted: Combination) -> Traced:
    """Returns a traced model whose graph has the operations of the device.

    Args:
        traced: What `trace` returned.
        wanted: Says which number type it will have.
    """
    castable = kernels(wanted.target).get("CAST", ())
    names = [spec.name for spec in traced.inputs]
    floats = [s.name for s in traced.inputs if s.dtype not in _AS_GIVEN and (wanted.integer or s.dtype not in castable)]
    integers = any(spec.dtype == "int32" for spec in traced.inputs)
    graph_def = moving_rules.back_to_integers(traced.graph_def) if integers else traced.graph_def
    graph_def, changed = in_float32(graph_def, floats) if floats else (graph_def, ())
    graph_def, notes = folded(graph_def, wanted.integer, traced.layers.of)
    # First, by itself: other rules write a SelectV2 in another way.
    graph_def = rewritten(graph_def, {"SelectV2": without_limits}) if LIMITS_SCOPE.encode() in graph_def else graph_def
    graph_def = rewritten(graph_def, *_rules(wanted))
    if wanted.integer and wanted.lowering == "integer":
        graph_def = with_rsqrt(graph_def)
    cast = tuple((names.index(name), traced.inputs[names.index(name)].dtype) for name in changed)
    forms = tuple(dict.fromkeys((*traced.forms, *Frozen(graph_def).made_in(in_scope, traced.outputs))))
    return dataclasses.replace(traced, graph_def=graph_def, cast=cast, forms=forms, notes=notes)


def in_float32(graph_def: bytes, names: Sequence[str]) -> tuple[bytes, tuple[str, ...]]:
    """Returns the graph with inputs in float32, and which of them are now: those that are only ever cast to it.

    Args:
        graph_def: A serialized GraphDef.
        names: The inputs.
    """
    graph = Frozen(graph_def)
    changed = []
    for op in graph.operations():
        readers = op.outputs[0].consumers() if op.name in names else []
        if not readers or any(reader.type != "Cast" or reader.outputs[0].dtype.name != "float32" for reader in readers):
            continue
        graph.retype(op, readers[0].outputs[0].dtype)
        for reader in readers:
            graph.replace(reader, "Identity", [op.name])
        changed.append(op.name)
    return graph.serialized(), tuple(changed)


def rewritten(graph_def: bytes, *rules: Rules) -> bytes:
    """Returns the frozen graph with every rule applied.

    Args:
        graph_def: A serialized GraphDef with static shapes and without functions.
        *rules: Some of `ALWAYS`, `INTEGERS`, `WIDE` and `MICRO`, which are applied one after the other.
    """
    graph = Frozen(graph_def)
    for some in rules:
        for op in graph.operations():
            rule = some.get(op.type)
            if rule is not None:
                rule(graph, op)
    return graph.serialized()


def _rules(wanted: Combination) -> list[Rules]:
    micro = "SELECT" not in kernels(wanted.target) and not wanted.integer
    when = ((True, ALWAYS), (wanted.integer, INTEGERS), (wanted.quantize == "int16x8", WIDE), (micro, MICRO))
    return [rules for needed, rules in when if needed]


def _dilated(graph: Frozen, op: Any) -> None:
    """BATCH_TO_SPACE(conv(SPACE_TO_BATCH(x))) is a convolution with dilation.

    The converter merges the SPACE_TO_BATCH of two convolutions on one input and then knows neither again.
    """
    chain = _chain(op)
    if chain is None:
        return
    first, expand, conv, squeeze = chain
    block, pads, crops = (graph.value(x) for x in (first.inputs[1], first.inputs[2], op.inputs[2]))
    if block is None or pads is None or crops is None or crops[:, 0].any() or first.inputs[0].shape.rank is None:
        return
    if not _plain(conv):
        return
    x, kernel = first.inputs[0], conv.inputs[1].shape.as_list()
    if expand is not None and (x.shape.rank != 3 or graph.value(expand.inputs[1]) not in (1, -3)):
        return
    skipped = 1 if expand is not None else 0  # ExpandDims puts a height of 1 in front of the only dimension.
    rates = [1] * skipped + block.tolist()
    rates += [1] * (2 - len(rates))
    shape, out = x.shape.as_list(), op.outputs[0].shape.as_list()
    if None in shape or None in out:
        return
    sides = []
    for axis, rate in enumerate(block.tolist()):
        total = out[axis + 1] + rate * (kernel[axis + skipped] - 1) - shape[axis + 1]
        sides.append((int(pads[axis][0]), total - int(pads[axis][0])))
    if any(after < 0 for _, after in sides):
        return
    spans = [rate * (kernel[axis + skipped] - 1) for axis, rate in enumerate(block.tolist())]
    free = [kernel[axis] == 1 for axis in range(2) if axis >= skipped + len(spans) or axis < skipped]
    same = all(side == (span // 2, span - span // 2) for side, span in zip(sides, spans, strict=True)) and all(free)
    source = graph.name_of(x)
    if any(map(any, sides)) and not same:
        widths = [(0, 0), *sides]
        widths += [(0, 0)] * (len(shape) - len(widths))
        source = graph.add("Pad", op.name, [source, graph.constant(op.name, np.array(widths, np.int32))], like=op)
    if expand is not None:
        source = graph.add("ExpandDims", op.name, [source, graph.constant(op.name, np.int32(1))], like=op)
    made = graph.copy(conv, op.name, [source, graph.name_of(conv.inputs[1])])
    node = graph.node(made)
    node.attr["dilations"].list.i[:] = [1, *rates, 1]
    node.attr["padding"].s = b"SAME" if same else b"VALID"
    if squeeze is not None:
        made = graph.copy(squeeze, op.name, [made])
    graph.replace(op, "Identity", [made])


def _chain(op: Any) -> tuple[Any, Any, Any, Any] | None:
    """Returns (SPACE_TO_BATCH, ExpandDims or None, convolution, Squeeze or None) in front of BATCH_TO_SPACE."""
    conv, squeeze = op.inputs[0].op, None
    if conv.type == "Squeeze":
        conv, squeeze = conv.inputs[0].op, conv
    if conv.type not in ("Conv2D", "DepthwiseConv2dNative"):
        return None
    first, expand = conv.inputs[0].op, None
    if first.type == "ExpandDims":
        first, expand = first.inputs[0].op, first
    found = first.type == "SpaceToBatchND" and (expand is None) == (squeeze is None)
    return (first, expand, conv, squeeze) if found else None


def _plain(conv: Any) -> bool:
    ones = all(set(conv.get_attr(name)) == {1} for name in ("strides", "dilations"))
    return ones and conv.get_attr("padding") == b"VALID" and conv.get_attr("data_format") == b"NHWC"


def _tile(graph: Frozen, op: Any) -> None:
    """Copies, one dimension after the other: RESIZE_NEAREST_NEIGHBOR where a single entry is repeated, or joined."""
    shape, out = op.inputs[0].shape.as_list(), op.outputs[0].shape.as_list()
    if None in shape or None in out or op.inputs[0].dtype.name == "bool" or 0 in shape:
        return
    source = graph.name_of(op.inputs[0])
    for axis in range(len(shape)):
        if out[axis] != shape[axis]:
            source = _copied(graph, op, source, shape, axis, out[axis] // shape[axis])
            shape[axis] = out[axis]
    graph.replace(op, "Identity", [source])


def _copied(graph: Frozen, op: Any, source: str, shape: Sequence[int], axis: int, times: int) -> str:
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    real = op.inputs[0].dtype.name == "float32"
    if shape[axis] == 1 and real and times <= MOST_REPEATS and outer * times <= MOST_ELEMENTS:
        image = graph.reshaped(op, source, (1, outer, 1, inner))
        larger = _nearest(graph, op, image, outer * times, 1)
        return graph.reshaped(op, larger, (*shape[:axis], times, *shape[axis + 1 :]))
    joined = graph.add("ConcatV2", op.name, [source] * times + [graph.constant(op.name, np.int32(axis))], like=op)
    graph.node(joined).attr["N"].i = times
    graph.node(joined).attr["Tidx"].type = graph.INT32
    return joined


def _nearest(graph: Frozen, op: Any, image: str, height: int, width: int) -> str:
    return graph.add(
        "ResizeNearestNeighbor", op.name, [image, graph.constant(op.name, np.array([height, width], np.int32))], like=op
    )


def _repeated(op: Any) -> tuple[Any, int, int] | None:
    """Returns (tensor, axis, times) where a Reshape ends a repetition of every entry along an axis."""
    tile = op.inputs[0].op
    if tile.type != "Tile" or tile.inputs[0].op.type != "ExpandDims":
        return None
    x = tile.inputs[0].op.inputs[0]
    shapes = x.shape, tile.inputs[0].shape, tile.outputs[0].shape, op.outputs[0].shape
    if not all(shape.is_fully_defined() for shape in shapes):
        return None
    before, spread, tiled, after = (shape.as_list() for shape in shapes)
    grown = [axis for axis in range(len(spread)) if tiled[axis] != spread[axis]]
    if len(grown) != 1 or grown[0] == 0 or spread[grown[0]] != 1:
        return None
    axis, times = grown[0] - 1, tiled[grown[0]]
    if before != spread[: axis + 1] + spread[axis + 2 :]:
        return None
    wanted = [size * times if place == axis else size for place, size in enumerate(before)]
    return (x, axis, times) if after == wanted else None


def _enlarged(graph: Frozen, op: Any) -> None:
    """An image whose rows and columns are repeated is enlarged by one RESIZE_NEAREST_NEIGHBOR."""
    columns = _repeated(op)
    if columns is None or columns[0].op.type != "Reshape":
        return
    rows = _repeated(columns[0].op)
    if rows is None or rows[0].shape.rank != 4 or (rows[1], columns[1]) != (1, 2) or rows[0].dtype.name != "float32":
        return
    _, height, width, _ = rows[0].shape.as_list()
    if max(rows[2], columns[2]) > MOST_REPEATS or max(height, width) * MOST_REPEATS > MOST_ELEMENTS:
        return
    graph.replace(op, "Identity", [_nearest(graph, op, graph.name_of(rows[0]), *op.outputs[0].shape.as_list()[1:3])])


def _split(graph: Frozen, op: Any) -> None:
    """Unequal parts are slices."""
    shape, parts = op.inputs[0].shape, [tensor.shape for tensor in op.outputs]
    if not all(known.is_fully_defined() for known in (shape, *parts)):
        return
    whole, sizes = shape.as_list(), [part.as_list() for part in parts]
    axis = next((axis for axis in range(len(whole)) if any(size[axis] != whole[axis] for size in sizes)), 0)
    begin = [0] * len(whole)
    made = []
    for size in sizes:
        places = [graph.constant(op.name, np.array(values, np.int32)) for values in (begin, size)]
        made.append(graph.add("Slice", op.name, [graph.name_of(op.inputs[0]), *places], like=op))
        graph.node(made[-1]).attr["Index"].type = graph.INT32
        begin = [start + (size[axis] if place == axis else 0) for place, start in enumerate(begin)]
    graph.replace_outputs(op, made)


ALWAYS: Rules = MappingProxyType(
    {
        "BatchToSpaceND": _dilated,
        "Reshape": _enlarged,
        "Tile": _tile,
        "SplitV": _split,
        "BiasAdd": operator_rules.bias_of_channels_first,
        "Minimum": operator_rules.bounded_root,
        "GatherV2": operator_rules.rows,
        "AddV2": in_export_form,
        "Maximum": in_export_form,
        "IdentityN": passed_through,
        "ExtractImagePatches": moving_rules.patches,
        "OneHot": moving_rules.one_hot,
        "StridedSlice": moving_rules.slices,
        "DenseBincount": moving_rules.counted,
        "ArgMax": moving_rules.largest_place,
        "ArgMin": moving_rules.largest_place,
    }
)
"""By the operation that a rule begins at: what is done always."""

INTEGERS: Rules = MappingProxyType(
    {
        "Max": operator_rules.maximum_over,
        "Min": operator_rules.minimum_over,
        "AddV2": operator_rules.leak,
        "RealDiv": operator_rules.divided,
        "Cumsum": operator_rules.running_sum,
        "ReverseV2": operator_rules.turned,
        "DepthToSpace": moving_rules.depth_to_space,
        "SpaceToDepth": moving_rules.space_to_depth,
    }
)
"""What an integer model needs besides: some operators have no integer form in the quantiser."""

WIDE: Rules = MappingProxyType(
    {"SquaredDifference": operator_rules.squared_difference, "Square": operator_rules.square_of_difference}
)
"""What a model of int16 needs besides."""

MICRO: Rules = MappingProxyType({"SelectV2": operator_rules.selected})
"""What a float model needs on a target without SELECT. In integers a selection is a table."""

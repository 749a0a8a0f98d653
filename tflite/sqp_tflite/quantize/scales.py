"""What the quantiser makes scales from: the ranges of tensors, and those of the weights that need another one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.graph import Op, Subgraph
from sqp_tflite.layer_names import in_scope
from sqp_tflite.quantize.calibration import SMALLEST_RANGE

Channels = dict[str, dict[str, NDArray[Any]]]
"""{tensor: {"min", "max"}}, as the quantiser takes them."""

ROOT_SPAN = 128.0
"""Max ratio of the largest root to the smallest in v*rsqrt(v): beyond it rsqrt(v) is clipped. rsqrt(v) has 15 bits, so
its rounding costs span/65534 of the largest root, and the clipping 1/(4*span). At 128 both cost 0.2 %, half an int8
step."""

DEAD_RANGE = 0.75
"""Range of a tensor that is 0 on all data. Not 1: if three scales are within a thousandth of powers of two, LiteRT's
int16 ADD takes a path that crashes the process."""


def statistics(graph: Subgraph, ranges: dict[str, tuple[float, float]]) -> Channels:
    """Returns {tensor: {"min", "max"}}: near-zero ranges are widened, rsqrt(v) is clipped if v has too wide a range.

    Args:
        graph: The float graph.
        ranges: {tensor: (smallest, largest)} on the data.
    """
    clipped = dict(ranges)
    for op in graph.ops:
        if op.name != "RSQRT":
            continue
        root, v = graph.tensors[op.outputs[0]].name, graph.tensors[op.inputs[0]].name
        if in_scope(root) and root in ranges and ranges[v][1] > 0:
            clipped[root] = 0.0, min(ranges[root][1], ROOT_SPAN / float(np.sqrt(ranges[v][1])))
    found = {}
    for op in graph.ops:
        if op.name in ("ADD", "SUB"):
            _widen_sum(graph, op, clipped)
    for name, (low, high) in clipped.items():
        if low == high == 0:
            high = DEAD_RANGE
        elif max(abs(low), abs(high)) < SMALLEST_RANGE:
            low, high = 0.0, SMALLEST_RANGE
        found[name] = {"min": np.array(low), "max": np.array(high)}
    return found


def _widen_sum(graph: Subgraph, op: Op, ranges: dict[str, tuple[float, float]]) -> None:
    """Widens the range of a sum that is next to 0 beside its operands: the kernels' multiplier must stay below 1.

    It is 2 * (the operands' largest scale) / (2**15 * the sum's scale) for int16. What is gained by a finer scale is
    below the operands' own steps; beyond it, the kernel ends the process.
    """
    result = graph.tensors[op.outputs[0]].name
    sizes = [0.0]
    for operand in graph.operands(op):
        held = operand.values
        span = ranges.get(operand.name, (0.0, 0.0)) if held is None else (float(held.min()), float(held.max()))
        sizes.append(max(map(abs, span)))
    least = max(sizes) * _LEAST_SUM
    if result in ranges and max(map(abs, ranges[result])) < least:
        ranges[result] = min(ranges[result][0], 0.0), least


_LEAST_SUM = 2.0**-13
"""Least size of a sum beside its largest operand: twice the bound of the int16 kernels."""

_CHANNEL_AXIS = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0, "DEPTHWISE_CONV_2D": 3}
_BIAS_PLACE = {"CONV_2D": 2, "FULLY_CONNECTED": 2, "DEPTHWISE_CONV_2D": 2, "TRANSPOSE_CONV": 3}
_BIAS_LIMIT = float(2**30)
_DEAD = 2.0**-12


def weight_ranges(graph: Subgraph, spans: Channels, bits: int) -> Channels:
    """Returns the ranges of weights with channels that are (almost) dead.

    Such a channel's scale would be close to 0, its bias would not fit into 32 bits, and the kernels' multipliers would
    be out of range. It gets the scale that its bias needs, and at least 1/4096 of the widest channel's scale.

    Args:
        graph: The float graph.
        spans: What `statistics` returned.
        bits: Of the activations.
    """
    found = {}
    for op in graph.ops:
        if op.name not in _CHANNEL_AXIS:
            continue
        data, weights = (graph.tensors[op.inputs[i]] for i in ((0, 1) if op.name != "TRANSPOSE_CONV" else (2, 1)))
        array, range_in = weights.values, spans.get(data.name)
        if array is None or range_in is None or array.dtype != np.float32:
            continue
        axis = _CHANNEL_AXIS[op.name]
        bound = np.abs(array).max(axis=tuple(i for i in range(array.ndim) if i != axis), keepdims=True)
        floor = np.full(bound.shape, max(float(bound.max()) * _DEAD, SMALLEST_RANGE) if bound.any() else 1.0)
        place = _BIAS_PLACE[op.name]
        if len(op.inputs) > place and op.inputs[place] >= 0:
            bias = graph.tensors[op.inputs[place]].values
            step = max(abs(float(range_in["max"])), abs(float(range_in["min"])), SMALLEST_RANGE) / 2 ** (bits - 1)
            if bias is not None:
                floor = np.maximum(floor, np.abs(bias).reshape(bound.shape) / (step * _BIAS_LIMIT) * 127)
        if np.any(bound < floor):
            widened = np.maximum(bound, floor)
            found[weights.name] = {"min": -widened, "max": widened}
    return found


def of_tensors(graph: Subgraph, ranges: Channels) -> Channels:
    """Returns ranges of channels as one range for each dense layer's weights.

    Args:
        graph: The float graph.
        ranges: What `weight_ranges` returned.
    """
    dense = {graph.tensors[op.inputs[1]].name for op in graph.ops if op.name == "FULLY_CONNECTED"}
    return {
        name: {end: np.array(pick(held[end])) for end, pick in (("min", np.min), ("max", np.max))}
        if name in dense
        else held
        for name, held in ranges.items()
    }

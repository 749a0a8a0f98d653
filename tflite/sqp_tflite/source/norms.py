"""Folds a batch normalisation into the convolution or the product behind it: w*(s*y + t) = (w*s)*y + w*t.

A constant for each channel that is added there is folded, too.

TensorFlow's converter folds one into the convolution in front, which an activation in between forbids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.layer_names import in_scope
from sqp_tflite.source.frozen import Frozen

LARGEST_SPREAD = 16.0
"""In integers a unit's weights share one step: where the factors of a norm's channels are further apart, it stays."""

_PASSING = ("Reshape", "ExpandDims", "Squeeze", "Identity")
_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_PRODUCTS = ("MatMul", "BatchMatMulV2")


@dataclass(frozen=True, slots=True)
class _Norm:
    """y*factors + offsets, channel by channel, and what that is computed from; of a sum the factors are 1."""

    source: Any
    scaled: bool
    sum: Any
    padded: bool
    factors: NDArray[np.float64]
    offsets: NDArray[np.float64]


def folded(graph_def: bytes, integer: bool, layer_of: Callable[[str], str]) -> tuple[bytes, tuple[str, ...]]:
    """Returns the frozen graph without the norms that could be folded, and a sentence for each that padding keeps.

    Args:
        graph_def: A serialized GraphDef with static shapes.
        integer: Whether it becomes an integer model.
        layer_of: Names the layer of an operation.
    """
    graph, notes, changed = Frozen(graph_def), [], False
    for op in graph.operations():
        norm = _norm(graph, op) if op.type in (*_CONVOLUTIONS, *_PRODUCTS) else None
        if norm is None or graph.reads_inputs(op.inputs[1]):
            continue
        if norm.offsets.any() and (norm.padded or (op.type in _CONVOLUTIONS and _pads(op))):
            notes += [_note(norm, layer_of(norm.sum.name), layer_of(op.name))] if norm.scaled else []
        elif not integer or op.type == "DepthwiseConv2dNative" or _spread(norm.factors) <= LARGEST_SPREAD:
            changed |= _fold(graph, op, norm)
    return graph.serialized() if changed else graph_def, tuple(notes)


def _norm(graph: Frozen, op: Any) -> _Norm | None:
    """The norm in front of an operation, where nothing else reads it."""
    if not op.inputs[0].shape.is_fully_defined() or op.inputs[0].dtype.name != "float32":
        return None
    padded = _padded(op.inputs[0])
    above = _alone(op.inputs[0] if padded is None else padded)
    source, offsets, sums = (None if above is None else above.outputs[0]), np.zeros(()), 0
    while source is not None and not in_scope(source.op.name):
        plus = _split(graph, source.op, True, "AddV2", "BiasAdd")
        if plus is None or (sums and len(source.consumers()) != 1):
            break
        source, offsets, sums = plus[0], offsets + graph.computed(plus[1]).astype(np.float64), sums + 1
    if above is None or source is None or not sums:
        return None
    times = _split(graph, _alone(source, pass_on=False), False, "Mul")
    source, factors = times or (source, None)
    if _computed_by_contraction(graph, source):
        return None
    offsets = np.broadcast_to(offsets, above.outputs[0].shape.as_list()[-1:])
    scales = np.ones_like(offsets) if factors is None else graph.computed(factors).astype(np.float64)
    return _Norm(source, factors is not None, above, padded is not None, scales, offsets)


def _padded(tensor: Any) -> Any:
    """What is padded in front of an operation; None if nothing is."""
    op = _alone(tensor)
    return op.inputs[0] if op is not None and op.type in ("Pad", "PadV2", "SpaceToBatchND") else None


def _alone(tensor: Any, pass_on: bool = True) -> Any:
    """The operation behind a tensor that one operation reads, through those that only change the shape."""
    while len(tensor.consumers()) == 1:
        if not pass_on or tensor.op.type not in _PASSING:
            return tensor.op
        tensor = tensor.op.inputs[0]
    return None


def _split(graph: Frozen, op: Any, scalars: bool, *kinds: str) -> tuple[Any, Any] | None:
    """Returns (what is computed, the constant of each channel, or of all) that an operation combines."""
    if op is None or op.type not in kinds or not op.outputs[0].shape.rank:
        return None
    if op.type == "BiasAdd" and op.get_attr("data_format") != b"NHWC":
        return None
    channels = op.outputs[0].shape.as_list()[-1]
    for data, constant in (op.inputs, op.inputs[::-1]):
        if (
            constant.shape.as_list() in ([channels], [] if scalars else [channels])
            and not graph.reads_inputs(constant)
            and graph.reads_inputs(data)
        ):
            return data, constant
    return None


def _computed_by_contraction(graph: Frozen, tensor: Any) -> bool:
    """Whether the converter folds a norm of this tensor into the operation in front by itself."""
    while tensor.op.type in (*_PASSING, "BiasAdd", "AddV2", "Sub") and len(tensor.consumers()) == 1:
        if tensor.op.type in ("AddV2", "Sub") and graph.reads_inputs(tensor.op.inputs[1]):
            break
        tensor = tensor.op.inputs[0]
    contracts = (*_CONVOLUTIONS, *_PRODUCTS, "Conv2DBackpropInput", "BatchToSpaceND", "Conv3D")
    return tensor.op.type in contracts and len(tensor.consumers()) == 1


def _pads(conv: Any) -> bool:
    if conv.get_attr("data_format") != b"NHWC" or conv.get_attr("padding") == b"EXPLICIT":
        return True
    if conv.get_attr("padding") == b"VALID":
        return False
    sizes, kernel = conv.inputs[0].shape.as_list(), conv.inputs[1].shape.as_list()
    strides, rates = conv.get_attr("strides"), conv.get_attr("dilations")
    for axis in (1, 2):
        span = rates[axis] * (kernel[axis - 1] - 1) + 1
        if (-(-sizes[axis] // strides[axis]) - 1) * strides[axis] + span > sizes[axis]:
            return True
    return False


def _spread(factors: NDArray[np.float64]) -> float:
    sizes = np.abs(factors)
    return float(sizes.max() / sizes.min()) if sizes.min() > 0 else float("inf")


def _fold(graph: Frozen, op: Any, norm: _Norm) -> bool:
    weights = graph.computed(op.inputs[1]).astype(np.float64)
    turned = op.type in _PRODUCTS and bool(op.get_attr("transpose_b" if op.type == "MatMul" else "adj_y"))
    given = bool(op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")) if op.type in _PRODUCTS else False
    inside = weights.shape[-1 if turned else -2] if weights.ndim >= 2 else 0
    if given or inside % len(norm.factors) or (op.type in _PRODUCTS and weights.ndim != 2):
        return False
    # A Flatten in between joins the positions in front of the channels.
    factors, offsets = (np.tile(one, inside // len(one)) for one in (norm.factors, norm.offsets))
    along = factors[None, :] if turned else factors[:, None]
    if op.type == "DepthwiseConv2dNative":
        bias = (weights * offsets[:, None]).sum(axis=(0, 1)).reshape(-1)
    else:
        shifted = weights * (offsets[None, :] if turned else offsets[:, None])
        bias = shifted.sum(axis=(*range(weights.ndim - 2), -1 if turned else -2))
    _put(graph, op, norm, (weights * along).astype(np.float32), bias)
    return True


def _put(graph: Frozen, op: Any, norm: _Norm, weights: NDArray[np.float32], bias: NDArray[np.float64]) -> None:
    # The norm's operations pass on what they get: their readers, and the shapes in between, stay.
    graph.replace(norm.sum, "Identity", [graph.name_of(norm.source)])
    added, end = None, op.outputs[0]
    while added is None and len(end.consumers()) == 1:
        (reader,) = end.consumers()
        if reader.type == "BiasAdd" and not graph.reads_inputs(reader.inputs[1]):
            added = reader
        if reader.type not in _PASSING:
            break
        end = reader.outputs[0]
    if added is not None:
        total = graph.computed(added.inputs[1]).astype(np.float64) + bias
        graph.node(op.name).input[1] = graph.constant(op.name, weights)
        graph.node(added.name).input[1] = graph.constant(added.name, np.float32(total))
        return
    contracted = graph.copy(op, op.name, [graph.name_of(op.inputs[0]), graph.constant(op.name, weights)])
    graph.replace(op, "BiasAdd", [contracted, graph.constant(op.name, np.float32(bias))])


def _note(norm: _Norm, layer: str, conv: str) -> str:
    count = int(np.prod(norm.sum.outputs[0].shape.as_list()))
    return (
        f"`{layer}` stays a MUL and an ADD of {count:,} values each: in front of `{conv}` zeros are added to what it "
        'makes, which it must not shift. In front of a convolution with padding="valid" it would go into the weights.'
    )

"""Brings a finished file of any origin into the form that the other steps read: fixed shapes, dense plain weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES, Op, Subgraph, Tensor

_WIDE = ("float32",)
_SMALL = ("int8", "uint8", "int4")
_MOST_SHAPE = 64
"""Elements of a tensor that can be a shape."""


def shapes_of(graph: Subgraph) -> tuple[str, ...]:
    """Returns the names of integer tensors that depend on shapes and constants only, and are read by something else.

    In a file of fixed shapes they are constants.
    """
    fixed: set[int] = set()
    for op in graph.ops:
        given = [operand for operand in graph.operands(op) if not operand.constant]
        small = all(graph.tensors[i].dtype in ("int32", "int64") for i in op.outputs)
        small = small and all(graph.tensors[i].elements <= _MOST_SHAPE for i in op.outputs)
        if small and (op.name == "SHAPE" or all(operand.index in fixed for operand in given)):
            fixed.update(op.outputs)
    readers = graph.readers()
    ends = {i for i in fixed if any(not fixed.issuperset(op.outputs) for op in readers.get(i, ()))}
    return tuple(graph.tensors[index].name for index in sorted(ends))


def fold_shapes(editor: Editor, values: Mapping[str, NDArray[Any]]) -> None:
    """Makes constants of tensors.

    Args:
        editor: Of a file with a name for each tensor.
        values: Their numbers, by name.
    """
    main = editor.main()
    for name, tensor in main.by_name().items():
        if name in values:
            held = np.asarray(values[name]).reshape(tensor.shape)
            editor.read_instead(tensor.index, editor.add_constant(name, held.astype(tensor.dtype)))
    editor.drop_unused()


def fold_weights(editor: Editor) -> tuple[int, int]:
    """Makes plain float32 constants of weights that the file keeps in another form, and returns how many of each kind.

    Weights of float16 or of integers behind a DEQUANTIZE, integer weights of operators that compute in float, and
    sparse ones, behind a DENSIFY or not.

    Args:
        editor: Of a file that was not changed since it was opened.
    """
    main = editor.graph.main
    sparse = narrow = 0
    for tensor in (tensor for tensor in main.tensors if tensor.sparse):
        values = editor.densify(tensor.index)
        if values is not None:
            editor.read_instead(tensor.index, _constant(editor, tensor, values))
            sparse += 1
    main = editor.main()
    for op in (op for op in main.ops if op.name == "DENSIFY" and not main.tensors[op.inputs[0]].sparse):
        editor.read_instead(op.outputs[0], op.inputs[0])
    if sparse:
        editor.drop_unused()
    main = editor.main()
    for op in main.ops:
        for tensor in _narrow(main, op):
            values = real(tensor)
            if values is not None:
                made = _constant(editor, tensor, values.astype(np.float32))
                editor.read_instead(op.outputs[0] if op.name == "DEQUANTIZE" else tensor.index, made)
                narrow += 1
    if narrow or sparse:
        editor.drop_unused()
        editor.set_versions([[_plain_version(op) for op in graph.ops] for graph in editor.graphs()])
    return sparse, narrow


def _plain_version(op: Op) -> int:
    """The version of an operator whose weights had fewer bits, by the converter's rules for float32."""
    if op.dtype != "float32" or op.name not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        return op.version
    if op.name == "FULLY_CONNECTED":
        biased = len(op.inputs) > 2
        return 1 if biased and not op.options.get("keepNumDims") else 5 if biased else 6
    wide = any(op.options.get(f"dilation{side}Factor", 1) != 1 for side in "WH")
    return 2 if wide and op.name == "DEPTHWISE_CONV_2D" else 1


def _constant(editor: Editor, like: Tensor, values: NDArray[Any]) -> int:
    quantized = like.index if like.quantization is not None and values.dtype.kind == "i" else None
    return editor.add_constant(like.name, values, quantized_as=quantized)


def _narrow(graph: Subgraph, op: Op) -> list[Tensor]:
    """Its constants that stand for float32 numbers and are held in fewer bits."""
    operands = [tensor for tensor in graph.operands(op) if tensor.constant]
    if op.name == "DEQUANTIZE":
        return operands if graph.tensors[op.outputs[0]].dtype in _WIDE else []
    if op.dtype not in FLOAT_DTYPES or op.name in ("GATHER", "EMBEDDING_LOOKUP"):
        return []
    return [tensor for tensor in operands if tensor.dtype in _SMALL and tensor.quantization is not None]


def real(tensor: Tensor) -> NDArray[Any] | None:
    """Returns the numbers that a constant of fewer bits stands for, with a scale for the tensor or for each slice."""
    values, held = tensor.values, tensor.quantization
    if values is None or held is None:
        return values if values is not None and values.dtype == np.float16 else None
    shape = [1] * values.ndim
    if len(held.scales) > 1:
        shape[held.axis] = len(held.scales)
    points, scales = (np.array(numbers).reshape(shape) for numbers in (held.zero_points, held.scales))
    return np.asarray((values.astype(np.float64) - points) * scales)

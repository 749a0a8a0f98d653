"""Gives every input and output of an integer file the same type, and an output that is a state the input's scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Quantization, Tensor

_LOWEST = {"int8": -128, "int16": -32767}
_HIGHEST = {"int8": 127, "int16": 32767}


def settle_ends(
    editor: Editor, dtype: str, ranges: Sequence[tuple[float, float]], states: Mapping[int, int] | None = None
) -> None:
    """Gives the ends of a file one integer type, whatever reads them.

    The quantiser writes a float output where a float operator reads it too, and int16 where an int16 one does. There is
    a tensor of the wanted type before that conversion, which becomes the output; only where there is none, an operator
    is added. Integers that are no codes (indices) stay as they are.

    Args:
        editor: Of the file.
        dtype: "int8" or "int16".
        ranges: (smallest, largest) on the data, of the inputs and then of the outputs, in order.
        states: {place of an output: place of the input that it goes back into}.
    """
    main = editor.main()
    inputs = [_input(editor, index, dtype, ranges[place]) for place, index in enumerate(main.inputs)]
    outputs: list[int] = []
    for place, index in enumerate(main.outputs):
        back = (states or {}).get(place)
        state = None if back is None else editor.main().tensors[inputs[back]].quantization
        taken = {*inputs, *outputs, *main.outputs[place + 1 :]}
        outputs.append(_output(editor, index, dtype, ranges[len(inputs) + place], state, taken))
    if (tuple(inputs), tuple(outputs)) != (main.inputs, main.outputs):
        editor.set_ends(inputs, outputs)
        editor.drop_unused()


def _input(editor: Editor, index: int, dtype: str, span: tuple[float, float]) -> int:
    tensor = editor.main().tensors[index]
    if not _numbers(tensor) or tensor.dtype == dtype:
        return index
    scale, point = affine(dtype, *span)
    outer = editor.add_tensor(tensor.name, dtype, tensor.shape, scale, point)
    editor.rename(index, f"{tensor.name}_inner")
    editor.add_op(_conversion(outer, index, tensor.dtype), 0)
    return outer


def _output(
    editor: Editor, index: int, dtype: str, span: tuple[float, float], state: Quantization | None, taken: set[int]
) -> int:
    tensors = editor.main().tensors
    if not _numbers(tensors[index]):
        return index
    same = _same_values(editor, index)
    for other in same:
        if other in taken or tensors[other].dtype != dtype:
            continue
        if state is None or _codes(tensors[other].quantization) == _codes(state):
            return other
    scale, point = affine(dtype, *span) if state is None else _codes(state)
    outer = editor.add_tensor(tensors[index].name, dtype, tensors[index].shape, scale, point)
    editor.rename(index, f"{tensors[index].name}_inner")
    editor.add_op(_conversion(same[-1], outer, dtype))
    return outer


def _same_values(editor: Editor, index: int) -> list[int]:
    """The tensor, and those that hold the same numbers in another type, the most exact one last."""
    main = editor.main()
    found = [index]
    conversions = [op for op in main.ops if op.name in ("QUANTIZE", "DEQUANTIZE")]
    made_by = {op.outputs[0]: op.inputs[0] for op in conversions}
    while found[-1] in made_by and not main.tensors[made_by[found[-1]]].constant:
        found.append(made_by[found[-1]])
    source = found[-1]
    # A tensor that another operator needed in the wanted type. It is less exact than its source, which stays last.
    found[-1:] = [op.outputs[0] for op in conversions if op.inputs[0] == source and op.outputs[0] not in found]
    return [*found, source]


def affine(dtype: str, low: float, high: float) -> tuple[float, int]:
    """Returns the scale and the zero point with which a type's codes span a range and 0.

    Args:
        dtype: "int8", or "int16", whose zero point is 0.
        low: Smallest value.
        high: Largest value.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if dtype == "int16":
        return (max(-low, high) or 1.0) / _HIGHEST[dtype], 0
    scale = ((high - low) or 1.0) / (_HIGHEST[dtype] - _LOWEST[dtype])
    return scale, round(_LOWEST[dtype] - low / scale)


def _conversion(source: int, result: int, into: str) -> NewOp:
    if into == "float32":
        return NewOp("DEQUANTIZE", (source,), (result,), "DequantizeOptions")
    return NewOp("QUANTIZE", (source,), (result,), "QuantizeOptions")


def _numbers(tensor: Tensor) -> bool:
    return tensor.dtype == "float32" or tensor.quantization is not None


def _codes(held: Quantization | None) -> tuple[float, int]:
    return (held.scales[0], held.zero_points[0]) if held else (0.0, 0)

"""Gives every input and output of an integer file the same type, and an output that is a state the input's scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Quantization, Tensor

_WIDE = "int16"
_LOWEST = {"int8": -128, "int16": -32767}
_HIGHEST = {"int8": 127, "int16": 32767}


def settle_ends(
    editor: Editor,
    dtype: str,
    ranges: Sequence[tuple[float, float]],
    states: Mapping[int, int] | None = None,
    wide: Mapping[int, int] | None = None,
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
        wide: Those of them that are int16 whatever the type of the others.
    """
    main, wide = editor.main(), wide or {}
    into = [_WIDE if place in wide.values() else dtype for place in range(len(main.inputs))]
    inputs = [_input(editor, index, into[place], ranges[place]) for place, index in enumerate(main.inputs)]
    outputs: list[int] = []
    for place, index in enumerate(main.outputs):
        back = (states or {}).get(place)
        state = None if back is None else editor.main().tensors[inputs[back]].quantization
        taken = {*inputs, *outputs, *main.outputs[place + 1 :]}
        kind = _WIDE if place in wide else dtype
        outputs.append(_output(editor, index, kind, ranges[len(inputs) + place], state, taken))
    if (tuple(inputs), tuple(outputs)) != (main.inputs, main.outputs):
        editor.set_ends(inputs, outputs)
        editor.drop_unused()


def _input(editor: Editor, index: int, dtype: str, span: tuple[float, float]) -> int:
    tensor = editor.main().tensors[index]
    if not _numbers(tensor) or tensor.dtype == dtype:
        return index
    finer = _finer(editor, index, dtype)
    if finer is not None:
        return finer
    scale, point = affine(dtype, *span)
    outer = editor.add_tensor(tensor.name, dtype, tensor.shape, scale, point)
    editor.rename(index, f"{tensor.name}_inner")
    editor.add_op(_conversion(outer, index, tensor.dtype), 0)
    return outer


def _finer(editor: Editor, index: int, dtype: str) -> int | None:
    """An int16 input in the place of an int8 one that was only widened: the quantiser gives all inputs one type.

    What reads the int8 numbers gets them by a QUANTIZE from the new input. None where nothing widens the input.
    """
    main = editor.main()
    readers = [op for op in main.ops if index in op.inputs]
    widening = [op for op in readers if op.name == "QUANTIZE" and main.tensors[op.outputs[0]].dtype == dtype]
    if len(widening) != 1 or main.tensors[index].dtype != "int8":
        return None
    (op,), name = widening, main.tensors[index].name
    outer = op.outputs[0]
    editor.replace_ops({op.index: []})
    if len(readers) > 1:
        editor.add_op(_conversion(outer, index, "int8"), 0)
    editor.rename(index, f"{name}_inner")
    editor.rename(outer, name)
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

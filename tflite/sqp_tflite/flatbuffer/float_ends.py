"""Puts QUANTIZE behind the integer inputs of a file and DEQUANTIZE before its integer outputs."""

from __future__ import annotations

from sqp_tflite.flatbuffer.edit import Editor, NewOp


def add_float_ends(editor: Editor) -> None:
    """Gives a file float32 inputs and outputs; what lies between stays as it is.

    The quantiser does this itself where the first and last operators are its own. A file with tables is made with
    integer ends, and gets its float ones here.

    Args:
        editor: Of the file.
    """
    main = editor.main()
    inputs = list(main.inputs)
    for place, index in enumerate(inputs):
        if main.tensors[index].quantization:
            inputs[place] = _float_end(editor, index)
            editor.add_op(NewOp("QUANTIZE", (inputs[place],), (index,), "QuantizeOptions"), 0)
    outputs = list(main.outputs)
    for place, index in enumerate(outputs):
        if main.tensors[index].quantization:
            outputs[place] = _float_end(editor, index)
            editor.add_op(NewOp("DEQUANTIZE", (index,), (outputs[place],), "DequantizeOptions"))
    editor.set_ends(inputs, outputs)


def _float_end(editor: Editor, index: int) -> int:
    """The index of a float tensor with the name that the quantised one had."""
    name = editor.main().tensors[index].name
    outer = editor.add_twin(index, "float32")
    editor.rename(index, f"{name}_quantized")
    return outer

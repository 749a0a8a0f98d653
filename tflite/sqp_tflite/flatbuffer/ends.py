"""Gives each output of a file a tensor of its own."""

from __future__ import annotations

import numpy as np

from sqp_tflite.flatbuffer.edit import Editor, NewOp


def separate(content: bytes, names: tuple[str, ...]) -> bytes:
    """Returns the file with a copy (a RESHAPE to the same shape) for each output that is another output or an input.

    The converter lets such outputs share a tensor, which has one name; programs that ask by name then get one of them.

    Args:
        content: The file.
        names: Of its outputs, in order.
    """
    editor = Editor(content)
    main = editor.main()
    outputs, taken = [], set(main.inputs)
    for index, name in zip(main.outputs, names, strict=True):
        if index in taken:
            tensor = main.tensors[index]
            shape = editor.add_constant(f"{name}/shape", np.array(tensor.shape, np.int32))
            copy = editor.add_tensor(name, tensor.dtype, tensor.shape)
            options = {"newShape": list(tensor.shape)}
            editor.add_op(NewOp("RESHAPE", (index, shape), (copy,), "ReshapeOptions", options))
            index = copy
        taken.add(index)
        outputs.append(index)
    if tuple(outputs) != main.outputs:
        editor.set_ends(main.inputs, outputs)
    return editor.bytes()

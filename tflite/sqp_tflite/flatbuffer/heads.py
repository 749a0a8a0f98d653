"""Drops the softmax or sigmoid that ends a finished file."""

from __future__ import annotations

from collections.abc import Mapping

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import TYPE_CHANGES, Op, Subgraph
from sqp_tflite.flatbuffer.softmaxes import Softmax, softmaxes
from sqp_tflite.flatbuffer.tables import scale_of

SIGMOID = "sigmoid"

_MOVING = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def drop_heads(editor: Editor) -> tuple[str, ...]:
    """Takes the last softmax or sigmoid off each output, and returns what each has lost ("" for nothing).

    Between a head and its output the numbers may change their type or shape, no more.

    Args:
        editor: Of a file that was not changed since it was opened.
    """
    main = editor.graph.main
    makers, readers, known = main.makers(), main.readers(), softmaxes(main)
    outputs, lost = list(main.outputs), [""] * len(main.outputs)
    for place, output in enumerate(main.outputs):
        behind, head = _head(makers, known, output)
        if head is None or any(len(readers.get(op.outputs[0], ())) > 1 for op in (head, *behind)):
            continue
        result = head.outputs[0]
        given = main.tensors[known[result].source if result in known else head.inputs[0]]
        codes = [index for op in behind for index in op.outputs if main.tensors[index].quantization]
        if codes and given.quantization is None:
            continue  # No data say how large the numbers in front of the head are.
        lost[place] = known[result].name if result in known else SIGMOID
        if behind:
            editor.read_instead(result, given.index)
        else:
            outputs[place] = given.index
        for index in codes:
            # A probability has another scale than what it was computed from.
            scale, zero_point = scale_of(given)
            editor.set_scale(index, float(scale), zero_point)
    if any(lost):
        names = [tuple(main.tensors[index].name for index in ends) for ends in (main.inputs, main.outputs)]
        editor.set_ends(main.inputs, outputs)
        editor.name_ends(*names)
        editor.drop_unused()
    return tuple(lost)


def ends_in(main: Subgraph) -> tuple[Op | None, ...]:
    """Returns the softmax or sigmoid that each output ends in, None for others."""
    makers, known = main.makers(), softmaxes(main)
    return tuple(_head(makers, known, output)[1] for output in main.outputs)


def _head(makers: Mapping[int, Op], known: Mapping[int, Softmax], output: int) -> tuple[list[Op], Op | None]:
    """The operators between the head and the output, the last first, and the last operator of the head."""
    behind: list[Op] = []
    op = makers.get(output)
    while op is not None and op.name in (*TYPE_CHANGES, *_MOVING):
        behind.append(op)
        op = makers.get(op.inputs[0])
    head = op is not None and (op.name == "LOGISTIC" or op.outputs[0] in known)
    return behind, op if head else None

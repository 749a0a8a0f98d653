"""A file in half precision, emulated: an estimate of what a GPU delegate computes.

Every number that goes into an operator or comes out of it is a half: inputs, weights and results are rounded to IEEE
float16. Within an operator LiteRT's own kernels compute in float32, accumulators included, without a delegate. For ADD,
SUB, MUL, DIV and SQRT this is IEEE half arithmetic, since float32 has more than twice the digits (Figueroa, "When is
double rounding innocuous?", 1995). Delegates differ: some accumulate in half, some flush subnormals to 0, and their
other functions are approximations of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph, numbers
from sqp_tflite.ops.policy import DATA_MOVING

FLOAT = "float32"

_WITH_GRAPHS = ("WHILE", "IF", "CALL", "CALL_ONCE")
_DEQUANTIZE = "DEQUANTIZE"
_ADDED = "sqp.half"


def rounded(values: NDArray[Any]) -> NDArray[Any]:
    """Returns the nearest halves, as float32; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def lacking(graph: Graph) -> str:
    """Returns why a file cannot be emulated in half precision, in a sentence that names the operators; "" if it can.

    Args:
        graph: The file.
    """
    kind = numbers(graph)
    if kind not in ("float32", "float16"):
        return f"half precision is emulated for files of floats only. Received: {kind}. Export with --quantize float32."
    names = [op.name for subgraph, op in graph.all_ops() if not _emulated(subgraph, op)]
    if not names:
        return ""
    listed = ", ".join(dict.fromkeys(names))
    return f"half precision is not emulated for operators with a state, a graph or code of their own: {listed}."


def _emulated(subgraph: Subgraph, op: Op) -> bool:
    if op.name in _WITH_GRAPHS or op.name.startswith(("CUSTOM:", "STABLEHLO_")):
        return False
    touched = [subgraph.tensors[index] for index in (*op.inputs, *op.outputs) if index >= 0]
    return not any(t.variable or t.sparse or t.dtype in ("float64", "bfloat16", "resource") for t in touched)


def in_half(content: bytes) -> bytes:
    """Returns the file with each result of an operator rounded to half precision, and all its weights.

    The rounding is a CAST to float16 and one back, between which nothing changes: LiteRT rounds there as numpy does.

    Args:
        content: A file for which `lacking` returns "".
    """
    editor = Editor(content)
    main = editor.graph.main
    editor.drop_signatures()
    for tensor in main.tensors:
        if tensor.constant and tensor.dtype == FLOAT and tensor.values is not None:
            editor.set_values(tensor.index, rounded(tensor.values))
    ends = dict(zip(main.outputs, main.outputs, strict=True))
    for op in reversed(main.ops):
        for index in op.outputs:
            tensor = main.tensors[index]
            if tensor.dtype != FLOAT or _exact(main, op):
                continue
            half = editor.add_tensor(_ADDED, "float16", tensor.shape)
            back = editor.add_tensor(_ADDED, FLOAT, tensor.shape)
            editor.read_instead(index, back)
            editor.add_op(_cast(half, back, "FLOAT16", "FLOAT32"), op.index + 1)
            editor.add_op(_cast(index, half, "FLOAT32", "FLOAT16"), op.index + 1)
            if index in ends:
                ends[index] = back
    editor.set_ends(main.inputs, [ends[index] for index in main.outputs])
    return editor.bytes()


def _exact(main: Subgraph, op: Op) -> bool:
    """Whether an operator's results are halves because its operands are."""
    return op.name in DATA_MOVING - {"CAST"} or (
        op.name == _DEQUANTIZE and main.tensors[op.inputs[0]].dtype == "float16"
    )


def _cast(source: int, result: int, read: str, written: str) -> NewOp:
    return NewOp("CAST", (source,), (result,), "CastOptions", {"inDataType": read, "outDataType": written})

"""Puts QUANTIZE behind the integer inputs of a file and DEQUANTIZE before its integer outputs."""

from __future__ import annotations

import copy
from typing import Any

from sqp_tflite.flatbuffer import edit
from sqp_tflite.flatbuffer.chains import quantized


def with_float_ends(content: bytes) -> bytes:
    """Returns the file with float32 inputs and outputs; what lies between stays as it is.

    The quantiser does this itself where the first and last operators are its own. A file with tables is made with
    integer ends, and gets its float ones here.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = edit.unpack(content)
    graph = model.subgraphs[0]
    graph.inputs, graph.outputs = list(graph.inputs), list(graph.outputs)
    for ends, op in ((graph.inputs, "QUANTIZE"), (graph.outputs, "DEQUANTIZE")):
        for place, index in enumerate(list(ends)):
            inner = graph.tensors[index]
            if not quantized(inner):
                continue
            outer = copy.copy(inner)
            outer.type, outer.buffer, outer.quantization = (
                schema.TensorType.FLOAT32,
                0,
                schema.QuantizationParametersT(),
            )
            inner.name = f"{edit.name_of(outer)}_quantized"
            graph.tensors.append(outer)
            ends[place] = len(graph.tensors) - 1
            operator = schema.OperatorT()
            operator.opcodeIndex = edit.op_code(model, op)
            if op == "QUANTIZE":
                operator.inputs, operator.outputs = [ends[place]], [index]
                operator.builtinOptionsType, operator.builtinOptions = _options(schema, "QuantizeOptions")
                graph.operators.insert(0, operator)
            else:
                operator.inputs, operator.outputs = [index], [ends[place]]
                operator.builtinOptionsType, operator.builtinOptions = _options(schema, "DequantizeOptions")
                graph.operators.append(operator)
    return edit.pack(model)


def _options(schema: Any, table: str) -> tuple[int, Any]:
    return getattr(schema.BuiltinOptions, table), getattr(schema, f"{table}T")()

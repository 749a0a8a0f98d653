"""Models of a single operator, one for every type that it could be given: what the probe runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

QUANTIZED = ("int8", "int16")
REAL = ("float32", *QUANTIZED)
ANY = (*REAL, "int32", "bool")
NUMERIC = (*REAL, "int32")

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor of a case; `values` is None for a computed one."""

    shape: Shape
    dtype: str
    values: tuple[float, ...] | None = None
    scale: float = 0.0
    zero_point: int = 0
    code: float = 16


@dataclass(frozen=True, slots=True)
class Case:
    """One operator with operands: a computed operand is fed with its `code` everywhere.

    Attributes:
        op: As the schema spells it.
        dtype: The type that decides, as `graph.Op.dtype` has it.
        inputs: Operands in order; None for one left out.
        outputs: Operands in order.
        options: Name of the schema's options table, and its fields.
        version: Of the operator.
    """

    op: str
    dtype: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    options: tuple[str, MappingProxyType[str, Any]] | None = None
    version: int = 1


@dataclass(frozen=True, slots=True)
class Family:
    """A builder of cases and the types it is asked for."""

    dtypes: tuple[str, ...]
    build: Callable[[str, str], Case] = field(repr=False)


def value(shape: Shape, dtype: str, scale: float | None = None, zero_point: int | None = None) -> Operand:
    """Returns a computed operand; quantised types get a scale, with every code a number >= 0 at int8."""
    if dtype not in QUANTIZED:
        return Operand(shape, dtype, code=1)
    default = (0.02, -128) if dtype == "int8" else (0.001, 0)
    return Operand(
        shape, dtype, None, default[0] if scale is None else scale, default[1] if zero_point is None else zero_point
    )


def constant(shape: Shape, dtype: str, values: Any, scale: float = 0.0) -> Operand:
    """Returns an operand that stands in the file; a scalar is repeated."""
    size = int(np.prod(shape, dtype=np.int64))
    return Operand(shape, dtype, tuple(np.broadcast_to(np.asarray(values, float), (size,)).tolist()), scale)


def indices(*numbers: int) -> Operand:
    """Returns a constant vector of int32."""
    return constant((len(numbers),), "int32", numbers)


def options(table: str, **fields: Any) -> tuple[str, MappingProxyType[str, Any]]:
    """Returns an options table by name."""
    return table, MappingProxyType(fields)


def build(case: Case) -> bytes:
    """Returns the TFLite file of one case."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT()
    model.version = 3
    model.description = f"{case.op} {case.dtype}"
    model.buffers = [schema.BufferT()]
    graph = schema.SubGraphT()
    graph.name, graph.tensors = "main", []
    operator = schema.OperatorT()
    operator.inputs = [_add(schema, model, graph, operand, f"in{i}") for i, operand in enumerate(case.inputs)]
    operator.outputs = [_add(schema, model, graph, operand, f"out{i}") for i, operand in enumerate(case.outputs)]
    operator.opcodeIndex = 0
    if case.options:
        table, fields = case.options
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, table)
        operator.builtinOptions = getattr(schema, f"{table}T")()
        for name, content in fields.items():
            setattr(operator.builtinOptions, name, content)
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, case.op)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.version = case.version
    model.operatorCodes = [code]
    graph.operators = [operator]
    computed = [
        i for i, operand in zip(operator.inputs, case.inputs, strict=True) if operand and operand.values is None
    ]
    graph.inputs, graph.outputs = computed, operator.outputs
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _add(schema: Any, model: Any, graph: Any, operand: Operand | None, name: str) -> int:
    if operand is None:
        return -1
    tensor = schema.TensorT()
    tensor.name, tensor.shape = name, list(operand.shape)
    tensor.type = getattr(schema.TensorType, operand.dtype.upper())
    tensor.quantization = schema.QuantizationParametersT()
    if operand.scale:
        tensor.quantization.scale, tensor.quantization.zeroPoint = [operand.scale], [operand.zero_point]
    buffer = schema.BufferT()
    if operand.values is not None:
        buffer.data = np.frombuffer(np.asarray(operand.values).astype(operand.dtype).tobytes(), np.uint8)
    model.buffers.append(buffer)
    tensor.buffer = len(model.buffers) - 1
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1

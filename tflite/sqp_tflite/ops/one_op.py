"""Models with one operator, one model per type that it could have: what the probe runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from sqp_tflite.flatbuffer.edit import Editor, NewOp, blank

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
    """One operator with its operands; a computed operand is filled with its `code`.

    Attributes:
        op: As the schema spells it.
        dtype: The deciding type, as in `graph.Op.dtype`.
        inputs: Operands in order; None for an omitted one.
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
    """A builder of cases, and the types that are probed."""

    dtypes: tuple[str, ...]
    build: Callable[[str, str], Case] = field(repr=False)


def value(shape: Shape, dtype: str, scale: float | None = None, zero_point: int | None = None) -> Operand:
    """Returns a computed operand; quantised types get a scale, and every int8 code stands for a number >= 0."""
    if dtype not in QUANTIZED:
        return Operand(shape, dtype, code=1)
    default = (0.02, -128) if dtype == "int8" else (0.001, 0)
    return Operand(
        shape, dtype, None, default[0] if scale is None else scale, default[1] if zero_point is None else zero_point
    )


def constant(shape: Shape, dtype: str, values: Any, scale: float = 0.0) -> Operand:
    """Returns an operand with constant values; a scalar is repeated."""
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
    editor = Editor(blank(f"{case.op} {case.dtype}"))
    inputs = tuple(_add(editor, operand, f"in{i}") for i, operand in enumerate(case.inputs))
    outputs = tuple(_add(editor, operand, f"out{i}") for i, operand in enumerate(case.outputs))
    table, fields = case.options or ("", None)
    editor.add_op(NewOp(case.op, inputs, outputs, table, fields, case.version))
    computed = [i for i, operand in zip(inputs, case.inputs, strict=True) if operand and operand.values is None]
    editor.set_ends(computed, outputs)
    return editor.bytes()


def _add(editor: Editor, operand: Operand | None, name: str) -> int:
    if operand is None:
        return -1
    if operand.values is None:
        return editor.add_tensor(name, operand.dtype, operand.shape, operand.scale or None, operand.zero_point)
    array = np.asarray(operand.values).astype(operand.dtype).reshape(operand.shape)
    index = editor.add_constant(name, array)
    if operand.scale:
        editor.set_scale(index, operand.scale, operand.zero_point)
    return index

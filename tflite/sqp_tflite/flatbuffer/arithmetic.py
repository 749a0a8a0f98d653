"""Writes arithmetic on float tensors into a file: what adds and multiplies becomes operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.layer_names import FORM_SCOPE

_TABLES = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions"}


@dataclass(frozen=True, slots=True)
class Value:
    """A float tensor of the file, or of the operators to be written; `+`, `-` and `*` write operators."""

    writer: Writer
    index: int

    def __add__(self, other: Value | float) -> Value:
        return self.writer.op("ADD", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return self.writer.op("SUB", self, other)

    def __mul__(self, other: Value | float) -> Value:
        return self.writer.op("MUL", self, other)


class Writer:
    """Collects the operators of one function of a tensor; equal numbers share a constant.

    Args:
        editor: Of the file.
        scope: The layer, for the names of new tensors.
        numbers: Constants that were written before, by value.
    """

    def __init__(self, editor: Editor, scope: str, numbers: dict[float, int]):
        self.ops: list[NewOp] = []
        self._editor, self._scope, self._numbers = editor, scope, numbers
        self._shapes: dict[int, tuple[int, ...]] = {}

    def value(self, index: int, shape: Sequence[int]) -> Value:
        """Returns a tensor of the file as a value."""
        self._shapes[index] = tuple(shape)
        return Value(self, index)

    def shape(self, x: Value) -> tuple[int, ...]:
        """Returns a value's shape."""
        return self._shapes[x.index]

    def op(self, name: str, *operands: Value | float) -> Value:
        """Returns what an operator of values and numbers makes, which has the shape of the larger."""
        indices = [self._number(one) if isinstance(one, (int, float)) else one.index for one in operands]
        shapes = [self._shapes[one.index] for one in operands if isinstance(one, Value)]
        return self._made(name, tuple(indices), max(shapes, key=lambda shape: int(np.prod(shape))), _TABLES.get(name))

    def reduced(self, name: str, x: Value) -> Value:
        """Returns REDUCE_MAX or MEAN over the last axis, which stays with size 1."""
        shape = self.shape(x)
        axis = self._editor.add_constant(self._name("axis"), np.array([len(shape) - 1], np.int32))
        return self._made(name, (x.index, axis), (*shape[:-1], 1), "ReducerOptions", {"keepDims": True})

    def sqrt(self, x: Value) -> Value:
        """Returns the square root."""
        return self.op("SQRT", x)

    def relu(self, x: Value) -> Value:
        """Returns the larger of x and 0, as part of the ADD that makes x if that is the last operator."""
        return x if self._fused(x, "ADD", "RELU") else self.op("RELU", x)

    def maximum(self, x: Value, low: float) -> Value:
        """Returns the larger of x and a number."""
        return self.op("MAXIMUM", x, low)

    def minimum(self, x: Value, high: float) -> Value:
        """Returns the smaller of x and a number; the clip to [-1, 1] becomes part of an ADD in front."""
        last = self.ops[-2:]
        if high == 1.0 and [op.name for op in last] == ["ADD", "MAXIMUM"] and last[1].outputs == (x.index,):
            added, clipped = last
            if clipped.inputs == (added.outputs[0], self._number(-1.0)):
                self.ops.pop()
                self._fused(Value(self, added.outputs[0]), "ADD", "RELU_N1_TO_1")
                return Value(self, added.outputs[0])
        return self.op("MINIMUM", x, high)

    def finished(self, result: int) -> list[NewOp]:
        """Returns the operators, the last of which writes a tensor that the file has already."""
        *before, last = self.ops
        return [*before, NewOp(last.name, last.inputs, (result,), last.table, last.options)]

    def _fused(self, x: Value, name: str, clip: str) -> bool:
        last = self.ops[-1] if self.ops else None
        if last is None or last.name != name or last.outputs != (x.index,):
            return False
        self.ops[-1] = NewOp(last.name, last.inputs, last.outputs, last.table, {"fusedActivationFunction": clip})
        return True

    def _made(
        self, name: str, inputs: tuple[int, ...], shape: tuple[int, ...], table: str | None, options: Any = None
    ) -> Value:
        index = self._editor.add_tensor(self._name(name.title()), "float32", shape)
        self._shapes[index] = shape
        self.ops.append(NewOp(name, inputs, (index,), table or "", options))
        return Value(self, index)

    def _number(self, number: float) -> int:
        held = float(np.float32(number))
        if held not in self._numbers:
            self._numbers[held] = self._editor.add_constant(
                f"sqp.number.{len(self._numbers)}", np.array(held, np.float32)
            )
        return self._numbers[held]

    def _name(self, what: str) -> str:
        return f"{self._scope}/{FORM_SCOPE}/{what}_{len(self.ops)}"

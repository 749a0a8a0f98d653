"""Elementwise operators that are computed in one loop: the one that makes their operand, or one of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import RANGES
from sqp_tflite.codegen.expressions import FLOAT, INT, Expr
from sqp_tflite.codegen.printing import Printer, Range
from sqp_tflite.codegen.source import C_TYPES, Source
from sqp_tflite.flatbuffer.graph import Tensor

MADE = "z"
"""The leaf that stands for what the surrounding loop has just made."""

SAME, LAST, SCALAR = "same", "last", "scalar"
"""How an operand is read: element by element, by its last axis, or one value for all."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a fused operator reads.

    Attributes:
        tensor: Its index.
        how: "same", "last" or "scalar".
    """

    tensor: int
    how: str


@dataclass(frozen=True, slots=True)
class Fused:
    """Elementwise operators over one shape.

    Attributes:
        operands: By the names of the leaves.
        results: What is stored: the value of each tensor, by its index, in order.
    """

    operands: Mapping[str, Operand]
    results: Mapping[int, Expr]


def type_of(tensor: Tensor) -> str:
    """Returns the type in which expressions hold an element of a tensor."""
    return FLOAT if tensor.dtype == "float32" else INT


@dataclass(frozen=True, slots=True)
class Sink:
    """Writes the C that takes one element from the loop that makes it.

    Attributes:
        source: Where constants and helpers go.
        tensors: Of the graph.
        fused: What is computed.
        names: C names of the pointers to what is read and written, by the tensor's index; constants are not in it.
        made: The range of what the loop makes; None if it makes nothing.
        largest: C text of when a result replaces whatever is there; else only a smaller one. "" for always.
    """

    source: Source
    tensors: tuple[Tensor, ...]
    fused: Fused
    names: Mapping[int, str]
    made: Range | None = None
    largest: str = ""

    def store(self, base: str, channel: str, value: str = "") -> list[str]:
        """Returns the statements that compute and store the results of one element.

        Args:
            base: C text of the place of the element's first channel.
            channel: C text of its channel, "" if there is one.
            value: C text of what was made.
        """
        place = " + ".join(part for part in (base, channel) if part and part != "0") or "0"
        lines: list[str] = []
        given = {MADE: value}
        ranges: dict[str, Range] = {} if self.made is None else {MADE: self.made}
        for number, (name, operand) in enumerate(self.fused.operands.items()):
            tensor = self.tensors[operand.tensor]
            at = {SAME: place, LAST: channel or "0", SCALAR: "0"}[operand.how]
            given[name] = f"a{number}"
            if tensor.dtype in RANGES:
                ranges[name] = RANGES[tensor.dtype]
            type_ = "float" if type_of(tensor) == FLOAT else "int32_t"
            lines.append(f"const {type_} a{number} = {self._pointer(tensor)}[{at}];")
        printer = Printer(self.source.call, self._table, given, ranges)
        stores: list[str] = []
        for index, expr in self.fused.results.items():
            text, type_ = printer.text(expr), C_TYPES[self.tensors[index].dtype]
            target = f"{self.names[index]}[{place}]"
            held = "float" if expr.type == FLOAT else "int32_t"
            value = text if type_ == held else f"({type_}){text}"
            condition = f"if ({self.largest} || {text} > {target}) " if self.largest else ""
            stores.append(f"{condition}{target} = {value};")
        return [*lines, *printer.lines, *stores]

    def _pointer(self, tensor: Tensor) -> str:
        if tensor.constant:
            values = tensor.values
            if values is None:
                raise ValueError(f"`{tensor.name}` has no values.")
            return self.source.constant(values, "weights")
        return self.names[tensor.index]

    def _table(self, entries: NDArray[Any]) -> str:
        return self.source.constant(np.asarray(entries))

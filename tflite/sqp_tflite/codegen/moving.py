"""Operators that only copy elements: from places with strides to places with strides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import zero_point
from sqp_tflite.codegen.printing import float_literal, int_literal
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import C_TYPES, Source
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor


@dataclass(frozen=True, slots=True)
class Copy:
    """Elements of one tensor to another.

    Attributes:
        source: Index of the tensor that is read.
        target: Index of the tensor that is written.
        sizes: Of the loops, the outermost first.
        steps_from: How far the read place moves in each loop.
        steps_to: How far the written place moves.
        begin_from: Where reading begins.
        begin_to: Where writing begins.
    """

    source: int
    target: int
    sizes: tuple[int, ...]
    steps_from: tuple[int, ...]
    steps_to: tuple[int, ...]
    begin_from: int = 0
    begin_to: int = 0

    def merged(self) -> Copy:
        """Returns the same copy with as few loops as it needs."""
        rows: list[list[int]] = []
        for size, there, here in zip(self.sizes, self.steps_from, self.steps_to, strict=True):
            if size == 1:
                continue
            if rows and rows[-1][1] == size * there and rows[-1][2] == size * here:
                rows[-1] = [rows[-1][0] * size, there, here]
            else:
                rows.append([size, there, here])
        rows = rows or [[1, 1, 1]]
        sizes, from_, to = (tuple(row[place] for row in rows) for place in range(3))
        return Copy(self.source, self.target, sizes, from_, to, self.begin_from, self.begin_to)


@dataclass(frozen=True, slots=True)
class Moved:
    """Copies, and what is written before them.

    Attributes:
        graph: The graph that holds the tensors.
        copies: In order.
        outputs: Indices of what is written.
        fill: C literal of what the output is filled with before; "" for nothing.
    """

    graph: Subgraph
    copies: tuple[Copy, ...]
    outputs: tuple[int, ...]
    fill: str = ""

    @property
    def reads(self) -> tuple[int, ...]:
        """Returns the computed tensors that it reads."""
        return tuple(dict.fromkeys(one.source for one in self.copies if not self.graph.tensors[one.source].constant))

    def body(self, source: Source, names: Mapping[int, str]) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        lines: list[str] = []
        if self.fill:
            size = self.graph.tensors[self.outputs[0]].elements
            lines += [
                "{",
                "int32_t i;",
                f"for (i = 0; i < {size}; i++) {names[self.outputs[0]]}[i] = {self.fill};",
                "}",
            ]
        for one in self.copies:
            given = source.pointer(self.graph.tensors[one.source], names)
            lines += _loops(one.merged(), given, names[one.target])
        return lines


def _loops(copy: Copy, given: str, made: str) -> list[str]:
    letters = [f"i{place}" for place in range(len(copy.sizes))]
    lines = ["{", f"int32_t {', '.join(letters)};"]
    for letter, size in zip(letters, copy.sizes, strict=True):
        lines.append(f"for ({letter} = 0; {letter} < {size}; {letter}++) {{")
    there = _place(copy.begin_from, letters, copy.steps_from)
    here = _place(copy.begin_to, letters, copy.steps_to)
    return [*lines, f"{made}[{here}] = {given}[{there}];", *["}"] * (len(letters) + 1)]


def _place(begin: int, letters: Sequence[str], steps: Sequence[int]) -> str:
    terms = [
        letter if step == 1 else f"{letter} * {int_literal(step)}" for letter, step in zip(letters, steps, strict=True)
    ]
    return " + ".join(([str(begin)] if begin else []) + terms)


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns how far the next element along each axis is."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def view(mover: Any, graph: Subgraph) -> dict[int, int] | None:
    """Returns where each output begins in the one input whose part it is, None where elements must be copied.

    Args:
        mover: What would copy them.
        graph: The graph that holds the tensors.
    """
    if (
        not isinstance(mover, Moved)
        or mover.fill
        or len(mover.reads) != 1
        or any(graph.tensors[one.source].constant for one in mover.copies)
    ):
        return None
    begins = {}
    for one in mover.copies:
        merged = one.merged()
        whole = graph.tensors[one.target].elements
        if (
            one.begin_to
            or len(merged.sizes) != 1
            or merged.sizes[0] != whole
            or (whole > 1 and merged.steps_from != (1,))
        ):
            return None
        begins[one.target] = one.begin_from
    return begins if len(begins) == len(mover.outputs) else None


def copy_of(source: Tensor, target: Tensor) -> Any:
    """Returns a plain copy.

    Args:
        source: What is copied.
        target: Of the same size.
    """
    return _Plain(source, target)


@dataclass(frozen=True, slots=True)
class _Plain:
    source: Tensor
    target: Tensor

    @property
    def reads(self) -> tuple[int, ...]:
        """Returns the computed tensors that it reads."""
        return () if self.source.constant else (self.source.index,)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Returns the tensors that it makes."""
        return (self.target.index,)

    def body(self, source: Source, names: Mapping[int, str]) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        given = source.pointer(self.source, names)
        size = (self.source.elements,)
        return _loops(Copy(self.source.index, self.target.index, size, (1,), (1,)), given, names[self.target.index])


def constant_of(op: Op, graph: Subgraph, place: int) -> NDArray[Any]:
    """Returns a constant operand's numbers.

    Args:
        op: Whose it is.
        graph: The graph that holds it.
        place: Which of its operands.
    """
    tensor = graph.tensors[op.inputs[place]]
    if tensor.values is None:
        refuse(op, "needs constant places here", f"`{tensor.name}`, computed")
    return np.asarray(tensor.values).reshape(-1)


def typed(op: Op, *tensors: Tensor) -> None:
    """Refuses types that C code does not hold, and codes of different scales."""
    for tensor in tensors:
        if tensor.dtype not in C_TYPES or tensor.dtype != tensors[0].dtype:
            refuse(op, "moves elements of one type, float32 or integers", tensor.dtype)


def fill_of(tensor: Tensor, value: float | None = None) -> str:
    """Returns the C literal of 0, or of another value, in a tensor's type."""
    if tensor.dtype == "float32":
        return float_literal(value or 0.0)
    if value is not None:
        return int_literal(int(value))
    return int_literal(zero_point(tensor) if tensor.quantization else 0)

"""Expressions as C statements, with the range of each integer so that the shortest exact form is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import NEVER_DOUBLED, Multiplier
from sqp_tflite.codegen.expressions import FLOAT, INT, WIDE, Expr
from sqp_tflite.codegen.literals import float_text

C_TYPES = {INT: "int32_t", WIDE: "int64_t", FLOAT: "float"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_WHOLE = (-(2**31), 2**31 - 1)

Range = tuple[int, int]


@dataclass(slots=True)
class Printer:
    """Makes C of expressions within one block of statements.

    Attributes:
        call: Returns the C name of a helper, and notes that it is needed.
        constant: Returns the C name of a constant array.
        given: The C text of each leaf.
        ranges: The range of each integer leaf.
        lines: The statements so far.
        letter: What the names of variables begin with.
    """

    call: Callable[[str], str]
    constant: Callable[[NDArray[Any]], str]
    given: Mapping[str, str]
    ranges: Mapping[str, Range]
    lines: list[str] = field(default_factory=list)
    letter: str = "v"
    _names: dict[int, str] = field(default_factory=dict)
    _ranges: dict[int, Range] = field(default_factory=dict)
    _kept: list[Expr] = field(default_factory=list)

    def text(self, expr: Expr) -> str:
        """Returns the C text of a value: a name or a literal; its statements are in `lines` then."""
        if id(expr) in self._names:
            return self._names[id(expr)]
        self._kept.append(expr)  # Its id stays its own.
        if expr.kind == "select" and _eight_bits(expr):
            value = self.text(expr.args[0].args[0])
            self._names[id(expr)] = f"{self.letter}{len(self.lines)}"
            self._ranges[id(expr)] = (-128, 127)
            self.lines.append(f"const int32_t {self._names[id(expr)]} = {self.call('clip8')}({value});")
            return self._names[id(expr)]
        arguments = [self.text(arg) for arg in expr.args]
        ranges = [self._ranges[id(arg)] for arg in expr.args]
        if expr.kind == "leaf":
            made = self.given[expr.data[0]]
            self._ranges[id(expr)] = self.ranges.get(expr.data[0], _WHOLE)
        elif expr.kind == "const":
            value = expr.data[0]
            made = float_literal(float(value)) if expr.type == FLOAT else int_literal(value)
            self._ranges[id(expr)] = _WHOLE if expr.type == FLOAT else (int(value), int(value))
        else:
            self._ranges[id(expr)] = _range(expr, ranges)
            made = f"{self.letter}{len(self.lines)}"
            text = self._operation(expr, arguments, ranges)
            self.lines.append(f"const {C_TYPES[expr.type]} {made} = {text};")
        self._names[id(expr)] = made
        return made

    def range(self, expr: Expr) -> Range:
        """Returns the range of an integer that `text` has printed."""
        return self._ranges[id(expr)]

    def _operation(self, expr: Expr, args: list[str], ranges: list[Range]) -> str:
        kind, data = expr.kind, expr.data
        if kind in _SIGNS:
            return f"{args[0]} {_SIGNS[kind]} {args[1]}"
        if kind == "select":
            return f"{args[0]} {data[0]} {args[1]} ? {args[2]} : {args[3]}"
        if kind == "float":
            return f"(float){args[0]}"
        if kind == "sqrt":
            return f"{self.call('sqrt')}({args[0]})"
        if kind == "neg":
            return f"-{args[0]}"
        if kind == "abs":
            zero = "0.0f" if expr.type == FLOAT else "0"
            return (
                f"{args[0]} < {zero} ? -{args[0]} : {args[0]}"
                if expr.type == INT
                else f"{args[0]} > {zero} ? {args[0]} : {zero} - {args[0]}"
            )
        if kind == "round":
            low, high = data
            return f"{self.call('to_code')}({args[0]}, {float_literal(low)}, {float_literal(high)})"
        if kind == "table":
            first = data[1]
            place = args[0] if first == 0 else f"{args[0]} + {-first}" if first < 0 else f"{args[0]} - {first}"
            return f"{self.constant(data[0])}[{place}]"
        by: Multiplier = data[0]
        if kind == "wide":
            return wide_text(args[0], by)
        if kind == "rsqrt":
            return f"{self.call('rsqrt')}({args[0]}, {by.value}, {by.shift})"
        return self.requantized(args[0], ranges[0], by)

    def requantized(self, value: str, held: Range, by: Multiplier) -> str:
        """Returns an integer times a multiplier, in C.

        Args:
            value: Its C text.
            held: Its range.
            by: The multiplier.
        """
        left, right = max(by.shift, 0), max(-by.shift, 0)
        most = max(-held[0], held[1]) << left
        if most >= NEVER_DOUBLED:
            return f"{self.call('scale')}({value}, {by.value}, {by.shift})"
        moved = f"{value} * {1 << left}" if left else value
        high = f"{self.call('high_small')}({moved}, {by.value})"
        return f"{self.call('shift')}({high}, {right - 1}, 1)" if right else high


def _eight_bits(expr: Expr) -> bool:
    """Whether a value is the outer half of a clip to -128 ... 127; its inner half is then not used."""
    inner = expr.args[0]
    outer = expr.data[0] == ">" and expr.args[3] is inner and expr.args[1].data == (127,) and inner.kind == "select"
    return outer and inner.data[0] == "<" and inner.args[3] is inner.args[0] and inner.args[1].data == (-128,)


def wide_text(value: str, by: Multiplier) -> str:
    """Returns a 64-bit sum times a multiplier of 16 bits, in C.

    Args:
        value: Its C text.
        by: The multiplier, whose shift is at most 14.
    """
    reduced = (by.value + (1 << 15)) >> 16 if by.value < 0x7FFF0000 else 0x7FFF
    total = 15 - by.shift
    return f"(int32_t)(((int64_t){value} * {reduced} + ((int64_t)1 << {total - 1})) >> {total})"


def int_literal(value: int) -> str:
    """Returns an integer as a C literal."""
    return f"({value})" if value < 0 else str(value)


def float_literal(value: float) -> str:
    """Returns a float as a C literal."""
    text = float_text(value)
    return f"({text})" if text.startswith("-") else text


def _range(expr: Expr, held: list[Range]) -> Range:
    if expr.type == FLOAT:
        return _WHOLE
    kind = expr.kind
    if kind == "add":
        return held[0][0] + held[1][0], held[0][1] + held[1][1]
    if kind == "sub":
        return held[0][0] - held[1][1], held[0][1] - held[1][0]
    if kind == "mul":
        ends = [a * b for a in held[0] for b in held[1]]
        return min(ends), max(ends)
    if kind == "abs":
        return 0, max(-held[0][0], held[0][1])
    if kind == "neg":
        return -held[0][1], -held[0][0]
    if kind == "round":
        return int(expr.data[0]), int(expr.data[1])
    if kind == "table":
        entries = np.asarray(expr.data[0])
        return int(entries.min()), int(entries.max())
    if kind == "select":
        return _range_of_select(expr, held)
    if kind == "requantize":
        by: Multiplier = expr.data[0]
        factor = by.value * 2.0 ** (by.shift - 31)
        low, high = (int(end * factor) for end in held[0])
        return max(low - 2, _WHOLE[0]), min(high + 2, _WHOLE[1])
    return _WHOLE


def _range_of_select(expr: Expr, held: list[Range]) -> Range:
    """Of a clip, which compares a value with what it is replaced by: narrower than that of any choice."""
    value, limit, yes, no = expr.args
    if yes is limit and no is value:
        if expr.data[0] == "<":
            return max(held[0][0], held[1][0]), max(held[0][1], held[1][1])
        return min(held[0][0], held[1][0]), min(held[0][1], held[1][1])
    return min(held[2][0], held[3][0]), max(held[2][1], held[3][1])

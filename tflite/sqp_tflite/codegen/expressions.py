"""What an operator computes for one element, as a small expression: it is printed as C, and computed by numpy.

Values are 32-bit integers ("i32"), 64-bit integers ("i64", sums of int16 layers) or floats ("f32"). One definition
serves both ends: a function of one int8 code is computed for its 256 codes and becomes a table; everything else is
printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import Multiplier, requantized, requantized_wide
from sqp_tflite.codegen.roots import rsqrt_codes

INT, WIDE, FLOAT = "i32", "i64", "f32"
_NUMPY = {INT: np.int64, WIDE: np.int64, FLOAT: np.float32}


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One value.

    Attributes:
        kind: What computes it.
        type: "i32", "i64" or "f32".
        args: Operands.
        data: What else it depends on: a constant, a name, a multiplier, a table.
    """

    kind: str
    type: str
    args: tuple[Expr, ...] = ()
    data: tuple[Any, ...] = ()


def leaf(name: str, type_: str) -> Expr:
    """Returns a value that is given from outside, by its name."""
    return Expr("leaf", type_, (), (name,))


def integer(value: int) -> Expr:
    """Returns an integer constant."""
    return Expr("const", INT, (), (int(value),))


def real(value: float) -> Expr:
    """Returns a constant in single precision."""
    return Expr("const", FLOAT, (), (np.float32(value),))


def add(a: Expr, b: Expr) -> Expr:
    """Returns a + b."""
    return Expr("add", a.type, (a, b))


def sub(a: Expr, b: Expr) -> Expr:
    """Returns a - b."""
    return Expr("sub", a.type, (a, b))


def mul(a: Expr, b: Expr) -> Expr:
    """Returns a * b."""
    return Expr("mul", a.type, (a, b))


def offset(a: Expr, by: int) -> Expr:
    """Returns an integer plus a constant."""
    return a if by == 0 else add(a, integer(by))


def divide(a: Expr, b: Expr) -> Expr:
    """Returns a / b of floats."""
    return Expr("div", FLOAT, (a, b))


def unary(kind: str, a: Expr) -> Expr:
    """Returns "sqrt", "abs" or "neg" of a value."""
    return Expr(kind, a.type, (a,))


def select(a: Expr, comparison: str, b: Expr, yes: Expr, no: Expr) -> Expr:
    """Returns `yes` where a and b compare as said ("<" or ">"), else `no`; equal and NaN is `no`."""
    return Expr("select", yes.type, (a, b, yes, no), (comparison,))


def at_least(a: Expr, low: Expr) -> Expr:
    """Returns the larger one, `a` where they are equal."""
    return select(a, "<", low, low, a)


def at_most(a: Expr, high: Expr) -> Expr:
    """Returns the smaller one, `a` where they are equal."""
    return select(a, ">", high, high, a)


def clip(a: Expr, low: int, high: int) -> Expr:
    """Returns an integer within limits."""
    return at_most(at_least(a, integer(low)), integer(high))


def clip_float(a: Expr, low: float | None, high: float | None) -> Expr:
    """Returns a float within limits, None for no limit."""
    a = a if low is None else at_least(a, real(low))
    return a if high is None else at_most(a, real(high))


def requantize(a: Expr, by: Multiplier) -> Expr:
    """Returns an integer times a multiplier, as TFLM rounds it."""
    return Expr("wide" if a.type == WIDE else "requantize", INT, (a,), (by,))


def shifted(a: Expr, by: int) -> Expr:
    """Returns an integer times 2^by."""
    return mul(a, integer(1 << by))


def to_float(a: Expr) -> Expr:
    """Returns an integer as a float."""
    return Expr("float", FLOAT, (a,))


def to_code(a: Expr, low: int, high: int) -> Expr:
    """Returns a float rounded to the nearest integer, half away from zero, within limits."""
    return Expr("round", INT, (a,), (low, high))


def lookup(a: Expr, entries: NDArray[Any], first: int) -> Expr:
    """Returns the entry of a table for an integer.

    Args:
        a: The integer, within the table.
        entries: Codes, shape (n,).
        first: The integer of the first entry.
    """
    return Expr("table", INT, (a,), (entries, first))


def rsqrt(a: Expr, by: Multiplier) -> Expr:
    """Returns TFLM's fixed-point 1 / sqrt of an integer > 0, times a multiplier."""
    return Expr("rsqrt", INT, (a,), (by,))


def leaves(expr: Expr) -> set[str]:
    """Returns the names that a value depends on."""
    found: set[str] = set()
    seen: set[int] = set()
    stack = [expr]
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen.add(id(one))
            found |= {one.data[0]} if one.kind == "leaf" else set()
            stack += one.args
    return found


def evaluate(expr: Expr, given: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Returns a value for arrays of its leaves, all of one shape.

    Args:
        expr: The value.
        given: Arrays by the leaves' names.
    """
    memory: dict[int, NDArray[Any]] = {}

    def value(one: Expr) -> NDArray[Any]:
        if id(one) not in memory:
            with np.errstate(all="ignore"):
                memory[id(one)] = _value(one, [value(arg) for arg in one.args], given)
        return memory[id(one)]

    return value(expr)


def _value(expr: Expr, args: list[NDArray[Any]], given: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    kind, data = expr.kind, expr.data
    if kind == "leaf":
        return given[data[0]].astype(_NUMPY[expr.type])
    if kind == "const":
        return np.asarray(data[0], _NUMPY[expr.type])
    if kind in _SIMPLE:
        return np.asarray(_SIMPLE[kind](*args), _NUMPY[expr.type])
    if kind == "select":
        a, b, yes, no = args
        return np.where(a < b if data[0] == "<" else a > b, yes, no)
    if kind == "round":
        clipped = np.clip(args[0].astype(np.float64), data[0], data[1])
        return (np.sign(clipped) * np.floor(np.abs(clipped) + 0.5)).astype(np.int64)
    if kind == "table":
        return np.asarray(data[0]).astype(np.int64)[args[0] - data[1]]
    if kind in _SHIFTS:
        return _SHIFTS[kind](args[0], data[0])
    return np.asarray(
        {"requantize": requantized, "wide": requantized_wide, "rsqrt": rsqrt_codes}[kind](args[0], data[0])
    )


_SHIFTS: Mapping[str, Any] = {
    "shift": lambda a, by: (a + (a >> 31) + (1 << (by - 1))) >> by,
    "floor_shift": lambda a, by: a >> by,
    "trunc_shift": lambda a, by: np.sign(a) * (np.abs(a) >> by),
}
"""Shifts to the right that round half away from zero, down, and towards zero; only computed, never printed."""

_SIMPLE: Mapping[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "neg": np.negative,
    "float": lambda a: a.astype(np.float32),
}

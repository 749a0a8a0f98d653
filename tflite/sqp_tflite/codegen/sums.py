"""What turns the integer sums of a layer into codes: bias, multipliers and limits of each channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import (
    NEVER_DOUBLED,
    RANGES,
    Multiplier,
    code_limits,
    float_limits,
    layer_multipliers,
    zero_point,
)
from sqp_tflite.codegen.printing import Range, float_literal, int_literal
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import Source
from sqp_tflite.flatbuffer.graph import Op, Tensor

_LARGEST = 2**31


@dataclass(frozen=True, slots=True)
class Sums:
    """The end of each sum of an integer layer.

    Attributes:
        bias: Of each channel, with what the input's zero point adds to each sum.
        by: The multiplier of each channel.
        bound: What no sum exceeds in size, at any time.
        limits: The smallest and the largest code.
        zero: The code of 0 in the output.
        wide: Whether TFLM rounds once, as for int16.
    """

    bias: NDArray[np.int64]
    by: tuple[Multiplier, ...]
    bound: int
    limits: Range
    zero: int
    wide: bool

    @property
    def type(self) -> str:
        """Returns the C type of a sum."""
        return "int32_t" if self.bound < _LARGEST else "int64_t"

    def parameters(self, source: Source) -> str:
        """Returns the C name of the parameters: bias, multiplier and shift of one channel after another."""
        if self.type == "int64_t":
            rows = np.array([[b, m, s] for b, (m, s) in zip(self.bias.tolist(), self._pairs(), strict=True)], np.int64)
            return source.constant(rows, "weights")
        columns = [self.bias.tolist(), *zip(*self._pairs(), strict=True)]
        kept = [columns[0], *(column for column in columns[1:] if len(set(column)) > 1)]
        return source.constant(np.array(kept, np.int64).T.astype(np.int32), "weights")

    def _pairs(self) -> list[tuple[int, int]]:
        """What is stored of each multiplier: its value, and the shift in the direction that the code needs."""
        if self.wide:
            return [(_reduced(by), 15 - by.shift) for by in self.by]
        right = self._right
        return [(by.value, max(-by.shift - 1, 0) if right else by.shift) for by in self.by]

    @property
    def _right(self) -> bool:
        """Whether every channel shifts to the right, and the short form of rounding holds."""
        shifts = {by.shift < 0 for by in self.by}
        return self.bound < NEVER_DOUBLED and len(shifts) == 1 and all(by.shift <= 0 for by in self.by)

    @property
    def stride(self) -> int:
        """Returns how many parameters there are for each channel."""
        if self.type == "int64_t":
            return 3
        return 1 + sum(len(set(column)) > 1 for column in zip(*self._pairs(), strict=True))

    def code(self, source: Source, total: str, at: str) -> str:
        """Returns the C text of a sum's code, not yet clipped.

        Args:
            source: Where helpers go.
            total: C text of the sum, with its bias.
            at: C text of the channel's parameters, e.g. "q" or "(q + 3)".
        """
        pairs = self._pairs()
        texts, place = [], 1
        for column in zip(*pairs, strict=True):
            fixed = len(set(column)) == 1 and self.type != "int64_t"
            texts.append(int_literal(column[0]) if fixed else f"{at}[{place}]")
            place += not fixed
        value, shift = texts
        if self.wide:
            half = f"((int64_t)1 << ({shift} - 1))"
            text = f"(int32_t)(((int64_t){total} * {value} + {half}) >> {shift})"
        elif not self._right:
            text = f"{source.call('scale')}({total}, {value}, {shift})"
        else:
            text = f"{source.call('high_small')}({total}, {value})"
            if self.by[0].shift:
                return f"{source.call('shift')}({text}, {shift}, {int_literal(2 * self.zero + 1)})"
        return f"{text} + {int_literal(self.zero)}" if self.zero else text

    @property
    def range(self) -> Range:
        """Returns the range of the codes."""
        return self.limits

    def monotone(self) -> bool:
        """Returns whether a larger sum never has a smaller code: multipliers are never negative."""
        return all(by.value >= 0 for by in self.by)


def _reduced(by: Multiplier) -> int:
    return (by.value + (1 << 15)) >> 16 if by.value < 0x7FFF0000 else 0x7FFF


def sums(op: Op, source: Tensor, weights: Tensor, output: Tensor, rows: NDArray[Any], bias: NDArray[Any]) -> Sums:
    """Returns the ends of the sums of an integer layer.

    Args:
        op: The layer.
        source: Its input.
        weights: Its weights.
        output: Its output.
        rows: The weights, shape (channels, taps).
        bias: Shape (channels,).
    """
    if weights.quantization and any(weights.quantization.zero_points):
        refuse(op, "needs weights whose zero point is 0", weights.quantization.zero_points[:3])
    zero, low = zero_point(source), RANGES[source.dtype][0]
    high, rows = RANGES[source.dtype][1], rows.astype(np.int64)
    folded = bias.astype(np.int64) - zero * rows.sum(1)
    reach = np.abs(rows).sum(1)
    bound = int(
        max(
            (np.abs(folded) + reach * max(-low, high)).max(),
            (np.abs(bias.astype(np.int64)) + reach * (high - low)).max(),
        )
    )
    if bound >= _LARGEST and source.dtype == "int8":
        refuse(op, "must have sums that fit in 32 bits", f"up to {bound:,}")
    by = layer_multipliers(op, source, weights, output, len(rows))
    by = tuple(one if one.value else Multiplier(0, -1) for one in by)  # 0 times anything, with the others' shift.
    limits = code_limits(op.fused, output)
    return Sums(folded, by, bound, limits, zero_point(output), source.dtype == "int16")


def clipped(source: Source, text: str, limits: Range) -> str:
    """Returns the C text of an integer within limits."""
    if limits == (-128, 127):
        return f"{source.call('clip8')}({text})"
    return f"{source.call('clip')}({text}, {int_literal(limits[0])}, {int_literal(limits[1])})"


def float_end(op: Op, name: str) -> Sequence[str]:
    """Returns the statements that apply a fused activation to a float variable.

    Args:
        op: The layer.
        name: The variable.
    """
    low, high = float_limits(op.fused)
    lines = []
    if low is not None:
        lines.append(f"if ({name} < {float_literal(low)}) {name} = {float_literal(low)};")
    if high is not None:
        lines.append(f"if ({name} > {float_literal(high)}) {name} = {float_literal(high)};")
    return lines

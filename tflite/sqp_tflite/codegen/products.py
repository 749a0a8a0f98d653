"""Sums of products of one piece of input with rows of weights, several rows at a time, unrolled in the source.

Integer weights lie in memory as they are read: for each block of rows four taps of its first row, four of its second,
and so on. Weights of floats lie tap by tap, and each sum adds its products in the order of TFLM's kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.source import Source, lines_of

_MOST_UNROLLED = 48
"""Products of a block that are written one by one, without a loop."""


@dataclass(frozen=True, slots=True)
class Products:
    """The weights of a layer, in the order in which they are read.

    Attributes:
        rows: Shape (channels, taps).
        block: How many rows are read together.
    """

    rows: NDArray[Any]
    block: int

    @property
    def taps(self) -> int:
        """Returns the length of a row."""
        return int(self.rows.shape[1])

    @property
    def floating(self) -> bool:
        """Returns whether the weights are floats."""
        return self.rows.dtype.kind == "f"

    def weights(self, source: Source) -> str:
        """Returns the C name of the weights."""
        blocks = self.rows.reshape(-1, self.block, self.taps)
        if self.floating:
            return source.constant(np.ascontiguousarray(blocks.transpose(0, 2, 1)), "weights")
        missing = -self.taps % 4
        padded = np.pad(blocks, ((0, 0), (0, 0), (0, missing)))
        fours = padded.reshape(len(blocks), self.block, -1, 4).transpose(0, 2, 1, 3)
        return source.constant(np.ascontiguousarray(fours), "weights")

    def lines(self, source: Source, input_: str, type_: str) -> list[str]:
        """Returns the statements that add the products to s0, s1, ... and move w behind the block's weights.

        `p` points to the input and is not changed; `k` is a counter.

        Args:
            source: Where helpers go.
            input_: C type of the input.
            type_: C type of the sums.
        """
        return self._float_lines() if self.floating else self._integer_lines(source, input_, type_)

    def _float_lines(self) -> list[str]:
        unrolled = 4 if self.taps >= 8 else 1
        whole, rest = divmod(self.taps, unrolled)
        if self.taps * self.block <= _MOST_UNROLLED:
            whole, unrolled, rest = 0, 0, self.taps
        lines = ["const float *e = p;"]
        if whole:
            lines += [f"for (k = 0; k < {whole}; k++) {{", *self._float_taps(unrolled)]
            lines += [f"e += {unrolled};", f"w += {unrolled * self.block};", "}"]
        lines += self._float_taps(rest)
        return [*lines, f"w += {rest * self.block};"] if rest else lines

    def _float_taps(self, count: int) -> list[str]:
        return [
            f"s{row} += e[{tap}] * w[{tap * self.block + row}];" for tap in range(count) for row in range(self.block)
        ]

    def _integer_lines(self, source: Source, input_: str, type_: str) -> list[str]:
        whole, rest = divmod(self.taps, 4)
        step, plain = 4 * self.block, self._plain(type_)
        lines = [f"const {input_} *e = p;"]
        quick = whole > 1 and input_ == "int8_t" and type_ == "int32_t"
        if quick:
            source.call("dsp")
            lines += [f"#if {source.prefix.upper()}_DSP", *self._pairs(source.prefix, whole), "#else"]
        at = whole if self.taps * self.block <= _MOST_UNROLLED else 0
        if at:
            lines += [line for group in range(whole) for line in plain(4, group)]
        elif whole:
            lines += [f"for (k = 0; k < {whole}; k++) {{", *plain(4, 0), "e += 4;", f"w += {step};", "}"]
        moved = [f"e += {4 * at};", f"w += {at * step};"] if at else []
        lines += [*moved, "#endif"] if quick else moved
        return [*lines, *plain(rest, 0), f"w += {step};"] if rest else lines

    def _plain(self, type_: str) -> Callable[[int, int], list[str]]:
        def lines(count: int, group: int) -> list[str]:
            made = []
            for tap in range(count):
                place = 4 * group + tap
                terms = [f"s{row} += g * w[{(group * self.block + row) * 4 + tap}];" for row in range(self.block)]
                made += ["{", f"const {type_} g = e[{place}];", *terms, "}"]
            return made

        return lines

    def _pairs(self, prefix: str, whole: int) -> list[str]:
        """The same products two at a time, on cores with instructions for it."""
        lines = [f"for (k = 0; k < {whole}; k++) {{", f"const uint32_t g = *(const {prefix}_word *)(const void *)e;"]
        lines.append(f"const uint32_t g0 = {prefix}_even(g), g1 = {prefix}_odd(g);")
        for row in range(self.block):
            lines.append(f"const uint32_t h{row} = *(const {prefix}_word *)(const void *)(w + {4 * row});")
            lines.append(f"s{row} = {prefix}_two(g0, {prefix}_even(h{row}), s{row});")
            lines.append(f"s{row} = {prefix}_two(g1, {prefix}_odd(h{row}), s{row});")
        return [*lines, "e += 4;", f"w += {4 * self.block};", "}"]


def products(rows: NDArray[Any], most: int = 4) -> Products:
    """Returns the weights of a layer in blocks of as many rows as divide their number.

    Args:
        rows: Shape (channels, taps).
        most: The largest block.
    """
    return Products(rows, next(size for size in (4, 2, 1) if size <= most and len(rows) % size == 0))


__all__ = ["Products", "lines_of", "products"]

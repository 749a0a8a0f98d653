"""Sums of products of one piece of input with rows of weights, several rows at a time, unrolled in the source.

Integer weights lie in memory as they are read: for each block of rows four taps of its first row, four of its second,
and so on. Weights of floats lie tap by tap, and each sum adds its products in the order of TFLM's kernels.
"""

from __future__ import annotations

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

    def lines(self, type_: str) -> list[str]:
        """Returns the statements that add the products to s0, s1, ... and move w behind the block's weights.

        `p` points to the input and is not changed; `k` is a counter.

        Args:
            type_: C type of the sums.
        """
        return self._float_lines() if self.floating else self._integer_lines(type_)

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

    def _integer_lines(self, type_: str) -> list[str]:
        whole, rest = divmod(self.taps, 4)
        step = 4 * self.block
        lines = ["<pointer>e = p;"]
        if self.taps * self.block <= _MOST_UNROLLED:
            for group in range(whole):
                lines += ["{", *self._fours(4, group, type_), "}"]
            at = whole
        else:
            lines += [f"for (k = 0; k < {whole}; k++) {{", *self._fours(4, 0, type_), "e += 4;", f"w += {step};", "}"]
            at = 0
        if rest:
            lines += ["{", *self._fours(rest, at, type_), "}"]
        moved = (at + bool(rest)) * step
        return [*lines, f"w += {moved};"] if moved else lines

    def _fours(self, count: int, group: int, type_: str) -> list[str]:
        names = [f"e{tap}" for tap in range(count)]
        lines = [f"const {type_} {name} = e[{4 * group + tap}];" for tap, name in enumerate(names)]
        for row in range(self.block):
            base = (group * self.block + row) * 4
            terms = " + ".join(f"{name} * w[{base + tap}]" for tap, name in enumerate(names))
            lines.append(f"s{row} += {terms};")
        return lines


def products(rows: NDArray[Any], most: int = 4) -> Products:
    """Returns the weights of a layer in blocks of as many rows as divide their number.

    Args:
        rows: Shape (channels, taps).
        most: The largest block.
    """
    return Products(rows, next(size for size in (4, 2, 1) if size <= most and len(rows) % size == 0))


__all__ = ["Products", "lines_of", "products"]

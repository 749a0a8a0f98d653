"""The geometry of operators that slide a window over an image, as the file describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an image.

    Attributes:
        size: Of the input.
        out: Of the output.
        kernel: Taps of the window.
        stride: Between two windows.
        dilation: Between two taps.
        before: How far the first window begins before the input.
    """

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    before: int

    @property
    def reach(self) -> int:
        """Returns how many elements a window spans."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def after(self) -> int:
        """Returns how far the last window reaches behind the input, negative if it does not."""
        return (self.out - 1) * self.stride + self.reach - self.before - self.size

    @property
    def padded(self) -> bool:
        """Returns whether a window reaches over an end."""
        return self.before > 0 or self.after > 0


@dataclass(frozen=True, slots=True)
class Window:
    """A window over an image of (batch, y, x, channels)."""

    batch: int
    y: Axis
    x: Axis
    channels: int
    out_channels: int

    @property
    def padded(self) -> bool:
        """Returns whether a window reaches over a border."""
        return self.y.padded or self.x.padded


def window(op: Op, source: Tensor, output: Tensor, kernel: tuple[int, int]) -> Window:
    """Returns the geometry of a convolution or a pool.

    Args:
        op: The operator, whose options have strides, padding and perhaps dilation.
        source: Its input, of four dimensions.
        output: Its output.
        kernel: Taps along y and x.
    """
    if len(source.shape) != 4 or len(output.shape) != 4:
        refuse(op, "needs four dimensions", source.shape)
    options = op.options
    axes = []
    for place, letter in ((1, "H"), (2, "W")):
        stride = int(options.get(f"stride{letter}", 1))
        dilation = int(options.get(f"dilation{letter}Factor", 1) or 1)
        size, out, taps = source.shape[place], output.shape[place], kernel[place - 1]
        reach = (taps - 1) * dilation + 1
        same = options.get("padding") == "SAME"
        expected = -(-size // stride) if same else -(-(size - reach + 1) // stride)
        if out != expected:
            refuse(op, f"must have an output of {expected} along axis {place}", out)
        missing = max((out - 1) * stride + reach - size, 0)
        axes.append(Axis(size, out, taps, stride, dilation, missing // 2 if same else 0))
    return Window(source.shape[0], axes[0], axes[1], source.shape[3], output.shape[3])


def values_of(op: Op, tensor: Tensor, dtype: str) -> NDArray[Any]:
    """Returns the numbers of a constant operand.

    Args:
        op: Whose it is.
        tensor: The operand.
        dtype: The type that it must have.
    """
    values = tensor.values
    if values is None or tensor.dtype != dtype:
        refuse(
            op,
            f"needs constant weights of {dtype} here",
            f"{tensor.dtype}, {'constant' if tensor.constant else 'computed'}",
        )
    return values


def bias_of(op: Op, graph: Subgraph, channels: int, dtype: str) -> NDArray[Any]:
    """Returns the third operand, zeros where there is none.

    Args:
        op: A convolution or a dense layer.
        graph: The graph that holds it.
        channels: How many there are.
        dtype: The type of the sums: "int64" also takes a bias of 32 bits.
    """
    if len(op.inputs) < 3 or op.inputs[2] < 0:
        return np.zeros(channels, dtype)
    tensor = graph.tensors[op.inputs[2]]
    if tensor.values is None or tensor.dtype not in (dtype, "int32" if dtype == "int64" else dtype):
        refuse(op, f"needs a constant bias of {dtype} here", tensor.dtype)
    return tensor.values.reshape(-1).astype(dtype)

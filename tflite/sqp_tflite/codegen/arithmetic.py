"""The integer arithmetic of TFLM's reference kernels, over numpy arrays: multipliers, their rounding, ranges of codes.

A real multiplier is m * 2^(shift - 31) with a 32-bit m. Products round twice: to the nearest in the doubling high
product, and half away from zero in the shift to the right. Source: gemmlowp's fixed point, as TFLM uses it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import TFLiteFileError
from sqp_tflite.flatbuffer.graph import Op, Tensor

Integers = NDArray[np.int64]

RANGES = {"int8": (-128, 127), "int16": (-32768, 32767), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}
"""The smallest and the largest code of each type."""

NEVER_DOUBLED = 2**30
"""Below this size twice an accumulator fits in 32 bits, and so does its product after rounding."""


@dataclass(frozen=True, slots=True)
class Multiplier:
    """A real number as a 32-bit integer and a shift to the left (negative: to the right)."""

    value: int
    shift: int


def multiplier(real: float) -> Multiplier:
    """Returns the fixed-point form of a positive real number.

    Args:
        real: In double precision, as TFLM computes it from the scales.
    """
    if real == 0.0:
        return Multiplier(0, 0)
    fraction, shift = math.frexp(real)
    value = math.floor(fraction * 2**31 + 0.5)
    if value == 2**31:
        value, shift = value // 2, shift + 1
    return Multiplier(0, 0) if shift < -31 else Multiplier(value, min(shift, 30))


def wrapped(values: Integers) -> Integers:
    """Returns values as a 32-bit integer keeps them."""
    return ((values + 2**31) & 0xFFFFFFFF) - 2**31


def requantized(values: Integers, by: Multiplier) -> Integers:
    """Returns 32-bit accumulators times a multiplier, rounded twice.

    Args:
        values: Any shape.
        by: The multiplier.
    """
    high = (wrapped(values << max(by.shift, 0)) * by.value + (1 << 30)) >> 31
    right = max(-by.shift, 0)
    return high if right == 0 else (high + (high >> 31) + (1 << (right - 1))) >> right


def requantized_wide(values: Integers, by: Multiplier) -> Integers:
    """Returns 64-bit accumulators times a multiplier of 16 bits, rounded once: TFLM's form for int16 layers."""
    reduced = (by.value + (1 << 15)) >> 16 if by.value < 0x7FFF0000 else 0x7FFF
    total = 15 - by.shift
    return (values * reduced + (1 << (total - 1))) >> total


def scale(tensor: Tensor) -> float:
    """Returns a tensor's one scale."""
    return _quantization(tensor)[0]


def zero_point(tensor: Tensor) -> int:
    """Returns a tensor's one zero point."""
    return _quantization(tensor)[1]


def _quantization(tensor: Tensor) -> tuple[float, int]:
    if tensor.quantization is None:
        raise TFLiteFileError(
            f"A tensor of codes must have a scale to become C code. Received: `{tensor.name}`, {tensor.dtype} without "
            "one. Quantise the file again."
        )
    return tensor.quantization.scales[0], tensor.quantization.zero_points[0]


def channel_scales(weights: Tensor, channels: int) -> tuple[float, ...]:
    """Returns one scale per output channel of a weight tensor.

    Args:
        weights: A quantised constant.
        channels: How many there are.
    """
    scales = weights.quantization.scales if weights.quantization else ()
    if len(scales) not in (1, channels):
        raise TFLiteFileError(
            f"Weights must have one scale, or one per channel. Received: `{weights.name}` with {len(scales)} scales "
            f"for {channels} channels. The file is damaged: export it again."
        )
    return scales * channels if len(scales) == 1 else scales


LIMITS: Mapping[str, tuple[float | None, float | None]] = MappingProxyType(
    {"": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
)
"""Fused activations that have a C form, "" for none, and what they let through."""


def float_limits(fused: str) -> tuple[float | None, float | None]:
    """Returns the smallest and the largest value that a fused activation lets through, None for no limit."""
    return LIMITS[fused]


def code_limits(fused: str, output: Tensor) -> tuple[int, int]:
    """Returns the smallest and the largest code that a fused activation lets through.

    Args:
        fused: As the schema spells it, "" for none.
        output: The tensor whose codes they are.
    """
    low, high = RANGES[output.dtype]
    least, most = float_limits(fused)
    if least is not None:
        low = max(low, code(least, output))
    if most is not None:
        high = min(high, code(most, output))
    return low, high


def code(value: float, tensor: Tensor) -> int:
    """Returns a real number's code before it is clipped: half away from zero, divided in single precision."""
    return zero_point(tensor) + rounded(float(np.float32(value) / np.float32(scale(tensor))))


def rounded(value: float) -> int:
    """Returns the nearest integer, half away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def layer_multipliers(op: Op, source: Tensor, weights: Tensor, output: Tensor, channels: int) -> tuple[Multiplier, ...]:
    """Returns the multiplier of each output channel of a convolution or a dense layer.

    Args:
        op: The layer: a dense layer with one scale multiplies its scales in single precision first.
        source: Its input.
        weights: Its weights.
        output: Its output.
        channels: How many channels it has.
    """
    scales = weights.quantization.scales if weights.quantization else ()
    if op.name == "FULLY_CONNECTED" and len(scales) == 1:
        product = float(np.float32(scale(source)) * np.float32(scales[0]))
        return (multiplier(product / scale(output)),) * channels
    return tuple(multiplier(scale(source) * one / scale(output)) for one in channel_scales(weights, channels))

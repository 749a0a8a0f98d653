"""The kernels of sqp.h in NumPy, operation by operation, so that results can be compared bit by bit.

Beside each is the exact value in float64, which says how good the kernel is, not only that it was translated well.
"""

import math

import numpy as np

F32 = np.float32


def multiply_add(x: np.ndarray, c: np.float32, *, fused: bool) -> np.ndarray:
    """Returns x*x + c in float32: rounded twice, or once where the core fuses the two operations."""
    if not fused:
        return x * x + c
    square = x.astype(np.float64) ** 2  # 48 bits at most: exact
    total = square + np.float64(c)
    # Rounding to float64 and then to float32 may round a tie that is none. Rounding to odd first (Boldo, Melquiond)
    # does not: where the sum was inexact, the neighbour with an odd last bit on the exact value's side is taken.
    big = np.where(np.abs(square) >= abs(np.float64(c)), square, np.float64(c))
    small = np.where(np.abs(square) >= abs(np.float64(c)), np.float64(c), square)
    rest = small - (total - big)
    even = (total.view(np.int64) & 1) == 0
    neighbour = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where(even & (rest != 0) & np.isfinite(rest), neighbour, total).astype(F32)


def plain(x: np.ndarray, b: float, *, fused: bool = False) -> np.ndarray:
    """Returns what sqp_f32 computes."""
    return F32(0.5) * (x + np.sqrt(multiply_add(x, F32(b), fused=fused)))


def halved(z: np.ndarray, quarter_b: float, *, fused: bool = False) -> np.ndarray:
    """Returns what sqp_f32_halved computes."""
    return z + np.sqrt(multiply_add(z, F32(quarter_b), fused=fused))


def stable(x: np.ndarray, b: float, *, fused: bool = False) -> np.ndarray:
    """Returns what sqp_f32_stable computes."""
    right = F32(0.5) * (np.abs(x) + np.sqrt(multiply_add(x, F32(b), fused=fused)))
    with np.errstate(invalid="ignore"):  # 0/0 on the right side, which is not taken
        return np.where(x >= 0, right, F32(0.25) * F32(b) / right)


def exact(x: np.ndarray, b: float) -> np.ndarray:
    """Returns squareplus in float64 without cancellation."""
    x = np.asarray(x, np.float64)
    right = (np.abs(x) + np.sqrt(x * x + b)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x >= 0, right, np.where(right > 0, (b / 4) / right, 0.0))


def table(
    b: float, in_scale: float, in_zero: int, out_scale: float, out_zero: int, *, fused: bool = False
) -> np.ndarray:
    """Returns the table that sqp_i8_fill writes."""
    x = np.arange(-128 - in_zero, 128 - in_zero).astype(F32) * F32(in_scale)
    y = stable(x, b, fused=fused) / F32(out_scale)
    code = np.where(y < 512, np.minimum(y, F32(512)) + F32(0.5), F32(512)).astype(np.int32)
    code = np.where(y < 512, code + out_zero, 512)
    return np.clip(code, -128, 127).astype(np.int8)


def fixed_point(b: float, in_scale: float, out_scale: float) -> np.ndarray:
    """Returns what sqp_i16 gives for all codes from -32768 to 32767."""
    ratio = F32(in_scale) / F32(out_scale)
    square = (F32(b) / F32(in_scale)) / F32(in_scale)
    pairs_down = 0
    while square >= F32(3221225472.0):
        square *= F32(0.25)
        pairs_down += 1
    constant = int(square + F32(0.5))
    fraction, exponent = np.frexp(ratio)
    multiplier = int(fraction * F32(2.0**31))
    shift = 31 - int(exponent) + 1 + 12 - pairs_down
    codes = []
    for q in range(-32768, 32768):
        square_sum = (q * q >> 2 * pairs_down) + constant
        twice = q * (4096 >> pairs_down) + _root28(square_sum)
        codes.append((twice * multiplier + (1 << (shift - 1))) >> shift)
    return np.clip(np.array(codes, np.int64), 0, 32767).astype(np.int16)


def _root28(v: int) -> int:
    """Returns sqrt(v) * 2^12, from 28 bits of root of v moved up to 32 bits, cut down."""
    if v == 0:
        return 0
    pairs = (32 - v.bit_length()) // 2
    return math.isqrt((v << (2 * pairs)) << 24) >> pairs

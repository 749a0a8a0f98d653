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
    twice = np.abs(x) + np.sqrt(multiply_add(x, F32(b), fused=fused))
    with np.errstate(invalid="ignore", divide="ignore"):  # 0/0 and b/0 on the right side, which is not taken
        return np.where(x >= 0, F32(0.5) * twice, F32(0.5) * F32(b) / twice)


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
    return quantize(stable(x, b, fused=fused), out_scale, out_zero, np.int8)


def quantize(real: np.ndarray, scale: float, zero: int, dtype: type) -> np.ndarray:
    """Returns what sqp_i8_quantize and sqp_i16_quantize compute: halves away from zero, NaN as the least code."""
    ends = np.iinfo(dtype)
    steps = (real / F32(scale)).astype(np.float64)  # from here on exact
    codes = np.trunc(steps + np.copysign(0.5, steps)) + zero
    return np.where(np.isnan(codes), ends.min, np.clip(codes, ends.min, ends.max)).astype(dtype)


def dequantize(codes: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """Returns what sqp_dequantize computes."""
    return F32(scale) * (codes.astype(F32) - F32(zero))


def fixed_point(b: float, in_scale: float, out_scale: float) -> np.ndarray:
    """Returns what sqp_i16 gives for all codes from -32768 to 32767."""
    return np.clip(_fixed(range(-32768, 32768), b, in_scale, out_scale), 0, 32767).astype(np.int16)


def fixed_point_int8(b: float, in_scale: float, in_zero: int, out_scale: float, out_zero: int) -> np.ndarray:
    """Returns what sqp_i8_direct gives for all codes from -128 to 127."""
    steps = _fixed(range(-128 - in_zero, 128 - in_zero), b, in_scale, out_scale)
    return np.clip(np.maximum(steps, 0) + out_zero, -128, 127).astype(np.int8)


def _fixed(steps: range, b: float, in_scale: float, out_scale: float) -> np.ndarray:
    """Returns what sqp_fixed gives: squareplus of whole input steps, in output steps."""
    ratio = F32(in_scale) / F32(out_scale)
    square = (F32(b) / F32(in_scale)) / F32(in_scale)
    pairs_down = 0
    while square >= F32(3221225472.0):
        square *= F32(0.25)
        pairs_down += 1
    constant = int(float(square) * 2**32)
    fraction, exponent = np.frexp(ratio)
    multiplier = int(fraction * F32(2.0**31))
    shift = 31 - int(exponent) + 1 + 12 - pairs_down
    codes = []
    for q in steps:
        square_sum = ((q * q >> 2 * pairs_down) << 32) + constant
        twice = q * (4096 >> pairs_down) + _root28(square_sum)
        codes.append((twice * multiplier + (1 << (shift - 1))) >> shift)
    return np.array(codes, np.int64)


def _root28(v: int) -> int:
    """Returns sqrt(v / 2^32) * 2^12, from 28 bits of root of the 32 leading bits of v, cut down."""
    if v == 0:
        return 0
    pairs = (64 - v.bit_length()) // 2
    return math.isqrt((v << (2 * pairs) >> 32) << 24) >> pairs

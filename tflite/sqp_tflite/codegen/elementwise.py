"""What TFLM's elementwise kernels compute for one element, as expressions of their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sqp_tflite.codegen import expressions as ex
from sqp_tflite.codegen.arithmetic import (
    RANGES,
    Multiplier,
    code,
    code_limits,
    float_limits,
    multiplier,
    rounded,
    scale,
    zero_point,
)
from sqp_tflite.codegen.expressions import FLOAT, Expr
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor

Builder = Callable[[Op, Sequence[Tensor], Tensor, Sequence[Expr]], Expr]

CODES = ("int8", "int16")


def elementwise(op: Op, graph: Subgraph, args: Sequence[Expr]) -> Expr:
    """Returns what an operator computes.

    Args:
        op: One whose name is in `BUILDERS`.
        graph: The graph that holds it.
        args: Its computed operands, and the constants.

    Raises:
        RefusedError: Its type has no form here.
    """
    return BUILDERS[op.name](op, graph.operands(op), graph.tensors[op.outputs[0]], args)


def _dtype(op: Op, tensors: Sequence[Tensor], allowed: Sequence[str]) -> str:
    dtype = tensors[0].dtype
    if dtype not in allowed:
        refuse(op, f"takes {' or '.join(allowed)} here", dtype)
    return dtype


def _arithmetic(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    """ADD, SUB, MUL: plain for floats and for integers without a scale."""
    make = {"ADD": ex.add, "SUB": ex.sub, "MUL": ex.mul}[op.name]
    dtype = _dtype(op, tensors, ("float32", "int32", *CODES))
    if dtype == "float32":
        return ex.clip_float(make(args[0], args[1]), *float_limits(op.fused))
    if dtype == "int32":
        if op.fused:
            refuse(op, "of int32 has no activation here", op.fused)
        return make(args[0], args[1])
    if op.name == "MUL":
        by = multiplier(scale(tensors[0]) * scale(tensors[1]) / scale(output))
        centred = [ex.offset(arg, -zero_point(tensor)) for arg, tensor in zip(args, tensors, strict=True)]
        product = ex.requantize(ex.mul(*centred), by)
        return ex.clip(ex.offset(product, zero_point(output)), *code_limits(op.fused, output))
    return _scaled_sum(op, tensors, output, args)


def _scaled_sum(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    left = 15 if output.dtype == "int16" else 20
    twice = 2 * max(scale(tensor) for tensor in tensors)
    terms = [
        ex.requantize(ex.shifted(ex.offset(arg, -zero_point(tensor)), left), multiplier(scale(tensor) / twice))
        for arg, tensor in zip(args, tensors, strict=True)
    ]
    made = (ex.add if op.name == "ADD" else ex.sub)(terms[0], terms[1])
    total = ex.requantize(made, multiplier(twice / ((1 << left) * scale(output))))
    return ex.clip(ex.offset(total, zero_point(output)), *code_limits(op.fused, output))


def _div(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    _dtype(op, tensors, ("float32",))
    return ex.clip_float(ex.divide(args[0], args[1]), *float_limits(op.fused))


def _extreme(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    _dtype(op, tensors, ("float32", "int32", *CODES))
    comparison = ">" if op.name == "MAXIMUM" else "<"
    return ex.select(args[0], comparison, args[1], args[0], args[1])


def _relu(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    dtype = _dtype(op, tensors, ("float32", *CODES))
    if dtype == "float32":
        return ex.clip_float(args[0], *float_limits(op.name))
    if op.name == "RELU6":
        low = zero_point(tensors[0])
        return ex.clip(args[0], low, code(6.0, tensors[0]))
    by = multiplier(scale(tensors[0]) / scale(output))
    centred = ex.offset(args[0], -zero_point(tensors[0]))
    low, high = RANGES[dtype]
    made = ex.offset(ex.requantize(centred, by), zero_point(output))
    return ex.clip(made, max(low, zero_point(output)), high)


def _leaky(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    dtype = _dtype(op, tensors, ("float32", *CODES))
    alpha = np.float32(op.options.get("alpha", 0.0))
    if dtype == "float32":
        return ex.select(args[0], ">", ex.real(0.0), args[0], ex.mul(args[0], ex.real(float(alpha))))
    ratio = np.float32(scale(tensors[0])) / np.float32(scale(output))
    steep = np.float32(np.float32(scale(tensors[0])) * alpha) / np.float32(scale(output))
    if steep < 0:
        refuse(op, "of codes needs a slope of 0 or more", f"{alpha:g}")
    centred = ex.offset(args[0], -zero_point(tensors[0]))
    above = ex.requantize(centred, multiplier(float(ratio)))
    below = ex.requantize(centred, multiplier(float(steep)))
    made = ex.offset(ex.select(centred, "<", ex.integer(0), below, above), zero_point(output))
    return ex.clip(made, *RANGES[dtype])


def _prelu(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    dtype = _dtype(op, tensors, ("float32", "int8"))
    if dtype == "float32":
        return ex.select(args[0], "<", ex.real(0.0), ex.mul(args[0], args[1]), args[0])
    ratio = np.float32(scale(tensors[0])) / np.float32(scale(output))
    product = float(np.float32(scale(tensors[0])) * np.float32(scale(tensors[1])) / np.float32(scale(output)))
    centred = ex.offset(args[0], -zero_point(tensors[0]))
    slope = ex.offset(args[1], -zero_point(tensors[1]))
    above = ex.requantize(centred, multiplier(float(ratio)))
    below = ex.requantize(ex.mul(centred, slope), multiplier(product))
    made = ex.offset(ex.select(centred, "<", ex.integer(0), below, above), zero_point(output))
    return ex.clip(made, *RANGES[dtype])


def _short(value: Multiplier) -> int:
    return 0x7FFF if value.value >= 0x7FFF8000 else (value.value + (1 << 15)) >> 16


def _short_high(a: Expr, by: int) -> Expr:
    """The rounded doubling high product of 16 bits, as one of 32 bits with both factors' places moved."""
    return ex.requantize(a, Multiplier(by << 16, 0))


def _hard_swish(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    """HARD_SWISH; codes go through three products of 16 bits, each of which rounds."""
    dtype = _dtype(op, tensors, ("float32", "int8"))
    x = args[0]
    if dtype == "float32":
        inner = ex.at_least(ex.real(0.0), ex.add(x, ex.real(3.0)))
        return ex.divide(ex.mul(x, ex.at_most(ex.real(6.0), inner)), ex.real(6.0))
    fine = np.float32(1.0 / 128.0) * np.float32(scale(tensors[0]))
    to_output = multiplier(float(fine / np.float32(scale(output))))
    to_three = multiplier(float(fine / np.float32(3.0 / 32768.0)))
    if to_output.shift > 0:
        refuse(op, "needs an output scale of at least 1/128 of the input's", f"{scale(output):g}")
    high = ex.shifted(ex.offset(x, -zero_point(tensors[0])), 7)
    unshifted = _short_high(high, _short(to_output))
    part = high
    if to_three.shift > 0:
        part = ex.clip(ex.shifted(part, to_three.shift - 1), *RANGES["int16"])
    part = _short_high(part, _short(to_three))
    if to_three.shift > 0:
        part = ex.clip(ex.shifted(part, 1), *RANGES["int16"])
    if to_three.shift < 0:
        part = Expr("shift", ex.INT, (part,), (-to_three.shift,))
    share = Expr("floor_shift", ex.INT, (ex.offset(part, 1 << 15),), (1,))
    product = Expr("trunc_shift", ex.INT, (ex.mul(share, unshifted),), (15,))
    made = Expr("shift", ex.INT, (product,), (-to_output.shift,)) if to_output.shift else product
    return ex.clip(ex.offset(made, zero_point(output)), *RANGES[dtype])


def _root(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    """SQRT, and RSQRT of floats or codes."""
    if op.name == "SQRT":
        _dtype(op, tensors, ("float32",))
        return ex.unary("sqrt", args[0])
    dtype = _dtype(op, tensors, ("float32", *CODES))
    if dtype == "float32":
        return ex.divide(ex.real(1.0), ex.unary("sqrt", args[0]))
    low, high = RANGES[dtype]
    centred = ex.offset(args[0], -zero_point(tensors[0]))
    by = multiplier(1.0 / (float(np.sqrt(np.float64(scale(tensors[0])))) * scale(output)))
    made = ex.clip(ex.offset(ex.rsqrt(ex.at_least(centred, ex.integer(1)), by), zero_point(output)), low, high)
    return ex.select(centred, "<", ex.integer(1), ex.integer(high), made)


def _abs(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    dtype = _dtype(op, tensors, ("float32", *CODES))
    if dtype == "float32":
        return ex.unary("abs", args[0])
    size = ex.unary("abs", ex.offset(args[0], -zero_point(tensors[0])))
    if scale(tensors[0]) != scale(output):
        size = ex.requantize(size, multiplier(scale(tensors[0]) / scale(output)))
    return ex.clip(ex.offset(size, zero_point(output)), *RANGES[dtype])


def _square(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    _dtype(op, tensors, ("float32",))
    return ex.mul(args[0], args[0])


def _squared_difference(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    """The square of a difference; of codes on a common scale with 7 bits more for int8."""
    dtype = _dtype(op, tensors, ("float32", *CODES))
    if dtype == "float32":
        difference = ex.sub(args[0], args[1])
        return ex.mul(difference, difference)
    left = 7 if dtype == "int8" else 0
    twice = 2 * max(scale(tensor) for tensor in tensors)
    terms = [
        ex.requantize(ex.shifted(ex.offset(arg, -zero_point(tensor)), left), multiplier(scale(tensor) / twice))
        for arg, tensor in zip(args, tensors, strict=True)
    ]
    difference = ex.sub(terms[0], terms[1])
    by = multiplier(twice * twice / ((1 << (2 * left)) * scale(output)))
    made = ex.requantize(ex.mul(difference, difference), by)
    return ex.clip(ex.offset(made, zero_point(output)), *RANGES[dtype])


def _neg(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    _dtype(op, tensors, ("float32",))
    return ex.unary("neg", args[0])


def _quantize(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    dtype = _dtype(op, tensors, ("float32", "int8", "int16", "uint8"))
    if output.dtype not in ("int8", "int16", "int32", "uint8"):
        refuse(op, "makes int8, int16, int32 or uint8 here", output.dtype)
    low, high = RANGES[output.dtype]
    if dtype == "float32":
        if output.dtype not in CODES:
            refuse(op, "of floats makes int8 or int16 here", output.dtype)
        steps = ex.divide(args[0], ex.real(scale(output)))
        zero = zero_point(output)
        return ex.offset(ex.to_code(steps, low - zero, high - zero), zero)
    by = multiplier(scale(tensors[0]) / scale(output))
    centred = ex.offset(args[0], -zero_point(tensors[0]))
    return ex.clip(ex.offset(ex.requantize(centred, by), zero_point(output)), low, high)


def _dequantize(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    _dtype(op, tensors, ("int8", "int16", "uint8"))
    centred = ex.offset(args[0], -zero_point(tensors[0]))
    return ex.mul(ex.real(scale(tensors[0])), ex.to_float(centred))


def _cast(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    dtype = _dtype(op, tensors, ("float32", "int8", "int16", "int32", "uint8"))
    if output.dtype not in ("float32", "int32") or (dtype == "float32" and output.dtype != "float32"):
        refuse(op, "makes int32 or float32 of integers here", f"{dtype} to {output.dtype}")
    return ex.to_float(args[0]) if output.dtype == "float32" and dtype != "float32" else args[0]


def _gather(op: Op, tensors: Sequence[Tensor], output: Tensor, args: Sequence[Expr]) -> Expr:
    """A lookup: entries of a constant of one dimension."""
    entries = tensors[0].values
    if entries is None or entries.ndim != 1 or not np.issubdtype(entries.dtype, np.integer):
        refuse(op, "looks up integers of a constant with one dimension here", f"{tensors[0].dtype} {tensors[0].shape}")
    return ex.lookup(args[1], entries, 0)


def lookup_only(op: Op, graph: Subgraph) -> bool:
    """Returns whether a GATHER is a lookup in a table, which is elementwise."""
    first = graph.operands(op)[0]
    return first.constant and len(first.shape) == 1 and first.dtype in ("int8", "int16", "uint8")


BUILDERS: Mapping[str, Builder] = {
    "ABS": _abs,
    "ADD": _arithmetic,
    "CAST": _cast,
    "DEQUANTIZE": _dequantize,
    "DIV": _div,
    "GATHER": _gather,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky,
    "MAXIMUM": _extreme,
    "MINIMUM": _extreme,
    "MUL": _arithmetic,
    "NEG": _neg,
    "PRELU": _prelu,
    "QUANTIZE": _quantize,
    "RELU": _relu,
    "RELU6": _relu,
    "RSQRT": _root,
    "SQRT": _root,
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUB": _arithmetic,
}
"""How each elementwise operator is written."""

__all__ = ["BUILDERS", "CODES", "FLOAT", "elementwise", "lookup_only", "rounded"]

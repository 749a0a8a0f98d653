"""The operands and options of each operator's one-operator model, by family of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqp_tflite.ops.one_op import (
    ANY,
    NUMERIC,
    QUANTIZED,
    REAL,
    Case,
    Family,
    Operand,
    constant,
    indices,
    options,
    value,
)

FIXED_OUTPUT = {
    ("LOGISTIC", "int8"): (1 / 256, -128),
    ("LOGISTIC", "int16"): (1 / 32768, 0),
    ("TANH", "int8"): (1 / 128, 0),
    ("TANH", "int16"): (1 / 32768, 0),
    ("SOFTMAX", "int8"): (1 / 256, -128),
    ("SOFTMAX", "int16"): (1 / 32768, 0),
    ("LOG_SOFTMAX", "int8"): (16 / 256, 127),
    ("LOG_SOFTMAX", "int16"): (16 / 65536, 32767),
    ("L2_NORMALIZATION", "int8"): (1 / 128, 0),
}
"""Operators whose kernels require a fixed scale and zero point of the output."""

_IMAGE = (1, 4, 4, 2)
_VECTOR = (1, 4)


def _unary(table: str | None = None, **fields: object) -> Callable[[str, str], Case]:
    def build(op: str, dtype: str) -> Case:
        # Odd and bounded functions get a signed input range; roots and logarithms get numbers >= 0.
        fixed = FIXED_OUTPUT.get((op, dtype))
        x = value(_VECTOR, dtype, *((0.02, 0) if fixed and dtype == "int8" else ()))
        return Case(
            op, dtype, (x,), (value(_VECTOR, dtype, *(fixed or ())),), options(table, **fields) if table else None
        )

    return build


def _binary(table: str | None = None, out: str = "", **fields: object) -> Callable[[str, str], Case]:
    def build(op: str, dtype: str) -> Case:
        x = value(_VECTOR, dtype)
        return Case(op, dtype, (x, x), (value(_VECTOR, out or dtype),), options(table, **fields) if table else None)

    return build


def _with(
    *constants: Operand,
    out: tuple[int, ...],
    table: str | None = None,
    shape: tuple[int, ...] = _VECTOR,
    **fields: object,
) -> Callable[[str, str], Case]:
    """A builder of an operator with one computed operand, constants after it, and the same type out."""

    def build(op: str, dtype: str) -> Case:
        return Case(
            op,
            dtype,
            (value(shape, dtype), *constants),
            (value(out, dtype),),
            options(table, **fields) if table else None,
        )

    return build


def _weights(shape: tuple[int, ...], dtype: str) -> Operand:
    return constant(shape, "float32", 0.5) if dtype == "float32" else constant(shape, "int8", 3, 0.01)


def _bias(count: int, dtype: str) -> Operand:
    if dtype == "float32":
        return constant((count,), "float32", 0.1)
    scale = (0.02 if dtype == "int8" else 0.001) * 0.01
    return constant((count,), "int32" if dtype == "int8" else "int64", 5, scale)


def _conv(op: str, dtype: str) -> Case:
    tables = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}
    kernel = (2, 3, 3, 2) if op == "CONV_2D" else (1, 3, 3, 2)
    more = {} if op == "CONV_2D" else {"depthMultiplier": 1}
    fields = {"padding": "SAME", "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, **more}
    x = value(_IMAGE, dtype)
    return Case(op, dtype, (x, _weights(kernel, dtype), _bias(2, dtype)), (x,), options(tables[op], **fields))


def _conv_3d(op: str, dtype: str) -> Case:
    x = value((1, 4, 4, 4, 1), dtype)
    kernel = _weights((2, 2, 2, 1, 1), dtype)
    fields = {"padding": "SAME", "strideD": 1, "strideH": 1, "strideW": 1}
    fields |= {"dilationDFactor": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    return Case(op, dtype, (x, kernel, _bias(1, dtype)), (x,), options("Conv3DOptions", **fields))


def _transpose_conv(op: str, dtype: str) -> Case:
    x, y = value((1, 2, 2, 2), dtype), value(_IMAGE, dtype)
    table = options("TransposeConvOptions", padding="SAME", strideH=2, strideW=2)
    return Case(op, dtype, (indices(*_IMAGE), _weights((2, 3, 3, 2), dtype), x, _bias(2, dtype)), (y,), table)


def _dense(op: str, dtype: str) -> Case:
    inputs = (value(_VECTOR, dtype), _weights((3, 4), dtype), _bias(3, dtype))
    return Case(op, dtype, inputs, (value((1, 3), dtype),), options("FullyConnectedOptions"))


def _pool(op: str, dtype: str) -> Case:
    fields = {"padding": 1, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
    return Case(op, dtype, (value(_IMAGE, dtype),), (value((1, 2, 2, 2), dtype),), options("Pool2DOptions", **fields))


def _batch_matmul(op: str, dtype: str) -> Case:
    x = value((1, 4, 4), dtype)
    return Case(op, dtype, (x, x), (x,), options("BatchMatMulOptions"))


def _concatenation(op: str, dtype: str) -> Case:
    x = value(_VECTOR, dtype)
    return Case(op, dtype, (x, x), (value((1, 8), dtype),), options("ConcatenationOptions", axis=1))


def _split(op: str, dtype: str) -> Case:
    x, y = value(_VECTOR, dtype), value((1, 2), dtype)
    if op == "SPLIT":
        return Case(op, dtype, (constant((), "int32", 1), x), (y, y), options("SplitOptions", numSplits=2))
    inputs = (x, indices(2, 2), constant((), "int32", 1))
    return Case(op, dtype, inputs, (y, y), options("SplitVOptions", numSplits=2))


def _pack(op: str, dtype: str) -> Case:
    y = value((2, 4), dtype)
    if op == "PACK":
        flat = value((4,), dtype)
        return Case(op, dtype, (flat, flat), (y,), options("PackOptions", valuesCount=2, axis=0))
    return Case(op, dtype, (y,), (value((4,), dtype),) * 2, options("UnpackOptions", num=2, axis=0))


def _gather(op: str, dtype: str) -> Case:
    if op == "GATHER_ND":
        return Case(op, dtype, (value((4, 2), dtype), Operand((1, 1), "int32", code=2)), (value((1, 2), dtype),))
    if op == "EMBEDDING_LOOKUP":
        table = constant((8, 4), dtype, 1, 0.02 if dtype in QUANTIZED else 0.0)
        return Case(op, dtype, (Operand((2,), "int32", code=3), table), (value((2, 4), dtype, zero_point=0),))
    # The form that the table lowering writes: constant values, computed int32 indices.
    table = constant((8,), dtype, 1, 0.02 if dtype in QUANTIZED else 0.0)
    inputs = (table, Operand((1, 4), "int32", code=3))
    return Case(op, dtype, inputs, (value(_VECTOR, dtype, zero_point=0),), options("GatherOptions", axis=0))


def _select(op: str, dtype: str) -> Case:
    x = value(_VECTOR, dtype)
    return Case(op, dtype, (Operand(_VECTOR, "bool", code=1), x, x), (x,))


def _cast(op: str, dtype: str) -> Case:
    target = "float32" if dtype in ("int32", "bool") else "int32"
    x = Operand(_VECTOR, dtype, code=1)
    table = options("CastOptions", inDataType=dtype.upper(), outDataType=target.upper())
    return Case(op, dtype, (x,), (Operand(_VECTOR, target),), table)


def _quantize(op: str, dtype: str) -> Case:
    # The same type with another scale: every interpreter that can quantise must have it.
    other = value(_VECTOR, "int8" if dtype == "float32" else dtype, 0.03, 0)
    return Case(op, dtype, (value(_VECTOR, dtype),), (other,))


def _hybrid(op: str, dtype: str) -> Case:
    plain = FAMILIES[op].build(op, "float32")
    x, weights, *rest = plain.inputs
    inputs = (x, constant(weights.shape if weights else (), "int8", 3, 0.01), *rest)
    return Case(op, dtype, inputs, plain.outputs, plain.options)


def _dequantize(op: str, dtype: str) -> Case:
    if dtype == "float16":
        return Case(op, dtype, (constant(_VECTOR, "float16", 1.0),), (value(_VECTOR, "float32"),))
    return Case(op, dtype, (value(_VECTOR, dtype),), (value(_VECTOR, "float32"),))


def _prelu(op: str, dtype: str) -> Case:
    alpha = constant((1, 1, 2), dtype, 3, 0.02 if dtype in QUANTIZED else 0.0)
    return Case(op, dtype, (value(_IMAGE, dtype), alpha), (value(_IMAGE, dtype),))


def _arg(op: str, dtype: str) -> Case:
    table = options(f"{'ArgMax' if op == 'ARG_MAX' else 'ArgMin'}Options", outputType="INT32")
    return Case(op, dtype, (value(_VECTOR, dtype), constant((1,), "int32", 1)), (Operand((1,), "int32"),), table)


def _top_k(op: str, dtype: str) -> Case:
    outputs = (value((1, 2), dtype), Operand((1, 2), "int32"))
    return Case(op, dtype, (value(_VECTOR, dtype), constant((), "int32", 2)), outputs, options("TopKV2Options"))


def _one_hot(op: str, dtype: str) -> Case:
    on, off = constant((), dtype, 1), constant((), dtype, 0)
    inputs = (Operand((2,), "int32", code=1), constant((), "int32", 3), on, off)
    return Case(op, dtype, inputs, (value((2, 3), dtype),), options("OneHotOptions", axis=-1))


def _fill(op: str, dtype: str) -> Case:
    return Case(op, dtype, (indices(1, 4), value((), dtype)), (value(_VECTOR, dtype),), options("FillOptions"))


def _padv2(op: str, dtype: str) -> Case:
    fill = constant((1,), dtype, 1, value(_VECTOR, dtype).scale)
    if dtype == "int8":
        fill = Operand(fill.shape, dtype, fill.values, 0.02, -128)
    inputs = (value(_VECTOR, dtype), constant((2, 2), "int32", (0, 0, 1, 1)), fill)
    return Case(op, dtype, inputs, (value((1, 6), dtype),), options("PadV2Options"))


def _strided_slice(op: str, dtype: str) -> Case:
    inputs = (value(_VECTOR, dtype), indices(0, 1), indices(1, 3), indices(1, 1))
    return Case(op, dtype, inputs, (value((1, 2), dtype),), options("StridedSliceOptions"))


def _shape(op: str, dtype: str) -> Case:
    return Case(
        op, dtype, (value(_VECTOR, dtype),), (Operand((2,), "int32"),), options("ShapeOptions", outType="INT32")
    )


_REDUCE = _with(indices(1, 2), out=(1, 2), table="ReducerOptions", shape=_IMAGE)
_PAD_ROWS = constant((2, 2), "int32", (0, 0, 1, 1))
_BLOCKS, _NO_CROPS = indices(2, 2), constant((2, 2), "int32", 0)

FAMILIES: dict[str, Family] = {
    **{op: Family(REAL, _conv) for op in ("CONV_2D", "DEPTHWISE_CONV_2D")},
    "CONV_3D": Family(REAL, _conv_3d),
    "TRANSPOSE_CONV": Family(REAL, _transpose_conv),
    "FULLY_CONNECTED": Family(REAL, _dense),
    "BATCH_MATMUL": Family(REAL, _batch_matmul),
    **{op: Family(REAL, _pool) for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{op: Family(NUMERIC, _REDUCE) for op in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")},
    "RESIZE_BILINEAR": Family(
        REAL, _with(indices(8, 8), out=(1, 8, 8, 2), table="ResizeBilinearOptions", shape=_IMAGE)
    ),
    "RESIZE_NEAREST_NEIGHBOR": Family(
        REAL, _with(indices(8, 8), out=(1, 8, 8, 2), table="ResizeNearestNeighborOptions", shape=_IMAGE)
    ),
    "CUMSUM": Family(NUMERIC, _with(constant((), "int32", 1), out=_VECTOR, table="CumsumOptions")),
    "ADD_N": Family(NUMERIC, _binary("AddNOptions")),
    "RESHAPE": Family(ANY, _with(indices(2, 2), out=(2, 2), table="ReshapeOptions", newShape=[2, 2])),
    "PAD": Family(NUMERIC, _with(_PAD_ROWS, out=(1, 6), table="PadOptions")),
    "PADV2": Family(NUMERIC, _padv2),
    "MIRROR_PAD": Family(REAL, _with(_PAD_ROWS, out=(1, 6), table="MirrorPadOptions", mode="REFLECT")),
    "CONCATENATION": Family(ANY, _concatenation),
    "TRANSPOSE": Family(ANY, _with(indices(0, 3, 1, 2), out=(1, 2, 4, 4), table="TransposeOptions", shape=_IMAGE)),
    "SLICE": Family(ANY, _with(indices(0, 1), indices(1, 2), out=(1, 2), table="SliceOptions")),
    "STRIDED_SLICE": Family(ANY, _strided_slice),
    **{op: Family(NUMERIC, _split) for op in ("SPLIT", "SPLIT_V")},
    **{op: Family(NUMERIC, _pack) for op in ("PACK", "UNPACK")},
    "SQUEEZE": Family(ANY, _with(out=(4,), table="SqueezeOptions", squeezeDims=[0])),
    "EXPAND_DIMS": Family(ANY, _with(constant((1,), "int32", 1), out=(1, 1, 4), table="ExpandDimsOptions")),
    **{op: Family(NUMERIC, _gather) for op in ("GATHER", "GATHER_ND", "EMBEDDING_LOOKUP")},
    "TILE": Family(NUMERIC, _with(indices(1, 2), out=(1, 8), table="TileOptions")),
    "BROADCAST_TO": Family(NUMERIC, _with(indices(2, 4), out=(2, 4), table="BroadcastToOptions")),
    "SPACE_TO_DEPTH": Family(REAL, _with(out=(1, 2, 2, 8), table="SpaceToDepthOptions", shape=_IMAGE, blockSize=2)),
    "DEPTH_TO_SPACE": Family(
        REAL, _with(out=(1, 4, 4, 2), table="DepthToSpaceOptions", shape=(1, 2, 2, 8), blockSize=2)
    ),
    "SPACE_TO_BATCH_ND": Family(
        REAL, _with(_BLOCKS, _NO_CROPS, out=(4, 2, 2, 2), table="SpaceToBatchNDOptions", shape=_IMAGE)
    ),
    "BATCH_TO_SPACE_ND": Family(
        REAL, _with(_BLOCKS, _NO_CROPS, out=_IMAGE, table="BatchToSpaceNDOptions", shape=(4, 2, 2, 2))
    ),
    "REVERSE_V2": Family(NUMERIC, _with(constant((1,), "int32", 1), out=_VECTOR, table="ReverseV2Options")),
    "CAST": Family(ANY, _cast),
    "ZEROS_LIKE": Family(NUMERIC, _unary("ZerosLikeOptions")),
    "FILL": Family(NUMERIC, _fill),
    "ONE_HOT": Family(NUMERIC, _one_hot),
    **{op: Family(REAL, _arg) for op in ("ARG_MAX", "ARG_MIN")},
    "TOPK_V2": Family(REAL, _top_k),
    "ADD": Family(NUMERIC, _binary("AddOptions")),
    "SUB": Family(NUMERIC, _binary("SubOptions")),
    "MUL": Family(NUMERIC, _binary("MulOptions")),
    "DIV": Family(NUMERIC, _binary("DivOptions")),
    "SQUARED_DIFFERENCE": Family(NUMERIC, _binary("SquaredDifferenceOptions")),
    **{op: Family(NUMERIC, _binary("MaximumMinimumOptions")) for op in ("MAXIMUM", "MINIMUM")},
    **{op: Family(REAL, _unary()) for op in ("SQRT", "RSQRT", "SIGN")},
    "ABS": Family(NUMERIC, _unary("AbsOptions")),
    "NEG": Family(NUMERIC, _unary("NegOptions")),
    "SQUARE": Family(REAL, _unary("SquareOptions")),
    **{op: Family(REAL, _unary()) for op in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")},
    "LEAKY_RELU": Family(REAL, _unary("LeakyReluOptions", alpha=0.1)),
    "PRELU": Family(REAL, _prelu),
    "HARD_SWISH": Family(REAL, _unary("HardSwishOptions")),
    "EQUAL": Family(ANY, _binary("EqualOptions", "bool")),
    "NOT_EQUAL": Family(ANY, _binary("NotEqualOptions", "bool")),
    "GREATER": Family(NUMERIC, _binary("GreaterOptions", "bool")),
    "GREATER_EQUAL": Family(NUMERIC, _binary("GreaterEqualOptions", "bool")),
    "LESS": Family(NUMERIC, _binary("LessOptions", "bool")),
    "LESS_EQUAL": Family(NUMERIC, _binary("LessEqualOptions", "bool")),
    **{op: Family(NUMERIC, _select) for op in ("SELECT", "SELECT_V2")},
    "LOGICAL_AND": Family(("bool",), _binary("LogicalAndOptions")),
    "LOGICAL_OR": Family(("bool",), _binary("LogicalOrOptions")),
    "LOGICAL_NOT": Family(("bool",), _unary("LogicalNotOptions")),
    "QUANTIZE": Family(REAL, _quantize),
    "DEQUANTIZE": Family((*QUANTIZED, "float16"), _dequantize),
    # The project never writes these, but users find them in other files.
    "EXP": Family(REAL, _unary("ExpOptions")),
    **{op: Family(REAL, _unary()) for op in ("LOG", "LOGISTIC", "TANH", "ELU", "SIN", "CEIL", "FLOOR", "ROUND")},
    "COS": Family(REAL, _unary("CosOptions")),
    "SOFTMAX": Family(REAL, _unary("SoftmaxOptions", beta=1.0)),
    "LOG_SOFTMAX": Family(REAL, _unary("LogSoftmaxOptions")),
    "GELU": Family(REAL, _unary("GeluOptions", approximate=False)),
    "L2_NORMALIZATION": Family(REAL, _unary("L2NormOptions")),
    "POW": Family(NUMERIC, _binary("PowOptions")),
    "FLOOR_DIV": Family(NUMERIC, _binary("FloorDivOptions")),
    "FLOOR_MOD": Family(NUMERIC, _binary("FloorModOptions")),
    "ATAN2": Family(("float32",), _binary("ATan2Options")),
    "SHAPE": Family(ANY, _shape),
}

_WITH_WEIGHTS = "FULLY_CONNECTED CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV BATCH_MATMUL EMBEDDING_LOOKUP".split()

HYBRID = {op: Family(("float32",), _hybrid) for op in _WITH_WEIGHTS}
"""Float activations with int8 weights: what dynamic-range quantisation writes."""


def cases(ops: tuple[str, ...] | None = None, hybrid: bool = False) -> Iterator[Case]:
    """Yields a case for every operator and type that is worth probing.

    Args:
        ops: Operators to keep; None for all.
        hybrid: Float activations with int8 weights instead.
    """
    for op, family in (HYBRID if hybrid else FAMILIES).items():
        if ops is None or op in ops:
            for dtype in family.dtypes:
                yield family.build(op, dtype)

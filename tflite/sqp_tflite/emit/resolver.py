"""The op resolver of TensorFlow Lite Micro with exactly the model's operators."""

from __future__ import annotations

from sqp_tflite.codegen.literals import comment_text
from sqp_tflite.emit.material import Material
from sqp_tflite.errors import BadInputError
from sqp_tflite.npu.tables import COMMAND

_SPELT_OTHERWISE = {
    "AVERAGE_POOL_2D": "AveragePool2D",
    "MAX_POOL_2D": "MaxPool2D",
    "L2_POOL_2D": "L2Pool2D",
    "CONV_2D": "Conv2D",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "BATCH_MATMUL": "BatchMatMul",
    "CUMSUM": "CumSum",
    "PADV2": "PadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
    COMMAND: "EthosU",
}
"""Methods of MicroMutableOpResolver whose name is not the op's name in camel case."""

REGISTERED = frozenset(
    "ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_ARGS "
    "BROADCAST_TO CALL_ONCE CAST CEIL CONCATENATION CONV_2D COS CUMSUM DEPTH_TO_SPACE DEPTHWISE_CONV_2D DEQUANTIZE DIV "
    "DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED "
    "GATHER GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG "
    "LOG_SOFTMAX LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAX_POOL_2D MAXIMUM MEAN MINIMUM MIRROR_PAD MUL NEG "
    "NOT_EQUAL PACK PAD PADV2 PRELU QUANTIZE READ_VARIABLE REDUCE_ALL REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE "
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX "
    "SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF "
    "TANH TRANSPOSE TRANSPOSE_CONV UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK VAR_HANDLE WHILE ZEROS_LIKE".split()
)
"""The built-in operators that MicroMutableOpResolver has a method for."""

_HEAD = """\
// Exactly the operators of `{source}`. Made by sqp-export. Do not edit.
#ifndef {macro}_OP_RESOLVER_H_
#define {macro}_OP_RESOLVER_H_

#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

namespace tflite {{
namespace micro {{}}  // Newer releases have their classes here; older ones have them in tflite.
}}  // namespace tflite

namespace {prefix}_ops {{

using namespace tflite;
using namespace tflite::micro;

constexpr unsigned int kCount = {count};
using Resolver = MicroMutableOpResolver<kCount>;

// Returns whether every operator was registered.
inline bool Register(Resolver& resolver) {{
"""

_TAIL = """\
  return true;
}}

}}  // namespace {prefix}_ops

#endif  // {macro}_OP_RESOLVER_H_
"""


def resolver(material: Material) -> dict[str, str]:
    """Returns the header with the resolver: {"model_op_resolver.h": ...}.

    Raises:
        BadInputError: TensorFlow Lite Micro cannot register an operator; the message lists all such operators.
    """
    used = _used(material)
    unknown = [name for name, _ in used if name not in (*REGISTERED, COMMAND)]
    if unknown:
        raise BadInputError(
            "A resolver can be written only for operators that TensorFlow Lite Micro registers. Received: "
            f"{', '.join(unknown)}. See the findings of `sqp-inspect`, or omit `resolver` from --emit."
        )
    style = material.style
    keys = {"prefix": style.prefix, "macro": style.macro, "source": comment_text(material.source)}
    lines = [_HEAD.format(count=len(used), **keys).rstrip("\n")]
    for name, comments in used:
        lines += [f"  // {comment}" for comment in comments]
        lines.append(f"  if (resolver.{method(name)}() != kTfLiteOk) return false;")
    return {f"{style.prefix}_op_resolver.h": "\n".join([*lines, _TAIL.format(**keys)])}


def method(op: str) -> str:
    """Returns the method of MicroMutableOpResolver that registers an operator, e.g. AddFullyConnected."""
    return "Add" + _SPELT_OTHERWISE.get(op, "".join(part.capitalize() for part in op.split("_")))


def _used(material: Material) -> list[tuple[str, list[str]]]:
    """Every operator once, in the order of its first use, with a comment per type and version."""
    order = dict.fromkeys(op.name for _, op in material.graph.all_ops())
    rows: dict[str, list[str]] = {name: [] for name in order}
    for row in material.report.ops:
        times = "once" if row.count == 1 else f"{row.count} times"
        layers = f": {', '.join(row.layers)}" if row.layers else ""
        if row.op in rows:
            rows[row.op].append(comment_text(f"{row.op} version {row.version}, {row.dtype}, {times}{layers}"))
    return list(rows.items())

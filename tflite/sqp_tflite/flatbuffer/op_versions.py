"""Operator versions by the converter's rules, and the oldest interpreter that has them.

The quantiser keeps the versions of the float file it was given, and with them the `min_runtime_version` in its
metadata: firmware that looks at either would take an int8 file for one that a release of 2017 runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import Op, Subgraph

METADATA = "min_runtime_version"
_METADATA_BYTES = 16

_INTEGER = MappingProxyType(
    {
        **dict.fromkeys(
            "ADD AVERAGE_POOL_2D MAX_POOL_2D MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN RELU RELU6 RSQRT CONCATENATION PACK "
            "PAD PADV2 BATCH_MATMUL LOGISTIC TANH SOFTMAX LESS GREATER_EQUAL ABS".split(),
            (2, 3),
        ),
        **dict.fromkeys(
            "SUM SPLIT_V SPACE_TO_DEPTH DEPTH_TO_SPACE SQUARED_DIFFERENCE GREATER LESS_EQUAL ARG_MAX ARG_MIN "
            "STRIDED_SLICE SELECT".split(),
            (2, 1),
        ),
        **dict.fromkeys(
            "MAXIMUM MINIMUM SLICE SPLIT UNPACK GATHER MUL RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SPACE_TO_BATCH_ND "
            "BATCH_TO_SPACE_ND NOT_EQUAL".split(),
            (2, 4),
        ),
        **dict.fromkeys(("TRANSPOSE", "SUB", "EQUAL"), (2, 5)),
        **dict.fromkeys(("TILE", "REVERSE_V2", "CAST"), (3, 1)),
        **dict.fromkeys(("SQRT", "EXP", "LOG"), (2, 2)),
        **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "BROADCAST_TO"), (3, 3)),
        "FULLY_CONNECTED": (4, 4),
        "TRANSPOSE_CONV": (2, 2),
        "TOPK_V2": (2, 3),
        "LEAKY_RELU": (1, 2),
        "DEQUANTIZE": (2, 3),
    }
)
"""Versions with int8 and with int16 numbers."""

_HYBRID = MappingProxyType({"FULLY_CONNECTED": (3, 12), "CONV_2D": (2, 5), "DEPTHWISE_CONV_2D": (4, 6)})
"""Versions with float numbers and int8 weights: with one scale, and with one per channel."""

_RELEASES = MappingProxyType(
    {
        line.split()[0]: tuple(line.split()[1:])
        for line in """
        ABS 1.13.0 2.4.0 2.5.0 2.6.0
        ADD 1.5.0 1.14.0 2.4.0 2.6.0
        ADD_N 1.14.0
        ARG_MAX 1.9.0 1.14.0 2.9.0
        ARG_MIN 1.9.0 1.14.0 2.9.0
        AVERAGE_POOL_2D 1.5.0 1.14.0 2.3.0
        BATCH_MATMUL 2.3.0 2.3.0 2.4.0 2.5.0
        BATCH_TO_SPACE_ND 1.6.0 1.14.0 2.3.0
        BROADCAST_TO - 2.5.0 2.5.0
        CAST 1.5.0 2.7.0 2.8.0 2.9.0 2.12.0
        CONCATENATION 1.5.0 1.14.0 2.3.0
        CONV_2D 1.5.0 1.14.0 1.14.0 2.3.0 2.4.0 2.9.0 2.11.0
        CONV_3D 2.5.0
        CUMSUM 2.4.0
        DEPTHWISE_CONV_2D 1.5.0 1.12.0 1.14.0 2.2.0 2.3.0 2.3.0 2.11.0
        DEPTH_TO_SPACE 2.1.0 2.5.0
        DEQUANTIZE 1.13.1 1.14.0 1.15.0 2.2.0 2.7.0
        DIV 1.6.0 2.3.0
        EQUAL 1.14.0 1.14.0 2.3.0
        EXPAND_DIMS 1.10.0
        FILL 1.13.0 2.3.0 2.5.0
        FULLY_CONNECTED 1.5.0 1.10.0 1.14.0 1.14.0 2.0.0 2.1.0 2.3.0 2.3.0 2.3.0 2.11.0
        GATHER 1.6.0 1.14.0 1.15.0 2.4.0 2.5.0
        GATHER_ND 1.14.0 2.3.0 2.5.0
        GREATER 1.14.0 1.14.0
        GREATER_EQUAL 1.14.0 1.14.0
        HARD_SWISH 1.15.0
        LEAKY_RELU 1.13.1 2.3.0
        LESS 1.14.0 1.14.0
        LESS_EQUAL 1.14.0 1.14.0
        LOGICAL_AND 1.11.0
        LOGICAL_NOT 1.11.0
        LOGICAL_OR 1.11.0
        MAXIMUM 1.14.0 1.14.0 2.3.0 2.3.0
        MAX_POOL_2D 1.5.0 1.14.0 2.3.0
        MEAN 1.6.0 1.14.0 2.4.0
        MINIMUM 1.14.0 1.14.0 2.3.0 2.3.0
        MIRROR_PAD 1.13.1 2.3.0 2.12.0
        MUL 1.5.0 1.14.0 1.15.0 2.3.0 2.6.0 2.11.0
        NEG 1.9.0
        NOT_EQUAL 1.14.0 1.14.0 2.3.0
        ONE_HOT 1.11.0
        PACK 1.11.0 1.14.0 2.3.0
        PAD 1.5.0 1.14.0 2.4.0 2.6.0
        PADV2 1.9.0 1.14.0 2.4.0 2.6.0
        PRELU 1.8.0
        QUANTIZE 1.14.0 1.15.0 2.7.0
        REDUCE_MAX 1.11.0 1.14.0 2.5.0
        REDUCE_MIN 1.11.0 1.14.0 2.5.0
        RELU 1.5.0 2.1.0 2.5.0
        RELU6 1.5.0 1.14.0 2.5.0
        RELU_0_TO_1 2.10.0
        RELU_N1_TO_1 1.5.0
        RESHAPE 1.5.0
        RESIZE_BILINEAR 1.7.0 1.14.0 2.2.0 2.5.0
        RESIZE_NEAREST_NEIGHBOR 1.13.1 1.14.0 2.3.0 2.4.0
        REVERSE_V2 1.14.0 2.2.0 2.5.0
        RSQRT 1.10.0 2.5.0 2.15.0
        SELECT 1.14.0 1.14.0 2.12.0
        SELECT_V2 2.2.0
        SLICE 1.14.0 1.14.0 1.14.0 2.4.0 2.5.0
        SPACE_TO_BATCH_ND 1.6.0 1.14.0 2.3.0
        SPACE_TO_DEPTH 1.5.0 1.14.0
        SPLIT 1.5.0 1.14.0 1.14.0 2.3.0
        SPLIT_V 1.13.1 2.3.0
        SQRT 1.10.0
        SQUARE 1.12.0
        SQUARED_DIFFERENCE 1.13.1 2.5.0
        SQUEEZE 1.6.0 2.5.0
        STRIDED_SLICE 1.6.0 1.14.0 2.1.0 2.2.0 2.5.0 2.6.0
        SUB 1.6.0 1.14.0 2.3.0 2.4.0 2.4.0
        SUM 1.10.0 1.15.0
        TILE 1.10.1 2.2.0 2.8.0 2.12.0
        TOPK_V2 1.7.0 1.14.0
        TRANSPOSE 1.6.0 1.14.0 1.15.0 2.3.0 2.4.0 2.12.0
        TRANSPOSE_CONV 1.9.0 2.2.0 2.3.0 2.13.0
        UNPACK 1.11.0 1.14.0 2.2.0 2.3.0
        ZEROS_LIKE 1.12.0
        """.strip().splitlines()
    }
)
"""The first release of the interpreter with each version of an operator, from 1 on, "-" where there is none: as
TensorFlow's converter has it; later versions are left out there, too. RSQRT for int16 is not in 2.14, by our probe."""

_WIDE = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_WIDE_RELEASE = "2.3.0"
"""int16 numbers with int8 weights came with this release, in the versions that int8 has."""


def version_of(subgraph: Subgraph, op: Op) -> int:
    """Returns the version that an operator needs for the types in the file, at least the one that it has.

    The options of an operator do not change when a file is quantised: what they need, the converter has written.

    Args:
        subgraph: Holds the operator.
        op: The operator.
    """
    needed = 1
    if op.name == "QUANTIZE":
        needed = 2 if any(subgraph.tensors[index].dtype == "int16" for index in op.outputs) else 1
    elif op.name == "DEQUANTIZE" and op.dtype == "float16":
        needed = 3
    elif op.name == "DEQUANTIZE" and op.dtype == "int8" and _per_channel(subgraph, op.inputs[0]):
        needed = 5
    elif op.dtype in ("int8", "int16"):
        needed = _INTEGER.get(op.name, (1, 1))[op.dtype == "int16"]
        if op.name == "MUL" and op.dtype == "int8" and _grows(subgraph, op):
            needed = 3
        elif op.name == "FULLY_CONNECTED" and len(op.inputs) == 2:
            needed = 6
    elif op.name in _HYBRID and op.dtype == "float32" and op.weights == "int8":
        needed = _HYBRID[op.name][_per_channel(subgraph, op.inputs[1])]
    return max(op.version, needed)


def _per_channel(subgraph: Subgraph, index: int) -> bool:
    held = subgraph.tensors[index].quantization
    return held is not None and len(held.scales) > 1


def _grows(subgraph: Subgraph, op: Op) -> bool:
    """Whether the product of the inputs' scales is not below the output's: the first kernels could not compute that."""
    held = [subgraph.tensors[index].quantization for index in (*op.inputs[:2], op.outputs[0])]
    if any(one is None for one in held):
        return False
    first, second, result = (one.scales[0] for one in held if one is not None)
    return first * second >= result


def runtime_of(graphs: Iterable[Subgraph]) -> str:
    """Returns the oldest release of the interpreter that has every operator of a file in its version.

    Args:
        graphs: Of a file whose versions are right.
    """
    found = ["1.5.0"]
    for op in (op for graph in graphs for op in graph.ops):
        releases = _RELEASES.get(op.name, ())
        found += releases[op.version - 1 : op.version]
        if op.name in _WIDE and op.dtype == "int16":
            found.append(_WIDE_RELEASE)
    return max((release for release in found if release != "-"), key=_numbers)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def versioned(editor: Editor) -> None:
    """Gives the operators of a quantised file the versions and options that they need, and the file its oldest release.

    Args:
        editor: Of the file.
    """
    editor.complete_options()
    editor.set_versions([[version_of(graph, op) for op in graph.ops] for graph in editor.graphs()])
    text = runtime_of(editor.graphs()).encode()
    editor.set_metadata(METADATA, text.ljust(_METADATA_BYTES, b"\0"))

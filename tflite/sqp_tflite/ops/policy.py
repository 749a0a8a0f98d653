"""Which operators a file may contain: the project's rule for every target, and the kernels of each target."""

from __future__ import annotations

import functools
import importlib.resources
import json
from types import MappingProxyType
from typing import Any

RUNTIMES = ("tflm", "litert", "tflite-runtime")
"""The interpreters that a file is compared on, as far as they are installed."""

HALF = "half"
"""What estimates a GPU delegate: the file in half precision, emulated. It is no interpreter that a file is made for."""

PROBED = (*RUNTIMES, "tflm@2023")
"""What has an operator table of its own: the interpreters, and older releases of them, which boards carry."""

ACCELERATORS = MappingProxyType(
    {
        "ethos-u55": tuple(f"ethos-u55-{macs}" for macs in (32, 64, 128, 256)),
        "ethos-u65": tuple(f"ethos-u65-{macs}" for macs in (256, 512)),
        "ethos-u85": tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048)),
    }
)
"""{target with an NPU: its variants, as the compiler for it spells them; the number is that of MACs per cycle}."""

ACCELERATOR = MappingProxyType(
    {"ethos-u55": "ethos-u55-128", "ethos-u65": "ethos-u65-256", "ethos-u85": "ethos-u85-256"}
)
"""{target with an NPU: the variant that is meant where none is named}."""

NPUS = tuple(ACCELERATORS)
"""Targets with an NPU: their files run in TensorFlow Lite Micro, in which one operator hands parts of them to the NPU.
What is left has the kernels of "tflm"."""

TARGETS = (*PROBED, *NPUS)
"""What a file can be made for."""

RELEASES = MappingProxyType({"tflm@2023": "0.dev20231010131554"})
"""{older release: version of the package that it was probed on}. It does not fit beside the newer one of the same name,
which runs the file in its place."""

ONE_SCALE = frozenset(("tflm@2023",))
"""Targets that take one scale for the weights of an integer FULLY_CONNECTED, and silently ignore the others."""

LINEAR = frozenset(
    "CONV_2D CONV_3D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED BATCH_MATMUL AVERAGE_POOL_2D MAX_POOL_2D MEAN "
    "SUM REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR CUMSUM ADD_N".split()
)
DATA_MOVING = frozenset(
    "RESHAPE PAD PADV2 MIRROR_PAD CONCATENATION TRANSPOSE SLICE STRIDED_SLICE SPLIT SPLIT_V PACK UNPACK SQUEEZE "
    "EXPAND_DIMS GATHER GATHER_ND TILE BROADCAST_TO SPACE_TO_DEPTH DEPTH_TO_SPACE SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND "
    "REVERSE_V2 CAST ZEROS_LIKE FILL EMBEDDING_LOOKUP ONE_HOT ARG_MAX ARG_MIN TOPK_V2".split()
)
ARITHMETIC = frozenset("ADD SUB MUL SQRT RSQRT DIV NEG ABS SQUARE SQUARED_DIFFERENCE".split())
COMPARING = frozenset(
    "RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 LEAKY_RELU PRELU HARD_SWISH MAXIMUM MINIMUM EQUAL NOT_EQUAL GREATER "
    "GREATER_EQUAL LESS LESS_EQUAL SELECT SELECT_V2 LOGICAL_AND LOGICAL_OR LOGICAL_NOT SIGN".split()
)
CHANGING_TYPE = frozenset(("QUANTIZE", "DEQUANTIZE"))

ADMITTED = LINEAR | DATA_MOVING | ARITHMETIC | COMPARING | CHANGING_TYPE
"""The operators that the project allows in a file. All others are refused for every target."""

EXP_AND_LOG = frozenset(
    "EXP LOG LOGISTIC TANH SOFTMAX LOG_SOFTMAX ELU GELU POW SIN COS ATAN2 MULTINOMIAL LSTM "
    "UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM STABLEHLO_EXPONENTIAL STABLEHLO_LOG "
    "STABLEHLO_LOGISTIC STABLEHLO_TANH STABLEHLO_POWER STABLEHLO_COSINE STABLEHLO_RNG_BIT_GENERATOR".split()
)
"""Operators whose kernels need exp, log or the like, or a table in their place."""

MOST_DIMENSIONS = MappingProxyType({"tflm": 6, "tflm@2023": 6, **dict.fromkeys(NPUS, 6)})
"""TFLM's kernels keep a shape in an array of 6 numbers and do not look whether it fits: with 8, MUL gave wrong numbers
and ADD ended the process; that of 2023 ends it with 7. RESHAPE, which only copies, needs no shape."""

DELEGATED_DIMENSIONS = 6
DELEGATED = frozenset("CONCATENATION FULLY_CONNECTED MEAN SOFTMAX SPLIT SUM".split())
"""Operators that LiteRT hands to XNNPACK in float32, which fails to prepare them with more dimensions than this: found
by running them with 7 and 8. With these LiteRT runs ADD, MAXIMUM, MUL, SQRT and TANH."""

NAMES = MappingProxyType(
    {
        "tflm": "TensorFlow Lite Micro",
        "litert": "LiteRT",
        "tflite-runtime": "tflite-runtime 2.14",
        "tflm@2023": "TensorFlow Lite Micro of 2023",
        "ethos-u55": "Ethos-U55",
        "ethos-u65": "Ethos-U65",
        "ethos-u85": "Ethos-U85",
        HALF: "half precision (emulated)",
    }
)


def runtime_of(target: str) -> str:
    """Returns the interpreter, one of `RUNTIMES`, that runs files for a target, also for an older release or an NPU.

    Args:
        target: One of `TARGETS`.
    """
    return "tflm" if target in NPUS else target.partition("@")[0]


def kernels_of(target: str) -> str:
    """Returns the target whose kernels hold: for an NPU those of TFLM, which computes what is left to the CPU.

    Args:
        target: One of `TARGETS`.
    """
    return "tflm" if target in NPUS else target


@functools.cache
def kernels(target: str) -> MappingProxyType[str, tuple[str, ...]]:
    """Returns {op: types that the target's interpreter ran in the probe}.

    Args:
        target: One of `TARGETS`.
    """
    return MappingProxyType({op: tuple(types) for op, types in _table()["targets"][kernels_of(target)].items()})


def hybrid(target: str) -> tuple[str, ...]:
    """Returns the operators that the target runs with float inputs and int8 weights.

    Args:
        target: One of `TARGETS`.
    """
    return tuple(_table()["hybrid"][kernels_of(target)])


@functools.cache
def versions(target: str) -> MappingProxyType[str, int]:
    """Returns {op: highest version that the target's interpreter accepts}; empty for TFLM, which ignores versions.

    Args:
        target: One of `TARGETS`.
    """
    return MappingProxyType(dict(_table()["op_versions"].get(kernels_of(target), {})))


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads(importlib.resources.files("sqp_tflite.ops").joinpath("ops.json").read_text("utf-8"))


def takes_version(op: str, version: int, target: str) -> bool:
    """Returns whether the target's interpreter has an operator in this version, as far as the probe knows.

    Args:
        op: As the schema spells it.
        version: Of the operator, as the file says.
        target: One of `TARGETS`.
    """
    return version <= versions(target).get(op, version)


def broken_rule(op: str, dtype: str, target: str) -> str | None:
    """Returns a sentence that says why an operator may not be in a file, None if it may.

    Args:
        op: As the schema spells it.
        dtype: The type that decides whether a kernel exists.
        target: One of `TARGETS`.
    """
    if op.startswith("CUSTOM:Flex"):
        return f"`{op.removeprefix('CUSTOM:')}` is a TensorFlow op that needs the Flex delegate."
    if op.startswith("CUSTOM:"):
        return f"`{op.removeprefix('CUSTOM:')}` is a custom op, whose arithmetic a file does not say."
    if op not in ADMITTED:
        return f"{op} is not among the admitted ops (linear, data-moving, ADD, SUB, MUL, SQRT, clips)."
    types = kernels(target).get(op)
    if types is None:
        return f"{NAMES[kernels_of(target)]} has no {op}."
    if dtype not in types:
        return f"{NAMES[kernels_of(target)]} is known to run {op} for {', '.join(types) or 'no type'} only."
    return None

"""Options by subject: each function adds those of one to a command's parser. Imports nothing slow."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from sqp_tflite.cli import readers
from sqp_tflite.cli.actions import Completion, Version
from sqp_tflite.ops.combinations import IO, LOWERINGS, QUANTIZE
from sqp_tflite.ops.policy import TARGETS
from sqp_tflite.options import HARD_SIGMOIDS, HEADS


def model(parser: argparse.ArgumentParser) -> None:
    """Adds the model."""
    kinds = ".keras, .h5 or .tflite file, or SavedModel folder"
    parser.add_argument("model", type=readers.path, metavar="MODEL", help=kinds)


def budgets(group: Any) -> None:
    """Adds the options about how much a device has."""
    for name, words in (
        ("--ram", "max arena size; k is 1024, M is 1024*1024, G is 1024*1024*1024"),
        ("--flash", "max size of the model file, without the interpreter's code"),
    ):
        group.add_argument(name, type=readers.size, metavar="BYTES", help=words)


def style(group: Any) -> None:
    """Adds the options about how C symbols are named and placed."""
    group.add_argument("--c-prefix", metavar="NAME", help="prefix of C symbols, macros and files")
    group.add_argument("--c-section", metavar="NAME", default="", help="linker section of the model's constants")
    group.add_argument(
        "--c-qualifier",
        metavar="WORDS",
        default="const",
        help="qualifier of the constants' type; '' puts them in RAM (default: const)",
    )


def target(parser: argparse.ArgumentParser) -> None:
    """Adds the options about the target."""
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default="tflm",
        help="interpreter whose operators and results decide (default: tflm, TensorFlow Lite Micro); tflm@2023 for "
        "boards that carry its release of October 2023: only operators that it has, and --per-tensor; ethos-u... for "
        "TensorFlow Lite Micro with Arm's NPU, whose compiler says what the NPU computes",
    )
    parser.add_argument(
        "--accelerator",
        metavar="NAME",
        help="the NPU's variant, such as ethos-u55-256 (default: ethos-u55-128, ethos-u65-256, ethos-u85-256)",
    )
    parser.add_argument(
        "--npu-only", action="store_true", help="refuse a file with an operator that the NPU leaves to the CPU"
    )


def numbers(parser: argparse.ArgumentParser) -> None:
    """Adds the options about number types and lowerings."""
    group = parser.add_argument_group("numbers")
    group.add_argument(
        "--quantize",
        choices=QUANTIZE,
        help="number type: float16 has half-precision weights, dynamic int8 weights, int8 and int16x8 (int16 with int8 "
        "weights) are integer models and need --data (default: float32; int8 for an NPU)",
    )
    group.add_argument(
        "--io", choices=IO, help="type of the inputs and outputs (default: integer for an integer model)"
    )
    group.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for the weights of each dense layer of an integer model, not one per unit: TensorFlow Lite "
        "Micro from before November 2024 needs it, and computes something else without an error if it is missing "
        "(--target tflm@2023 implies it)",
    )
    group.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="OUT=IN",
        help="an output that goes back in as an input at the next run: both have the same type, scale and zero point; "
        "none for no output (default: states of recurrent layers, and outputs whose names say it)",
    )
    group.add_argument(
        "--no-conversions",
        action="store_true",
        help="refuse an integer model with a QUANTIZE or DEQUANTIZE, except those of --io float32",
    )
    group.add_argument(
        "--lowering",
        choices=LOWERINGS,
        help="how an integer model writes an activation: algebraic in float between conversions, table as 256 entries "
        "(int8; any activation; the fastest on a microcontroller), integer in int16 without float (the slowest there) "
        "(default: algebraic; table at int8 for TensorFlow Lite Micro and NPUs; integer at int16x8 for NPUs)",
    )


def activations(parser: argparse.ArgumentParser) -> None:
    """Adds the options about what becomes of activations."""
    group = parser.add_argument_group("activations")
    group.add_argument(
        "--replace",
        metavar="RULE",
        help="replace the activations that need exp or log: accurate (close enough to need no retraining), fast (one "
        "square root each; ten to hundreds of times as far off, even after training), or a list by activation or layer "
        "such as silu=accurate,tanh=fast",
    )
    group.add_argument("--head", choices=HEADS, default="keep", help="logits drops a final softmax or sigmoid")
    group.add_argument(
        "--max-error",
        type=readers.bound,
        metavar="SHARE",
        help="max change of a value with --replace accurate, as a share of the activation's range; smaller needs "
        "more square roots (default: 0.001, or 0.0003 or 0.0001 if an output would change by more than 0.005)",
    )
    above = (
        "with --replace: keep softplus, sigmoid and exponential above 0 for a logarithm, root or division behind them"
    )
    group.add_argument("--positive", action="store_true", help=above)
    group.add_argument(
        "--max-change",
        type=readers.positive,
        metavar="SHARE",
        help="max change of an output against the model as given, as a share of the output's range (default: 0.02 with "
        "--replace accurate, 0.25 with other rules, and never less than the number type costs)",
    )


def finished(parser: argparse.ArgumentParser) -> None:
    """Adds the options about finished files."""
    group = parser.add_argument_group("finished .tflite files as MODEL")
    group.add_argument(
        "--reference",
        type=readers.path,
        metavar="FILE",
        help="the model that a repaired int8 file should compute: its float .tflite, or the Keras model",
    )
    group.add_argument(
        "--faithful",
        action="store_true",
        help="with --lowering table: tables of what LiteRT's integer kernels compute, code by code, instead of what "
        "the operators mean",
    )


def half(group: Any) -> None:
    """Adds the options about half precision."""
    group.add_argument(
        "--half",
        action="store_true",
        help="emulate the file in half precision, too, as an estimate of a phone's GPU delegate; it can fail the file, "
        "and proves nothing",
    )


def phones(parser: argparse.ArgumentParser) -> None:
    """Adds the options about phones."""
    group = parser.add_argument_group("half precision (GPU delegates of phones)")
    half(group)
    group.add_argument(
        "--safe-half",
        action="store_true",
        help="write each squareplus and sum of roots in a form that stays finite in half precision for every input; "
        "costs up to five operators each (without it a square overflows from abs(x) = 512 on)",
    )


def data(parser: argparse.ArgumentParser) -> None:
    """Adds the options about data, and names in model files."""
    parser.add_argument(
        "--data", type=readers.path, metavar="FILE.npz", help="inputs by Keras input name (or x); labels under y"
    )
    parser.add_argument(
        "--map", action="append", default=[], metavar="NAME=ACT", help="meaning of an unknown activation name"
    )
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE[:NAME]",
        help="import a module that registers what the model file names, or take NAME out of it; modules are found in "
        "the current folder, too, as with python -m",
    )
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="allow code in the model file to run (lambdas), and import the modules that it names, also from the "
        "current folder",
    )
    parser.add_argument(
        "--hard-sigmoid",
        choices=HARD_SIGMOIDS,
        help="what the name means in the model file: x/5 + 1/2 or x/6 + 1/2 (default: as in the Keras that wrote it)",
    )


def common(
    parser: argparse.ArgumentParser, parsers: Mapping[str, Callable[[], argparse.ArgumentParser]], reports: bool = True
) -> None:
    """Adds the options about output."""
    group = parser.add_argument_group("output")
    if reports:
        group.add_argument(
            "--report",
            type=readers.output,
            action="append",
            default=[],
            metavar="FILE",
            help="write the report to an .html or .json file; - writes JSON to standard output",
        )
    group.add_argument("--json", action="store_true", help="print only one JSON object")
    group.add_argument("--quiet", action="store_true", help="print errors only")
    group.add_argument("--debug", action="store_true", help="show what TensorFlow prints, and tracebacks")
    group.add_argument("--version", action=Version)
    group.add_argument("--completion", action=Completion, parsers=parsers)


def memory(parser: argparse.ArgumentParser) -> None:
    """Adds the options about the limit on memory."""
    parser.add_argument(
        "--max-memory",
        type=readers.size,
        metavar="SIZE",
        help="max memory that what a file declares may take, such as 2G (default: an eighth of the free memory)",
    )

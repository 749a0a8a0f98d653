"""The arguments of the commands, and their help. Imports nothing slow: help and errors must be immediate."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from sqp_tflite import accept
from sqp_tflite.cli import examples
from sqp_tflite.cli.actions import Completion, Include, Version
from sqp_tflite.cli.parser import Parser
from sqp_tflite.errors import BadInputError
from sqp_tflite.ops.combinations import IO, LOWERINGS, QUANTIZE
from sqp_tflite.ops.policy import TARGETS
from sqp_tflite.options import ARTEFACTS, HARD_SIGMOIDS, HEADS, REQUIREMENTS


def export_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-export."""
    parser = Parser(
        "sqp-export",
        "Export a Keras model to a TFLite file that needs no exp and no log, and prove it on the real interpreters.",
        examples.EXPORT,
    )
    parser.add_argument("model", type=_path, metavar="MODEL", help=".keras, .h5 or .tflite file, or SavedModel folder")
    parser.add_argument(
        "-o",
        "--output",
        type=_output,
        metavar="OUT.tflite",
        help="default: the model's name with .tflite (_sqp.tflite for a .tflite), beside it; - for standard output",
    )
    _target(parser)
    _numbers(parser)
    parser.add_argument(
        "--step",
        action="store_true",
        help="of a model of sequences, one time step: the file takes a step and the states of recurrent layers and of "
        "convolutions over time, and gives the outputs and the new states; --data holds whole sequences",
    )
    _data(parser)
    _activations(parser)
    _finished(parser)
    _phones(parser)
    _memory(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop; needs no --data")
    firmware = parser.add_argument_group("firmware")
    firmware.add_argument(
        "--emit",
        type=_artefacts,
        default=(),
        metavar="LIST",
        help="one or more of c (array and header), resolver (the op resolver), golden (test vectors), project (a "
        "folder with all of these and a self-test), code (the whole model as C, without an interpreter), vela "
        "(the file compiled for an NPU, which the others then hold), separated by commas",
    )
    firmware.add_argument(
        "--ram", type=_bytes, metavar="BYTES", help="max arena size; k is 1024, M is 1024*1024, G is 1024*1024*1024"
    )
    firmware.add_argument(
        "--flash", type=_bytes, metavar="BYTES", help="max size of the model file, without the interpreter's code"
    )
    _style(firmware)
    firmware.add_argument("--c-include", action=Include)
    _common(parser)
    return parser


def inspect_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-inspect."""
    parser = Parser(
        "sqp-inspect", "Show what any TFLite file contains, and whether a target can run it.", examples.INSPECT
    )
    parser.add_argument("file", type=_path, metavar="FILE.tflite", help="any TFLite file")
    _target(parser)
    parser.add_argument(
        "--require",
        choices=REQUIREMENTS,
        default="both",
        help="what the exit code is about: runs (the target's interpreter runs the file), free (no operator needs exp "
        "or log), or both (default)",
    )
    _memory(parser)
    _common(parser)
    return parser


def check_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-check."""
    parser = Parser(
        "sqp-check", "Compare a TFLite file with its Keras model on each installed interpreter.", examples.CHECK
    )
    parser.add_argument("model", type=_path, metavar="MODEL", help=".keras, .h5 or .tflite file, or SavedModel folder")
    parser.add_argument("file", type=_path, metavar="FILE.tflite", help="any TFLite file made from the model")
    _data(parser)
    parser.add_argument(
        "--tolerance",
        type=_share,
        metavar="SHARE",
        help="max error over the outputs' range (default: by the file's number type)",
    )
    _half(parser)
    for which in ("inputs", "outputs"):
        parser.add_argument(
            f"--{which}",
            type=_listed,
            metavar="NAME,...",
            help=f"the model's {which} in the file's order (default: by the names and shapes in the file)",
        )
    _memory(parser)
    _common(parser, reports=False)
    return parser


def cc_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-cc."""
    parser = Parser(
        "sqp-cc", "Write any TFLite file as C that computes what TensorFlow Lite Micro does, bit for bit.", examples.CC
    )
    parser.add_argument("file", type=_path, metavar="FILE.tflite", help="a file whose operators have a C form")
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        metavar="DIR",
        help="folder for the code (default: the file's name in lower case with _code)",
    )
    _style(parser)
    _memory(parser)
    _common(parser, reports=False)
    return parser


def _style(group: Any) -> None:
    group.add_argument("--c-prefix", metavar="NAME", help="prefix of C symbols, macros and files")
    group.add_argument("--c-section", metavar="NAME", default="", help="linker section of the model's constants")
    group.add_argument(
        "--c-qualifier",
        metavar="WORDS",
        default="const",
        help="qualifier of the constants' type; '' puts them in RAM (default: const)",
    )


PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "sqp-export": export_parser,
    "sqp-inspect": inspect_parser,
    "sqp-check": check_parser,
    "sqp-cc": cc_parser,
}


def _target(parser: argparse.ArgumentParser) -> None:
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


def _numbers(parser: argparse.ArgumentParser) -> None:
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


def _activations(parser: argparse.ArgumentParser) -> None:
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
        type=_bound,
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
        type=_positive,
        metavar="SHARE",
        help="max change of an output against the model as given, as a share of the output's range (default: 0.02 with "
        "--replace accurate, 0.25 with other rules, and never less than the number type costs)",
    )


def _finished(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("finished .tflite files as MODEL")
    group.add_argument(
        "--reference",
        type=_path,
        metavar="FILE",
        help="the model that a repaired int8 file should compute: its float .tflite, or the Keras model",
    )
    group.add_argument(
        "--faithful",
        action="store_true",
        help="with --lowering table: tables of what LiteRT's integer kernels compute, code by code, instead of what "
        "the operators mean",
    )


def _half(group: Any) -> None:
    group.add_argument(
        "--half",
        action="store_true",
        help="emulate the file in half precision, too, as an estimate of a phone's GPU delegate; it can fail the file, "
        "and proves nothing",
    )


def _phones(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("half precision (GPU delegates of phones)")
    _half(group)
    group.add_argument(
        "--safe-half",
        action="store_true",
        help="write each squareplus and sum of roots in a form that stays finite in half precision for every input; "
        "costs up to five operators each (without it a square overflows from abs(x) = 512 on)",
    )


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=_path, metavar="FILE.npz", help="inputs by Keras input name (or x); labels under y"
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


def _common(parser: argparse.ArgumentParser, reports: bool = True) -> None:
    group = parser.add_argument_group("output")
    if reports:
        group.add_argument(
            "--report",
            type=_output,
            action="append",
            default=[],
            metavar="FILE",
            help="write the report to an .html or .json file; - writes JSON to standard output",
        )
    group.add_argument("--json", action="store_true", help="print only one JSON object")
    group.add_argument("--quiet", action="store_true", help="print errors only")
    group.add_argument("--debug", action="store_true", help="show what TensorFlow prints, and tracebacks")
    group.add_argument("--version", action=Version)
    group.add_argument("--completion", action=Completion, parsers=PARSERS)


def _memory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-memory",
        type=_bytes,
        metavar="SIZE",
        help="max memory that what a file declares may take, such as 2G (default: an eighth of the free memory)",
    )


def _read(accepted: accept.Accept) -> Callable[[str], Any]:
    """Returns a reader of an option's text with the grammar that the Python API has for its parameter."""

    def read(text: str) -> Any:
        try:
            return accepted("", text)
        except BadInputError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


_artefacts = _read(accept.words(*ARTEFACTS))
_bytes = _read(accept.size)
_listed = _read(accept.listed)
_bound = _read(accept.fraction)
_positive = _read(accept.positive)
_share = _read(accept.share)
_path = _read(accept.path_text)
_output = _read(accept.output_text)

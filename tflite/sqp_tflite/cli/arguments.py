"""The arguments of the commands, and their help. Imports nothing slow: help and errors must be immediate."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from sqp_tflite.cli import examples, groups, readers
from sqp_tflite.cli.actions import Include
from sqp_tflite.cli.parser import Parser
from sqp_tflite.options import REQUIREMENTS


def export_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-export."""
    parser = Parser(
        "sqp-export",
        "Export a Keras model to a TFLite file that needs no exp and no log, and prove it on the real interpreters.",
        examples.EXPORT,
    )
    parser.add_argument(
        "model", type=readers.path, metavar="MODEL", help=".keras, .h5 or .tflite file, or SavedModel folder"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=readers.output,
        metavar="OUT.tflite",
        help="default: the model's name with .tflite (_sqp.tflite for a .tflite), beside it; - for standard output",
    )
    groups.target(parser)
    groups.numbers(parser)
    parser.add_argument(
        "--step",
        action="store_true",
        help="of a model of sequences, one time step: the file takes a step and the states of recurrent layers and of "
        "convolutions over time, and gives the outputs and the new states; --data holds whole sequences",
    )
    groups.data(parser)
    groups.activations(parser)
    groups.finished(parser)
    groups.phones(parser)
    groups.memory(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop; needs no --data")
    firmware = parser.add_argument_group("firmware")
    firmware.add_argument(
        "--emit",
        type=readers.artefacts,
        default=(),
        metavar="LIST",
        help="one or more of c (array and header), resolver (the op resolver), golden (test vectors), project (a "
        "folder with all of these and a self-test), code (the whole model as C, without an interpreter), vela "
        "(the file compiled for an NPU, which the others then hold), separated by commas",
    )
    firmware.add_argument(
        "--ram",
        type=readers.size,
        metavar="BYTES",
        help="max arena size; k is 1024, M is 1024*1024, G is 1024*1024*1024",
    )
    firmware.add_argument(
        "--flash",
        type=readers.size,
        metavar="BYTES",
        help="max size of the model file, without the interpreter's code",
    )
    groups.style(firmware)
    firmware.add_argument("--c-include", action=Include)
    groups.common(parser, PARSERS)
    return parser


def inspect_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-inspect."""
    parser = Parser(
        "sqp-inspect", "Show what any TFLite file contains, and whether a target can run it.", examples.INSPECT
    )
    parser.add_argument("file", type=readers.path, metavar="FILE.tflite", help="any TFLite file")
    groups.target(parser)
    parser.add_argument(
        "--require",
        choices=REQUIREMENTS,
        default="both",
        help="what the exit code is about: runs (the target's interpreter runs the file), free (no operator needs exp "
        "or log), or both (default)",
    )
    groups.memory(parser)
    groups.common(parser, PARSERS)
    return parser


def check_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-check."""
    parser = Parser(
        "sqp-check", "Compare a TFLite file with its Keras model on each installed interpreter.", examples.CHECK
    )
    parser.add_argument(
        "model", type=readers.path, metavar="MODEL", help=".keras, .h5 or .tflite file, or SavedModel folder"
    )
    parser.add_argument("file", type=readers.path, metavar="FILE.tflite", help="any TFLite file made from the model")
    groups.data(parser)
    parser.add_argument(
        "--tolerance",
        type=readers.share,
        metavar="SHARE",
        help="max error over the outputs' range (default: by the file's number type)",
    )
    groups.half(parser)
    for which in ("inputs", "outputs"):
        parser.add_argument(
            f"--{which}",
            type=readers.listed,
            metavar="NAME,...",
            help=f"the model's {which} in the file's order (default: by the names and shapes in the file)",
        )
    groups.memory(parser)
    groups.common(parser, PARSERS, reports=False)
    return parser


def cc_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-cc."""
    parser = Parser(
        "sqp-cc", "Write any TFLite file as C that computes what TensorFlow Lite Micro does, bit for bit.", examples.CC
    )
    parser.add_argument("file", type=readers.path, metavar="FILE.tflite", help="a file whose operators have a C form")
    parser.add_argument(
        "-o",
        "--output",
        type=readers.path,
        metavar="DIR",
        help="folder for the code (default: the file's name in lower case with _code)",
    )
    groups.style(parser)
    groups.memory(parser)
    groups.common(parser, PARSERS, reports=False)
    return parser


PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "sqp-export": export_parser,
    "sqp-inspect": inspect_parser,
    "sqp-check": check_parser,
    "sqp-cc": cc_parser,
}

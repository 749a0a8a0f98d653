"""The commands sqp-export, sqp-inspect and sqp-check. TensorFlow is imported only once the call is known to be good."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from sqp_tflite.errors import BadInputError, ExportError
from sqp_tflite.policy import TARGETS

_EXIT_CODES = """exit codes:
  0  the file may ship
  1  refused: the target cannot run the model (every reason is listed)
  2  bad call, bad input or missing environment
  3  the file's outputs are not the Keras model's
Nothing is written unless the exit code is 0."""


def export_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-export and returns its exit code."""
    return _run("sqp-export", export_parser(), arguments, _export)


def inspect_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-inspect and returns its exit code."""
    return _run("sqp-inspect", inspect_parser(), arguments, _inspect)


def check_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-check and returns its exit code."""
    return _run("sqp-check", check_parser(), arguments, _check)


def export_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-export."""
    parser = _parser(
        "sqp-export",
        "Write a Keras model as a TFLite file that needs no exp and no log, and prove it on the real interpreters.",
        """examples:
  sqp-export model.keras                              writes model.tflite, proven on TensorFlow Lite Micro
  sqp-export model.h5 -o net.tflite --data test.npz   compares on your data; labels under y give the accuracy
  sqp-export model.keras --dry-run                    prints what each activation becomes

"""
        + _EXIT_CODES,
    )
    parser.add_argument("model", metavar="MODEL", help=".keras or .h5 file, or SavedModel folder")
    parser.add_argument("-o", "--output", metavar="OUT.tflite", help="default: the model's name with .tflite")
    _target(parser)
    _data(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    _common(parser)
    return parser


def inspect_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-inspect."""
    parser = _parser(
        "sqp-inspect",
        "Show what a TFLite file holds, whoever wrote it, and whether a target can run it.",
        """examples:
  sqp-inspect model.tflite
  sqp-inspect model.tflite --target tflite-runtime --json

exit codes: 0 the target may run it, 1 it may not, 2 not a TFLite file""",
    )
    parser.add_argument("file", metavar="FILE.tflite", help="any TFLite file")
    _target(parser)
    _common(parser)
    return parser


def check_parser() -> argparse.ArgumentParser:
    """Returns the parser of sqp-check."""
    parser = _parser(
        "sqp-check",
        "Compare a TFLite file with its Keras model on each installed interpreter.",
        """examples:
  sqp-check model.keras model.tflite --data test.npz

exit codes: 0 all that ran agree, 2 bad input, 3 one differs or cannot run the file""",
    )
    parser.add_argument("model", metavar="MODEL", help=".keras or .h5 file, or SavedModel folder")
    parser.add_argument("file", metavar="FILE.tflite", help="any TFLite file made from the model")
    _data(parser)
    _common(parser)
    return parser


def _parser(program: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        program, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default="tflm",
        help="whose operator table and interpreter decide (default: tflm, TensorFlow Lite Micro)",
    )


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="FILE.npz", help="inputs by Keras input name (or x); labels under y")
    parser.add_argument(
        "--map", action="append", default=[], metavar="NAME=ACT", help="what an unknown activation name stands for"
    )
    parser.add_argument("--trust-code", action="store_true", help="let code in the model file run (lambdas, imports)")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--quiet", action="store_true", help="print errors alone")
    parser.add_argument("--debug", action="store_true", help="show what TensorFlow prints, and tracebacks")


def _run(
    program: str,
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    action: Callable[[argparse.Namespace, IO[str], str], int],
) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    from sqp_tflite.noise import quiet

    with quiet(options.debug) as (out, err):
        try:
            return action(options, out, shlex.join([program, *given]))
        except ExportError as error:
            if options.debug:
                raise
            if options.json and error.report:
                print(json.dumps(error.report.to_dict(), indent=2), file=out)
            print(f"{program}: {error}", file=err)
            return error.exit_code


def _export(options: argparse.Namespace, out: IO[str], command: str) -> int:
    import dataclasses

    from sqp_tflite.pipeline import check_output

    names = _names(options.map)
    source = Path(options.model)
    output = Path(options.output) if options.output else Path(f"{source.with_suffix('')}.tflite")
    if not source.exists():
        raise BadInputError(f"`{source}` does not exist. Pass a .keras or .h5 file or a SavedModel folder.")
    if not options.dry_run:
        check_output(output)
    from sqp_tflite.pipeline import export

    exported = export(
        source,
        None if options.dry_run else output,
        target=options.target,
        data=options.data,
        names=names,
        trust_code=options.trust_code,
        dry_run=options.dry_run,
    )
    report = dataclasses.replace(exported.report, command=command)
    from sqp_tflite import text

    show = text.show_plan if options.dry_run else text.show_report
    _print(options, out, report.to_dict(), lambda console: show(console, report))
    return 0


def _inspect(options: argparse.Namespace, out: IO[str], command: str) -> int:
    from sqp_tflite.audit import audit, op_rows, tensor_rows
    from sqp_tflite.read import read
    from sqp_tflite.report import Report

    graph = read(Path(options.file))
    findings = audit(graph, options.target)
    report = Report(
        verdict="refused" if findings else "ok",
        source=options.file,
        target=options.target,
        quantize="int8" if graph.integer else "float32",
        lowering="",
        sha256=graph.sha256,
        size_bytes=graph.size_bytes,
        ops=op_rows(graph),
        findings=findings,
        inputs=tensor_rows(graph, graph.main.inputs),
        outputs=tensor_rows(graph, graph.main.outputs),
        command=command,
    )
    from sqp_tflite.text import show_graph

    _print(options, out, report.to_dict(), lambda c: show_graph(c, graph, options.file, options.target, findings))
    return 1 if findings else 0


def _check(options: argparse.Namespace, out: IO[str], command: str) -> int:
    import dataclasses

    from sqp_tflite.pipeline import check

    rows = check(options.model, options.file, options.data, names=_names(options.map), trust_code=options.trust_code)
    from sqp_tflite.text import show_agreement

    found = {"command": command, "agreement": [dataclasses.asdict(row) for row in rows]}
    _print(options, out, found, lambda console: show_agreement(console, rows))
    return 3 if any(row.status in ("differs", "failed") for row in rows) else 0


def _names(pairs: Sequence[str]) -> dict[str, str]:
    names = {}
    for pair in pairs:
        name, equals, activation = pair.partition("=")
        if not (name and equals and activation):
            raise BadInputError(
                f"--map must be NAME=ACTIVATION. Received: {pair!r}. For example --map my_softplus=softplus."
            )
        names[name] = activation
    return names


def _print(options: argparse.Namespace, out: IO[str], found: dict[str, Any], show: Callable[[Any], None]) -> None:
    if options.json:
        print(json.dumps(found, indent=2), file=out)
    elif not options.quiet:
        from rich.console import Console

        show(Console(file=out, soft_wrap=not out.isatty()))

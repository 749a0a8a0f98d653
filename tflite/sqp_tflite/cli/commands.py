"""The commands sqp-export, sqp-inspect and sqp-check. TensorFlow is imported only after the call was validated."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqp_tflite import accept
from sqp_tflite.cli import piped
from sqp_tflite.cli.arguments import check_parser, export_parser, inspect_parser
from sqp_tflite.cli.clock import process_start
from sqp_tflite.cli.piped import DASH, Piped
from sqp_tflite.errors import ExportError, unforeseen
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.options import ExportOptions
from sqp_tflite.wording import readable

__all__ = ["check_main", "check_parser", "export_main", "export_parser", "inspect_main", "inspect_parser"]

_INTERRUPTED = 130
_TERMINATED = 143

_STARTED = process_start()


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a command: its options, the streams that reach the user, and when it began (`time.monotonic`)."""

    options: argparse.Namespace
    out: IO[str]
    err: IO[str]
    command: str
    piped: Piped = Piped.NOTHING
    began: float = 0.0

    @property
    def text(self) -> IO[str]:
        """Returns where text goes: standard output, unless a file or a report goes there."""
        return self.err if self.piped else self.out

    def seconds(self) -> float:
        """Returns how long the user has waited by now."""
        return round(time.monotonic() - self.began, 3)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a command found.

    Attributes:
        code: Its exit code.
        show: Prints it.
        written: A sentence about the files that are on the disk by now, "" for none.
    """

    code: int
    show: Callable[[], None]
    written: str = ""


def export_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-export and returns its exit code."""
    return _run(export_parser(), arguments, _export)


def inspect_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-inspect and returns its exit code."""
    return _run(inspect_parser(), arguments, _inspect)


def check_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-check and returns its exit code."""
    return _run(check_parser(), arguments, _check)


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None, action: Callable[[_Call], _Outcome]) -> int:
    began = _STARTED if arguments is None else time.monotonic()
    given = list(sys.argv[1:] if arguments is None else arguments)
    from sqp_tflite.cli.noise import open_streams, quiet, throw_away_output

    closed = open_streams()
    try:
        options = _parsed(parser, given)
    except BrokenPipeError:
        throw_away_output()
        return 0
    except OSError as error:
        throw_away_output()
        return _unprintable(sys.stderr, parser.prog, error)
    wanted = piped.piped(options)
    with quiet(options.debug, bool(wanted)) as (out, err), _ended_softly():
        call = _Call(options, out, err, shlex.join([parser.prog, *given]), wanted, began)
        try:
            piped.check(options, out, "stdout" in closed)
            outcome = action(call)
        except ExportError as error:
            _traced(call)
            return _told(call, parser.prog, error)
        except KeyboardInterrupt:
            _say(err, f"{parser.prog}: interrupted, nothing was written")
            return _INTERRUPTED
        except Exception as error:  # The last resort: whatever was not foreseen is one line, and never a refusal.
            _traced(call)
            _say(err, f"{parser.prog}: {unforeseen(error)}")
            return ExportError.exit_code
        try:
            outcome.show()
            out.flush()
        except BrokenPipeError:
            pass  # The reader of the output (`| head`) has stopped.
        except OSError as error:
            code = _unprintable(err, parser.prog, error, outcome.written)
            # What is on the disk decides: an export that wrote its file has not failed.
            return outcome.code if outcome.written or outcome.code else code
        return outcome.code


def _parsed(parser: argparse.ArgumentParser, given: list[str]) -> argparse.Namespace:
    """Reads a call; --help, --version and the like print here and leave."""
    try:
        return parser.parse_args(given)
    except SystemExit:
        sys.stdout.flush()
        raise


def _unprintable(stream: IO[str], program: str, error: OSError, written: str = "") -> int:
    """Says that standard output took nothing; returns the exit code of a bad environment."""
    _say(stream, f"{program}: standard output cannot be written: {error.strerror or error}.{written}")
    return ExportError.exit_code


def _traced(call: _Call) -> None:
    """Prints the traceback of the error that is handled, with --debug; the exit code stays that of the error."""
    if call.options.debug:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc(file=call.err)


def _say(stream: IO[str], line: str) -> None:
    """Prints a line where someone may see it; a stream that is gone or full is no reason to end in another way."""
    with contextlib.suppress(OSError, ValueError):
        print(readable(line), file=stream, flush=True)


@contextlib.contextmanager
def _ended_softly() -> Iterator[None]:
    """Makes SIGTERM run the `finally` clauses, so that no temporary file and no child process is left."""

    def leave(*_: object) -> None:
        raise SystemExit(_TERMINATED)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # Not the main thread: its owner handles signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(call: _Call, program: str, error: ExportError) -> int:
    """Shows an error as well as the streams allow, and returns its exit code."""
    try:
        _tell(call, program, error)
        call.out.flush()
        call.err.flush()
    except BrokenPipeError:
        pass
    except OSError as unprinted:
        _unprintable(call.err, program, unprinted)
    return error.exit_code


def _tell(call: _Call, program: str, error: ExportError) -> None:
    """Shows an error: the whole report if there is one, as text on standard error or as JSON on standard output."""
    report = dataclasses.replace(error.report, seconds=call.seconds()) if error.report else None
    if call.options.json and report:
        print(json.dumps(report.to_dict(), indent=2), file=call.out)
    if report and not call.options.json and not call.options.quiet:
        from sqp_tflite.cli.text import show_report

        show_report(_console(call.err), report)
        return
    print(f"{program}: {error}", file=call.err)


def _export(call: _Call) -> _Outcome:
    from sqp_tflite.validate import validate

    options = _options(call)
    validate(options)
    with _progress(call) as tell:
        tell("load")
        from sqp_tflite.pipeline import run

        exported = run(options, tell, functools.partial(piped.deliver, call.out, call.piped), call.began)
    from sqp_tflite.cli import text

    report, show = exported.report, text.show_report
    if options.dry_run:
        show = text.show_plan
        piped.deliver(call.out, call.piped, b"", report, {})
    elif call.piped is Piped.MODEL:
        report = dataclasses.replace(report, output="standard output")

    def shown() -> None:
        _print(call, report.to_dict(), lambda console: show(console, report))
        if exported.files and options.output and not call.options.json and not call.options.quiet:
            text.show_files(_console(call.text), options.output.parent, tuple(exported.files), options.reports)

    written = f" `{options.output}` was written and may ship." if options.output else ""
    return _Outcome(0, shown, written or (f" {call.piped.value} was written." if call.piped else ""))


def _options(call: _Call) -> ExportOptions:
    """Returns the export's options, without importing TensorFlow."""
    from sqp_tflite.emit import CStyle

    given = call.options
    source = Path(given.model)
    output = Path(given.output or f"{source.with_suffix('')}.tflite")
    nowhere = given.dry_run or given.output == DASH
    prefix = given.c_prefix or CStyle.named(output.stem).prefix
    return ExportOptions(
        model=source,
        output=None if nowhere else output,
        wanted=Combination(given.quantize, given.lowering, given.target),
        io=given.io,
        per_tensor=given.per_tensor,
        data=given.data,
        names=accept.meanings("--map", given.map),
        trust_code=given.trust_code,
        replace=accept.optional(accept.rules)("--replace", given.replace),
        head=given.head,
        max_error=given.max_error,
        max_change=given.max_change,
        dry_run=given.dry_run,
        emit=given.emit,
        c_style=CStyle(prefix, given.c_section, given.c_qualifier),
        ram=given.ram,
        flash=given.flash,
        max_memory=given.max_memory,
        reports=piped.named(given.report),
        command=call.command,
    )


def _inspect(call: _Call) -> _Outcome:
    options = call.options
    from sqp_tflite.cli.text import show_graph
    from sqp_tflite.emit.rendering import check_names, render
    from sqp_tflite.files import check_places
    from sqp_tflite.inspection import inspection

    paths = piped.named(options.report)
    check_names(paths)
    check_places(paths, (Path(options.file),))
    graph, report = inspection(Path(options.file), options.target, call.command, options.require, options.max_memory)
    content, report = Path(options.file).read_bytes(), dataclasses.replace(report, seconds=call.seconds())
    files = {path: render(report, graph, content, path.suffix) for path in paths}
    piped.deliver(call.out, call.piped, content, report, files)
    shown = functools.partial(show_graph, graph=graph, report=report)
    written = " The report was written." if options.report else ""
    return _Outcome(1 if report.findings else 0, lambda: _print(call, report.to_dict(), shown), written)


def _check(call: _Call) -> _Outcome:
    options = call.options
    with _progress(call) as tell:
        tell("load")
        from sqp_tflite.parity import check

        rows = check(
            options.model,
            options.file,
            options.data,
            tolerance=options.tolerance,
            names=accept.meanings("--map", options.map),
            trust_code=options.trust_code,
            inputs=options.inputs,
            outputs=options.outputs,
            ends=True,
            max_memory=options.max_memory,
            progress=tell,
        )
    from sqp_tflite.cli.text import show_check
    from sqp_tflite.report import SCHEMA
    from sqp_tflite.versions import versions

    failed = any(row.status in ("differs", "failed") for row in rows)
    found = {
        "schema": SCHEMA,
        "verdict": "parity_failed" if failed else "ok",
        "source": options.model,
        "file": options.file,
        "agreement": [dataclasses.asdict(row) for row in rows],
        "versions": dict(versions()),
        "command": call.command,
    }
    shown = functools.partial(show_check, file=options.file, rows=rows)
    return _Outcome(3 if failed else 0, lambda: _print(call, found, shown))


def _progress(call: _Call) -> contextlib.AbstractContextManager[Callable[[str], None]]:
    from sqp_tflite.cli.progress import progress

    return progress(call.err, shown=not (call.options.quiet or call.options.debug))


def _print(call: _Call, found: dict[str, Any], show: Callable[[Any], None]) -> None:
    if call.options.json:
        print(json.dumps(found, indent=2), file=call.out)
    elif not call.options.quiet:
        show(_console(call.text))


def _console(stream: IO[str]) -> Any:
    """Returns rich's console on a stream: colour only on a terminal without NO_COLOR, long lines elsewhere."""
    import os

    from rich.console import Console

    class Own(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich itself exits with 1, which means "refused" here.

    if not stream.isatty():
        return Own(file=stream, color_system=None, soft_wrap=True, width=200)
    return Own(file=stream, color_system=None) if os.environ.get("NO_COLOR") else Own(file=stream)

"""How every command runs: its streams, its errors, its signals and its exit code."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import dataclasses
import functools
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from sqp_tflite.cli import piped
from sqp_tflite.cli.clock import process_start
from sqp_tflite.cli.piped import Piped
from sqp_tflite.cli.signals import Ending, ended_softly
from sqp_tflite.errors import ExportError, ParityError, exhausted, unforeseen
from sqp_tflite.limits import require_numpy
from sqp_tflite.report import json_text
from sqp_tflite.troubleshooting import FINDINGS, address
from sqp_tflite.wording import readable, said

_INTERRUPTED = 130

_STARTED = process_start()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command: its options, the streams that reach the user, and when it began (`time.monotonic`)."""

    options: argparse.Namespace
    out: IO[str]
    err: IO[str]
    command: str
    piped: Piped = Piped.NOTHING
    began: float = 0.0
    ending: Ending = field(default_factory=Ending)

    @property
    def text(self) -> IO[str]:
        """Returns where text goes: standard output, unless a file or a report goes there."""
        return self.err if self.piped else self.out

    def seconds(self) -> float:
        """Returns how long the user has waited by now."""
        return round(time.monotonic() - self.began, 3)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command found.

    Attributes:
        code: Its exit code.
        show: Prints it.
        written: A sentence about the files that are on the disk by now, "" for none.
        missing: What the call lacks for an answer, said on standard error after `show`; "" for nothing.
    """

    code: int
    show: Callable[[], None]
    written: str = ""
    missing: str = ""


def run_command(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, action: Callable[[Call], Outcome]
) -> int:
    """Reads a call, runs it, shows what came out and returns the exit code; None stands for the process's arguments."""
    began = _STARTED if arguments is None else time.monotonic()
    given = list(sys.argv[1:] if arguments is None else arguments)
    with ended_softly(last=arguments is None) as ending:
        try:
            code = _run(parser, given, action, began, ending)
            if ending.spent and arguments is None:
                from sqp_tflite.cli.noise import throw_away

                throw_away(sys.stderr)
            return code
        except KeyboardInterrupt:
            return _interrupted(sys.stderr, parser)
        except (OSError, MemoryError) as error:  # While streams were opened: nothing was begun.
            cause = exhausted(error) or f"the streams of this call cannot be set up: {said(error)}."
            _say(sys.stderr, f"{parser.prog}: {cause}")
            return ExportError.exit_code


def _run(
    parser: argparse.ArgumentParser,
    given: list[str],
    action: Callable[[Call], Outcome],
    began: float,
    ending: Ending,
) -> int:
    from sqp_tflite.cli.noise import open_streams, quiet, throw_away_output

    closed = open_streams()
    _end_quietly(os.getpid())
    try:
        options = _parsed(parser, given)
    except BrokenPipeError:
        throw_away_output()
        return 0
    except OSError as error:
        throw_away_output()
        return _unprintable(sys.stderr, parser.prog, error)
    wanted = piped.piped(options)
    with quiet(options.debug, bool(wanted)) as (out, err):
        call = Call(options, out, err, shlex.join([parser.prog, *given]), wanted, began, ending)
        try:
            require_numpy()
            piped.check(options, out, "stdout" in closed)
            outcome = _acted(call, action)
        except ExportError as error:
            _traced(call)
            return _told(call, parser.prog, error)
        except KeyboardInterrupt:
            return _interrupted(err, parser)
        except Exception as error:  # The last resort: whatever was not foreseen is one line, and never a refusal.
            _traced(call)
            _say(err, f"{parser.prog}: {unforeseen(error)}")
            return ExportError.exit_code
        return _shown(call, parser.prog, outcome)


def _acted(call: Call, action: Callable[[Call], Outcome]) -> Outcome:
    """Runs the command; after a signal it ends by it, whatever became of what the signal's handler raised."""
    try:
        outcome = action(call)
    except BaseException as error:
        call.ending.check()
        call.ending.spent = bool(exhausted(error))
        raise
    if not outcome.written:
        call.ending.check()
    return outcome


def _shown(call: Call, program: str, outcome: Outcome) -> int:
    """Prints what a command found and returns its exit code: what is on the disk decides."""
    try:
        outcome.show()
        call.out.flush()
    except BrokenPipeError:
        _forgotten(call.out, call.err)  # The reader of the output (`| head`) has stopped.
    except OSError as error:
        code = _unprintable(call.err, program, error, outcome.written)
        # An export that wrote its file has not failed.
        return outcome.code if outcome.written or outcome.code else code
    except KeyboardInterrupt:
        _say(call.err, f"{program}: interrupted.{outcome.written}")
        return outcome.code if outcome.written else _INTERRUPTED
    if outcome.missing:
        _say(call.err, f"{program}: {outcome.missing}")
    return outcome.code


def _interrupted(stream: IO[str], parser: argparse.ArgumentParser) -> int:
    _say(stream, f"{parser.prog}: interrupted, nothing was written")
    return _INTERRUPTED


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


def _traced(call: Call) -> None:
    """Prints the traceback of the error that is handled, with --debug; the exit code stays that of the error."""
    if call.options.debug:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc(file=call.err)


def _say(stream: IO[str], line: str) -> None:
    """Prints a line where someone may see it; a stream that is gone or full is no reason to end in another way."""
    try:
        print(readable(line), file=stream, flush=True)
    except (OSError, ValueError):
        from sqp_tflite.cli.noise import throw_away

        with contextlib.suppress(OSError, ValueError):
            throw_away(stream)


def _told(call: Call, program: str, error: ExportError) -> int:
    """Shows an error as well as the streams allow, and returns its exit code."""
    try:
        _tell(call, program, error)
        call.out.flush()
        call.err.flush()
    except BrokenPipeError:
        _forgotten(call.out, call.err)
    except OSError as unprinted:
        _unprintable(call.err, program, unprinted)
    return error.exit_code


@functools.cache
def _end_quietly(process: int) -> None:
    """Lets what libraries print at the end of this process change no exit code either; forks decide themselves."""

    def end() -> None:
        if os.getpid() == process:
            _forgotten(sys.stdout, sys.stderr)

    atexit.register(end)


def _forgotten(*streams: IO[str]) -> None:
    """Drops what streams without a reader still hold: Python would fail on it at the end, with exit code 120."""
    from sqp_tflite.cli.noise import throw_away

    for stream in streams:
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                throw_away(stream)


def _tell(call: Call, program: str, error: ExportError) -> None:
    """Shows an error: the whole report if there is one, as text on standard error or as JSON on standard output."""
    report = dataclasses.replace(error.report, seconds=call.seconds()) if error.report else None
    if report and (call.options.json or call.piped is Piped.REPORT):
        print(json_text(report.to_dict()), file=call.out)
    if report and not call.options.json and not call.options.quiet:
        from sqp_tflite.cli.text import show_report

        show_report(console(call.err), report)
        if isinstance(error, ParityError) and error.remedy:
            print(error.remedy, file=call.err)
        print(f"More about this: {address(_first_code(error))}", file=call.err)
        return
    # In front: what is at the end, often a command, is to be pasted.
    print(f"{program}: {_first_code(error)}: {error}", file=call.err)


def _first_code(error: ExportError) -> str:
    """Returns the entry of the first finding, or of the error itself."""
    return FINDINGS[error.findings[0].kind.value] if error.findings else error.code


@contextlib.contextmanager
def progress_of(call: Call) -> Iterator[Callable[[str], None]]:
    """Yields what is told each step: its line shows nothing where nobody would see it, and a signal ends it here."""
    from sqp_tflite.cli.progress import progress

    with progress(call.err, shown=not (call.options.quiet or call.options.debug)) as show:

        def tell(step: str) -> None:
            call.ending.check()
            show(step)

        yield tell


def show_result(call: Call, found: dict[str, Any], show: Callable[[Any], None]) -> None:
    """Prints what a command found: as one JSON object, as text on a console, or not at all."""
    if call.options.json:
        print(json_text(found), file=call.out)
    elif not call.options.quiet:
        show(console(call.text))


def console(stream: IO[str]) -> Any:
    """Returns rich's console on a stream: colour only on a terminal without NO_COLOR, long lines elsewhere."""
    import os

    from rich.console import Console

    class Own(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich itself exits with 1, which means "refused" here.

    if not stream.isatty():
        return Own(file=stream, color_system=None, soft_wrap=True, width=200)
    return Own(file=stream, color_system=None) if os.environ.get("NO_COLOR") else Own(file=stream)

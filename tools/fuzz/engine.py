"""Runs a case: in a copy of this process, which has imported everything, or as the installed program; with limits."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tools.fuzz.records import INSIDE, Case, Ran, create_special, snapshot

MAINS = {
    "sqp-export": "sqp_tflite.cli.commands:export_main",
    "sqp-inspect": "sqp_tflite.cli.commands:inspect_main",
    "sqp-check": "sqp_tflite.cli.commands:check_main",
}

IMPORTS = (
    "h5py", "jinja2", "keras", "tensorflow", "ai_edge_litert.schema_py_generated", "litert_quantizer.quantizer",
    "rich.console", "rich.table", "rich.progress", "sqp_tflite.cli.commands", "sqp_tflite.cli.progress",
    "sqp_tflite.cli.text", "sqp_tflite.emit.page", "sqp_tflite.inspection", "sqp_tflite.parity", "sqp_tflite.pipeline",
)  # fmt: skip
"""What the commands import; none of it computes, so that a copy of the process is as good as a new one."""

_ADOPT = 36
"""PR_SET_CHILD_SUBREAPER of Linux: processes whose parent ends become children of this one."""

_HARNESS = 97
"""Exit code of a copy in which the harness itself failed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may use; each of its child processes has the same.

    Attributes:
        seconds: Until the command is ended.
        cpu: Seconds of processor time.
        address: Bytes of address space, of which TensorFlow reserves a few GB.
        file: Bytes of a file.
    """

    seconds: float = 180.0
    cpu: int = 150
    address: int = 10 << 30
    file: int = 256 << 20


def warm() -> None:
    """Imports what the commands need."""
    for module in IMPORTS:
        importlib.import_module(module)
    gc.freeze()  # What a copy does not touch, it need not copy.


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Makes processes that a command leaves behind children of this one, so that they are seen and ended."""
    library = ctypes.CDLL(None)
    library.prctl(_ADOPT, 1, 0, 0, 0)
    try:
        yield
    finally:
        library.prctl(_ADOPT, 0, 0, 0, 0)


def run(case: Case, folder: Path, limits: Limits, mains: dict[str, str] = MAINS) -> Ran:
    """Returns what a case did.

    Args:
        case: The case, whose plain files are in `folder`/INSIDE.
        folder: A folder of its own.
        limits: What it may use.
        mains: "module:function" of each command.
    """
    work, temporary = folder / INSIDE, folder / "tmp"
    temporary.mkdir()
    for name in ("out", "err"):
        (folder / name).touch()
    create_special(case, work)
    before, others, began = snapshot(folder / "deep"), _children(), time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _child(case, folder, limits, mains)
    status, usage, timed_out = _wait(child, began + limits.seconds)
    left = _end(others)
    printed = [(folder / name).read_bytes().decode("utf-8", "replace") for name in ("out", "err")]
    if os.waitstatus_to_exitcode(status) == _HARNESS:
        raise RuntimeError(f"The harness failed in case {case.name}: {printed[1][-3000:]}")
    return Ran(
        os.waitstatus_to_exitcode(status),
        *printed,
        seconds=time.monotonic() - began,
        cpu=usage.ru_utime + usage.ru_stime,
        peak=usage.ru_maxrss << 10,
        timed_out=timed_out,
        before={f"deep/{path}": digest for path, digest in before.items()},
        after={f"deep/{path}": digest for path, digest in snapshot(folder / "deep").items()},
        left=left,
        temporary=tuple(sorted(os.listdir(temporary))),
    )


def _wait(child: int, until: float) -> tuple[int, resource.struct_rusage, bool]:
    timed_out = False
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return status, usage, timed_out
        if time.monotonic() > until and not timed_out:
            os.kill(child, signal.SIGKILL)
            timed_out = True
        time.sleep(0.01)


def _children() -> set[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return set(map(int, text.split()))


def _end(others: set[int]) -> int:
    """Ends what a command left behind, after a moment to end by itself; returns how many processes that were."""
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        left = _children() - others
        for number in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(number, os.WNOHANG)
        if not _children() - others:
            return 0
        time.sleep(0.02)
    left = _children() - others
    for number in left:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
    return len(left)


def _child(case: Case, folder: Path, limits: Limits, mains: dict[str, str]) -> NoReturn:
    code = _HARNESS
    try:
        code = _prepared(case, folder, limits, mains)
    except BaseException:
        with contextlib.suppress(OSError):
            (folder / "err").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _prepared(case: Case, folder: Path, limits: Limits, mains: dict[str, str]) -> int:
    os.setsid()
    program = shutil.which(case.program, path=str(Path(sys.executable).parent)) if case.installed else None
    os.environ.update(case.environment | {"TMPDIR": str(folder / "tmp")})
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in map(os.path.abspath, filter(None, sys.path)))
    tempfile.tempdir = None
    os.chdir(folder / INSIDE)
    _open_streams(case, folder)
    for what, most in (
        (resource.RLIMIT_CPU, limits.cpu),
        (resource.RLIMIT_AS, limits.address),
        (resource.RLIMIT_FSIZE, limits.file),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    if case.installed:
        module, _, name = mains[case.program].partition(":")
        code = f"import sys; sys.argv[0] = {case.program!r}; from {module} import {name} as main; sys.exit(main())"
        command = [program] if program else [sys.executable, "-c", code]
        os.execve(command[0], [*command, *map(os.fsencode, case.arguments)], os.environ)
    return _called(case, mains[case.program])


def _open_streams(case: Case, folder: Path) -> None:
    """Gives the standard streams their places: files, or what the case says."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(folder / name, os.O_CREAT | os.O_WRONLY)
        state = case.streams.get(number)
        if state == "full":  # It is open, and nothing can be written, as on a full disk.
            file = os.open(folder / name, os.O_RDONLY)
        elif state == "broken":
            reader, file = os.pipe()
            os.close(reader)
        os.dup2(file, number)
        if state == "closed":
            os.close(number)


def _called(case: Case, main: str) -> int:
    """Calls a command as its installed program does, to the end of Python; returns the exit code of the process."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = None
        if case.streams.get(number) != "closed":
            mode, errors = ("r" if number == 0 else "w"), ("backslashreplace" if number == 2 else "strict")
            stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115 (to the end)
        setattr(sys, name, stream)
    sys.argv = [case.program, *case.arguments]
    module, _, function = main.partition(":")
    try:
        code = getattr(importlib.import_module(module), function)()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not (code is None or isinstance(code, int)):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    # Python ends with 120 if standard output cannot be flushed; for standard error it does not.
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.flush()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        return 120
    return (code or 0) & 255

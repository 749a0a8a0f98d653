"""Runs a named function in a child process: if native code crashes there, it becomes a message here.

A worker is a fresh Python that reads pickled calls from a pipe, so it works under any user script (`__main__` is
not imported again) and beside any threads. What the child prints goes to a log; only error messages quote it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from sqp_tflite import collecting, private
from sqp_tflite.errors import CrashedError, ExportError

_LAST_LINES = 12
_PR_SET_PDEATHSIG = 1
"""Of Linux's prctl: the signal that a process gets when its parent ends."""

_START = "import sys; sys.path[:] = filter(None, sys.path); import sqp_tflite.worker; sqp_tflite.worker.serve()"
"""What a fresh Python runs. It looks for modules where this process does: `-m`, and `-c` by itself, look in the current
folder first, where a `random.py` or `json.py` of the user's would run. `-P` is only known from Python 3.11 on."""


class Worker:
    """A child process that runs functions one after the other; use it in a `with` block.

    Args:
        imports: Modules that the child imports right away, while the parent goes on with other work.
        fork: Whether the child may be a copy of this process, which saves the imports. This is only safe while this
            process has not started to compute; see `may_fork`.
    """

    def __init__(self, imports: tuple[str, ...] = (), *, fork: bool = False):
        self._log = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115 (closed by close)
        self._log_begin = 0
        self.alive = True
        self._left: Callable[[], float] = lambda: math.inf
        start = _Forked if fork else _Spawned
        self._process: _Forked | _Spawned = start(self._log, imports)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, function: str, *arguments: Any, timeout: float = 1800.0) -> Any:
        """Returns what the function returns; its exceptions are raised unchanged.

        Args:
            function: "module:name" of a module-level function.
            *arguments: Its arguments; they must pickle.
            timeout: Seconds after which the child is killed.

        Raises:
            CrashedError: The child died or took too long.
        """
        self._log_begin = os.fstat(self._log.fileno()).st_size
        timeout = min(timeout, self._left())
        timer = threading.Timer(timeout, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            pickle.dump((function, arguments), self._process.requests)
            self._process.requests.flush()
            returned, value = pickle.load(self._process.answers)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self.alive = False
            raise CrashedError(self._obituary(function, timeout)) from error
        finally:
            timer.cancel()
        if returned:
            return value
        raise value

    @contextlib.contextmanager
    def bounded(self, left: Callable[[], float]) -> Iterator[None]:
        """Bounds what all calls in the block take together.

        Args:
            left: Returns the seconds that are left, or raises.
        """
        self._left = left
        try:
            yield
        finally:
            self._left = lambda: math.inf

    def close(self) -> None:
        """Ends the child; a second call does nothing."""
        self.alive = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.requests, self._process.answers):
            with contextlib.suppress(OSError):
                pipe.close()
        self._log.close()

    def log(self) -> str:
        """Returns what the child has printed since the last call began."""
        self._log.seek(self._log_begin)
        return self._log.read().decode("utf-8", "replace")

    def _obituary(self, function: str, timeout: float) -> str:
        code = self._process.wait()
        lines = [line for line in self.log().splitlines() if line.strip()][-_LAST_LINES:]
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            how += f" (out of memory, or more than {timeout:.0f} s)"
        return f"The child process that ran `{function}` ended with {how}." + "".join(f"\n  {line}" for line in lines)


_IDLE: dict[str, list[Worker]] = {}
_IDLE_LOCK = threading.Lock()


@contextlib.contextmanager
def lent(purpose: str, imports: tuple[str, ...], *, fork: bool = False) -> Iterator[Worker]:
    """Yields a worker, which is kept for the next caller with the same purpose unless it died.

    A library takes seconds to import, and a user who exports one model often exports another. Kept workers end with
    this process.

    Args:
        purpose: What the worker is for; workers with one purpose are interchangeable.
        imports: As in `Worker`.
        fork: As in `Worker`.
    """
    with _IDLE_LOCK:
        idle = _IDLE.setdefault(purpose, [])
        worker = idle.pop() if idle else None
    worker = worker or Worker(imports, fork=fork)
    try:
        yield worker
    except (KeyboardInterrupt, SystemExit):  # In the middle of a call, perhaps.
        worker.close()
        raise
    finally:
        if worker.alive:
            with _IDLE_LOCK:
                idle.append(worker)
        else:
            worker.close()


def _close_idle() -> None:
    for idle in _IDLE.values():
        while idle:
            idle.pop().close()


def _forget_idle() -> None:
    # A copy of this process must not talk to the workers of the original.
    for idle in _IDLE.values():
        idle.clear()


atexit.register(_close_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_idle)


def run(function: str, *arguments: Any, timeout: float = 1800.0) -> Any:
    """Returns what `function` ("module:name") returns, run in its own child process.

    Raises:
        CrashedError: The child died or took too long.
    """
    with Worker() as worker:
        return worker.call(function, *arguments, timeout=timeout)


def may_fork() -> bool:
    """Returns whether this process may be copied: it has imported TensorFlow and not yet computed with it.

    A copy would lack TensorFlow's threads, which start when its first operation runs, not before.
    """
    if sys.platform != "linux" or "tensorflow" not in sys.modules or threading.active_count() > 1:
        return False
    return not private.tensorflow_computes()


class _Spawned:
    """A fresh Python."""

    def __init__(self, log: IO[bytes], imports: tuple[str, ...]):
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(_leader()), *imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("the child process has no pipes")
        self.requests: IO[bytes] = self._process.stdin
        self.answers: IO[bytes] = self._process.stdout

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait()


class _Forked:
    """A copy of this process."""

    def __init__(self, log: IO[bytes], imports: tuple[str, ...]):
        their_requests, our_requests = os.pipe()
        our_answers, their_answers = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        leader = _leader()
        self._pid = os.fork()
        self._code: int | None = None
        if self._pid == 0:
            try:
                os.close(our_requests)
                os.close(our_answers)
                os.setsid()
                _follow(leader)
                os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                _serve(os.fdopen(their_requests, "rb"), os.fdopen(their_answers, "wb"), imports)
            finally:
                os._exit(0)  # Nothing that belongs to the parent may be cleaned up twice.
        os.close(their_requests)
        os.close(their_answers)
        self.requests: IO[bytes] = os.fdopen(our_requests, "wb")
        self.answers: IO[bytes] = os.fdopen(our_answers, "rb")

    def kill(self) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code


def _leader() -> int:
    """Returns the process with which a new child has to end, 0 for none.

    The system sends the signal when the thread ends that started the child, and a kept worker outlives most threads.
    """
    main = threading.current_thread() is threading.main_thread()
    return os.getpid() if main and sys.platform == "linux" else 0


def _follow(leader: int) -> None:
    """Ends this process when its parent does, also in the middle of a call and if the parent was killed."""
    if leader:
        with contextlib.suppress(OSError, AttributeError):  # A C library without prctl: the next request ends it.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != leader:
            os._exit(0)


def serve() -> None:
    """Answers calls from standard input on what was standard output, until the input ends; see `_START`."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _follow(int(sys.argv[1]))
    _serve(sys.stdin.buffer, answers, sys.argv[2:])


def _serve(requests: IO[bytes], answers: IO[bytes], imports: Sequence[str]) -> None:
    with collecting.later():  # What is imported stays: looking through it while it grows takes a quarter of the time.
        for module in imports:
            importlib.import_module(module)
        gc.freeze()
    while True:
        try:
            function, arguments = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_answer(function, arguments), answers)
        answers.flush()


def _answer(function: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    module, _, name = function.partition(":")
    try:
        return True, getattr(importlib.import_module(module), name)(*arguments)
    except ExportError as error:
        return False, error
    except Exception as error:  # The parent gets every failure of the child as text.
        return False, ChildError(type(error).__name__, str(error))


class ChildError(Exception):
    """An exception in the child: the name of its type and its text (the parent may not have the type itself)."""

    def __init__(self, kind: str, text: str):
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"

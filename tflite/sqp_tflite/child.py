"""Runs a named function in a child process: native code that dies there becomes a message here.

A worker is a fresh Python that reads pickled calls from a pipe, so it works under any user script (no `__main__` is
imported again) and beside any threads. What the child prints goes to a log that only an error message quotes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

from sqp_tflite.errors import CrashedError, ExportError

_LAST_LINES = 12


class Worker:
    """A child process that runs functions one after the other; use it in a `with` block.

    Args:
        imports: Modules that the child imports at once, while the parent goes on with other work.
    """

    def __init__(self, imports: tuple[str, ...] = ()):
        self._log = tempfile.TemporaryFile(mode="w+b")  # noqa: SIM115 (closed by close)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sqp_tflite.child", *imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, function: str, *arguments: Any, timeout: float = 1800.0) -> Any:
        """Returns what the function returns; its exceptions come through as they are.

        Args:
            function: "module:name" of a module-level function.
            *arguments: What it is called with; must pickle.
            timeout: Seconds after which the child is ended.

        Raises:
            CrashedError: The child died or took too long.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        timer = threading.Timer(timeout, self._process.kill)
        timer.start()
        try:
            pickle.dump((function, arguments), self._process.stdin)
            self._process.stdin.flush()
            returned, value = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise CrashedError(self._obituary(function, timeout)) from error
        finally:
            timer.cancel()
        if returned:
            return value
        raise value

    def close(self) -> None:
        """Ends the child."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._log.close()

    def log(self) -> str:
        """Returns what the child has printed so far."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")

    def _obituary(self, function: str, timeout: float) -> str:
        code = self._process.wait()
        lines = [line for line in self.log().splitlines() if line.strip()][-_LAST_LINES:]
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            how += f" (out of memory, or more than {timeout:.0f} s)"
        return f"The child process that ran `{function}` ended with {how}." + "".join(f"\n  {line}" for line in lines)


def run(function: str, *arguments: Any, timeout: float = 1800.0) -> Any:
    """Returns what `function` ("module:name") returns, run in a child process of its own.

    Raises:
        CrashedError: The child died or took too long.
    """
    with Worker() as worker:
        return worker.call(function, *arguments, timeout=timeout)


def _serve(imports: list[str]) -> None:
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for module in imports:
        importlib.import_module(module)
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
    except Exception as error:  # The parent gets every failure of the child, in words.
        return False, ChildError(type(error).__name__, str(error))


class ChildError(Exception):
    """An exception of the child: its type's name and its text (the type itself may not exist in the parent)."""

    def __init__(self, kind: str, text: str):
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


if __name__ == "__main__":
    # The class that the parent knows is the one of the imported module, not of `__main__`.
    from sqp_tflite import child

    child._serve(sys.argv[1:])

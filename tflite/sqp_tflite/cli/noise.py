"""Keeps the output of third-party native code off the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

_FLAGS = ("TF_XLA_FLAGS", "XLA_FLAGS")
"""TensorFlow ends the process with exit code 1, which means "refused" here, where a release does not know one of these
flags. They tune how models are compiled for training; an export is compared with Keras as it computes without them."""


def open_streams() -> frozenset[str]:
    """Gives standard streams that were closed by the caller (`>&-`) a place, nowhere, and returns their names.

    A file that is opened later would otherwise get the number of standard output, and what is printed with it. Standard
    output then takes nothing, as a full disk would: what is printed there is lost, and the exit code has to say so.
    """
    closed = set()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            closed.add(name)
            nowhere = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        if getattr(sys, name) is None:
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115 (open as long as we run)
            setattr(sys, name, stream)
    return frozenset(closed)


def throw_away_output() -> None:
    """Lets what is left in the buffer of standard output go nowhere."""
    throw_away(sys.stdout)


def throw_away(stream: IO[str]) -> None:
    """Lets what is left in the buffer of a stream go nowhere: the end of Python would fail on it with exit code 120."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


@contextlib.contextmanager
def quiet(debug: bool, piped: bool = False) -> Iterator[tuple[IO[str], IO[str]]]:
    """Yields (out, err) that reach the terminal, while file descriptors 1 and 2 go to a log that is discarded.

    TensorFlow prints from C++ before it can be silenced from Python, so the descriptors are redirected.

    Args:
        debug: Whether to let everything through instead.
        piped: Whether standard output is for data only: what would be let through there goes to standard error.
    """
    for flags in _FLAGS:
        os.environ.pop(flags, None)
    # Whatever the user trains with: a command converts with TensorFlow.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if debug:
        with _apart() if piped else contextlib.nullcontext(sys.stdout) as out:
            yield out, sys.stderr
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    streams = (sys.stdout, sys.stderr)
    with tempfile.TemporaryFile() as log, open(os.devnull, "w") as nowhere:
        out = os.fdopen(os.dup(saved[0]), "w", encoding="utf-8", errors="replace")
        err = os.fdopen(os.dup(saved[1]), "w", encoding="utf-8", errors="replace")
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.stdout = sys.stderr = nowhere
        try:
            yield out, err
        finally:
            sys.stdout, sys.stderr = streams
            for number, descriptor in enumerate(saved, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            for stream in (out, err):
                with contextlib.suppress(OSError):  # a pipe whose reader is gone
                    stream.close()


@contextlib.contextmanager
def _apart() -> Iterator[IO[str]]:
    """Yields standard output, while everything that others print there goes to standard error."""
    sys.stdout.flush()
    kept, before = os.dup(1), sys.stdout
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    out = os.fdopen(os.dup(kept), "w", encoding="utf-8", errors="replace")
    try:
        yield out
    finally:
        sys.stdout = before
        os.dup2(kept, 1)
        os.close(kept)
        with contextlib.suppress(OSError):
            out.close()

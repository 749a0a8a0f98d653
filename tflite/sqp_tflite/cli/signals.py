"""What signals do to a command: the first one ends it through its clean-up, which no later one disturbs."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass

TERMINATED = 143

_ENDING = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class Ending:
    """The signal that ends the command, 0 for none.

    What its handler raises may get lost: a library makes another error of it, or native code that calls Python (a
    callback, a destructor) drops it. So it is raised again at every step and before anything is written.
    """

    number: int = 0
    spent: bool = False
    """Whether memory ran out: libraries that clean up at the end would fill the screen with that."""

    def check(self) -> None:
        """Raises `SystemExit` after SIGTERM and `KeyboardInterrupt` after SIGINT, however often it is called."""
        if self.number == signal.SIGTERM:
            raise SystemExit(TERMINATED)
        if self.number:
            raise KeyboardInterrupt


@contextlib.contextmanager
def ended_softly(last: bool) -> Iterator[Ending]:
    """Makes SIGINT and SIGTERM run the `finally` clauses, so that no temporary file and no child process is left.

    Args:
        last: Whether the process ends after the block. Then signals are ignored there: the exit code is known.
    """
    state = Ending()

    def leave(number: int, _: object) -> None:
        for one in _ENDING:
            signal.signal(one, signal.SIG_IGN)
        state.number = number
        state.check()

    before = {}
    try:
        for one in _ENDING:
            # A background job of a shell is started with SIGINT ignored, and stays so.
            if signal.getsignal(one) is not signal.SIG_IGN:
                before[one] = signal.signal(one, leave)
    except ValueError:  # Not the main thread: its owner handles signals.
        yield state
        return
    try:
        yield state
    finally:
        for one, handler in before.items():
            signal.signal(one, signal.SIG_IGN if last else handler)

"""The one command that solves all findings of a refusal, tried before it is named."""

from __future__ import annotations

import dataclasses
import json
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqp_tflite.errors import CrashedError, ExportError
from sqp_tflite.options import ExportOptions
from sqp_tflite.report import Finding

if TYPE_CHECKING:  # A call that cannot work is refused before Keras is imported.
    from sqp_tflite.source.remedies import Changes

LEAST_SECONDS = 15.0
"""What a trial may take where the export itself was faster; else it may take as long again."""


class Deadline:
    """The time that a trial may take.

    Args:
        seconds: From now on.
    """

    def __init__(self, seconds: float):
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Returns the seconds that are left.

        Raises:
            CrashedError: None are.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise CrashedError("The trial took too long.")
        return left


@dataclass(frozen=True, slots=True)
class Solution:
    """Options that solve all findings.

    Attributes:
        call: The command, or for a call from Python the keyword arguments.
    """

    call: str


def solved(
    options: ExportOptions, changes: Changes | None, attempt: Callable[[ExportOptions], tuple[Finding, ...]]
) -> Solution | None:
    """Returns the user's call with other options, if a trial with them has no findings; None otherwise.

    It costs one trial at most, which is about one more conversion.

    Args:
        options: What was asked for.
        changes: The options that should help, None if none do.
        attempt: Makes a file with other options, up to its audit, and returns the findings.
    """
    if not changes:
        return None
    try:
        return None if attempt(changed(options, changes)) else Solution(call(options, changes))
    except ExportError:
        return None  # The remedies stand in the findings; there is no one command for them.


def changed(options: ExportOptions, changes: Changes) -> ExportOptions:
    """Returns the options with some changed."""
    own: dict[str, Any] = {
        name: value for name, value in changes.items() if name not in ("quantize", "lowering", "target")
    }
    wanted = dataclasses.replace(options.wanted, **{k: v for k, v in changes.items() if k not in own})
    return dataclasses.replace(options, wanted=wanted, **own)


def call(options: ExportOptions, changes: Changes) -> str:
    """Returns the call to make instead: the user's command with other options, quoted, or keyword arguments."""
    if not options.command:
        return ", ".join(f"{name}={json.dumps(value)}" for name, value in changes.items())
    words = shlex.split(options.command)
    end = words.index("--") if "--" in words else len(words)
    kept: list[str] = []
    given = iter(words[:end])
    for word in given:
        name, _, value = word.partition("=")
        if name.removeprefix("--") not in changes or not name.startswith("--"):
            kept.append(word)
        elif not value:
            next(given, None)
    added = [part for name, value in changes.items() for part in (f"--{name}", value)]
    return shlex.join([*kept, *added, *words[end:]])

"""What a case is, and what happened when it ran: plain data, kept as JSON beside a find."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAYLOAD = "payload-was-run"
"""The file that code hidden in an input creates in the current folder if something runs it."""

INSIDE = "deep/er/work"
"""The current folder of a case, inside its own; `..` in a path leads to a place that is watched."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a command.

    Attributes:
        name: "SEED-NUMBER".
        program: Name of the command.
        arguments: Its arguments; text that is not UTF-8 holds surrogates, as in `sys.argv`.
        what: What was done to the files, in words.
        special: Entries that are not plain files: (name, "pipe" | "socket" | "link" | "folder", target of a link).
        streams: State of standard output (1) and error (2): "closed", "full" or "broken"; open if not listed.
        installed: Whether the installed program runs in its own process, not a copy of a process that has imported all.
        environment: Variables that are set for the installed program.
    """

    name: str
    program: str
    arguments: tuple[str, ...]
    what: tuple[str, ...] = ()
    special: tuple[tuple[str, str, str], ...] = ()
    streams: dict[int, str] = field(default_factory=dict)
    installed: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the case as text."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Returns the case of a text."""
        held = json.loads(text)
        held["streams"] = {int(number): state for number, state in held["streams"].items()}
        held["special"] = tuple(tuple(entry) for entry in held["special"])
        return cls(**held | {"arguments": tuple(held["arguments"]), "what": tuple(held["what"])})


@dataclass(frozen=True, slots=True)
class Ran:
    """What happened.

    Attributes:
        code: The exit code; minus the number of the signal that ended the command.
        out: What it printed.
        err: What it printed on standard error.
        seconds: From start to end.
        cpu: Seconds of processor time, with its child processes.
        peak: Bytes of memory of the largest process.
        timed_out: Whether it was ended from outside.
        before: Digest of each file by path, before the call.
        after: The same after it.
        left: Processes that outlived the command.
        temporary: Files left in the folder for temporary files.
    """

    code: int
    out: str
    err: str
    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    timed_out: bool = False
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    left: int = 0
    temporary: tuple[str, ...] = ()


def snapshot(folder: Path) -> dict[str, str]:
    """Returns {relative path: kind and digest} of everything in a folder; links are not followed."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(root, name)
            found[os.path.relpath(path, folder)] = _digest(path)
    return found


def _digest(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if stat.S_ISREG(mode):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return f"kind {stat.S_IFMT(mode):o}"


def create_special(case: Case, folder: Path) -> None:
    """Creates the entries of a case that are not plain files."""
    for name, kind, target in case.special:
        path = folder / name
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "link":
            path.symlink_to(target)
        elif kind == "folder":
            path.mkdir(exist_ok=True)
        else:
            _socket(folder, name)


def _socket(folder: Path, name: str) -> None:
    # The path of a socket may have 107 bytes only: a short one, from inside the folder.
    before = os.getcwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    finally:
        os.chdir(before)


def stored(folder: Path) -> Case:
    """Returns the case of a find.

    Args:
        folder: Where it was kept.
    """
    return Case.from_json((folder / "case.json").read_text("utf-8"))


def plain(value: Any) -> str:
    """Returns a value in few characters, for a description."""
    try:
        text = ascii(value)
    except RecursionError:
        return "nested too deep to be shown"
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"

"""A dash in a file's place: the exported file, or the report as JSON, on standard output.

The text then goes to standard error. What is piped is delivered first, then the files are written: if standard output
does not take all of it, nothing is on the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import IO

from sqp_tflite.accept import quoted
from sqp_tflite.errors import EnvironmentMissingError, InputFileError, OutputError
from sqp_tflite.files import write_all
from sqp_tflite.places import Identity, Place, identity, identity_of, read_files
from sqp_tflite.report import Report, json_text

DASH = "-"


class Piped(Enum):
    """What goes to standard output besides text."""

    NOTHING = ""
    MODEL = "the file (-o -)"
    REPORT = "the report (--report -)"

    def __bool__(self) -> bool:
        """Returns whether standard output is taken."""
        return self is not Piped.NOTHING


_READ = ("model", "file", "data", "reference")
"""The arguments that name what is read."""


def piped(options: argparse.Namespace) -> Piped:
    """Returns what a call wants on standard output; `check` says whether it can have it."""
    if getattr(options, "output", None) == DASH:
        return Piped.MODEL
    return Piped.REPORT if DASH in getattr(options, "report", ()) else Piped.NOTHING


def check(options: argparse.Namespace, out: IO[str], closed: bool) -> None:
    """Raises an error if a dash is where it means nothing, or if standard output cannot be used as asked.

    Args:
        options: The call's.
        out: Standard output.
        closed: Whether the caller had closed it.
    """
    for name in _READ:
        if getattr(options, name, None) == DASH:
            raise InputFileError(
                "An input must be a file or a folder: a model is read in several places, which a stream does not "
                "allow. Received: -, standard input. Save it to a file first; a file whose name is a dash is ./-"
            )
    if getattr(options, "output", None) == DASH and not hasattr(options, "emit"):
        raise OutputError(
            "C code is a folder of files. Received: -o -, standard output. Pass the name of a folder; one whose name "
            "is a dash is ./-"
        )
    reports = getattr(options, "report", ()).count(DASH)
    wanted = [Piped.REPORT.value] * reports + ["the report (--json)"] * options.json
    wanted += [Piped.MODEL.value] if getattr(options, "output", None) == DASH else []
    if reports + (piped(options) is Piped.MODEL) and len(wanted) > 1:
        raise OutputError(
            f"Standard output must hold one thing. Received: {' and '.join(wanted)}. Name a file for one of them."
        )
    if piped(options) is Piped.MODEL:
        _check_model(options, out)
    if piped(options) and closed:
        raise EnvironmentMissingError(
            f"Standard output must be open for {piped(options).value}. Received: a closed one. Name a file."
        )
    _check_apart(options, out)


def _check_apart(options: argparse.Namespace, out: IO[str]) -> None:
    """Raises if standard output is a file that is read."""
    key = _identity(out)
    given = [getattr(options, name, None) for name in _READ]
    inputs = [Path(path) for path in given if path]
    if not piped(options):
        # Text may go to a new file in the model's folder.
        inputs = [path for path in inputs if not os.path.isdir(path)]
    for found, path in read_files(inputs):
        if found == key:
            raise OutputError(
                f"An output may not replace what is read. Received: standard output, which leads into {quoted(path)}. "
                "Choose another name after the > or >>."
            )


def check_places(places: Iterable[Place], out: IO[str]) -> None:
    """Raises `OutputError` if standard output leads into a file that will be written by name: its text would be lost.

    Args:
        places: Where files will be written.
        out: Standard output.
    """
    key = _identity(out)
    for place in places:
        if identity(place.path) == key:
            raise OutputError(
                f"Each output must be a separate file. Received: standard output and {quoted(place.path)}, the same "
                f"file. Choose another name after the > or >>, or another place with {place.move}."
            )


def _identity(out: IO[str]) -> Identity | None:
    """Returns which file a stream leads into; None for one without a descriptor, or one that takes nothing."""
    try:
        os.write(out.fileno(), b"")
        return identity_of(os.fstat(out.fileno()))
    except (OSError, ValueError):
        return None


def _check_model(options: argparse.Namespace, out: IO[str]) -> None:
    if options.emit:
        raise OutputError(
            f"--emit writes files beside the model file, which then needs a name. Received: --emit "
            f"{','.join(options.emit)} with -o -. Pass e.g. -o model.tflite."
        )
    if out.isatty():
        raise OutputError(
            "-o - writes bytes, which a terminal cannot show. Received: a terminal. Add > model.tflite, or pass "
            "-o model.tflite."
        )


def named(paths: Sequence[str]) -> tuple[Path, ...]:
    """Returns the paths that are not a dash."""
    return tuple(Path(path) for path in paths if path != DASH)


def deliver(
    stream: IO[str],
    what: Piped,
    content: bytes,
    report: Report,
    files: Mapping[Place, bytes],
    inputs: Iterable[Path] = (),
) -> None:
    """Writes what is piped, then the files.

    Args:
        stream: Standard output.
        what: What is piped.
        content: The exported file.
        report: Its report.
        files: What has a path.
        inputs: Files and folders that were read; no file may replace them.

    Raises:
        EnvironmentMissingError: Standard output did not take all of it; no file was written.
        OutputError: A file cannot be written.
    """
    if what is Piped.MODEL:
        _write(stream, what, content)
    elif what is Piped.REPORT:
        _write(stream, what, (json_text(report.to_dict()) + "\n").encode("utf-8"))
    write_all(files, inputs)


def _write(stream: IO[str], what: Piped, content: bytes) -> None:
    left = memoryview(content)
    try:
        # Past the stream's buffer, which would keep what was not taken and try again.
        while left:
            left = left[os.write(stream.fileno(), left) :]
    except OSError as error:
        # What follows would fail in the same way, and say so a second time.
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        raise EnvironmentMissingError(
            f"Standard output must take all {len(content):,} bytes of {what.value}. Received: {error.strerror} after "
            f"{len(content) - len(left):,}. No file was written. Name a file instead."
        ) from error

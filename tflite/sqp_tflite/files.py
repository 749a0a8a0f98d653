"""The user's files: input files must exist, and output files are written completely or not at all.

Imports nothing slow, so that a bad call fails right away.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from sqp_tflite.accept import quoted
from sqp_tflite.errors import BadInputError
from sqp_tflite.places import Place, check_distinct, check_regular, followed, kind


def write_all(files: Mapping[Place, bytes], inputs: Iterable[Path] = ()) -> None:
    """Writes all files, or none: each is first written beside its place, and moved there once all are on the disk.

    A symbolic link is followed: its target is written, and the link stays.

    Args:
        files: Content by place; folders are created as needed.
        inputs: Files and folders that were read; no output may replace them.

    Raises:
        BadInputError: An output is neither a new nor a regular file, or is an input, or cannot be written; existing
            files stay unchanged.
    """
    check_distinct(tuple(files), tuple(inputs))
    current = Place(Path())
    staged: list[tuple[Path, Path]] = []
    placed: list[tuple[Path, Path | None]] = []
    made: list[Path] = []
    done = False
    try:
        for current, content in files.items():
            path = followed(current.path)
            check_regular(current.path, path)
            made += _folders(path.parent)
            staged.append((_stage(path, content), path))
        for place, (temporary, path) in zip(tuple(files), staged, strict=True):
            current = place
            placed.append((path, _kept(path)))
            os.replace(temporary, path)
        done = True
    except OSError as error:
        raise BadInputError(
            f"Every file of an export must be writable. Received: {quoted(current.path)}, {error.strerror}. Nothing "
            f"was written. Choose another place with {current.move}."
        ) from error
    finally:
        # Also after Ctrl-C: either all files are in place, or everything is as before.
        for path, kept in reversed(placed):
            _settle(path, kept, done, {path for temporary, path in staged if not temporary.exists()})
        for leftover in (temporary for temporary, _ in staged):
            leftover.unlink(missing_ok=True)
        for folder in () if done else reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _kept(path: Path) -> Path | None:
    """Returns the path of a copy of the existing file, None where there is none."""
    if not path.exists() or path.is_dir():
        return None
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    shutil.copy2(path, name)
    return Path(name)


def _settle(path: Path, kept: Path | None, done: bool, replaced: set[Path]) -> None:
    """Puts the old file back if the writing was not finished, else deletes its copy."""
    if not done and path in replaced:
        if kept is None:
            path.unlink(missing_ok=True)
        else:
            os.replace(kept, path)
            return
    if kept is not None:
        kept.unlink(missing_ok=True)


def _folders(folder: Path) -> list[Path]:
    """Creates a folder and its parents; returns those that did not exist."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return list(reversed(missing))


def _stage(path: Path, content: bytes) -> Path:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
    except BaseException:
        os.unlink(temporary)
        raise
    return Path(temporary)


def check_model(path: Path) -> None:
    """Raises `BadInputError` if there is no model at the path."""
    check_input(path, "Pass a .keras or .h5 file or a SavedModel folder.")


def check_data(path: Path) -> None:
    """Raises `BadInputError` if there is no data file at the path."""
    check_input(path, "Pass an .npz file: --data FILE.npz.")
    if path.is_dir():
        raise BadInputError(f"`{path}` is a folder. Pass an .npz file: save one with numpy.savez(path, x=...).")


def check_input(path: Path, remedy: str) -> None:
    """Raises `BadInputError` if neither a regular file nor a folder is at the path.

    A pipe makes its reader wait, a device may never end, and neither can be read twice.

    Args:
        path: What will be read.
        remedy: What to pass instead, a sentence.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise BadInputError(f"{quoted(path)} does not exist. {remedy}") from error
    except OSError as error:  # A folder that may not be entered, a name that is too long, a link in a circle.
        raise BadInputError(
            f"An input must be readable. Received: {quoted(path)}, {error.strerror}. {remedy}"
        ) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadInputError(
            f"An input must be a regular file. Received: {quoted(path)}, {kind(mode)}. Save its content in a file "
            "first."
        )

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
from enum import Enum
from pathlib import Path

from sqp_tflite.accept import quoted
from sqp_tflite.errors import InputFileError, OutputError
from sqp_tflite.places import Place, check_distinct, check_regular, followed, kind

_GRAPH = "saved_model.pb"
_PARTS = ("variables", "assets", "assets.extra")
_HEAD = 512
_SHOWN = 40
"""Characters of a file's name that its staged copy has: a system's longest name would leave no room for more."""


def write_all(files: Mapping[Place, bytes], inputs: Iterable[Path] = ()) -> None:
    """Writes all files, or none: each is first written beside its place, and moved there once all are on the disk.

    A symbolic link is followed: its target is written, and the link stays.

    Args:
        files: Content by place; folders are created as needed.
        inputs: Files and folders that were read; no output may replace them.

    Raises:
        OutputError: An output is neither a new nor a regular file, or is an input, or cannot be written; existing
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
        raise OutputError(
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
    if not os.path.exists(path) or os.path.isdir(path):
        return None
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:_SHOWN]}.")
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
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:_SHOWN]}.")
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
    """Raises `InputFileError` if there is no model at the path, or what is known not to be one by its first bytes."""
    check_input(path, "Pass a .keras or .h5 file or a SavedModel folder.")
    if os.path.isdir(path):
        if os.path.isfile(path / _GRAPH):
            return
        received = f"a folder without {_GRAPH}. Pass the path of the model"
        if os.path.exists(path / _GRAPH):
            received = f"a folder whose {_GRAPH} is {kind(os.stat(path / _GRAPH).st_mode)}. Save the model again"
        raise InputFileError(
            f"{quoted(path)} must be a .keras or .h5 file or a SavedModel folder. Received: {received}."
        )
    what = content_of(path)
    if what in (Content.ARRAYS, Content.ARRAY):
        received = f"{what.value}. Pass the Keras model, and samples with --data"
    elif folder := _folder_of_part(path):
        received = f"a part of a SavedModel. Pass its folder, {quoted(folder)}"
    else:
        return
    raise InputFileError(f"{quoted(path)} must be a Keras model. Received: {received}.")


class Content(Enum):
    """What a file holds, by its first bytes."""

    TFLITE = "a TFLite file"
    ARRAYS = "arrays (.npz)"
    ARRAY = "an array (.npy)"
    OTHER = ""


def content_of(path: Path) -> Content:
    """Returns what a file holds, OTHER also for one that cannot be read: whoever opens it says why."""
    try:
        with path.open("rb") as file:
            return content_by(file.read(_HEAD))
    except OSError:
        return Content.OTHER


def content_by(head: bytes) -> Content:
    """Returns what a file holds that begins so."""
    if head[4:8] == b"TFL3":
        return Content.TFLITE
    if head.startswith(b"PK\x03\x04") and head[30 : 30 + int.from_bytes(head[26:28], "little")].endswith(b".npy"):
        return Content.ARRAYS
    return Content.ARRAY if head.startswith(b"\x93NUMPY") else Content.OTHER


def _folder_of_part(path: Path) -> Path | None:
    """Returns the SavedModel folder that a file is a part of."""
    known = {_GRAPH: path.parent, "fingerprint.pb": path.parent, "keras_metadata.pb": path.parent}
    inner = path.parent.parent if path.absolute().parent.name in _PARTS else None
    folder = known.get(path.name, inner)
    return folder if folder is not None and os.path.isfile(folder / _GRAPH) else None


def check_data(path: Path) -> None:
    """Raises `InputFileError` if there is no data file at the path."""
    check_input(path, "Pass an .npz file: --data FILE.npz.")
    if os.path.isdir(path):
        raise InputFileError(f"`{path}` is a folder. Pass an .npz file: save one with numpy.savez(path, x=...).")


def check_input(path: Path, remedy: str) -> None:
    """Raises `InputFileError` if neither a regular file nor a folder is at the path.

    A pipe makes its reader wait, a device may never end, and neither can be read twice.

    Args:
        path: What will be read.
        remedy: What to pass instead, a sentence.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise InputFileError(f"{quoted(path)} does not exist. {remedy}") from error
    except OSError as error:  # A folder that may not be entered, a name that is too long, a link in a circle.
        raise InputFileError(
            f"An input must be readable. Received: {quoted(path)}, {error.strerror}. {remedy}"
        ) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputFileError(
            f"An input must be a regular file. Received: {quoted(path)}, {kind(mode)}. Save its content in a file "
            "first."
        )

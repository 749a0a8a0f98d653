"""Writes a set of files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sqp_tflite.errors import BadInputError


def write_all(files: Mapping[Path, bytes]) -> None:
    """Writes all files, or none: each is written beside its place first and takes it once all of them are on the disk.

    Args:
        files: Content by path; folders are made as needed.

    Raises:
        BadInputError: A folder or the disk does not take one; files that were there before stay as they were.
    """
    current = Path()
    staged: list[tuple[Path, Path]] = []
    placed: list[tuple[Path, Path | None]] = []
    made: list[Path] = []
    done = False
    try:
        for path, content in files.items():
            current = path
            made += _folders(path.parent)
            staged.append((_stage(path, content), path))
        for temporary, path in staged:
            current = path
            placed.append((path, _kept(path)))
            os.replace(temporary, path)
        done = True
    except OSError as error:
        raise BadInputError(
            f"Every file of an export must be writable. Received: `{current}`, {error.strerror}. Nothing was written. "
            "Choose another place with -o."
        ) from error
    finally:
        # Also after Ctrl-C: either all is in its place, or all is as it was.
        for path, kept in reversed(placed):
            _settle(path, kept, done, {path for temporary, path in staged if not temporary.exists()})
        for leftover in (temporary for temporary, _ in staged):
            leftover.unlink(missing_ok=True)
        for folder in () if done else reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _kept(path: Path) -> Path | None:
    """Returns a second name of the file that stands at the path, None where there is none."""
    if not path.exists() or path.is_dir():
        return None
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    shutil.copy2(path, name)
    return Path(name)


def _settle(path: Path, kept: Path | None, done: bool, replaced: set[Path]) -> None:
    """Puts the old file back where the writing was not finished, or lets it go."""
    if not done and path in replaced:
        if kept is None:
            path.unlink(missing_ok=True)
        else:
            os.replace(kept, path)
            return
    if kept is not None:
        kept.unlink(missing_ok=True)


def check_places(paths: Mapping[Path, bytes] | tuple[Path, ...]) -> None:
    """Raises `BadInputError` if a file cannot be written at one of the paths, before any work is done."""
    for path in paths:
        if path.is_dir():
            raise BadInputError(f"An output must be a file. Received: `{path}`, a folder. Pass a file's name.")
        parent = path.parent
        if not parent.is_dir():
            raise BadInputError(f"An output's folder must exist. Received: `{path}`. Create `{parent}` first.")
        if not os.access(parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise BadInputError(f"An output must be writable. Received: `{path}`. Choose another place.")


def _folders(folder: Path) -> list[Path]:
    """Makes a folder with its parents; returns those that were not there."""
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
    if not path.exists():
        raise BadInputError(f"`{path}` does not exist. Pass a .keras or .h5 file or a SavedModel folder.")


def check_data(path: Path) -> None:
    """Raises `BadInputError` if there is no data file at the path."""
    if not path.exists():
        raise BadInputError(f"`{path}` does not exist. Pass an .npz file: --data FILE.npz.")
    if path.is_dir():
        raise BadInputError(f"`{path}` is a folder. Pass an .npz file: save one with numpy.savez(path, x=...).")

"""The user's files: input files must exist, and output files are written completely or not at all.

Imports nothing slow, so that a bad call fails right away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from sqp_tflite.accept import quoted
from sqp_tflite.errors import BadInputError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def write_all(files: Mapping[Path, bytes], inputs: Iterable[Path] = ()) -> None:
    """Writes all files, or none: each is first written beside its place, and moved there once all are on the disk.

    A symbolic link is followed: its target is written, and the link stays.

    Args:
        files: Content by path; folders are created as needed.
        inputs: Files and folders that were read; no output may replace them.

    Raises:
        BadInputError: An output is neither a new nor a regular file, or is an input, or cannot be written; existing
            files stay unchanged.
    """
    _check_distinct(tuple(files), tuple(inputs))
    current = Path()
    staged: list[tuple[Path, Path]] = []
    placed: list[tuple[Path, Path | None]] = []
    made: list[Path] = []
    done = False
    try:
        for given, content in files.items():
            current, path = given, _followed(given)
            _check_regular(given, path)
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


def check_places(paths: Iterable[Path], inputs: Iterable[Path] = ()) -> None:
    """Raises `BadInputError` if one of the paths may not or cannot be written, before any work is done.

    Args:
        paths: Where files will be written.
        inputs: Files and folders that will be read.
    """
    places = tuple(paths)
    for given in places:
        path = _followed(given)
        _check_regular(given, path)
        parent = path.parent
        if not parent.is_dir():
            raise BadInputError(
                f"An output's folder must exist. Received: {quoted(given)}. Create {quoted(given.parent)} first."
            )
        if not os.access(parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise BadInputError(f"An output must be writable. Received: `{given}`. Choose another place.")
    _check_distinct(places, tuple(inputs))


def _followed(path: Path) -> Path:
    """Returns the real path: symbolic links are followed, not replaced."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno != errno.ELOOP:
            raise _unusable(path, error) from error
        raise BadInputError(
            f"An output must be a new or a regular file. Received: `{path}`, a symbolic link that leads nowhere. "
            "Remove the link, or choose another place."
        ) from error


def _unusable(path: Path, error: OSError) -> BadInputError:
    return BadInputError(
        f"An output must be writable. Received: {quoted(path)}, {error.strerror}. Choose another place."
    )


def _check_regular(given: Path, path: Path) -> None:
    """Raises if something other than a regular file is there: writing would replace a device, a pipe or a folder."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _unusable(given, error) from error
        return  # Nothing is there yet; whether it can be created shows when it is written.
    if stat.S_ISREG(mode):
        return
    raise BadInputError(
        f"An output must be a new or a regular file. Received: `{given}`, {_kind(mode)}. Nothing was written. "
        "Pass the name of a file."
    )


def _kind(mode: int) -> str:
    return next((name for test, name in _KINDS if test(mode)), "something else")


def _check_distinct(places: tuple[Path, ...], inputs: tuple[Path, ...]) -> None:
    """Raises if two outputs are the same file, or if one is an input or lies in an input folder."""
    read = {_identity(path): path for path in inputs}
    folders = [(path.resolve(), path) for path in inputs if path.is_dir()]
    seen: dict[object, Path] = {}
    for path in places:
        key = _identity(path)
        other = read.get(key) or next((name for folder, name in folders if _within(path, folder)), None)
        if other is not None:
            raise BadInputError(
                f"An output may not replace what is read. Received: `{path}`, which is part of `{other}`. "
                "Choose another name for the output."
            )
        if key in seen:
            raise BadInputError(
                f"Each output must be a separate file. Received: `{seen[key]}` and `{path}`, the same file. "
                "Give one of them another name."
            )
        seen[key] = path


def _identity(path: Path) -> object:
    """Returns what two names of one file have in common: the inode, or the resolved path if it does not exist yet."""
    try:
        found = path.stat()
    except OSError:
        return str(_followed(path))
    return found.st_dev, found.st_ino


def _within(path: Path, folder: Path) -> bool:
    return path.exists() and path.resolve().is_relative_to(folder)


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
            f"An input must be a regular file. Received: {quoted(path)}, {_kind(mode)}. Save its content in a file "
            "first."
        )

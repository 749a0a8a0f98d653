"""Where outputs may go: decided before any work, by what is there and by what is read. Imports nothing slow."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqp_tflite.accept import quoted
from sqp_tflite.errors import OutputError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_STREAM = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd/[^/]+")
"""Linux's names of what a process has open; `/dev/stdout` and `/dev/fd` are links to them."""

_MOST_LINKS = 40
"""Linux follows no more."""

Identity = tuple[int, int] | str
"""What all names of one file have in common: device and inode, or the resolved path while it does not exist."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file will be written.

    Attributes:
        path: Its path.
        option: What names the file on the command line, for messages.
        move: The option that puts it elsewhere.
        own_folders: How many of the folders above it are made with it; the next one must exist.
    """

    path: Path
    option: str = "-o"
    move: str = "-o"
    own_folders: int = 0


def report_places(paths: Iterable[Path]) -> list[Place]:
    """Returns the places of reports."""
    return [Place(path, "--report", "--report") for path in paths]


def check_places(places: Iterable[Place], inputs: Iterable[Path] = ()) -> None:
    """Raises `OutputError` if one of the places may not or cannot be written, before any work is done.

    Args:
        places: Where files will be written.
        inputs: Files and folders that will be read.
    """
    wanted = tuple(places)
    for place in wanted:
        path = followed(place.path)
        check_regular(place.path, path)
        _check_folder(place, path)
    check_distinct(wanted, tuple(inputs))


def _check_folder(place: Place, path: Path) -> None:
    """Raises if the folder of a place is missing or may not be written to."""
    given, folder = place.path, path.parent
    nearest = next(found for found in (folder, *folder.parents) if os.path.exists(found))
    if not os.path.isdir(nearest):
        raise OutputError(
            f"An output must lie in a folder. Received: {quoted(given)}, where {quoted(_shown(nearest, given))} is a "
            f"file. Choose another place with {place.move}."
        )
    if nearest not in (folder, *folder.parents)[: place.own_folders + 1]:
        missing = (folder, *folder.parents)[place.own_folders]
        raise OutputError(
            f"An output's folder must exist. Received: {quoted(given)}. Create {quoted(_shown(missing, given))} first."
        )
    longest = os.pathconf(nearest, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255
    if any(len(os.fsencode(part)) > longest for part in path.parts):
        raise OutputError(
            f"The name of a file or a folder must have at most {longest} bytes. Received: {quoted(given)}. Choose a "
            f"shorter one with {place.move}."
        )
    if not os.access(nearest, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise OutputError(f"An output must be writable. Received: {quoted(given)}. Choose another place.")


def _shown(folder: Path, given: Path) -> Path:
    """Returns a folder as the user wrote it, where it is above the path as given; a link leads elsewhere."""
    return next((above for above in given.parents if above.name and above.resolve() == folder), folder)


def followed(path: Path) -> Path:
    """Returns the real path: symbolic links are followed, not replaced."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno != errno.ELOOP:
            raise _unusable(path, error) from error
        raise OutputError(
            f"An output must be a new or a regular file. Received: `{path}`, a symbolic link that leads nowhere. "
            "Remove the link, or choose another place."
        ) from error


def _hops(path: Path) -> Iterator[Path]:
    """Yields a path and where each symbolic link leads whose name it ends with; the folders are real ones."""
    for _ in range(_MOST_LINKS):
        path = path.parent.resolve() / path.name
        yield path
        try:
            path = path.parent / os.readlink(path)
        except OSError:
            return


def _unusable(path: Path, error: OSError) -> OutputError:
    way = "Choose a shorter name" if error.errno == errno.ENAMETOOLONG else "Choose another place"
    return OutputError(f"An output must be writable. Received: {quoted(path)}, {error.strerror}. {way}.")


def check_regular(given: Path, path: Path) -> None:
    """Raises if something other than a regular file is there: writing would replace a device, a pipe or a folder.

    An open stream is refused, too: the file behind it may be another by now, or one without a name.
    """
    if any(_STREAM.fullmatch(str(hop)) for hop in _hops(given)):
        raise OutputError(
            f"An output must be a new or a regular file. Received: {quoted(given)}, an open stream of a process. "
            "Nothing was written. Pass the name of a file, or for standard output -o - or --report -."
        )
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _unusable(given, error) from error
        return  # Nothing is there yet; whether it can be created shows when it is written.
    if stat.S_ISREG(mode):
        return
    raise OutputError(
        f"An output must be a new or a regular file. Received: `{given}`, {kind(mode)}. Nothing was written. "
        "Pass the name of a file."
    )


def kind(mode: int) -> str:
    """Returns what something is that is not a regular file."""
    return next((name for test, name in _KINDS if test(mode)), "something else")


def check_distinct(places: tuple[Place, ...], inputs: tuple[Path, ...]) -> None:
    """Raises if two outputs are the same file, or if one is an input or lies in an input folder."""
    paths = [(place, followed(place.path)) for place in places]
    # A file that is new cannot be another name of what is read.
    read = dict(read_files(inputs)) if any(os.path.exists(path) for _, path in paths) else {}
    folders = [(given.resolve(), given) for given in inputs if os.path.isdir(given)]
    seen: dict[Identity, Place] = {}
    for place, path in paths:
        key = identity(path)
        other = read.get(key) or next((given for folder, given in folders if path.is_relative_to(folder)), None)
        if other is not None:
            raise OutputError(
                f"An output may not replace what is read. Received: {quoted(place.path)} ({place.option}), which is "
                f"part of {quoted(other)}. Choose another name for the output with {place.move}."
            )
        if key in seen:
            raise _same(seen[key], place, "the same file")
        seen[key] = place
    files = {path: place for place, path in paths}
    for place, path in paths:
        above = next((files[folder] for folder in path.parents if folder in files), None)
        if above is not None:
            raise _same(above, place, "where the first would have to be a folder")


def _same(one: Place, other: Place, how: str) -> OutputError:
    return OutputError(
        f"Each output must be a separate file. Received: {quoted(one.path)} ({one.option}) and {quoted(other.path)} "
        f"({other.option}), {how}. Give one of them another name."
    )


def read_files(inputs: Iterable[Path]) -> Iterator[tuple[Identity, Path]]:
    """Yields every file that is read, and the input that it is part of."""
    for given in inputs:
        for path in _files(given) if os.path.isdir(given) else (given,):
            yield identity(path), given


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files of a folder, also behind links, which may lead in a circle."""
    visited = set()
    for name, folders, names in os.walk(folder, followlinks=True):
        key = identity(Path(name))
        if key in visited:
            folders.clear()
            continue
        visited.add(key)
        yield from (Path(name, file) for file in names)


def identity(path: Path) -> Identity:
    """Returns what all names of a file have in common."""
    try:
        found = path.stat()
    except OSError:
        return os.path.realpath(path)
    return identity_of(found)


def identity_of(found: os.stat_result) -> Identity:
    """Returns the same from what the system says about a file."""
    return found.st_dev, found.st_ino

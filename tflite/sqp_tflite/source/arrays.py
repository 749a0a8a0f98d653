"""Arrays of an .npz or .npy file: their headers are read and added up before any array is."""

from __future__ import annotations

import contextlib
import io
import math
import struct
import tokenize
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import DataError, barred
from sqp_tflite.limits import Limit, in_words
from sqp_tflite.source import archives
from sqp_tflite.wording import LONGEST_NAME, harmless, said, shortened

ONLY_INPUT = "x"
"""What the array for an only input may be called, whatever the name of the input is."""

_NPY, _ZIP = b"\x93NUMPY", b"PK"
_SUFFIX = ".npy"
"""What NumPy adds to the name of each array in an .npz file."""

_VERSIONS = (1, 2, 3)
_LONGEST_HEADER = 10_000
"""NumPy's own limit; NumPy compares the header with it only after reading it, however long it says it is."""

_AGAIN = "Save it with numpy.savez(path, x=...)."

_UNREADABLE = (*archives.UNREADABLE, MemoryError, TypeError, KeyError, SyntaxError, tokenize.TokenError)
"""What NumPy raises on an array whose header is damaged or claims too much, or that is a pickle."""


@dataclass(frozen=True, slots=True)
class Header:
    """What an array's header declares: `begin` is where its numbers begin, `size` how many bytes they take."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    begin: int
    size: int

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


def read_arrays(path: Path, limit: Limit) -> dict[str, NDArray[Any]]:
    """Returns the arrays of an .npz file by name, or the one of an .npy file under "".

    Args:
        path: The file.
        limit: What they may take together.

    Raises:
        DataError: They take more, or the file is not one of plain arrays.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_NPY))
            if head == _NPY:
                return {"": _one(file, path, limit)}
            if not head.startswith(_ZIP):
                raise _no_npz(path, f"another kind of file, which begins with {head!r}" if head else "an empty file")
            with zipfile.ZipFile(file) as archive:
                archives.require(archive, f"`{path}`", _AGAIN, limit)
                return _all(archive, path)
    except PermissionError as error:
        raise DataError(barred(error)) from error
    except archives.UNREADABLE as error:
        raise _no_npz(path, said(getattr(error, "strerror", None) or error)) from error


def require(file: IO[bytes], what: str, again: str, limit: Limit) -> None:
    """Checks what the arrays of an .npz file declare; none of them is read.

    Args:
        file: The file.
        what: Names it in messages.
        again: How to repair it, a sentence.
        limit: What they may take together.

    Raises:
        DataError: They take more, or the file is damaged.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            archives.require(archive, what, again, limit)
            for entry in archive.infolist():
                _require_entry(archive, entry)
    except _UNREADABLE as error:
        raise DataError(f"{what} is damaged. Received: {said(error)}. {again}") from error


def _no_npz(path: Path, received: str) -> DataError:
    return DataError(f"`{path}` must be an .npz file of plain arrays. Received: {received}. {_AGAIN}")


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """Names the array whose header is damaged, claims more than there is, or asks for a pickle."""
    try:
        yield
    except _UNREADABLE as error:
        words = "a damaged header" if isinstance(error, (SyntaxError, tokenize.TokenError)) else said(error)
        raise DataError(
            f"{what} must be a plain array of numbers that fits in memory. Received: {words}. Save it again: "
            'numpy.savez(path, x=numpy.asarray(values, "float32")).'
        ) from error


def _one(file: IO[bytes], path: Path, limit: Limit) -> NDArray[Any]:
    with _named(f"`{path}`"):
        file.seek(0)
        found = header(file)
        _require_whole(found, path.stat().st_size)
        limit.require(found.size, f"`{path}` declares {found}, which takes", "Pass fewer samples")
        file.seek(0)
        return np.asarray(np.load(file, allow_pickle=False))


def _all(archive: zipfile.ZipFile, path: Path) -> dict[str, NDArray[Any]]:
    names: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(_SUFFIX)
        if not name or name == entry.filename or name in names:
            shown = f"`{shortened(harmless(entry.filename), LONGEST_NAME)}`"
            raise _no_npz(path, f"{shown} a second time" if name in names else f"a part that is called {shown}")
        names[name] = entry
    for name, entry in names.items():
        with _named(f"`{name}` in `{path}`"):
            _require_entry(archive, entry)
    return {name: _array(archive, entry, f"`{name}` in `{path}`") for name, entry in names.items()}


def _require_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    with archive.open(entry) as opened:
        _require_whole(header(opened), entry.file_size)


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, what: str) -> NDArray[Any]:
    with _named(what), archive.open(entry) as opened:
        return np.asarray(np.load(opened, allow_pickle=False))


def header(file: IO[bytes]) -> Header:
    """Returns the header of an array in the .npy format.

    Args:
        file: Open at the array's beginning; must be able to seek.

    Raises:
        ValueError: It is damaged, or not an array. NumPy raises other errors as well.
    """
    start = file.read(12)
    if start[:6] != _NPY:
        raise ValueError("something else than a NumPy array")
    if len(start) < 12:
        raise ValueError("a header that was cut short")
    if start[6] not in _VERSIONS:
        raise ValueError(f"the format version {start[6]}.{start[7]}, which NumPy does not read")
    old = start[6] == 1
    length = struct.unpack("<H" if old else "<I", start[8 : 10 if old else 12])[0]
    if length > _LONGEST_HEADER:
        raise ValueError(f"a header that declares {in_words(length)} for itself, more than NumPy reads")
    begin = (10 if old else 12) + length
    file.seek(0)
    text = io.BytesIO(file.read(begin))
    npy: Any = np.lib.format
    npy.read_magic(text)
    read = npy.read_array_header_1_0 if old else npy.read_array_header_2_0
    shape, _, dtype = read(text)
    if min(shape, default=0) < 0:
        raise ValueError(f"a header that declares the shape {shape}")
    if dtype.hasobject:
        raise ValueError("Python objects, which are not read")
    return Header(shape, dtype, begin, math.prod(shape) * dtype.itemsize)


def _require_whole(found: Header, present: int) -> None:
    if found.begin + found.size > present:
        raise ValueError(f"a header that declares {found}, {in_words(found.size)}, in a file of {in_words(present)}")

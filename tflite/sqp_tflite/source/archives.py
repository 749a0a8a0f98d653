"""Zip archives, which `.keras` and `.npz` files are: their declared sizes are compared with a limit and counted."""

from __future__ import annotations

import copy
import lzma
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator

from sqp_tflite.errors import ModelFileError
from sqp_tflite.limits import Limit, in_words

UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""What Python raises while it reads a damaged archive."""

_METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
"""What Keras and NumPy write. Python unpacks other methods in one piece, however large it is."""

_ENCRYPTED = 1
_PIECE = 1 << 20


def require(archive: zipfile.ZipFile, what: str, again: str, limit: Limit) -> None:
    """Checks what an archive declares, before any of it is unpacked.

    Args:
        archive: The opened archive.
        what: Names it in messages.
        again: How to write it in a readable way, a sentence.
        limit: What all entries together may take.

    Raises:
        ModelFileError: An entry is encrypted or compressed in another way than Keras and NumPy do, or they take more.
    """
    entries = archive.infolist()
    for entry in entries:
        if entry.flag_bits & _ENCRYPTED:
            raise ModelFileError(f"{what} must not be encrypted. Received: `{entry.filename}` with a password. {again}")
        if entry.compress_type not in _METHODS:
            raise ModelFileError(
                f"{what} must be stored, or compressed by deflate. Received: `{entry.filename}`, compressed by method "
                f"{entry.compress_type} of the zip format. {again}"
            )
    total = sum(entry.file_size for entry in entries)
    count = f"{len(entries)} part" + ("s" if len(entries) > 1 else "")
    limit.require(total, f"{what} declares {count} that unpack to", "Make the file smaller")


def pieces(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yields an entry's content in pieces of about a megabyte, and counts: the archive's directory may lie.

    Raises:
        zipfile.BadZipFile: It unpacks to more or less than the directory says, or its checksum is wrong.
    """
    # A reader that goes by the directory stops at the declared size, and takes the checksum of what came before.
    whole = copy.copy(entry)
    whole.file_size = sys.maxsize
    count = 0
    with archive.open(whole) as opened:
        while count <= entry.file_size and (piece := opened.read(_PIECE)):
            count += len(piece)
            yield piece
    if count != entry.file_size:
        more = "more" if count > entry.file_size else f"only {in_words(count)}"
        raise zipfile.BadZipFile(
            f"`{entry.filename}` declares {in_words(entry.file_size)} in the archive's directory and holds {more}"
        )


def content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Returns an entry's content; see `pieces`."""
    return b"".join(pieces(archive, entry))

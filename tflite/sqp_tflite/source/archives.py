"""Zip archives, which `.keras` and `.npz` files are: what makes one unreadable."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib

from sqp_tflite.errors import BadInputError

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

_METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
_ENCRYPTED = 1


def require_plain(archive: zipfile.ZipFile, what: str, again: str) -> None:
    """Raises `BadInputError` if an entry is encrypted, or compressed by a method that Python does not have.

    Args:
        archive: The opened archive.
        what: Names it in the message.
        again: How to write it in a readable way, a sentence.
    """
    for entry in archive.infolist():
        if entry.flag_bits & _ENCRYPTED:
            raise BadInputError(f"{what} must not be encrypted. Received: `{entry.filename}` with a password. {again}")
        if entry.compress_type not in _METHODS:
            raise BadInputError(
                f"{what} must be stored, or compressed by deflate, bzip2 or LZMA. Received: `{entry.filename}`, "
                f"compressed by method {entry.compress_type} of the zip format. {again}"
            )

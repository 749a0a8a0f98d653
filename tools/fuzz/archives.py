"""Edits of zip archives: `.keras` files and `.npz` files, with the arrays inside."""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from random import Random
from typing import Any

import numpy as np

from tools.fuzz.hdf5 import edit_hdf5
from tools.fuzz.records import PAYLOAD, plain
from tools.fuzz.values import REALS, TEXTS, edit_bytes, edit_tree, value

Members = list[tuple[str, bytes]]


def members(content: bytes) -> Members:
    """Returns (name, content) of an archive's members."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def archive(held: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    """Returns an archive; names may repeat. All members have one date: the bytes depend on nothing else."""
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", method) as target:
        warnings.simplefilter("ignore", UserWarning)  # Of a name that repeats.
        for name, content in held:
            entry = zipfile.ZipInfo(name.encode("utf-8", "replace").decode("utf-8") or "none")
            entry.compress_type = method
            target.writestr(entry, content)
    return made.getvalue()


def edit_keras(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns a `.keras` file with one thing changed, and what that was."""
    way = rng.choices(("config", "weights", "members", "headers", "bytes", "json"), (10, 4, 3, 2, 2, 2))[0]
    if way in _WHOLE:
        return _WHOLE[way](rng, content)
    held = members(content)
    if way == "members":
        held, what = _edit_members(rng, held)
        return archive(held, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))), what
    name, edit = {
        "config": ("config.json", _edit_config),
        "weights": ("model.weights.h5", edit_hdf5),
        "json": (rng.choice(("config.json", "metadata.json")), _edit_json_text),
    }[way]
    changed, what = edit(rng, dict(held)[name])
    return archive([(n, changed if n == name else c) for n, c in held]), f"{name}: {what}"


def edit_npz(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns an `.npz` file with one thing changed, and what that was."""
    way = rng.choices(("array", "npy", "members", "headers", "bytes", "method"), (8, 6, 3, 2, 2, 1))[0]
    if way in _WHOLE:
        return _WHOLE[way](rng, content)
    held = members(content)
    if way == "method":
        method = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        return archive(held, method), f"compressed by method {method}"
    if way == "members":
        held, what = _edit_members(rng, held, (*TEXTS, "y.npy", "x.npy", "x", "allow_pickle.npy", "file.npy"))
        return archive(held), what
    place = rng.randrange(len(held))
    name, old = held[place]
    changed, what = _edit_array(rng, old) if way == "array" else edit_npy(rng, old)
    held[place] = (name, changed)
    return archive(held), f"{name}: {what}"


def edit_zip_headers(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns an archive with another number in one field: in the directory, at the member, or in both."""
    field, size, local = rng.choice(tuple(_FIELDS.items()))[1]
    made, number = bytearray(content), rng.choice((0, 1, 8, 9, 12, 14, 99, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF))
    written = struct.pack("<I", number)[:size]
    starts = [(b"PK\x01\x02", field)] + ([(b"PK\x03\x04", local)] if local is not None else [])
    chosen = rng.choice((starts[:1], starts[-1:], starts))
    which = rng.randrange(4)
    for mark, offset in chosen:
        found = [i for i in range(len(made) - 46) if made[i : i + 4] == mark]
        if found:
            place = found[which % len(found)] + offset
            made[place : place + size] = written
    return bytes(made), f"zip header field at {field} = {number}"


_FIELDS = {
    "version": (6, 2, 4),
    "flags": (8, 2, 6),
    "method": (10, 2, 8),
    "date": (14, 2, 12),
    "crc": (16, 4, 14),
    "packed": (20, 4, 18),
    "size": (24, 4, 22),
    "name length": (28, 2, 26),
    "extra length": (30, 2, 28),
    "comment length": (32, 2, None),
    "disk": (34, 2, None),
    "offset": (42, 4, None),
}
"""Of a member: (place in the directory, bytes, place before the member itself)."""


def _edit_members(rng: Random, held: Members, names: tuple[str, ...] = TEXTS) -> tuple[Members, str]:
    held = list(held)
    place = rng.randrange(len(held))
    name, content = held[place]
    way = rng.choice(("drop", "empty", "twice", "swap", "rename", "add", "junk", "none", "folder"))
    if way == "drop":
        del held[place]
    elif way == "twice":
        held.append((name, rng.choice((content, b"", b"{}"))))
    elif way == "swap":
        held[place] = (name, held[rng.randrange(len(held))][1])
    elif way == "rename":
        held[place] = (rng.choice(names), content)
    elif way == "add":
        held.append((rng.choice((*names, "assets/words.txt", "assets/../../../up", f"../{PAYLOAD}")), b"x"))
    elif way == "none":
        held = []
    elif way == "folder":
        held[place] = (f"{name}/", b"")
    else:
        held[place] = (name, b"" if way == "empty" else rng.randbytes(200))
    return held, f"members: {way} {plain(name)}"


def _edit_config(rng: Random, content: bytes) -> tuple[bytes, str]:
    tree, said = json.loads(content), []
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        tree, what = edit_tree(rng, tree)
        said.append(what)
    return json.dumps(tree).encode(), "; ".join(said)


def _edit_json_text(rng: Random, content: bytes) -> tuple[bytes, str]:
    text = content.decode()
    made, what = rng.choice(
        (
            (text.encode("utf-16"), "as UTF-16"),
            (b"\xef\xbb\xbf" + content, "with a byte order mark"),
            (content.replace(b'"', b'"\xff', 3), "not UTF-8"),
            (json.dumps(value(rng)).encode(), "another value"),
            (b"[" * 100_000 + b"]" * 100_000, "nested 100,000 deep"),
            (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested 5,000 deep"),
            (content + content, "twice"),
            (b"1" * 10_000, "a number of 10,000 digits"),
            (text.replace(": ", ": NaN, ", 1).encode(), "NaN"),
            (edit_bytes(rng, content)[0], "bytes"),
        )
    )
    return made, what


def _edit_array(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Writes another array in the place of one: its type, shape or values."""
    array = np.load(io.BytesIO(content))
    way = rng.choice(("dtype", "shape", "values", "values", "pickle", "text"))
    if way == "dtype":
        kind = rng.choice(
            "float16 >f4 float64 longdouble complex64 int8 uint8 int64 uint64 bool S8 U8 M8[s] m8[D] V8 i4,f4".split()
        )
        with np.errstate(all="ignore"):
            array, what = np.zeros(array.shape, kind) if kind[0] in "MmVi4" else array.astype(kind), kind
    elif way == "shape":
        made = [array.T, array[:0], array[0], array.reshape(-1), array[None], array[:1], array.repeat(3, 0),
                array.astype("f4").sum(), np.zeros((0, 0, 0)), array[..., :1], np.asfortranarray(array)]  # fmt: skip
        array = made[rng.randrange(len(made))]
        what = f"shape {array.shape}"
    elif way == "values":
        number = rng.choice((*REALS, 1e30, -5.0, 300.0))
        array = array.astype("f8" if abs(number) > 1e38 else "f4")
        array[rng.choice((0, slice(None), -1, slice(None, None, 2)))] = number
        what = f"values {number}"
    elif way == "pickle":
        array, what = np.array([_Payload()], dtype=object), "a pickle that runs code"
    else:
        array, what = np.array(rng.sample(TEXTS, 8)), "texts"
    made = io.BytesIO()
    np.save(made, array, allow_pickle=True)
    return made.getvalue(), what


class _Payload:
    """Creates the payload's file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (PAYLOAD, "w")


def edit_npy(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns an `.npy` file with another header, or with its bytes changed."""
    if rng.random() < 0.3 or content[:6] != b"\x93NUMPY":
        return edit_bytes(rng, content)
    size = struct.unpack("<H", content[8:10])[0]
    header, data = content[10 : 10 + size].decode("latin-1"), content[10 + size :]
    fields = rng.choice(
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (1000000, 1000000, 4), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2.5, 4), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 8, }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (8, " + "4, " * 70 + "), }",
            "{'descr': '<f4', 'fortran_order': 'no', 'shape': (8, 4), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (8,), }",
            "{'descr': 'nonsense', 'fortran_order': False, 'shape': (8,), }",
            "{'descr': '<f4000000000', 'fortran_order': False, 'shape': (8,), }",
            "{'descr': '|V2000000000', 'fortran_order': False, 'shape': (8,), }",
            "{'descr': '<U500000000', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (8,), }",
            "{'descr': '<f4'}",
            "__import__('os').mkdir('" + PAYLOAD + "')",
            "(" * 3000,
            "{}",
            "",
            "\x00" * 50,
            header.replace("4", "5"),
        )
    )
    version = rng.choice(((1, 0), (1, 0), (1, 0), (2, 0), (3, 0), (9, 9)))
    length = len(fields) + rng.choice((0, 0, 0, 0, 5, -5, 60_000))
    packed = struct.pack("<H" if version[0] == 1 else "<I", max(0, min(65_535, length)))
    made = b"\x93NUMPY" + bytes(version) + packed + fields.encode("latin-1")
    return made + data, f"header {plain(fields)}, version {version}"


_WHOLE = {"bytes": edit_bytes, "headers": edit_zip_headers}
"""Edits that need to know nothing of what is in an archive."""

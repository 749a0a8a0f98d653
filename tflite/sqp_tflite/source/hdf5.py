"""HDF5 files, which `.h5` files and the weights of `.keras` files are: read once in a child before Keras reads them.

The HDF5 library is native code that trusts what it reads. In a damaged file it may follow a list for ever or crash; in
a child process that is a message.
"""

from __future__ import annotations

import contextlib
import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqp_tflite.errors import CrashedError, ModelFileError
from sqp_tflite.limits import Limit
from sqp_tflite.source import archives
from sqp_tflite.wording import LONGEST_NAME, said, shortened
from sqp_tflite.worker import lent, may_fork

BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)
"""What h5py raises on a damaged file."""

_SECONDS = 30.0
_BYTES_A_SECOND = 5 << 20
"""A file that is not read in `_SECONDS` and a second for each so many bytes has no end. A disk reads twenty times as
much."""

_ROWS = 1 << 24
"""Elements of a dataset that are read at once."""


def require(path: Path, limit: Limit, member: str = "") -> None:
    """Checks what the datasets and attributes of an HDF5 file declare, and that all of it can be read to its end.

    A dataset may declare any shape: it takes no room in the file before it is written, or is compressed.

    Args:
        path: Of the file, or of the zip archive that it is in.
        limit: What all of them may take together.
        member: Its name in the archive.

    Raises:
        ModelFileError: They take more, or refer to other files, or the file is damaged.
    """
    source = f"{path}: {member}" if member else str(path)
    seconds = _SECONDS + path.stat().st_size / _BYTES_A_SECOND
    with lent("hdf5", ("sqp_tflite.source.hdf5", "h5py"), fork=may_fork()) as worker:
        try:
            worker.call("sqp_tflite.source.hdf5:read", path.absolute(), member, source, limit, timeout=seconds)
        except CrashedError as error:
            how = f"the HDF5 library crashed, or did not come to an end in {seconds:.0f} s, while it read it"
            raise damaged(source, how) from error


def damaged(source: str, how: str) -> ModelFileError:
    """Returns what to say about an HDF5 file that cannot be read.

    Args:
        source: Its name in messages.
        how: What was met.
    """
    return ModelFileError(
        f"`{source}` is a damaged HDF5 file. Received: {how}. It may have been cut short: copy or save it again."
    )


def read(path: Path, member: str, source: str, limit: Limit) -> None:
    """Does the work of `require`; runs in the child.

    Args:
        path: As in `require`.
        member: As in `require`.
        source: The name in messages.
        limit: As in `require`.
    """
    import h5py

    try:
        with contextlib.ExitStack() as stack:
            file = path if not member else io.BytesIO(_inside(path, member))
            opened = stack.enter_context(h5py.File(file, "r"))
            items = dict(_items(opened, source))
            sizes = {name: _size(item) for name, item in items.items()}
            # An attribute of any length holds a reference; the text is in the file, where nothing is compressed.
            texts = int(opened.id.get_filesize())
            largest = max(sizes, key=lambda name: sizes[name])
            whole = max(sum(sizes.values()), texts)
            limit.require(whole, f"`{source}` (mostly `{largest}`) declares weights and attributes of")
            for item in items.values():
                _read(item)
    except BROKEN as error:
        raise damaged(source, said(error)) from error


def _inside(path: Path, member: str) -> bytes:
    with zipfile.ZipFile(path) as held:
        return archives.content(held, held.getinfo(member))


def _items(opened: Any, source: str) -> Iterator[tuple[str, Any]]:
    """Yields every group and dataset once, with its path."""
    import h5py

    seen: set[Any] = set()
    waiting: list[tuple[str, Any]] = [("", opened)]
    while waiting:
        path, item = waiting.pop()
        place = h5py.h5o.get_info(item.id).addr
        if place in seen:
            continue
        seen.add(place)
        yield path or "/", item
        if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
            raise _elsewhere(source, path)
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "c":
            raise ModelFileError(
                f"Weights must be real numbers. Received: `{source}`, whose `{shortened(path, LONGEST_NAME)}` is "
                f"{item.dtype}. Build the model with real weights and save it again."
            )
        for name in item if isinstance(item, h5py.Group) else ():
            link = item.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise _elsewhere(source, f"{path}/{name}")
            if isinstance(link, h5py.HardLink):  # What a soft link leads to has a hard one, or isn't there.
                waiting.append((f"{path}/{name}", item[name]))


def _elsewhere(source: str, path: str) -> ModelFileError:
    return ModelFileError(
        f"A model file must hold all its weights. Received: `{source}`, whose `{path}` is in another file. Save the "
        "model again with model.save('model.keras')."
    )


def _size(item: Any) -> int:
    """Returns the bytes that one group or dataset declares, attributes included."""
    import h5py

    size = 0
    for name in item.attrs:
        held = item.attrs.get_id(name)
        size += math.prod(held.shape or ()) * int(held.get_type().get_size())
    if isinstance(item, h5py.Dataset) and item.shape is not None:
        # Even one element is read with its whole chunk.
        elements = max(math.prod(item.shape), math.prod(item.chunks) if item.chunks else 0)
        size += elements * int(item.id.get_type().get_size())
    return size


def _read(item: Any) -> None:
    """Reads attributes and values and forgets them; what is not readable, the reader who needs it says."""
    import h5py

    for name in item.attrs:
        with contextlib.suppress(*BROKEN):
            item.attrs[name]
    if not isinstance(item, h5py.Dataset) or not item.shape:
        return
    rows = max(1, _ROWS // max(1, math.prod(item.shape[1:])))
    with contextlib.suppress(*BROKEN):
        for first in range(0, item.shape[0], rows):
            item[first : first + rows]

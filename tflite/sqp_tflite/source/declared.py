"""What a model file declares, held against the limit before it is read: weights, attributes, constants."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from sqp_tflite.errors import BadInputError
from sqp_tflite.limits import Limit
from sqp_tflite.source import archives, arrays, saved_model_code
from sqp_tflite.wording import said

_PARSED = 32
"""JSON takes up to this many times its length as Python objects: `[]` and a comma become a list of 56 bytes and its
place in another one."""

BROKEN_H5 = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)
"""What h5py raises on a damaged file."""


def require_json(length: int, what: str, limit: Limit) -> None:
    """Checks that the objects of a JSON text fit into memory.

    Args:
        length: Of the text.
        what: What it is and where, for messages.
        limit: What its objects may take.

    Raises:
        BadInputError: It is too long.
    """
    limit.require(length * _PARSED, f"{what} has {length:,} characters, which may take", "Make it shorter")


def require_h5(file: Path | IO[bytes], source: str, limit: Limit) -> None:
    """Checks what the datasets and attributes of an HDF5 file declare; none of them is read.

    A dataset may declare any shape: it takes no room in the file before it is written, or is compressed.

    Args:
        file: Its path, or the file itself.
        source: Its name in messages.
        limit: What all of them may take together.

    Raises:
        BadInputError: They take more, or refer to other files, or the file is damaged.
    """
    import h5py

    try:
        with h5py.File(file, "r") as opened:
            sizes = {name: _size(item) for name, item in _items(opened, source)}
            # An attribute of any length holds a reference; the text is in the file, where nothing is compressed.
            texts = int(opened.id.get_filesize())
    except BROKEN_H5 as error:
        raise damaged_h5(source, error) from error
    largest = max(sizes, key=lambda name: sizes[name])
    limit.require(
        max(sum(sizes.values()), texts),
        f"`{source}` (mostly `{largest}`) declares weights and attributes of",
        "Make it smaller",
    )


def damaged_h5(source: str, error: Exception) -> BadInputError:
    """Returns what to say about an HDF5 file that h5py cannot read.

    Args:
        source: Its name in messages.
        error: One of `BROKEN_H5`.
    """
    return BadInputError(
        f"`{source}` is a damaged HDF5 file. Received: {said(error)}. It may have been cut short: copy or save it "
        "again."
    )


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
        for name in item if isinstance(item, h5py.Group) else ():
            link = item.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise _elsewhere(source, f"{path}/{name}")
            if isinstance(link, h5py.HardLink):  # What a soft link leads to has a hard one, or isn't there.
                waiting.append((f"{path}/{name}", item[name]))


def _elsewhere(source: str, path: str) -> BadInputError:
    return BadInputError(
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


def require_saved_model(folder: Path, limit: Limit) -> None:
    """Checks what the graph and the variables of a SavedModel declare, before TensorFlow makes them.

    Args:
        folder: Of the SavedModel.
        limit: What they may take.

    Raises:
        BadInputError: They take more, or cannot be read.
    """
    path = folder / "saved_model.pb"
    limit.require(path.stat().st_size, f"`{path}` has", "Make it smaller")
    graphs = saved_model_code.meta_graphs(folder)
    constants = sum(_tensors(graph.graph_def) for graph in graphs)
    limit.require(constants, f"`{path}` declares constants of", "Make it smaller")
    variables = sum(_bytes(node.variable) for graph in graphs for node in graph.object_graph_def.nodes)
    limit.require(max(variables, _stored(folder)), f"`{folder}` declares variables of", "Make it smaller")


def _tensors(graph_def: Any) -> int:
    """Returns the bytes of all constants: one number may stand for a tensor of any shape."""
    functions = (function.node_def for function in graph_def.library.function)
    return sum(
        _bytes(tensor, "tensor_shape")
        for nodes in (graph_def.node, *functions)
        for node in nodes
        for value in node.attr.values()
        for tensor in ([value.tensor] if value.HasField("tensor") else value.list.tensor)
    )


def _bytes(declared: Any, shape: str = "shape") -> int:
    import tensorflow as tf

    dims = [dim.size for dim in getattr(declared, shape).dim]
    try:
        kind = tf.as_dtype(declared.dtype) if declared.dtype else tf.float32
        return math.prod(max(size, 0) for size in dims) * _width(kind)
    except TypeError:  # A number that no type has; TensorFlow says so when it loads the file.
        return 0


def _width(kind: Any) -> int:
    return int(getattr(kind, "size", 0) or 1)


def _stored(folder: Path) -> int:
    """Returns the bytes that the index of the variables declares, 0 without variables."""
    import tensorflow as tf

    prefix = folder / "variables" / "variables"
    if not prefix.with_suffix(".index").exists():
        return 0
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    except (tf.errors.OpError, ValueError, RuntimeError, OSError) as error:
        raise BadInputError(
            f"The variables of `{folder}` cannot be read. Received: {said(error)}. They may have been cut short: copy "
            "or save the model again."
        ) from error
    return sum(_product(shape) * _width(kinds[name]) for name, shape in shapes.items())


def _product(shape: Iterable[Any]) -> int:
    return math.prod(int(size or 0) for size in shape)


def require_member(held: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, again: str, limit: Limit) -> None:
    """Reads one part of a .keras archive in pieces, which tells whether it is whole, and looks at weights in it.

    Args:
        held: The archive.
        info: The part.
        path: Of the archive, for messages.
        again: How to repair it, a sentence.
        limit: What the weights may take.

    Raises:
        BadInputError: They take more, or are damaged.
        zipfile.BadZipFile: The part is not what the archive's directory says.
    """
    if not info.filename.endswith((".h5", ".npz")):
        for _ in archives.pieces(held, info):
            pass
        return
    inside = io.BytesIO(archives.content(held, info))
    if info.filename.endswith(".h5"):
        require_h5(inside, f"{path}: {info.filename}", limit)
    else:
        arrays.require(inside, f"`{path}: {info.filename}`", again, limit)


class Weights:
    """Adds up the weights that a configuration asks for.

    Attributes:
        refusal: What was raised at the first one that does not fit: Keras passes on only its text.
    """

    def __init__(self, path: Path, limit: Limit):
        self.refusal: BadInputError | None = None
        self._path, self._limit, self._size = path, limit, 0

    def add(self, size: int) -> None:
        """Takes one more weight of so many bytes into account."""
        self._size += size
        try:
            self._limit.require(
                self._size, f"the configuration of `{self._path}` asks for weights of", "Make it smaller"
            )
        except BadInputError as error:
            self.refusal = self.refusal or error
            raise

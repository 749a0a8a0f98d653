"""What a model file declares, held against the limit before it is read: weights, configurations, constants."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqp_tflite.errors import BadInputError, ModelFileError
from sqp_tflite.files import check_input
from sqp_tflite.limits import Limit
from sqp_tflite.source import archives, arrays, hdf5, saved_model_code
from sqp_tflite.wording import said

_PARSED = 32
"""JSON takes up to this many times its length as Python objects: `[]` and a comma become a list of 56 bytes and its
place in another one."""


def require_json(length: int, what: str, limit: Limit) -> None:
    """Checks that the objects of a JSON text fit into memory.

    Args:
        length: Of the text.
        what: What it is and where, for messages.
        limit: What its objects may take.

    Raises:
        ModelFileError: It is too long.
    """
    limit.require(length * _PARSED, f"{what} has {length:,} characters, which may take", "Make it shorter")


def require_saved_model(folder: Path, limit: Limit) -> None:
    """Checks what the graph and the variables of a SavedModel declare, before TensorFlow makes them.

    Args:
        folder: Of the SavedModel.
        limit: What they may take.

    Raises:
        ModelFileError: They take more, or cannot be read, or something in the folder is no regular file.
    """
    for part in sorted(folder.rglob("*")):
        check_input(part, "Save the model again.")
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
    except (tf.errors.OpError, ValueError, LookupError, RuntimeError, OSError) as error:
        raise ModelFileError(
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
        ModelFileError: They take more, or are damaged.
        zipfile.BadZipFile: The part is not what the archive's directory says.
    """
    if info.filename.endswith(".npz"):
        arrays.require(io.BytesIO(archives.content(held, info)), f"`{path}: {info.filename}`", again, limit)
        return
    for _ in archives.pieces(held, info):
        pass
    if info.filename.endswith(".h5"):
        hdf5.require(path, limit, info.filename)


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

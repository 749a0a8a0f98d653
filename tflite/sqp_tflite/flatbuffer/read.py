"""Bytes of a TFLite file to an immutable `Graph`."""

from __future__ import annotations

import functools
import hashlib
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqp_tflite import accept
from sqp_tflite.errors import TFLiteFileError, barred
from sqp_tflite.files import Content, check_input, content_by
from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.graph import Graph, Op, Quantization, Signature, Subgraph, Tensor
from sqp_tflite.limits import Limit, limit
from sqp_tflite.wording import LONGEST_NAME, harmless, shortened

_DTYPE_BY_OUTPUT = ("GATHER", "GATHER_ND", "SELECT", "SELECT_V2", "EMBEDDING_LOOKUP", "TRANSPOSE_CONV", "ONE_HOT")
"""Ops whose first computed input is an index, a condition or a shape: the output has the type that matters."""

_MOST_TABLES = 1_000_000
"""The verifier of TFLite's own runtime reads no more tables than this."""

_LEAST_ELEMENTS = 1 << 20
"""A file may declare this many elements of shapes, scales and names whatever its size, and four times its size: a
writer may let equal parts share a place, but not all of them."""

Ends = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]
"""The inputs and the outputs of a file."""

_GIVEN = "`source`"
"""What messages call bytes that were passed to `read`."""

_BROKEN = (struct.error, ValueError, IndexError, TypeError, AttributeError, KeyError, OverflowError, MemoryError)
"""What the schema's reader raises on bytes that are not a flatbuffer, or only the beginning of one."""


def read(source: bytes | str | os.PathLike[str], *, max_memory: int | str | None = None) -> Graph:
    """Returns the graph of a TFLite file.

    Args:
        source: The file's bytes, or its path.
        max_memory: Bytes that a file may have, also with a unit, "2G"; None for an eighth of the free memory.

    Raises:
        TFLiteFileError: Neither bytes nor a path, no such file, not a TFLite file, one that was cut short, or one that
            is too large.
    """
    allowed = limit(accept.optional(accept.size)("`max_memory`", max_memory))
    content, what = bytes_of(source, allowed=allowed)
    return _read(content) if what == _GIVEN else opened(content, what)[1]


@functools.lru_cache(maxsize=2)
def _read(content: bytes) -> Graph:
    """Returns the graph of the bytes that one step after another asks about: it is immutable."""
    return opened(content, _GIVEN)[1]


def ends(content: bytes) -> Ends:
    """Returns the inputs and outputs of a file that was read before, without the data of an output that is a constant.

    Args:
        content: The file, of which nothing else is unpacked.
    """
    inputs, outputs = (
        tuple(_tensor(place, tensor, None, told=False) for place, tensor in found) for found in schema.ends(content)
    )
    return inputs, outputs


def bytes_of(source: Any, name: str = _GIVEN, allowed: Limit | None = None) -> tuple[bytes, str]:
    """Returns a file's content, and what messages call the file.

    Args:
        source: Its bytes, or its path.
        name: The parameter that it was passed as.
        allowed: How large a file may be; None for the limit of this machine.

    Raises:
        TFLiteFileError: Neither bytes nor a path, no such file, or one that is too large.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), name
    if not isinstance(source, (str, os.PathLike)):
        accept.refuse(name, "the path of a TFLite file, or its bytes", source, "Pass e.g. 'model.tflite'.")
    path = accept.path(name, source)
    return _file(path, allowed or limit()), accept.quoted(path)


def opened(content: bytes, what: str = "the content") -> tuple[Any, Graph]:
    """Returns a file in the schema's object form (a `ModelT`) and as a graph, unpacked once for both.

    Args:
        content: The file.
        what: Names it in errors.

    Raises:
        TFLiteFileError: Not a TFLite file, or one that was cut short.
    """
    if content[4:8] != b"TFL3":
        raise TFLiteFileError(
            f"{what} is not a TFLite file: bytes 4 to 8 must be `TFL3`. Received: {content[4:8]!r}, "
            f"{len(content)} bytes. {_hint(content)}"
        )
    try:
        with schema.quickly():
            _require_plausible(content, what)
            model = schema.unpack(content)
            graph = _graph(model, content)
        _check_signatures(graph)
        _require_whole(graph, what)
        return model, graph
    except _BROKEN as error:
        raise TFLiteFileError(
            f"{what} begins like a TFLite file and is damaged. Received: {len(content)} bytes, in which "
            "offsets point past the end or at something that is not a table. It may have been cut short in a copy: "
            "fetch or export it again."
        ) from error


def subgraph(model: Any, place: int) -> Subgraph:
    """Returns one graph of a `ModelT` as it is now.

    Args:
        model: The schema's object form.
        place: Of the graph; 0 for the main one.
    """
    graph = model.subgraphs[place]
    # Converters before 2022 do not write that a shape of no dimensions is one.
    told = any(tensor.hasRank for tensor in graph.tensors or ())
    given = enumerate(graph.tensors or ())
    tensors = tuple(_tensor(i, tensor, _data(model, tensor.buffer), told) for i, tensor in given)
    made = Subgraph(
        name=schema.text(graph.name),
        tensors=tensors,
        ops=tuple(
            _op(i, op, model.operatorCodes[op.opcodeIndex], tensors) for i, op in enumerate(graph.operators or ())
        ),
        inputs=_integers(graph.inputs),
        outputs=_integers(graph.outputs),
    )
    _check_indices(made)
    return made


def _check_indices(graph: Subgraph) -> None:
    """Raises `IndexError` if something refers to a tensor that is not there; an omitted input (-1) is none."""
    needed = {*graph.inputs, *graph.outputs, *(index for op in graph.ops for index in op.outputs)}
    given = {index for op in graph.ops for index in (*op.inputs, *op.intermediates)} - {-1}
    for index in needed | given:
        if not 0 <= index < len(graph.tensors):
            raise IndexError(f"tensor {index} of {len(graph.tensors)}")


def _check_signatures(graph: Graph) -> None:
    """Raises `IndexError` if a signature refers to a graph or to a tensor that is not there."""
    for signature in graph.signatures:
        tensors = graph.subgraphs[signature.subgraph].tensors
        for index in (*signature.inputs.values(), *signature.outputs.values()):
            if not 0 <= index < len(tensors):
                raise IndexError(f"tensor {index} of {len(tensors)}")


def _hint(content: bytes) -> str:
    what = content_by(content[:512])
    if what is not Content.OTHER:
        return f"It holds {what.value}, which sqp-export and sqp-check take as --data. Pass a .tflite file."
    if content[:4] == b"PK\x03\x04" or content[:4] == b"\x89HDF":
        return "It looks like a Keras model: export it with sqp-export, or name the .tflite file in its place."
    return "Pass a .tflite file."


def _require_plausible(content: bytes, what: str) -> None:
    """Raises if the file declares more than it can hold: parts may share a place, and so declare it many times."""
    tables = elements = 0
    most = max(_LEAST_ELEMENTS, 4 * len(content))
    for more_tables, more_elements in schema.lengths(content):
        tables, elements = tables + more_tables, elements + more_elements
        if tables > _MOST_TABLES or elements > most:
            raise TFLiteFileError(
                f"{what} declares more than it can hold. Received: {len(content):,} bytes that declare {tables:,} "
                f"operators and tensors or more, with {elements:,} elements; the most that is read is "
                f"{_MOST_TABLES:,} with {most:,}. It may be damaged: fetch or export it again."
            )


def _require_whole(graph: Graph, what: str) -> None:
    """Raises if a constant is not as long as its shape and type say, which interpreters would read past its end."""
    for tensor in (tensor for one in graph.subgraphs for tensor in one.tensors):
        if min(tensor.shape, default=0) < 0:
            name = shortened(harmless(tensor.name), LONGEST_NAME)
            raise TFLiteFileError(
                f"{what} is damaged: a shape must have sizes of 0 or more. Received: `{name}` with "
                f"{shortened(str(tensor.shape), LONGEST_NAME)}. Fetch or export it again."
            )
        if tensor.constant and tensor.declared_bytes not in (None, tensor.constant_bytes):
            name = shortened(harmless(tensor.name), LONGEST_NAME)
            raise TFLiteFileError(
                f"{what} is damaged: a constant must hold the elements of its shape. Received: `{name}`, "
                f"{tensor.dtype} {shortened(str(tensor.shape), LONGEST_NAME)}, which takes "
                f"{tensor.declared_bytes:,} bytes, with {tensor.constant_bytes:,}. Fetch or export it again."
            )


def _file(path: Path, allowed: Limit) -> bytes:
    check_input(path, "Pass a .tflite file.")
    try:
        allowed.require(path.stat().st_size, f"{accept.quoted(path)} has")
        return path.read_bytes()
    except IsADirectoryError as error:
        raise TFLiteFileError(
            f"{accept.quoted(path)} must be a TFLite file. Received: a folder. Pass the path of the file in it."
        ) from error
    except OSError as error:
        said = barred(error) or f"{accept.quoted(path)} cannot be read: {error.strerror}. Check the path."
        raise TFLiteFileError(said) from error


def _graph(model: Any, content: bytes) -> Graph:
    return Graph(
        subgraphs=tuple(subgraph(model, place) for place in range(len(model.subgraphs))),
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        schema_version=model.version,
        description=schema.text(model.description),
        signatures=tuple(_signature(signature) for signature in model.signatureDefs or ()),
        metadata=MappingProxyType(
            {schema.text(item.name): bytes(_data(model, item.buffer) or b"") for item in model.metadata or ()}
        ),
    )


def _signature(signature: Any) -> Signature:
    return Signature(
        key=schema.text(signature.signatureKey),
        inputs=_indices(signature.inputs or ()),
        outputs=_indices(signature.outputs or ()),
        subgraph=int(signature.subgraphIndex),
    )


def _indices(maps: Iterable[Any]) -> Mapping[str, int]:
    return MappingProxyType({schema.text(item.name): int(item.tensorIndex) for item in maps})


def _data(model: Any, place: int) -> memoryview | None:
    data = model.buffers[place].data
    return memoryview(data) if data is not None and len(data) else None


def _tensor(index: int, tensor: Any, data: memoryview | None, told: bool) -> Tensor:
    shape = _integers(tensor.shape)
    return Tensor(
        index=index,
        name=schema.text(tensor.name),
        shape=shape,
        dtype=schema.names("TensorType")[tensor.type].lower(),
        quantization=_quantization(tensor.quantization),
        data=data,
        open=tuple(place for place, dim in enumerate(_integers(tensor.shapeSignature)) if dim < 0),
        variable=bool(tensor.isVariable),
        sparse=tensor.sparsity is not None,
        ranked=bool(shape or not told or tensor.hasRank or data is not None),
    )


def _quantization(parameters: Any) -> Quantization | None:
    if parameters is None or parameters.scale is None or not len(parameters.scale):
        return None
    scales = tuple(float(scale) for scale in parameters.scale)
    points = _integers(parameters.zeroPoint) or (0,) * len(scales)
    return Quantization(scales, points, int(parameters.quantizedDimension))


def _op_name(code: Any) -> str:
    number = schema.op_number(code)
    name = schema.names("BuiltinOperator").get(number, f"UNKNOWN_{number}")
    return f"CUSTOM:{schema.text(code.customCode)}" if name == "CUSTOM" else name


def _op(index: int, op: Any, code: Any, tensors: tuple[Tensor, ...]) -> Op:
    name = _op_name(code)
    inputs, outputs = _integers(op.inputs), _integers(op.outputs)
    given = [tensors[i] for i in inputs if i >= 0]
    computed = [tensor for tensor in given if not tensor.constant]
    weights = [tensor for tensor in given if tensor.constant and len(tensor.shape) > 1]
    by_output = name in _DTYPE_BY_OUTPUT or not given
    deciding = [tensors[i] for i in outputs] if by_output else computed or given
    return Op(
        index=index,
        name=name,
        version=code.version,
        inputs=inputs,
        outputs=outputs,
        dtype=deciding[0].dtype if deciding else "none",
        weights=weights[0].dtype if weights else "",
        options=schema.options(op.builtinOptions if op.builtinOptions is not None else op.builtinOptions2),
        custom_options=b"" if op.customOptions is None else bytes(op.customOptions),
        intermediates=_integers(op.intermediates),
    )


def _integers(values: Any) -> tuple[int, ...]:
    return () if values is None else tuple(int(value) for value in values)

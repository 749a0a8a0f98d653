"""Bytes of a TFLite file to an immutable `Graph`."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

from sqp_tflite.errors import BadInputError
from sqp_tflite.flatbuffer.graph import Graph, Op, Quantization, Subgraph, Tensor

_DTYPE_BY_OUTPUT = ("GATHER", "GATHER_ND", "SELECT", "SELECT_V2", "EMBEDDING_LOOKUP", "TRANSPOSE_CONV", "ONE_HOT")
"""Ops whose first computed input is an index, a condition or a shape: the output has the type that matters."""

_BROKEN = (struct.error, ValueError, IndexError, TypeError, AttributeError, KeyError, OverflowError, MemoryError)
"""What the schema's reader raises on bytes that are no flatbuffer, or only the beginning of one."""


def read(source: bytes | str | Path) -> Graph:
    """Returns the graph of a TFLite file.

    Args:
        source: The file's bytes, or its path.

    Raises:
        BadInputError: No such file, not a TFLite file, or one that was cut short.
    """
    content = source if isinstance(source, bytes) else _file(Path(source))
    what = "the content" if isinstance(source, bytes) else f"`{source}`"
    if content[4:8] != b"TFL3":
        raise BadInputError(
            f"{what} is not a TFLite file: bytes 4 to 8 must be `TFL3`. Received: {content[4:8]!r}, "
            f"{len(content)} bytes. {_hint(content)}"
        )
    try:
        return _graph(content)
    except _BROKEN as error:
        raise BadInputError(
            f"{what} begins like a TFLite file and is damaged. Received: {len(content)} bytes, in which "
            "offsets point past the end or at what is no table. It may have been cut short in a copy: fetch or export "
            "it again."
        ) from error


def _hint(content: bytes) -> str:
    if content[:4] == b"PK\x03\x04" or content[:4] == b"\x89HDF":
        return "It looks like a Keras model: export it with sqp-export, or name the .tflite file in its place."
    return "Pass a .tflite file."


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except IsADirectoryError as error:
        raise BadInputError(f"`{path}` must be a TFLite file. Received: a folder.") from error
    except OSError as error:
        raise BadInputError(f"`{path}` cannot be read: {error.strerror}. Check the path.") from error


def _graph(content: bytes) -> Graph:
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    _check_complete(model, content)
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    types = {value: name.lower() for name, value in vars(schema.TensorType).items() if isinstance(value, int)}
    fused = {value: name for name, value in vars(schema.ActivationFunctionType).items() if isinstance(value, int)}
    codes = tuple((_op_name(code, names), code.version) for code in model.operatorCodes or ())
    return Graph(
        subgraphs=tuple(_subgraph(sub, model, codes, types, fused) for sub in model.subgraphs),
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        schema_version=model.version,
        description=_text(model.description),
    )


def _check_complete(model: Any, content: bytes) -> None:
    if not model.subgraphs:
        raise ValueError("it holds no graph")
    for number, buffer in enumerate(model.buffers or ()):
        if buffer.offset and buffer.offset + buffer.size > len(content):
            raise ValueError(f"buffer {number} ends at byte {buffer.offset + buffer.size}")


def _op_name(code: Any, names: dict[int, str]) -> str:
    # Codes above 127 stand in builtinCode alone, older files fill the deprecated field alone: the larger is the code.
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    name = names.get(number, f"UNKNOWN_{number}")
    return f"CUSTOM:{_text(code.customCode)}" if name == "CUSTOM" else name


def _subgraph(
    sub: Any, model: Any, codes: tuple[tuple[str, int], ...], types: dict[int, str], fused: dict[int, str]
) -> Subgraph:
    tensors = tuple(_tensor(i, tensor, model, types) for i, tensor in enumerate(sub.tensors or ()))
    return Subgraph(
        name=_text(sub.name),
        tensors=tensors,
        ops=tuple(_op(i, op, codes, tensors, fused) for i, op in enumerate(sub.operators or ())),
        inputs=_integers(sub.inputs),
        outputs=_integers(sub.outputs),
    )


def _tensor(index: int, tensor: Any, model: Any, types: dict[int, str]) -> Tensor:
    buffer = model.buffers[tensor.buffer]
    size = len(buffer.data) if buffer.data is not None else buffer.size
    return Tensor(
        index=index,
        name=_text(tensor.name),
        shape=_integers(tensor.shape),
        dtype=types[tensor.type],
        quantization=_quantization(tensor.quantization),
        constant_bytes=int(size),
        open=tuple(place for place, dim in enumerate(_integers(tensor.shapeSignature)) if dim < 0),
    )


def _quantization(parameters: Any) -> Quantization | None:
    if parameters is None or parameters.scale is None or not len(parameters.scale):
        return None
    scales = tuple(float(scale) for scale in parameters.scale)
    points = _integers(parameters.zeroPoint) or (0,) * len(scales)
    return Quantization(scales, points, int(parameters.quantizedDimension))


def _op(
    index: int, op: Any, codes: tuple[tuple[str, int], ...], tensors: tuple[Tensor, ...], fused: dict[int, str]
) -> Op:
    name, version = codes[op.opcodeIndex]
    inputs, outputs = _integers(op.inputs), _integers(op.outputs)
    given = [tensors[i] for i in inputs if i >= 0]
    computed = [tensor for tensor in given if not tensor.constant]
    weights = [tensor for tensor in given if tensor.constant and len(tensor.shape) > 1]
    by_output = name in _DTYPE_BY_OUTPUT or not given
    deciding = [tensors[i] for i in outputs] if by_output else computed or given
    activation = fused.get(getattr(op.builtinOptions, "fusedActivationFunction", 0), "NONE")
    return Op(
        index=index,
        name=name,
        version=version,
        inputs=inputs,
        outputs=outputs,
        dtype=deciding[0].dtype if deciding else "none",
        weights=weights[0].dtype if weights else "",
        fused="" if activation == "NONE" else activation,
    )


def _integers(values: Any) -> tuple[int, ...]:
    return () if values is None else tuple(int(value) for value in values)


def _text(value: bytes | str | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else (value or "")

"""The TFLite schema's object form: the only module that imports the schema's classes and the flatbuffers library."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from sqp_tflite import collecting

_ENUMS: Mapping[str, str] = MappingProxyType(
    {
        "padding": "Padding",
        "fusedActivationFunction": "ActivationFunctionType",
        "weightsFormat": "FullyConnectedOptionsWeightsFormat",
        "kernelType": "LSTMKernelType",
        "type": "LSHProjectionType",
        "combiner": "CombinerType",
        "mode": "MirrorPadMode",
        "algorithm": "RngAlgorithm",
        "reduceFunction": "ReduceWindowFunction",
        "comparisonDirection": "StablehloComparisonDirection",
        "compareType": "StablehloComparisonType",
        "precisionConfig": "StablehloPrecisionConfig",
        "compositeAttributesFormat": "CustomOptionsFormat",
        **dict.fromkeys(
            (
                *("inDataType", "outDataType", "outputType", "outType", "idxOutType"),
                *("keyDtype", "valueDtype", "quantizedBiasType"),
            ),
            "TensorType",
        ),
    }
)
"""The enum of each option whose numbers have names. The generated classes do not say which options these are."""


def _schema() -> Any:
    # Imported late: it takes as long as numpy.
    from ai_edge_litert import schema_py_generated

    return schema_py_generated


_FIELDS = ("Bytes", "Pos")
"""What an object of the flatbuffers library holds; one that holds something else keeps its own methods."""

_INT32, _UINT16 = struct.Struct("<i").unpack_from, struct.Struct("<H").unpack_from


def _offset(table: Any, slot: int) -> int:
    """`Table.Offset` of the flatbuffers library in two look-ups."""
    start = table.Pos - _INT32(table.Bytes, table.Pos)[0]
    if start < 0:
        raise TypeError(f"a table at {start}")
    return int(_UINT16(table.Bytes, start + slot)[0]) if slot < _UINT16(table.Bytes, start)[0] else 0


def _get(table: Any, flags: Any, place: int) -> Any:
    """`Table.Get` in one look-up."""
    if place < 0:
        raise TypeError(f"a number at {place}")
    return flags.py_type(flags.packer_type.unpack_from(table.Bytes, place)[0])


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Lets files be read in half of the time while the block runs: the library checks each number three times.

    The same numbers come out, and damaged files raise the same kinds of errors.
    """
    table, offset, get = _library()
    known = getattr(table, "__slots__", None) == _FIELDS
    try:
        if known:
            table.Offset, table.Get = _offset, _get
        with collecting.later():
            yield
    finally:
        table.Offset, table.Get = offset, get


@cache
def _library() -> tuple[Any, Any, Any]:
    """The class of the flatbuffers library, and its own methods."""
    from flatbuffers.table import Table

    return Table, Table.Offset, Table.Get


def lengths(content: bytes) -> Iterator[tuple[int, int]]:
    """Yields, piece by piece, how many tables a file declares and how many numbers and letters they copy.

    The reader makes objects of all of them, and nothing keeps a file of some kilobytes from letting every entry of
    every list be the same table, with long lists of its own. Only lengths are read here, and the caller may stop.

    Args:
        content: The file; `struct.error` and other errors are raised if it is damaged.
    """
    model = _schema().Model.GetRootAs(content, 0)
    yield model.OperatorCodesLength() + model.BuffersLength() + model.MetadataLength() + model.SubgraphsLength(), 0
    for place in range(model.SignatureDefsLength()):
        signature = model.SignatureDefs(place)
        yield 1 + signature.InputsLength() + signature.OutputsLength(), 0
    for place in range(model.MetadataLength()):
        yield 0, model.Buffers(model.Metadata(place).Buffer()).DataLength()
    for place in range(model.SubgraphsLength()):
        graph = model.Subgraphs(place)
        yield graph.TensorsLength() + graph.OperatorsLength(), 0
    for place in range(model.SubgraphsLength()):
        graph = model.Subgraphs(place)
        for i in range(graph.TensorsLength()):
            yield 0, _elements_of_tensor(graph.Tensors(i))
        for i in range(graph.OperatorsLength()):
            op = graph.Operators(i)
            yield 0, op.InputsLength() + op.OutputsLength() + op.IntermediatesLength() + op.CustomOptionsLength()


def _elements_of_tensor(tensor: Any) -> int:
    quantization = tensor.Quantization()
    points = 0 if quantization is None else quantization.ScaleLength() + quantization.ZeroPointLength()
    return int(tensor.ShapeLength() + tensor.ShapeSignatureLength() + len(tensor.Name() or b"") + points)


def unpack(content: bytes) -> Any:
    """Returns the `ModelT` of a file, with all data in its buffers and operators.

    Raises:
        ValueError: The file holds no graph, or was cut short. The schema's reader raises other errors as well.
    """
    model = _schema().ModelT.InitFromPackedBuf(content, 0)
    if not model.subgraphs:
        raise ValueError("it holds no graph")
    # Large files hold their data behind the flatbuffer; `pack` writes all of it inside.
    for buffer in model.buffers or ():
        if buffer.offset > 1:
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
    for graph in model.subgraphs:
        for op in graph.operators or ():
            if op.largeCustomOptionsOffset > 1:
                op.customOptions = np.frombuffer(
                    content, np.uint8, op.largeCustomOptionsSize, op.largeCustomOptionsOffset
                )
            op.largeCustomOptionsOffset = op.largeCustomOptionsSize = 0
    return model


def inputs_of(content: bytes) -> int:
    """Returns how many inputs the main graph of a file has that was read before, without unpacking it."""
    return int(_schema().Model.GetRootAs(content, 0).Subgraphs(0).InputsLength())


def holds(content: bytes, op: str) -> bool:
    """Returns whether a file that was read before lists an operator, as the schema spells it, without unpacking it."""
    model, wanted = _schema().Model.GetRootAs(content, 0), number("BuiltinOperator", op)
    codes = (model.OperatorCodes(place) for place in range(model.OperatorCodesLength()))
    return any(wanted in (code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes)


def ends(content: bytes) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
    """Returns (place, `TensorT`) of the main graph's inputs and outputs of a file that was read before.

    Args:
        content: The file, of which nothing else is unpacked.
    """
    graph, tensor = _schema().Model.GetRootAs(content, 0).Subgraphs(0), _schema().TensorT
    inputs = [graph.Inputs(place) for place in range(graph.InputsLength())]
    outputs = [graph.Outputs(place) for place in range(graph.OutputsLength())]
    both = ([(i, tensor.InitFromObj(graph.Tensors(i))) for i in places] for places in (inputs, outputs))
    return next(both), next(both)


def pack(model: Any) -> bytes:
    """Returns the file of a `ModelT`."""
    import flatbuffers

    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@cache
def names(enum: str) -> Mapping[int, str]:
    """Returns the names of an enum's numbers.

    Args:
        enum: As the schema spells it, e.g. "BuiltinOperator".
    """
    members = vars(getattr(_schema(), enum))
    return MappingProxyType({number: name for name, number in members.items() if isinstance(number, int)})


def number(enum: str, name: str) -> int:
    """Returns the number of an enum's name."""
    return int(getattr(getattr(_schema(), enum), name))


def new(table: str, **fields: Any) -> Any:
    """Returns a new object of the schema with the given fields.

    Args:
        table: As the schema spells it, e.g. "Tensor".
        **fields: Values as the object form holds them.

    Raises:
        ValueError: The table has no such field.
    """
    made = getattr(_schema(), f"{table}T")()
    for field, value in fields.items():
        if not hasattr(made, field):
            raise ValueError(f"`{field}` must be a field of {table}. It has: {', '.join(vars(made))}.")
        setattr(made, field, value)
    return made


def op_number(code: Any) -> int:
    """Returns the number of an operator code: newer files fill one field, older ones another."""
    return int(max(code.builtinCode, code.deprecatedBuiltinCode))


@cache
def options_table(op: int) -> str:
    """Returns the name of the options table that belongs to an operator, "" for one that has none of its name."""
    table = "".join(part.title() for part in names("BuiltinOperator").get(op, "").split("_")) + "Options"
    return table if hasattr(_schema().BuiltinOptions, table) else ""


def options(table: Any) -> Mapping[str, Any]:
    """Returns the fields of an options table as plain data, with names in place of an enum's numbers.

    Args:
        table: An options object of the schema, or None.
    """
    if table is None:
        return MappingProxyType({})
    return MappingProxyType({field: _plain(field, value) for field, value in vars(table).items()})


def new_options(table: str, fields: Mapping[str, Any]) -> Any:
    """Returns an options object; the inverse of `options`.

    Args:
        table: As the schema spells it, e.g. "CastOptions".
        fields: Values by field, the names of an enum's numbers among them.
    """
    return new(
        table,
        **{
            field: number(_ENUMS[field], value) if field in _ENUMS and isinstance(value, str) else value
            for field, value in fields.items()
        },
    )


def text(value: bytes | str | None) -> str:
    """Returns a name as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else (value or "")


def _plain(field: str, value: Any) -> Any:
    if isinstance(value, (bytes, str)):
        return text(value)
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and field not in _ENUMS:
        return value.tobytes()
    if isinstance(value, (list, np.ndarray)):
        return tuple(_plain(field, item) for item in value)
    if isinstance(value, (np.bool_, np.number)):
        value = value.item()
    if field in _ENUMS and isinstance(value, int):
        return names(_ENUMS[field]).get(value, value)
    return options(value) if hasattr(value, "__dict__") else value

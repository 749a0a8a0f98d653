"""Puts tables in the place of float islands: DEQUANTIZE, unary operators, QUANTIZE become CAST ADD GATHER.

This is the one step that edits the file which the libraries wrote. A code c of the source becomes the index c + 128
(and 256 times the channel, where a constant differs by channel), and the table holds the correctly rounded code of the
result. What was taken out and what was put in are compared again by `verify`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer import edit
from sqp_tflite.flatbuffer.chains import Chain, Walker, quantized, shape_of

CODES = np.arange(-128, 128, dtype=np.int64)
"""All codes of int8, in the order of a table's entries."""

MAX_CHANNELS = 256
"""Chains with more constants than this keep their form: their tables would be larger than most layers' weights."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a lowered file.

    Attributes:
        source: Name of the int8 tensor that is looked up.
        result: Name of the int8 tensor that is written.
        entries: The table, 256 codes per channel.
    """

    source: str
    result: str
    entries: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Lowered:
    """The file after the lowering and the tables in it."""

    content: bytes
    tables: tuple[Table, ...]


def lower(content: bytes, wanted: Callable[[frozenset[str]], bool] = lambda names: True) -> Lowered:
    """Returns the file with tables for the float chains between int8 tensors.

    Args:
        content: A quantised file.
        wanted: Is given the names of the tensors that a chain's operators write; chains it declines stay.
    """
    model = edit.unpack(content)
    graph = model.subgraphs[0]
    walker = Walker(model)
    chosen: dict[int, tuple[Chain, NDArray[Any]]] = {}
    for place, operator in enumerate(graph.operators):
        chain = _chain(model, walker, operator)
        if chain and wanted(frozenset(edit.name_of(graph.tensors[i]) for i in _outputs(graph, chain.ops))):
            chosen[place] = chain, table_of(model, walker, chain, graph.tensors[operator.outputs[0]])
    if not chosen:
        return Lowered(content, ())
    writer = _Writer(model)
    tables, operators = [], []
    for place, operator in enumerate(graph.operators):
        if place not in chosen:
            operators.append(operator)
            continue
        chain, entries = chosen[place]
        operators += writer.lookup(chain, entries, operator.outputs[0])
        names = [edit.name_of(graph.tensors[i]) for i in (chain.source, operator.outputs[0])]
        tables.append(Table(names[0], names[1], entries))
    graph.operators = _needed(operators, graph.outputs)
    edit.drop_unused(model)
    return Lowered(edit.pack(model), tuple(tables))


def table_of(model: Any, walker: Walker, chain: Chain, result: Any) -> NDArray[Any]:
    """Returns the code of the chain's result for every code of its source, int8, channel after channel.

    Args:
        model: The file's `ModelT`.
        walker: Of the same model.
        chain: From an int8 tensor.
        result: The int8 tensor that the chain's result is quantised to.
    """
    source = model.subgraphs[0].tensors[chain.source]
    numbers = (CODES - int(source.quantization.zeroPoint[0])) * np.float64(source.quantization.scale[0])
    values = np.broadcast_to(walker.evaluate(chain, numbers[:, None]), (256, chain.channels))
    scale, point = np.float64(result.quantization.scale[0]), int(result.quantization.zeroPoint[0])
    steps = values / scale
    # Halves away from zero, as the QUANTIZE kernels round; what is no number becomes the code of zero.
    rounded = np.where(np.isnan(steps), 0.0, np.sign(steps) * np.floor(np.abs(steps) + 0.5))
    return np.clip(rounded + point, -128, 127).astype(np.int8).T.reshape(-1)


def verify(before: bytes, after: Lowered, observed: dict[str, NDArray[Any]]) -> tuple[str, ...]:
    """Returns what is wrong with a lowered file, in sentences; () for a right one.

    Args:
        before: The file that was lowered.
        after: What became of it.
        observed: Codes of the lowered file's tensors, by name, as a real interpreter computed them.
    """
    old, new = edit.unpack(before), edit.unpack(after.content)
    wrong = []
    if _signature(old) != _signature(new):
        wrong.append(f"The inputs and outputs were {_signature(old)} and are {_signature(new)}.")
    walker = Walker(old)
    chains = {
        edit.name_of(old.subgraphs[0].tensors[operator.outputs[0]]): (chain, operator.outputs[0])
        for operator in old.subgraphs[0].operators
        if (chain := _chain(old, walker, operator))
    }
    for table in after.tables:
        chain, output = chains[table.result]
        expected = table_of(old, walker, chain, old.subgraphs[0].tensors[output]).reshape(chain.channels, 256)
        if not np.array_equal(expected.reshape(-1), table.entries):
            wrong.append(f"The table of `{table.result}` is not that of the chain it stands for.")
        codes, results = observed[table.source], observed[table.result]
        channel = np.arange(codes.shape[-1]) % chain.channels
        looked_up = expected[np.broadcast_to(channel, codes.shape), codes.astype(np.int64) + 128]
        different = int(np.sum(looked_up != results))
        if different:
            wrong.append(f"`{table.result}` differs from its table in {different} of {results.size} elements.")
    return tuple(wrong)


def _chain(model: Any, walker: Walker, operator: Any) -> Chain | None:
    """The chain that a QUANTIZE to int8 ends, from an int8 tensor; None for other operators and chains."""
    graph = model.subgraphs[0]
    if edit.op_name(model, operator) != "QUANTIZE":
        return None
    output = graph.tensors[operator.outputs[0]]
    chain = walker.chain(operator.inputs[0])
    if chain is None or chain.channels > MAX_CHANNELS or edit.dtype_name(output) != "int8":
        return None
    source = graph.tensors[chain.source]
    return chain if edit.dtype_name(source) == "int8" and quantized(source) else None


def _outputs(graph: Any, places: tuple[int, ...]) -> list[int]:
    return [graph.operators[place].outputs[0] for place in places]


class _Writer:
    """Adds lookups to a model; equal tables, offsets and indices are shared."""

    def __init__(self, model: Any):
        from ai_edge_litert import schema_py_generated as schema

        self._schema, self._model, self._graph = schema, model, model.subgraphs[0]
        self._constants: dict[tuple[Any, ...], int] = {}
        self._indices: dict[tuple[int, int], int] = {}

    def lookup(self, chain: Chain, entries: NDArray[Any], result: int) -> list[Any]:
        """Returns the operators that write the result; the indices of a source are computed once."""
        operators: list[Any] = []
        key = chain.source, chain.channels
        if key not in self._indices:
            name = edit.name_of(self._graph.tensors[chain.source])
            wide = self._tensor(f"{name}/code", chain.source)
            self._indices[key] = self._tensor(f"{name}/index{chain.channels}", chain.source)
            offsets = (128 + 256 * np.arange(chain.channels)).astype(np.int32)
            operators.append(self._operator("CAST", [chain.source], wide, "CastOptions", inDataType=9, outDataType=2))
            operators.append(
                self._operator("ADD", [wide, self._constant("offset", offsets)], self._indices[key], "AddOptions")
            )
        table = self._constant("table", entries, self._graph.tensors[result].quantization)
        operators.append(self._operator("GATHER", [table, self._indices[key]], result, "GatherOptions", axis=0))
        return operators

    def _tensor(self, name: str, like: int) -> int:
        tensor = self._schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape_of(self._graph.tensors[like])), 0
        tensor.type, tensor.quantization = self._schema.TensorType.INT32, self._schema.QuantizationParametersT()
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def _constant(self, kind: str, array: NDArray[Any], quantization: Any = None) -> int:
        scale = () if quantization is None else (float(quantization.scale[0]), int(quantization.zeroPoint[0]))
        bytes_key, key = (kind, array.tobytes()), (kind, array.tobytes(), *scale)
        if key not in self._constants:
            same = self._constants.get(bytes_key)
            index = edit.add_constant(self._model, self._graph, f"sqp.{kind}.{len(self._constants)}", array)
            if same is not None:
                self._model.buffers.pop()
                self._graph.tensors[index].buffer = self._graph.tensors[same].buffer
            if quantization is not None:
                self._graph.tensors[index].quantization = copy.deepcopy(quantization)
            self._constants.setdefault(bytes_key, index)
            self._constants[key] = index
        return self._constants[key]

    def _operator(self, name: str, inputs: list[int], output: int, table: str, **fields: int) -> Any:
        operator = self._schema.OperatorT()
        operator.opcodeIndex = edit.op_code(self._model, name)
        operator.inputs, operator.outputs = inputs, [output]
        operator.builtinOptionsType = getattr(self._schema.BuiltinOptions, table)
        operator.builtinOptions = getattr(self._schema, f"{table}T")()
        for field, number in fields.items():
            setattr(operator.builtinOptions, field, number)
        return operator


def _needed(operators: list[Any], outputs: Any) -> list[Any]:
    """The operators that something depends on."""
    wanted = {int(index) for index in outputs}
    kept = []
    for operator in reversed(operators):
        if any(int(index) in wanted for index in operator.outputs):
            kept.append(operator)
            wanted |= {int(index) for index in operator.inputs}
    return kept[::-1]


def _signature(model: Any) -> list[tuple[Any, ...]]:
    graph = model.subgraphs[0]
    rows = []
    for index in [*graph.inputs, *graph.outputs]:
        tensor = graph.tensors[index]
        scale = (
            (float(tensor.quantization.scale[0]), int(tensor.quantization.zeroPoint[0])) if quantized(tensor) else ()
        )
        rows.append((edit.name_of(tensor), shape_of(tensor), edit.dtype_name(tensor), *scale))
    return rows

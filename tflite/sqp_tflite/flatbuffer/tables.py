"""Puts tables in the place of float islands: DEQUANTIZE, unary operators, QUANTIZE become CAST ADD GATHER.

Of all that is edited in a file that the libraries wrote, only this changes what it computes with. A code c of the
source becomes the index c + 128 (and 256 times the channel, where a constant differs by channel), and the table holds
the correctly rounded code of the result. What was taken out and what was put in are compared again by `verify`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.chains import Chain, Walker
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph, Tensor
from sqp_tflite.flatbuffer.read import Ends

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


def lower(editor: Editor, wanted: Callable[[frozenset[str]], bool] = lambda names: True) -> tuple[Table, ...]:
    """Puts tables in the place of float chains between int8 tensors, and returns them.

    Args:
        editor: Of a quantised file that was not changed since it was opened.
        wanted: Is given the names of the tensors that a chain's operators write; chains it declines stay.
    """
    main = editor.graph.main
    walker, writer = Walker(main), TableWriter(editor)
    tables: list[Table] = []
    replaced: dict[int, list[NewOp]] = {}
    for op in main.ops:
        chain = _chain(main, walker, op)
        if chain is None or not wanted(frozenset(main.tensors[main.ops[i].outputs[0]].name for i in chain.ops)):
            continue
        source, result = main.tensors[chain.source], main.tensors[op.outputs[0]]
        entries = table_of(walker, chain, source, result)
        tables.append(Table(source.name, result.name, entries))
        replaced[op.index] = writer.lookup(chain, entries, result)
    if replaced:
        editor.replace_ops(replaced)
        editor.drop_unused()
    return tuple(tables)


def table_of(walker: Walker, chain: Chain, source: Tensor, result: Tensor) -> NDArray[Any]:
    """Returns the code of the chain's result for every code of its source, int8, channel after channel.

    Args:
        walker: Of the chain's graph.
        chain: From an int8 tensor.
        source: The int8 tensor that the chain begins with.
        result: The int8 tensor that the chain's result is quantised to.
    """
    scale, point = scale_of(source)
    values = np.broadcast_to(walker.evaluate(chain, ((CODES - point) * scale)[:, None]), (256, chain.channels))
    scale, point = scale_of(result)
    steps = values / scale
    # Halves away from zero, as the QUANTIZE kernels round; NaN becomes the code of zero.
    rounded = np.where(np.isnan(steps), 0.0, np.sign(steps) * np.floor(np.abs(steps) + 0.5))
    return np.clip(rounded + point, -128, 127).astype(np.int8).T.reshape(-1)


def verify(before: Graph, after: Ends, tables: tuple[Table, ...], observed: dict[str, NDArray[Any]]) -> tuple[str, ...]:
    """Returns what is wrong with a lowered file, in sentences; () for a right one.

    Args:
        before: The file that was lowered.
        after: The inputs and outputs of the lowered file.
        tables: What `lower` returned.
        observed: Codes of the lowered file's tensors, by name, as a real interpreter computed them.
    """
    wrong = []
    were, are = _signature((before.inputs, before.outputs)), _signature(after)
    if were != are:
        wrong.append(f"The inputs and outputs were {were} and are {are}.")
    main = before.main
    walker = Walker(main)
    chains = {
        main.tensors[op.outputs[0]].name: (chain, main.tensors[op.outputs[0]])
        for op in main.ops
        if (chain := _chain(main, walker, op))
    }
    for table in tables:
        chain, result = chains[table.result]
        expected = table_of(walker, chain, main.tensors[chain.source], result).reshape(chain.channels, 256)
        if not np.array_equal(expected.reshape(-1), table.entries):
            wrong.append(f"The table of `{table.result}` is not that of the chain that it replaces.")
        codes, results = observed[table.source], observed[table.result]
        channel = np.arange(codes.shape[-1]) % chain.channels
        looked_up = expected[np.broadcast_to(channel, codes.shape), codes.astype(np.int64) + 128]
        different = int(np.sum(looked_up != results))
        if different:
            wrong.append(f"`{table.result}` differs from its table in {different} of {results.size} elements.")
    return tuple(wrong)


def _chain(main: Subgraph, walker: Walker, op: Op) -> Chain | None:
    """The chain that a QUANTIZE to int8 ends, from an int8 tensor; None for other operators and chains."""
    if op.name != "QUANTIZE":
        return None
    chain = walker.chain(op.inputs[0])
    if chain is None or chain.channels > MAX_CHANNELS or main.tensors[op.outputs[0]].dtype != "int8":
        return None
    source = main.tensors[chain.source]
    return chain if source.dtype == "int8" and source.quantization else None


class TableWriter:
    """Adds lookups to a file; equal tables, offsets and indices are shared."""

    def __init__(self, editor: Editor):
        self._editor, self._main = editor, editor.graph.main
        self._constants: dict[tuple[object, ...], int] = {}
        self._indices: dict[tuple[int, int], int] = {}

    def lookup(self, chain: Chain, entries: NDArray[Any], result: Tensor) -> list[NewOp]:
        """Returns the operators that write the result; the indices of a source are computed once."""
        operators: list[NewOp] = []
        key = chain.source, chain.channels
        if key not in self._indices:
            source = self._main.tensors[chain.source]
            wide = self._editor.add_tensor(f"{source.name}/code", "int32", source.shape)
            index = self._editor.add_tensor(f"{source.name}/index{chain.channels}", "int32", source.shape)
            offsets = self._constant("offset", (128 + 256 * np.arange(chain.channels)).astype(np.int32))
            types = {"inDataType": "INT8", "outDataType": "INT32"}
            operators = [
                NewOp("CAST", (chain.source,), (wide,), "CastOptions", types),
                NewOp("ADD", (wide, offsets), (index,), "AddOptions"),
            ]
            self._indices[key] = index
        table = self._constant("table", entries, result)
        gather = NewOp("GATHER", (table, self._indices[key]), (result.index,), "GatherOptions", {"axis": 0})
        return [*operators, gather]

    def _constant(self, kind: str, array: NDArray[Any], like: Tensor | None = None) -> int:
        stored: tuple[object, ...] = (kind, array.tobytes())
        key = (*stored, like.quantization) if like else stored
        if key not in self._constants:
            name = f"sqp.{kind}.{len(self._constants)}"
            place = like.index if like else None
            index = self._editor.add_constant(name, array, quantized_as=place, stored_as=self._constants.get(stored))
            self._constants.setdefault(stored, index)
            self._constants[key] = index
        return self._constants[key]


def scale_of(tensor: Tensor) -> tuple[np.float64, int]:
    """Returns the scale and zero point of a tensor that has one of each.

    Raises:
        ValueError: It has none.
    """
    if tensor.quantization is None:
        raise ValueError(f"`{tensor.name}` must be quantised. Received: plain {tensor.dtype}.")
    return np.float64(tensor.quantization.scales[0]), tensor.quantization.zero_points[0]


def _signature(ends: Ends) -> list[tuple[Any, ...]]:
    return [(t.name, t.shape, t.dtype, *(scale_of(t) if t.quantization else ())) for tensors in ends for t in tensors]

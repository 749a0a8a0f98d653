"""Tables for an NPU: a lookup (CAST ADD GATHER) becomes one pass with the NPU's own table of 256 codes.

TFLite has no operator for a table of one's own. Vela makes such a table of LEAKY_RELU and of HARD_SWISH at int8, so it
compiles a file in which these stand in for the lookups, and the tables are then put in the place of theirs. That
nothing else depends on them is not assumed: but for the tables, the compiled files of both must be equal in every byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph, Tensor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.tables import CODES, scale_of
from sqp_tflite.report import Finding, Kind

COMMAND = "CUSTOM:ethos-u"
"""The operator of a compiled file that hands its part to the NPU."""

_RULE = "The file is compiled for an NPU, which alone runs it: what it computes there is in commands."

_CONSTANTS = 1
"""Which of its inputs holds the constants."""

_ALIGNMENT = 16
"""Vela begins every constant at a multiple of these bytes."""

_OFF = 2
"""Steps by which Vela may round another way than numpy."""

_LEAST, _MOST = 0.25, 3.0
"""The slopes of the stand-ins left of 0, negative and all different, so that each table is found."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A table of a file.

    Attributes:
        ops: The operators that make it, which may be shared by others: CAST, ADD, GATHER.
        source: The int8 tensor that is looked up.
        result: The int8 tensor that is written.
        entries: The 256 codes, from that of code -128 on.
    """

    ops: tuple[int, int, int]
    source: Tensor
    result: Tensor
    entries: NDArray[np.int8]

    def leaky(self, slope: float) -> NDArray[np.int64]:
        """Returns the table that LEAKY_RELU with this slope has between the same tensors."""
        (scale, point), (step, zero) = scale_of(self.source), scale_of(self.result)
        values = (CODES - point) * scale
        codes = np.round(np.where(values > 0, values, values * slope) / step) + zero
        return np.clip(codes, -128, 127).astype(np.int64)


def lookups(graph: Graph) -> tuple[Lookup, ...]:
    """Returns the tables of a file's main graph that have one function for all channels."""
    main, found = graph.main, []
    makers = main.makers()
    for gather in (op for op in main.ops if op.name == "GATHER"):
        add = makers.get(gather.inputs[1])
        cast = makers.get(add.inputs[0]) if add is not None and add.name == "ADD" else None
        if add is None or cast is None or cast.name != "CAST":
            continue
        entries, offset = main.tensors[gather.inputs[0]].values, main.tensors[add.inputs[1]].values
        source, result = main.tensors[cast.inputs[0]], main.tensors[gather.outputs[0]]
        if entries is None or offset is None or offset.reshape(-1).tolist() != [128] or entries.size != len(CODES):
            continue
        if source.dtype == result.dtype == entries.dtype.name == "int8" and source.quantization and result.quantization:
            found.append(Lookup((cast.index, add.index, gather.index), source, result, entries.reshape(-1)))
    return tuple(found)


def of_compiled(graph: Graph, remedy: str) -> tuple[Finding, ...]:
    """Returns what is to be said about a file that an NPU's compiler has written: nothing here can look into it.

    Args:
        graph: Any file; () for one that no such compiler has written.
        remedy: What to do with the file that it was compiled from.
    """
    if not any(op.name == COMMAND for _, op in graph.all_ops()):
        return ()
    return (Finding("the file", COMMAND, "", _RULE, remedy, Kind.NPU),)


def with_tables(content: bytes, graph: Graph, compiler: Callable[[bytes], bytes]) -> bytes | None:
    """Returns the compiled file with the NPU's tables in the place of the lookups; None where that cannot be proven.

    Args:
        content: The file.
        graph: The same, read.
        compiler: Compiles a file.
    """
    tables = lookups(graph)
    if not tables:
        return None
    slopes = -np.linspace(_LEAST, _MOST, len(tables), dtype=np.float32).astype(np.float64)
    made = compiler(_with_stand_ins(content, tables, lambda place: _leaky(float(slopes[place]))))
    other = compiler(_with_stand_ins(content, tables, lambda place: _Stand("HARD_SWISH")))
    constants = _constants(read(made))
    if constants is None or len(made) != len(other) or made.count(constants) != 1:
        return None
    begin, held = made.index(constants), np.frombuffer(constants, np.int8)
    places = [_place(held, table.leaky(slope)) for table, slope in zip(tables, slopes.tolist(), strict=True)]
    if None in places or len(set(places)) != len(places):
        return None
    patched = bytearray(made)
    allowed = np.zeros(len(made), bool)
    for place, table in zip(places, tables, strict=True):
        first = begin + (place or 0)
        patched[first : first + len(CODES)] = table.entries.tobytes()
        allowed[first : first + len(CODES)] = True
    different = np.frombuffer(made, np.uint8) != np.frombuffer(other, np.uint8)
    return bytes(patched) if not np.any(different & ~allowed) else None


@dataclass(frozen=True, slots=True)
class _Stand:
    """An operator of which Vela makes a table."""

    name: str
    table: str = ""
    slope: float | None = None

    def op(self, table: Lookup) -> NewOp:
        options = None if self.slope is None else {"alpha": self.slope}
        return NewOp(self.name, (table.source.index,), (table.result.index,), self.table, options)


def _leaky(slope: float) -> _Stand:
    return _Stand("LEAKY_RELU", "LeakyReluOptions", slope)


def _with_stand_ins(content: bytes, tables: tuple[Lookup, ...], stand: Callable[[int], _Stand]) -> bytes:
    editor = Editor(content)
    main = editor.graph.main
    replaced: dict[int, list[NewOp]] = {table.ops[-1]: [stand(place).op(table)] for place, table in enumerate(tables)}
    for table in tables:
        for index in table.ops[:-1]:
            if _only(main, main.ops[index], set(replaced)):
                replaced.setdefault(index, [])
    editor.replace_ops(replaced)
    editor.drop_unused()
    return editor.bytes()


def _only(main: Subgraph, op: Op, gone: set[int]) -> bool:
    """Whether nothing but operators that go reads what an operator makes."""
    readers = [other for other in main.ops if op.outputs[0] in other.inputs]
    return op.outputs[0] not in main.outputs and all(
        reader.index in gone or (reader.name == "ADD" and _only(main, reader, gone)) for reader in readers
    )


def _constants(compiled: Graph) -> bytes | None:
    """The constants of a compiled file's part for the NPU; None where a stand-in is left to the CPU."""
    main = compiled.main
    if any(op.name in ("LEAKY_RELU", "HARD_SWISH") for op in main.ops):
        return None
    held = {op.inputs[_CONSTANTS] for op in main.ops if op.name == COMMAND}
    values = main.tensors[held.pop()].values if len(held) == 1 else None
    return None if values is None else values.tobytes()


def _place(held: NDArray[np.int8], table: NDArray[np.int64]) -> int | None:
    """Where a table is among the constants, None if it is in no place, or in several."""
    if len(held) < len(CODES):
        return None
    windows = np.lib.stride_tricks.sliding_window_view(held, len(CODES))[::_ALIGNMENT]
    near = np.flatnonzero(np.abs(windows.astype(np.int16) - table).max(axis=1) <= _OFF)
    return int(near[0]) * _ALIGNMENT if len(near) == 1 else None

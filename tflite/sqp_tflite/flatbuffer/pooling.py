"""Pools before a table is looked up: the largest code has the largest entry of a table that never falls.

A pooling of 2x2 then needs a quarter of the lookups, and the same codes come out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Op, Subgraph


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The operators of a table: CAST, ADD and GATHER, and the places of offsets and source among their inputs."""

    cast: Op
    add: Op
    gather: Op
    offsets: int


def pool_first(editor: Editor) -> int:
    """Puts each MAX_POOL_2D of a table's result in front of the table, where it never falls; returns how many.

    Args:
        editor: Of a lowered file that was not changed since it was opened.
    """
    main = editor.graph.main
    replaced: dict[int, list[NewOp]] = {}
    for pool in main.ops:
        lookup = _lookup(main, pool) if pool.name == "MAX_POOL_2D" and not pool.fused else None
        if lookup is not None:
            replaced |= {op.index: [] for op in (lookup.cast, lookup.add, lookup.gather)}
            replaced[pool.index] = _swapped(editor, main, pool, lookup)
    if replaced:
        editor.replace_ops(replaced)
        editor.drop_unused()
    return sum(map(bool, replaced.values()))


def _lookup(main: Subgraph, pool: Op) -> _Lookup | None:
    """The table in front of a pooling, if nothing else reads its steps and no entry is below the one before."""
    makers, readers = main.makers(), main.readers()
    gather = makers.get(pool.inputs[0])
    add = makers.get(gather.inputs[1]) if gather is not None and gather.name == "GATHER" else None
    if gather is None or add is None or add.name != "ADD":
        return None
    wide, offsets = add.inputs if main.tensors[add.inputs[0]].values is None else add.inputs[::-1]
    cast, entries = makers.get(wide), main.tensors[gather.inputs[0]].values
    if cast is None or cast.name != "CAST" or entries is None or entries.dtype != np.int8 or entries.size % 256:
        return None
    steps = (cast.outputs[0], add.outputs[0], gather.outputs[0])
    alone = all(len(readers.get(index, ())) == 1 and index not in main.outputs for index in steps)
    source, result, pooled = (main.tensors[index] for index in (cast.inputs[0], gather.outputs[0], pool.outputs[0]))
    fits = source.shape == result.shape and source.quantization and result.quantization == pooled.quantization
    return _Lookup(cast, add, gather, offsets) if alone and fits and _never_falls(entries) else None


def _never_falls(entries: NDArray[np.int8]) -> bool:
    return bool((np.diff(entries.reshape(-1, 256).astype(np.int16)) >= 0).all())


def _swapped(editor: Editor, main: Subgraph, pool: Op, lookup: _Lookup) -> list[NewOp]:
    source, result = main.tensors[lookup.cast.inputs[0]], main.tensors[lookup.gather.outputs[0]]
    end = main.tensors[pool.outputs[0]]
    scales = source.quantization
    scale, zero = (scales.scales[0], scales.zero_points[0]) if scales else (None, 0)
    codes = editor.add_tensor(f"{end.name}/codes", "int8", end.shape, scale, zero)
    wide, index = (editor.add_tensor(f"{result.name}/{name}", "int32", end.shape) for name in ("code", "index"))
    # The table belongs to the activation, the pooling to its own layer.
    editor.rename(end.index, f"{result.name}/pooled")
    return [
        NewOp("MAX_POOL_2D", (source.index,), (codes,), "Pool2DOptions", pool.options),
        NewOp("CAST", (codes,), (wide,), "CastOptions", lookup.cast.options),
        NewOp("ADD", (wide, lookup.offsets), (index,), "AddOptions"),
        NewOp("GATHER", (lookup.gather.inputs[0], index), (end.index,), "GatherOptions", {"axis": 0}),
    ]

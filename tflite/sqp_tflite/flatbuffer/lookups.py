"""Puts tables in the place of functions of one int8 tensor in a finished file, whatever scales lie between.

A converter that quantises softplus writes EXP, ADD and LOG of int8 tensors, each of which rounds to 256 codes: what
comes out is another function. A table of the whole function rounds once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.chains import Chain, Walker
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.functions import between, roots
from sqp_tflite.flatbuffer.graph import TYPE_CHANGES, Op, Subgraph, Tensor
from sqp_tflite.flatbuffer.tables import CODES, Table, TableWriter, table_of

_STRAIGHT = frozenset(
    (
        *TYPE_CHANGES,
        *"RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ADD SUB MUL MAXIMUM MINIMUM NEG ABS LEAKY_RELU PRELU CAST".split(),
    )
)
"""Operators of clips and straight lines, whose int8 kernels are right."""

Measure = Callable[[Chain], NDArray[Any] | None]
"""Returns the int8 code that a chain's own kernels give for each code of its source, None if they cannot be told."""


def functions(graph: Subgraph) -> tuple[Chain, ...]:
    """Returns the functions from one int8 tensor to another that are more than straight lines, in execution order.

    Each ends where something else than the function reads it.
    """
    found, makers, readers = roots(graph), graph.makers(), graph.readers()
    chains = []
    for result, source in found.items():
        if not all(_int8(graph.tensors[index]) for index in (source, result)):
            continue
        reading = readers.get(result, ())
        if result not in graph.outputs and reading and all(found.get(op.outputs[0]) == source for op in reading):
            continue
        chain = between(graph, makers, source, result)
        if chain and not _STRAIGHT.issuperset(graph.ops[place].name for place in chain.ops):
            chains.append(chain)
    return tuple(chains)


def _int8(tensor: Tensor) -> bool:
    held = tensor.quantization
    return tensor.dtype == "int8" and held is not None and len(held.scales) == 1 and not tensor.constant


def replace(editor: Editor, chains: tuple[Chain, ...], measure: Measure | None = None) -> tuple[Table, ...]:
    """Puts a table in the place of each function, and returns them.

    Args:
        editor: Of a file that was not changed since it was opened.
        chains: What `functions` returned, or some of it.
        measure: Gives the entries; None for those of the function that the operators mean, in float64 from end to end,
            rounded to the nearest code. A function that it cannot tell is left.
    """
    main = editor.graph.main
    walker, writer, makers = Walker(main), TableWriter(editor), main.makers()
    tables: list[Table] = []
    replaced: dict[int, list[NewOp]] = {}
    for chain in chains:
        source, result = main.tensors[chain.source], main.tensors[chain.result]
        entries = measure(chain) if measure else table_of(walker, chain, source, result)
        if entries is not None:
            tables.append(Table(source.name, result.name, entries))
            replaced[makers[chain.result].index] = writer.lookup(chain, entries, result)
    if replaced:
        editor.replace_ops(replaced)
        editor.drop_unused()
    return tuple(tables)


def alone(content: bytes, chain: Chain) -> bytes:
    """Returns a file that computes one function only, from its source to its result.

    Args:
        content: The file that holds it.
        chain: The function.
    """
    editor = Editor(content)
    editor.drop_signatures()
    editor.replace_ops({op.index: [] for op in editor.graph.main.ops if op.index not in chain.ops})
    editor.set_ends([chain.source], [chain.result])
    editor.drop_unused()
    return editor.bytes()


def all_codes(shape: tuple[int, ...]) -> NDArray[np.int8]:
    """Returns tensors of a shape in which every code of int8 stands at two places or more.

    A kernel may round elements differently that it computes several at once.
    """
    size = int(np.prod(shape))
    count = -(-2 * len(CODES) // size)
    places = np.arange(count * size) % len(CODES)
    return CODES[places].reshape(count, *shape).astype(np.int8)


def entries_of(codes: NDArray[np.int8], results: NDArray[Any]) -> NDArray[np.int8] | None:
    """Returns the result for each code, None where one code has several results."""
    flat, made = codes.reshape(-1).astype(np.int64) + 128, results.reshape(-1)
    entries = np.zeros(len(CODES), np.int8)
    entries[flat] = made
    return entries if np.array_equal(entries[flat], made) else None


def wrong(tables: tuple[Table, ...], observed: dict[str, NDArray[Any]]) -> tuple[str, ...]:
    """Returns where an interpreter's lookups differ from the tables, in sentences; () where they do not.

    Args:
        tables: What `replace` returned.
        observed: Codes of the file's tensors, by name.
    """
    found = []
    for table in tables:
        expected = table.entries[observed[table.source].astype(np.int64) + 128]
        different = int(np.sum(expected != observed[table.result]))
        if different:
            found.append(f"`{table.result}` differs from its table in {different} of {expected.size} elements.")
    return tuple(found)


def spelled(graph: Subgraph, chain: Chain) -> tuple[str, ...]:
    """Returns the names of a function's operators, without changes of type."""
    ops: list[Op] = [graph.ops[place] for place in chain.ops]
    return tuple(op.name for op in ops if op.name not in TYPE_CHANGES)

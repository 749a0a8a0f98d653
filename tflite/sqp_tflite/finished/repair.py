"""Tables in the place of a finished int8 file's activations: of what they mean, or of what their kernels compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import CrashedError
from sqp_tflite.finished.cleaning import named
from sqp_tflite.finished.model import ORIGIN
from sqp_tflite.flatbuffer.chains import Chain, Walker
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.functions import known
from sqp_tflite.flatbuffer.graph import Subgraph
from sqp_tflite.flatbuffer.lookups import all_codes, alone, entries_of, functions, replace, spelled, wrong
from sqp_tflite.flatbuffer.op_versions import versioned
from sqp_tflite.flatbuffer.pooling import pool_first
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.tables import Table, table_of
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.report import Activation, Form, PlanRow, Replacement
from sqp_tflite.run import interpreters
from sqp_tflite.source.samples import Samples
from sqp_tflite.wording import joined
from sqp_tflite.worker import lent

TABLE_OPS = ("CAST", "ADD", "GATHER")
_FEW = 8
"""Samples on which an interpreter's lookups are compared with the tables."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A file with tables.

    Attributes:
        content: The file.
        rows: One per table, for the plan.
        replacements: The same, with how much a table differs from the kernels, over the range of its codes.
        notes: What was found, in sentences.
        changed: How many tables give other codes than the kernels did.
    """

    content: bytes
    rows: tuple[PlanRow, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    notes: tuple[str, ...] = ()
    changed: int = 0


def repaired(content: bytes, inputs: Samples, faithful: bool) -> Repaired:
    """Returns the file with a table for each function of an int8 tensor.

    Args:
        content: A cleaned file of integers.
        inputs: Samples, on which the lookups are verified.
        faithful: Whether the tables hold what LiteRT's integer kernels give for each code, and not what the operators
            mean.

    Raises:
        CrashedError: An interpreter computes something else than the tables.
    """
    editor = named(content)
    content, main = editor.bytes(), editor.graph.main
    chains = functions(main)
    if not chains:
        return Repaired(content, notes=("No function of an int8 tensor is more than a straight line: no tables.",))
    kernels = _measured(content, chains, main)
    tables = replace(editor, chains, kernels.get if faithful else None)
    if any(op.name == "MAX_POOL_2D" for op in main.ops):
        editor = Editor(editor.bytes())
        pool_first(editor)
    versioned(editor)
    made = editor.bytes()
    _require_lookups(made, tables, inputs)
    if faithful:
        _require_same(content, made, inputs)
    written = {table.result for table in tables}
    kept = tuple(chain for chain in chains if main.tensors[chain.result].name in written)
    return _described(made, main, kept, kernels, faithful, len(chains) - len(kept))


def _measured(content: bytes, chains: tuple[Chain, ...], main: Subgraph) -> dict[Chain, NDArray[Any]]:
    """What LiteRT's kernels give for each code, for the functions for which that does not depend on the place."""
    found = {}
    for chain in chains:
        tensor = main.tensors[chain.source]
        codes = all_codes(tensor.shape)
        try:
            outputs = interpreters.run(ORIGIN, alone(content, chain), (interpreters.decode(codes, tensor),))
        except interpreters.RuntimeFailedError:
            continue
        entries = entries_of(codes, outputs.codes[0])
        if entries is not None:
            found[chain] = entries
    return found


def _require_lookups(content: bytes, tables: tuple[Table, ...], inputs: Samples) -> None:
    if not tables:
        return
    held = read(content).main.by_name()
    names = tuple(name for table in tables for name in (table.source, table.result) if name in held)
    few = tuple(array[:_FEW] for array in inputs.inputs)
    with lent(ORIGIN, ("sqp_tflite.run.interpreters",)) as worker:
        observed = worker.call("sqp_tflite.quantize.quantize:codes_here", content, few, names)
    # A table behind a pooling is looked up in fewer places than the file had.
    there = tuple(t for t in tables if {t.source, t.result} <= observed.keys() and _alike(observed, t))
    found = wrong(there, observed)
    if found:
        raise CrashedError(f"The tables of the file are wrong: {' '.join(found)} Leave --lowering table out.")


def _require_same(before: bytes, after: bytes, inputs: Samples) -> None:
    """Raises if LiteRT's outputs are not the same codes as before."""
    given, made = (interpreters.run(ORIGIN, content, inputs.inputs).codes for content in (before, after))
    different = sum(int(np.sum(one != other)) for one, other in zip(given, made, strict=True))
    if different:
        raise CrashedError(
            f"With --faithful the file must give the codes of the given one on LiteRT. Received: {different} others. "
            "Leave --faithful out, or keep the file as it is."
        )


def _alike(observed: Mapping[str, NDArray[Any]], table: Table) -> bool:
    return observed[table.source].shape == observed[table.result].shape


def _described(
    content: bytes,
    main: Subgraph,
    chains: tuple[Chain, ...],
    kernels: Mapping[Chain, NDArray[Any]],
    faithful: bool,
    left: int,
) -> Repaired:
    walker, layers = Walker(main), LayerNames()
    rows, replacements, notes, changed = [], [], list[str](), list[str]()
    for chain in chains:
        source, result = main.tensors[chain.source], main.tensors[chain.result]
        layer = layers.of(result.name)
        name, words = known(walker, chain), " ".join(spelled(main, chain))
        now = Activation(name.name if name else "unknown", spelled=words)
        rows.append(PlanRow(layer, now, Form.TABLE, TABLE_OPS))
        own = kernels.get(chain)
        steps = None if own is None else np.abs(table_of(walker, chain, source, result).astype(int) - own.astype(int))
        largest = None if steps is None else int(steps.max())
        if not faithful and steps is not None and largest:
            changed.append(f"`{layer}` ({words}: {int(np.sum(steps > 0))} of 256 codes, by up to {largest})")
        share = None if largest is None or faithful else largest / 255.0
        replacements.append(Replacement(layer, words, "table", None, 0.0 if faithful else share))
    kind = "what LiteRT's integer kernels compute" if faithful else "what their operators mean, rounded once"
    notes.append(f"{len(chains)} function(s) are tables of {kind}.")
    if changed:
        notes.append(f"Other codes than from the integer kernels of the given file come out of {joined(changed)}.")
    if left:
        notes.append(f"{left} function(s) stayed: LiteRT gives several results for one code, or does not run them.")
    return Repaired(content, tuple(rows), tuple(replacements), tuple(notes), len(changed))

"""Compares the file with the user's model on every interpreter, and decides whether it agrees."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from sqp_tflite import limits
from sqp_tflite.agreement import GIVEN, WRITTEN, Agreement, Reserve
from sqp_tflite.errors import ParityError
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.journal import Compared, Given
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.policy import NAMES, runtime_of
from sqp_tflite.options import ExportOptions
from sqp_tflite.run.compare import SAME_FILE, compare, tolerance_of
from sqp_tflite.run.drift import drift
from sqp_tflite.run.judge import Reference
from sqp_tflite.run.metric import with_head
from sqp_tflite.run.reference import positive, quantities, reference
from sqp_tflite.run.reserve import overflowing, reserves
from sqp_tflite.run.rounding import rounding
from sqp_tflite.run.sequences import MOST_ROWS, Stream, first_steps, stream
from sqp_tflite.source.exchange import ACCURATE_CHANGE, Exchanged
from sqp_tflite.source.samples import Samples
from sqp_tflite.source.step.step import Steps


def compared(
    content: bytes,
    graph: Graph,
    given: Given,
    changed: Exchanged,
    options: ExportOptions,
    layers: LayerNames,
    steps: Steps | None = None,
) -> Compared:
    """Returns how a file agrees with the user's model, and with the one whose activations were exchanged.

    Args:
        content: The file.
        graph: The same, read.
        given: The user's model and samples.
        changed: The model as it was exported.
        options: What was asked for.
        layers: Whose names its tensors bear.
        steps: What the file is one time step of, which is then run over whole sequences; None for other files.

    Raises:
        BadInputError: Keras's outputs are not finite.
        ParityError: What was dropped behind an output does not give the user's own.
    """
    inputs, tolerance = given.inputs, tolerance_of(graph)
    runtime = runtime_of(options.wanted.target)
    allowed = given.allowed or limits.limit(options.max_memory)
    theirs = reference(changed.given, inputs, allowed=allowed)
    _require_heads(theirs, given, changed, allowed)
    moved = rounding(changed.given, inputs)
    above, columns = positive(changed.given), quantities(changed.given)
    # What a repaired file is compared with, where nothing says what was meant, is itself on its own interpreter.
    on = WRITTEN if changed.repaired and changed.loaded is changed.given else GIVEN
    limit = SAME_FILE if on is WRITTEN else options.max_change or max(tolerance, changed.change)
    references = [Reference(on, theirs, limit, changed.heads, above, moved, columns, by=changed.given.by)]
    if changed.loaded is not changed.given:
        written = reference(changed.loaded, inputs, allowed=allowed)
        moved, bound = rounding(changed.loaded, inputs), tolerance_of(graph, bool(changed.loaded.content))
        bound = SAME_FILE if changed.repaired else bound
        references.append(Reference(WRITTEN, written, bound, changed.heads, (), moved, columns, by=changed.loaded.by))
    fed = stream(steps.written) if steps else None
    judged = compare(content, inputs, *references, run=fed.run if fed else None, half=options.half)
    if fed and steps:
        moved_away = drift(judged.rows, content, fed, inputs, {GIVEN: steps.given, WRITTEN: steps.written})
        judged = dataclasses.replace(judged, rows=moved_away)
    others = [row for row in judged.rows if (row.status, row.against) == ("failed", GIVEN) and row.runtime != runtime]
    notes = tuple(f"{NAMES[row.runtime]} cannot run the file: {row.reason}" for row in others)
    traced = changed.given.model is not None
    room = _reserves(content, graph, inputs, options, layers, fed)
    return Compared(judged.rows, notes, judged.warnings + _cost(judged.rows, changed) + overflowing(room, traced), room)


def _reserves(
    content: bytes, graph: Graph, inputs: Samples, options: ExportOptions, layers: LayerNames, fed: Stream | None
) -> tuple[Reserve, ...]:
    """For files that may run in half precision: on phones, where GPU delegates use it unless told otherwise."""
    wanted = options.wanted
    if wanted.integer or not (options.half or wanted.quantize == "float16" or wanted.target == "litert"):
        return ()
    if fed:
        inputs = first_steps("litert", content, inputs, fed, MOST_ROWS)
    return reserves(content, graph, inputs.inputs, layers)


def _require_heads(theirs: Mapping[str, Any], given: Given, changed: Exchanged, allowed: limits.Limit) -> None:
    """What was dropped must give the user's own outputs when it is put back."""
    if not any(changed.heads) or changed.repaired:
        return
    own = reference(given.loaded, given.inputs, allowed=allowed)
    for head, (name, values), (_, wanted) in zip(changed.heads, theirs.items(), own.items(), strict=True):
        if head and not np.allclose(with_head(head, values), wanted, 1e-3, 1e-4, equal_nan=True):
            raise ParityError(
                f"Output `{name}` without its {head} must be what the {head} was computed from. Received: other "
                "values. Export with --head keep."
            )


def _cost(rows: tuple[Agreement, ...], changed: Exchanged) -> tuple[str, ...]:
    """What a coarse exchange costs, where it is allowed."""
    if any(row.status == "differs" for row in rows):
        return ()
    agreeing = [row for row in rows if (row.status, row.against) == ("ok", GIVEN) and not row.emulated]
    off = [row for row in agreeing if row.error_of_range is not None]
    worst = max(off, key=lambda row: row.error_of_range or 0.0, default=None)
    if changed.accurate or worst is None or (worst.error_of_range or 0.0) <= ACCURATE_CHANGE:
        return ()
    return (
        f"output `{worst.output}` is off by up to {worst.error_of_range:.2g} of its range from your model. "
        "Use --replace accurate, which needs no training and stays nearer; or, if the device has no time for its "
        "roots, sqp_keras.replace_activations and sqp_keras.distill, and export the result.",
    )

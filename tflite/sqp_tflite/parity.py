"""Whether a TFLite file, of any origin, computes what a Keras model does."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sqp_tflite import accept, limits
from sqp_tflite.agreement import BEYOND, DATA, ENDS, GIVEN, Agreement
from sqp_tflite.errors import PairingError
from sqp_tflite.finished.model import is_file
from sqp_tflite.finished.model import loaded as finished
from sqp_tflite.finished.model import without_heads as headless_file
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.flatbuffer.mark import Mark, mark_of
from sqp_tflite.flatbuffer.read import bytes_of, opened
from sqp_tflite.ops.audit import incoherent
from sqp_tflite.ops.policy import NAMES
from sqp_tflite.options import HARD_SIGMOIDS
from sqp_tflite.run.compare import compare, tolerance_of
from sqp_tflite.run.drift import drift
from sqp_tflite.run.extremes import bounded, codes_of, extremes
from sqp_tflite.run.interpreters import require_room
from sqp_tflite.run.judge import Reference
from sqp_tflite.run.pairing import INPUTS, OUTPUTS, Pairing, order
from sqp_tflite.run.reference import quantities, reference
from sqp_tflite.run.rounding import rounding
from sqp_tflite.run.sequences import stream
from sqp_tflite.source.exchange import OTHER_CHANGE, without_heads
from sqp_tflite.source.load import Loaded, load
from sqp_tflite.source.made_up import Scale
from sqp_tflite.source.records import scales
from sqp_tflite.source.samples import GivenData, open_data, samples
from sqp_tflite.source.step.lengths import MADE_UP_STEPS, for_sequences, lengths
from sqp_tflite.source.step.masked import unmasked
from sqp_tflite.source.step.step import stepped

_ACCEPT: Mapping[str, accept.Accept] = {
    "model": accept.model,
    "data": accept.optional(accept.data),
    "tolerance": accept.optional(accept.share),
    "names": accept.optional(accept.meanings),
    "imports": accept.modules,
    "trust_code": accept.flag,
    "hard_sigmoid": accept.optional(accept.choice(*HARD_SIGMOIDS)),
    "inputs": accept.optional(accept.listed),
    "outputs": accept.optional(accept.listed),
    "ends": accept.flag,
    "half": accept.flag,
    "max_memory": accept.optional(accept.size),
    "progress": accept.optional(accept.function),
}
"""What each parameter of `check` may be, besides the file."""

_OWN = "; the file's own limit is {0:g}: accept that with --tolerance {0:g}, if you trust its maker"

_COUNTED = (
    ". Only numbers in the file's tensor names say which input or output is which: if they count in another order, "
    "list the model's in the file's order with --inputs or --outputs"
)


@np.errstate(all="ignore")  # As in an export.
def check(
    model: Any,
    tflite: str | os.PathLike[str] | bytes,
    data: GivenData = None,
    *,
    tolerance: float | None = None,
    names: str | Mapping[str, str] | None = None,
    imports: str | Iterable[str] = (),
    trust_code: bool = False,
    hard_sigmoid: str | None = None,
    inputs: str | Sequence[str] | None = None,
    outputs: str | Sequence[str] | None = None,
    ends: bool = False,
    half: bool = False,
    max_memory: int | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[Agreement, ...]:
    """Returns how a TFLite file, of any origin, agrees with its Keras model on each installed runtime.

    Args:
        model: As in `export`; a TFLite file is run by LiteRT.
        tflite: The file or its bytes.
        data: As in `export`.
        tolerance: Max error over the range of the outputs; by default that of the file's number type, or a larger one
            that the export wrote into the file because it exchanged activations, up to 0.25: a file may say anything.
        names: As in `export`.
        imports: As in `export`.
        trust_code: As in `export`.
        hard_sigmoid: As in `export`; None also for what the export was asked for, which it wrote into the file.
        inputs: The model's inputs in the file's order, "NAME,NAME" or a list; by default they are paired by shapes, and
            those of one shape by the names in the file's signature, then by those of its tensors.
        outputs: The same for outputs.
        ends: Whether to compare also at the ends of the file's input range and beyond.
        half: Whether to emulate half precision, too, as an estimate of a GPU delegate; such a row proves nothing.
        max_memory: As in `export`.
        progress: Is called with the name of each step.

    Raises:
        PairingError: An argument is not of the kind that its parameter takes, one of model, file and data cannot be
            read, or their inputs or outputs don't fit together.
        RefusedError: The file computes one time step, and the model masks steps of the data.
    """
    parameters = {"model": model, "data": data, "tolerance": tolerance, "names": names, "trust_code": trust_code}
    parameters |= {"imports": imports, "hard_sigmoid": hard_sigmoid}
    parameters |= {"inputs": inputs, "outputs": outputs, "ends": ends, "half": half}
    parameters |= {"max_memory": max_memory, "progress": progress}
    given = {name: _ACCEPT[name](f"`{name}`", value) for name, value in parameters.items()}
    allowed = limits.limit(given["max_memory"])
    content, what = bytes_of(tflite, "`tflite`", allowed)
    graph = opened(content, what)[1]
    require_room(graph, what, allowed)
    if wrong := incoherent(graph):
        raise PairingError(f"{what} cannot be run. Received: {wrong[0].rule} {wrong[0].remedy}")
    arrays = open_data(given["data"], allowed)
    shapes = arrays.shapes() if arrays else None
    mark = mark_of(graph)
    meant = given["hard_sigmoid"]
    if meant is None and isinstance(given["model"], (str, Path)) and os.path.isfile(given["model"]):
        meant = mark.hard_sigmoid
    if is_file(given["model"]):
        loaded = finished(given["model"], allowed)
    else:
        loaded = load(
            given["model"], names=given["names"], imports=given["imports"], trust=given["trust_code"],
            hard_sigmoid=meant, shapes=shapes, steps=MADE_UP_STEPS if mark.step else 0, allowed=allowed,
        )  # fmt: skip
    if mark.step:
        loaded = for_sequences(loaded, lengths(shapes))
    loaded, heads = _headless(loaded, mark)
    step = stepped(loaded) if mark.step else None
    own = max(tolerance_of(graph), min(mark.limit or 0.0, OTHER_CHANGE))
    limit = own if given["tolerance"] is None else given["tolerance"]
    takes = (step.loaded if step else loaded).inputs
    fed = order(INPUTS, {spec.name: spec.shape for spec in takes}, graph, given["inputs"])
    codes = [codes_of(graph, place) for place in fed.places[: len(loaded.inputs)]]
    made_up = functools.partial(_scales, loaded, codes)
    chosen = samples(arrays, loaded.inputs, allowed, made_up)
    if step:
        chosen = unmasked(loaded, chosen)
    if given["ends"] and not step:
        chosen = chosen.with_sets(extremes(codes, chosen))
    if progress:
        progress("compare")
    expected = reference(loaded, chosen, allowed=allowed)
    gives = step.gives if step else {key: values.shape[1:] for key, values in expected.items()}
    made = order(OUTPUTS, gives, graph, given["outputs"])
    moved = rounding(loaded, chosen)
    against = Reference(GIVEN, expected, limit, heads, rounding=moved, columns=quantities(loaded), by=loaded.by)
    if step:
        runs = stream(step, fed.places, made.places)
        rows = compare(content, chosen, against, run=runs.run, half=given["half"]).rows
        rows = drift(rows, content, runs, chosen, {GIVEN: step})
    else:
        rows = compare(content, chosen, against, pairing=Pairing(fed, made), half=given["half"]).rows
    return tuple(_judged(row, graph, mark, limit, fed.counted or made.counted) for row in rows)


def _scales(loaded: Loaded, codes: Sequence[Tensor]) -> dict[str, Scale]:
    return bounded(loaded.inputs, codes, {} if loaded.content else scales(loaded))


def _headless(loaded: Loaded, mark: Mark) -> tuple[Loaded, tuple[str, ...]]:
    """The model without the heads that the file says were dropped for it."""
    if not any(mark.heads) or (loaded.model is None and not loaded.content):
        return loaded, ()
    headless, heads, _ = (without_heads if loaded.model is not None else headless_file)(loaded)
    return (headless, heads) if heads == mark.heads else (loaded, ())


def _judged(row: Agreement, graph: Graph, mark: Mark, limit: float, counted: bool) -> Agreement:
    """What a file was not made for is shown, not judged.

    An integer file saturates outside of its data, and an exchange of activations was judged on them. Another
    interpreter than the one that a file was exported for need not run it.
    """
    if row.status == "failed" and mark.runtime not in (None, row.runtime):
        reason = (
            f"need not run a file that was exported for {NAMES.get(mark.runtime or '', mark.runtime)}: {row.reason}"
        )
        return dataclasses.replace(row, status="not checked", reason=reason)
    if row.status != "differs":
        return row
    if row.on != DATA and graph.integer:
        return dataclasses.replace(row, status="saturates", reason="")
    if row.on != DATA and mark.limit is not None and (mark.data or row.on in (ENDS, BEYOND)):
        return dataclasses.replace(row, status="outside", reason="")
    reason = row.reason
    if mark.limit is not None and limit < mark.limit and (row.error_of_range or 0.0) <= mark.limit:
        reason += _OWN.format(mark.limit)
    return dataclasses.replace(row, reason=reason.rstrip(".") + _COUNTED if counted else reason)

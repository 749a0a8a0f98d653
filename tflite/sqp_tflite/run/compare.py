"""Runs a file on every installed interpreter and compares it with Keras's outputs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.accept import quoted
from sqp_tflite.agreement import DATA, DECIDING, GIVEN, Agreement
from sqp_tflite.flatbuffer.graph import Graph, numbers, stored_weights
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.policy import HALF, RUNTIMES
from sqp_tflite.run import interpreters
from sqp_tflite.run.half import lacking
from sqp_tflite.run.interpreters import Outputs
from sqp_tflite.run.judge import Judged, Reference, judge, spread
from sqp_tflite.run.pairing import Pairing
from sqp_tflite.source.samples import Samples

FLOAT_TOLERANCE = 1e-4
"""Max error of a float32 file, over the range of the outputs: sums are added in another order, over many layers."""

TOLERANCES = MappingProxyType(
    {"float32": FLOAT_TOLERANCE, "float16": 0.02, "dynamic": 0.2, "int8": 0.25, "int16x8": 0.2}
)
"""The same for each number type. With 8-bit weights the limit only separates a file that computes something else
(constant or shifted outputs are wrong by half the range or more) from a coarse one. How coarse it may be is for the
user to judge, from the accuracy, the argmax agreement and the error of each layer in the report."""

SAME_FILE = 0.07
"""The same for one file of integers on two interpreters: kernels round a few codes differently, and a softmax amplifies
it, by up to 0.055 in the stock networks of the tests. An operator that an interpreter computes wrong is further off."""

STORED_TOLERANCE = 0.02
"""The same for a file that stores 8-bit weights and computes in float32. With a scale per channel, seven models of the
zoo are off by 0.002 to 0.015; with the wrong scales, by 0.02 to 0.12."""


SUMS_TOLERANCE = 1e-3
"""The same for a float32 file with sums of roots whose layers are not known: there rounding cannot be worked out
(`rounding.rounding`), and cancellation in the sums leaves more of it."""


def tolerance_of(graph: Graph, sums: bool = False) -> float:
    """Returns the max error that is allowed for a file, over the range of its outputs, by its number type.

    Args:
        graph: The file.
        sums: Whether sums of roots were written into a finished file.
    """
    kind = numbers(graph)
    if sums and kind == "float32":
        return SUMS_TOLERANCE
    return STORED_TOLERANCE if kind == "float32" and stored_weights(graph) else TOLERANCES[kind]


Run = Callable[[str, bytes, tuple[NDArray[Any], ...]], Outputs]
"""Runs a file on a runtime: see `interpreters.run`."""


def compare(
    content: bytes,
    samples: Samples,
    *references: Reference,
    pairing: Pairing | None = None,
    run: Run | None = None,
    half: bool = False,
) -> Judged:
    """Returns a row for each runtime, reference, set of samples and output.

    Runtimes that are not installed are "not checked". Each set is judged by a range of its own, and at least that of
    the first. Samples of the other sets for which Keras overflows are left out.

    Args:
        content: The TFLite file.
        samples: The inputs.
        references: What the outputs are compared with.
        pairing: Where the model's inputs and outputs are in the file; by default in the same order.
        run: Runs the file on a runtime; None for once per sample.
        half: Whether to emulate half precision, too.
    """
    ran, runtimes = run or interpreters.run, (*RUNTIMES, HALF) if half else RUNTIMES

    def judged(runtime: str) -> Judged:
        whole = tuple(map(_for_half, references)) if runtime == HALF else references
        found = _one(runtime, content, samples, whole, pairing, ran)
        return Judged(tuple(map(_shown, found.rows))) if runtime == HALF else found

    with ThreadPoolExecutor(len(runtimes)) as pool:
        found = tuple(pool.map(judged, runtimes))
    warnings = dict.fromkeys(warning for judged in found for warning in judged.warnings)
    return Judged(tuple(row for judged in found for row in judged.rows), tuple(warnings))


def _for_half(reference: Reference) -> Reference:
    """Halves have to keep to the limit of a file with float16 weights, over the range of the whole output."""
    return dataclasses.replace(reference, limit=max(reference.limit, TOLERANCES["float16"]), columns=())


def _shown(row: Agreement) -> Agreement:
    """A row of the emulation. It judges no inputs that are made up to be large: halves end at 65504."""
    if row.status == "differs" and row.on not in DECIDING:
        row = dataclasses.replace(row, status="outside", reason="")
    if row.status == "failed":
        row = dataclasses.replace(row, status="not checked")
    return dataclasses.replace(row, emulated=True)


def _one(
    runtime: str,
    content: bytes,
    samples: Samples,
    references: tuple[Reference, ...],
    pairing: Pairing | None,
    run: Run,
) -> Judged:
    first = next(iter(samples.parts()))
    reason = "" if interpreters.installed(runtime) else f"not installed: {interpreters.INSTALL[runtime]}"
    reason = reason or (lacking(read(content)) if runtime == HALF else "")
    if reason:
        return Judged(
            tuple(Agreement(runtime, "not checked", reason, ref.against, on=first, by=ref.by) for ref in references)
        )
    try:
        outputs = run(runtime, content, pairing.to_file(samples.inputs) if pairing else samples.inputs)
    except interpreters.RuntimeFailedError as error:
        return Judged(
            tuple(Agreement(runtime, "failed", str(error), ref.against, on=first, by=ref.by) for ref in references)
        )
    outputs = pairing.from_file(outputs) if pairing else outputs
    odd = _misshapen(outputs, references[0])
    if odd:
        return Judged(tuple(Agreement(runtime, "failed", odd, ref.against, on=first, by=ref.by) for ref in references))
    judged = [
        judge(runtime, _rows_of(outputs, rows), part, _labels(samples, part))
        for whole in references
        for rows, part in _sets(samples, whole)
    ]
    return Judged(tuple(row for one in judged for row in one.rows), tuple(w for one in judged for w in one.warnings))


def _misshapen(outputs: Outputs, reference: Reference) -> str:
    """What is wrong with the shape of an output, "" for nothing: an interpreter may not follow a damaged file's."""
    for (name, theirs), ours in zip(reference.outputs.items(), outputs.values, strict=False):
        if ours.shape != theirs.shape:
            return f"it gives output {quoted(name)} of shape {ours.shape[1:]}, {reference.by} {theirs.shape[1:]}"
    return ""


def _labels(samples: Samples, reference: Reference) -> NDArray[Any] | None:
    """They are about the user's own model and data."""
    return samples.labels if (reference.against, reference.on) == (GIVEN, DATA) else None


def _sets(samples: Samples, reference: Reference) -> Iterator[tuple[NDArray[Any], Reference]]:
    """Yields each set's rows, and the reference for these."""
    first, least = True, tuple[float, ...]()
    for name, place in samples.parts().items():
        rows = np.arange(len(samples))[place]
        if not first:
            finite = [np.isfinite(v[rows].reshape(len(rows), -1)).all(axis=1) for v in reference.outputs.values()]
            rows = rows[np.logical_and.reduce(finite)]
        if len(rows):
            outputs = {key: values[rows] for key, values in reference.outputs.items()}
            moved = None if reference.rounding is None else functools.partial(_moved, reference.rounding, rows)
            yield rows, dataclasses.replace(reference, outputs=outputs, rounding=moved, on=name, least=least)
        if first:
            first, least = False, tuple(spread(values[rows]) for values in reference.outputs.values())


def _moved(rounding: Callable[[], tuple[NDArray[Any], ...]], rows: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    return tuple(moved[rows] for moved in rounding())


def _rows_of(outputs: Outputs, rows: NDArray[Any]) -> Outputs:
    values, codes = tuple(one[rows] for one in outputs.values), tuple(one[rows] for one in outputs.codes)
    return Outputs(values, codes, outputs.scales)

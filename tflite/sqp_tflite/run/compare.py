"""Runs a file on every installed interpreter and compares it with Keras's outputs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import BadInputError
from sqp_tflite.flatbuffer.graph import Graph, numbers, stored_weights
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.policy import TARGETS
from sqp_tflite.report import Agreement
from sqp_tflite.run import interpreters
from sqp_tflite.source.samples import Samples

FLOAT_TOLERANCE = 1e-4
"""Max error of a float32 file, over the range of the outputs: sums are added in another order, over many layers."""

ROUNDING = 2.0**-18
"""Max error from rounding only, over the output's size: 64 units in float32's last place. An output that hardly varies
compared with its size (a large bias, random weights) has almost no range."""

TOLERANCES = MappingProxyType(
    {"float32": FLOAT_TOLERANCE, "float16": 0.02, "dynamic": 0.2, "int8": 0.25, "int16x8": 0.2}
)
"""The same for each number type. With 8-bit weights the limit only separates a file that computes something else
(constant or shifted outputs are wrong by half the range or more) from a coarse one. How coarse it may be is for the
user to judge, from the accuracy, the argmax agreement and the error of each layer in the report."""

STORED_TOLERANCE = 0.02
"""The same for a file that stores 8-bit weights and computes in float32. With a scale per channel, seven models of the
zoo are off by 0.002 to 0.015; with the wrong scales, by 0.02 to 0.12."""


@dataclass(frozen=True, slots=True)
class Original:
    """The outputs of the user's model, before any replacement.

    Attributes:
        values: One array per output.
        threshold: If the file's first output has one unit, the value above which it means class 1.
    """

    values: tuple[NDArray[Any], ...]
    threshold: float = 0.5


def tolerance_of(graph: Graph) -> float:
    """Returns the max error that is allowed for a file, over the range of its outputs, by its number type."""
    kind = numbers(graph)
    return STORED_TOLERANCE if kind == "float32" and stored_weights(graph) else TOLERANCES[kind]


def compare(
    content: bytes,
    samples: Samples,
    reference: tuple[NDArray[Any], ...],
    *,
    tolerance: float | None = None,
    original: Original | None = None,
) -> tuple[Agreement, ...]:
    """Returns one `Agreement` per runtime; missing runtimes are "not checked".

    Args:
        content: The TFLite file.
        samples: The inputs.
        reference: Keras's outputs for them, one array per output, shape (samples, ...).
        tolerance: Max error over the range of Keras's outputs that is "ok"; None for that of `tolerance_of`.
        original: The outputs of the user's model, if activations were replaced.
    """
    original = original or Original(reference)
    if tolerance is None:
        tolerance = tolerance_of(read(content))
    with ThreadPoolExecutor(len(TARGETS)) as pool:
        return tuple(pool.map(lambda runtime: _one(runtime, content, samples, reference, tolerance, original), TARGETS))


def _one(
    runtime: str,
    content: bytes,
    samples: Samples,
    reference: tuple[NDArray[Any], ...],
    tolerance: float,
    original: Original,
) -> Agreement:
    if not interpreters.installed(runtime):
        return Agreement(runtime, "not checked", f"not installed: {interpreters.INSTALL[runtime]}")
    try:
        outputs = interpreters.run(runtime, content, samples.inputs)
    except interpreters.RuntimeFailedError as error:
        return Agreement(runtime, "failed", str(error))
    return agreement(runtime, outputs, reference, samples.labels, tolerance, original)


def agreement(
    runtime: str,
    outputs: interpreters.Outputs,
    reference: tuple[NDArray[Any], ...],
    labels: NDArray[Any] | None,
    tolerance: float,
    original: Original | None = None,
) -> Agreement:
    """Returns how the outputs compare with the reference; the worst output decides.

    Args:
        runtime: Its name.
        outputs: Its outputs.
        reference: Keras's outputs.
        labels: Labels of the first output, or None.
        tolerance: Max error over the output's range.
        original: The outputs that argmax and metric are compared with; by default the reference.
    """
    original = original or Original(reference)
    errors, shares, steps, rounding = [], [], [], []
    broken = ""
    for place, (ours, theirs) in enumerate(zip(outputs.values, reference, strict=True)):
        if ours.shape != theirs.shape:
            raise ValueError(f"Output {place} must have the shape {theirs.shape}. Received: {ours.shape}.")
        if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
            broken = f"output {place} is not finite where Keras's is"
        elif np.isnan(ours).any():
            broken = f"output {place} is NaN, which agrees with nothing"
        difference = np.abs(np.where(np.isfinite(ours) & np.isfinite(theirs), ours.astype(np.float64) - theirs, 0.0))
        errors.append(float(difference.max(initial=0.0)))
        # The codes cover the smallest output, the largest, and always 0.
        shares.append(errors[-1] / _range(np.append(theirs, 0.0) if tolerance > FLOAT_TOLERANCE else theirs))
        rounding.append(errors[-1] <= ROUNDING * float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)))
        scale = outputs.scales[place]
        if scale:
            steps.append(errors[-1] / scale)
    good = not broken and all(s <= tolerance or r for s, r in zip(shares, rounding, strict=True))
    reason = broken or (
        "" if good else f"the max error is {max(shares):.2g} of the range, the limit is {tolerance:.2g}"
    )
    return Agreement(
        runtime=runtime,
        status="ok" if good else "differs",
        reason=reason,
        samples=len(reference[0]),
        max_abs_error=max(errors),
        error_of_range=max(shares),
        max_steps=max(steps) if steps else None,
        argmax_agreement=_argmax_agreement(outputs.values[0], original.values[0]),
        metric_before=None if labels is None else metric(original.values[0], labels),
        metric_after=None if labels is None else metric(outputs.values[0], labels, original.threshold),
    )


def metric(outputs: NDArray[Any], labels: NDArray[Any], threshold: float = 0.5) -> float:
    """Returns the accuracy for a classifier, the mean absolute error for a regression.

    Args:
        outputs: Shape (samples, classes), or (samples, 1) for two classes or a regression.
        labels: Class numbers, shape (samples,) or (samples, 1), one-hot rows, or real targets.
        threshold: The value above which a single output means class 1.
    """
    labels = np.asarray(labels)
    flat = outputs.reshape(len(outputs), -1)
    if flat.shape[1] > 1 and labels.size == len(labels):
        if labels.min() < 0 or labels.max() >= flat.shape[1] or np.any(labels != np.floor(labels)):
            raise BadInputError(
                f"Labels must be class numbers from 0 to {flat.shape[1] - 1}. "
                f"Received: {labels.dtype} from {labels.min()} to {labels.max()}. "
                "Put one class number per sample under y."
            )
        return float(np.mean(flat.argmax(axis=1) == labels.reshape(-1)))
    if flat.shape[1] > 1 and labels.shape == outputs.shape and set(np.unique(labels)) <= {0, 1}:
        return float(np.mean(flat.argmax(axis=1) == labels.reshape(len(labels), -1).argmax(axis=1)))
    if labels.size != outputs.size:
        raise BadInputError(
            f"Labels must have one row per sample, of the shape of the model's first output, {outputs.shape}. "
            f"Received: {labels.shape}. Put matching labels under y, or omit them."
        )
    if set(np.unique(labels)) <= {0, 1}:
        return float(np.mean((flat.reshape(labels.shape) > threshold) == labels))
    return float(np.mean(np.abs(outputs.reshape(labels.shape) - labels)))


def _range(values: NDArray[Any]) -> float:
    finite = values[np.isfinite(values)]
    spread = float(finite.max() - finite.min()) if finite.size else 0.0
    # A constant output has no range: its size, or 1, is used instead.
    return spread or (float(np.abs(finite).max()) if finite.size else 0.0) or 1.0


def _argmax_agreement(ours: NDArray[Any], theirs: NDArray[Any]) -> float | None:
    if ours.ndim < 2 or ours.shape[-1] < 2:
        return None
    return float(np.mean(ours.argmax(axis=-1) == theirs.argmax(axis=-1)))

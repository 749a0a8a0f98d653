"""Ranges of a float model's tensors on the user's data, and warnings about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import DataError
from sqp_tflite.flatbuffer.graph import Subgraph
from sqp_tflite.layer_names import LayerNames, in_scope

FEW_SAMPLES = 32
"""With fewer samples a range is likely to miss values that the device will see."""

HANDFUL = 0.01
"""The share of the samples that may be outliers (at least one sample)."""

WIDENED_BY = 2.0
"""Outliers are reported if they make a range wider by this factor: they cost one bit of the type."""

LARGEST = 1e30
"""Products of larger numbers overflow float32; LiteRT's kernels clip them to its largest number instead of inf."""

SMALLEST_RANGE = 1e-6
"""Smaller ranges are widened to this: 1/255 of it is about the smallest scale that works. Its products with the
weights' scales are still normal float32 numbers, and its ratios fit the kernels' fixed-point multipliers."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Ranges of all computed float tensors.

    Attributes:
        names: Names of the tensors.
        low: Smallest value, shape (samples, tensors).
        high: Largest value, shape (samples, tensors).
    """

    names: tuple[str, ...]
    low: NDArray[Any]
    high: NDArray[Any]

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Returns {tensor: (smallest, largest)} over all samples."""
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        return {name: (float(low[i]), float(high[i])) for i, name in enumerate(self.names)}


def calibrate_here(content: bytes, inputs: tuple[NDArray[Any], ...]) -> Calibration:
    """Returns the ranges of a float file's tensors; runs in a child.

    Args:
        content: A float TFLite file with unique tensor names.
        inputs: One array per input of the file, shape (samples, *shape).
    """
    from sqp_tflite.run.layer_errors import keeping_tensors

    interpreter = keeping_tensors(content)
    places = [(detail["index"], detail["dtype"]) for detail in interpreter.get_input_details()]
    computed = _computed(content)
    low = np.empty((len(inputs[0]), len(computed)))
    high = np.empty_like(low)
    for sample in range(len(inputs[0])):
        for (place, dtype), array in zip(places, inputs, strict=True):
            interpreter.set_tensor(place, array[sample : sample + 1].astype(dtype))
        interpreter.invoke()
        for column, index in enumerate(computed.values()):
            value = interpreter.get_tensor(index)
            low[sample, column], high[sample, column] = value.min(), value.max()
    return Calibration(tuple(computed), low, high)


def _computed(content: bytes) -> dict[str, int]:
    from sqp_tflite.flatbuffer.read import read

    main = read(content).main
    return {t.name: t.index for t in main.tensors if not t.constant and t.dtype == "float32" and t.elements}


def check(calibration: Calibration, layers: LayerNames, exponents: Mapping[str, str] | None = None) -> None:
    """Raises if a range has inf, NaN or huge numbers.

    Args:
        calibration: The ranges.
        layers: Layer names, for messages.
        exponents: {result of an EXP: the tensor that it is computed from}.

    Raises:
        DataError: A tensor overflowed or is NaN on the data; the first such row is named.
    """
    wrong = ~((np.abs(calibration.low) < LARGEST) & (np.abs(calibration.high) < LARGEST))
    if not wrong.any():
        return
    _check_exponents(calibration, wrong, layers, exponents or {})
    column = int(np.argmax(wrong.any(axis=0)))
    row = int(np.argmax(wrong[:, column]))
    raise DataError(
        f"The float model's numbers must be finite and below {LARGEST:g} on the data. Received: larger numbers, inf or "
        f"NaN in `{layers.of(calibration.names[column])}` for row {row} ({int(wrong.any(axis=1).sum())} rows in "
        "total). Check the weights and the scaling of the inputs."
    )


def _check_exponents(
    calibration: Calibration, wrong: NDArray[Any], layers: LayerNames, exponents: Mapping[str, str]
) -> None:
    """An activation's EXP overflows at inputs of 89, for which the activation itself is an ordinary number."""
    place = {name: column for column, name in enumerate(calibration.names)}
    for result, source in exponents.items():
        column, before = place.get(result), place.get(source)
        if column is None or not wrong[:, column].any() or (before is not None and wrong[:, before].any()):
            continue
        row = int(np.argmax(wrong[:, column]))
        largest = f" of up to {calibration.high[:, before].max():.3g}" if before is not None else ""
        raise DataError(
            f"The float model's numbers must be finite and below {LARGEST:g} on the data. Received: inputs{largest} in "
            f"`{layers.of(result)}`, whose activation is computed with EXP, which overflows for row {row}. Use "
            "--replace accurate, which computes it without."
        )


def outside(main: Subgraph) -> frozenset[str]:
    """Returns the names of the tensors that a user knows: not those between the operators of an activation's form."""
    results = {index for op in main.ops if in_scope(main.tensors[op.outputs[0]].name) for index in op.outputs}
    read = {index for op in main.ops if not in_scope(main.tensors[op.outputs[0]].name) for index in op.inputs}
    inner = results - read - set(main.outputs)
    return frozenset(tensor.name for tensor in main.tensors if tensor.index not in inner)


def notes(
    calibration: Calibration, layers: LayerNames, own: frozenset[str] | None = None, step: bool = False
) -> tuple[str, ...]:
    """Returns what the user should know about the ranges, in sentences.

    Args:
        calibration: The ranges.
        layers: Layer names.
        own: The tensors that users know, see `outside`; None for all.
        step: Whether the samples are time steps of sequences, whose numbers say nothing to the user.
    """
    if own is not None:
        kept = [place for place, name in enumerate(calibration.names) if name in own]
        names = tuple(calibration.names[place] for place in kept)
        calibration = Calibration(names, calibration.low[:, kept], calibration.high[:, kept])
    count = len(calibration.low)
    found = []
    if count < FEW_SAMPLES:
        found.append(
            f"The ranges come from {count} sample{'s' if count > 1 else ''}: values outside them are clipped on the "
            f"device. Pass {FEW_SAMPLES} or more."
        )
    if count > 2:
        found += _outlier_notes(calibration, layers, step)
    found += _constant_notes(calibration, layers)
    return tuple(found)


def _outlier_notes(calibration: Calibration, layers: LayerNames, step: bool) -> list[str]:
    count = len(calibration.low)
    for handful in range(1, max(1, math.floor(count * HANDFUL)) + 1):
        ratio, width, without = _widened(calibration, handful)
        if not ratio.size or ratio.max() < WIDENED_BY:
            continue
        column = int(np.argmax(ratio))
        extremes = np.maximum(calibration.high[:, column], -calibration.low[:, column])
        rows = sorted(int(row) for row in np.argsort(extremes)[-handful:])
        affected = len({layers.of(calibration.names[i]) for i in np.flatnonzero(ratio >= WIDENED_BY)})
        which = f"{handful} time step{'s' if handful > 1 else ''}" if step else _rows(rows)
        what = "the sequences for numbers that stand out" if step else "these rows"
        return [
            f"{which} of {count} set{'s' if handful == 1 else ''} the range of {affected} layer(s): "
            f"`{layers.of(calibration.names[column])}` spans {width[column]:.3g} with and {without[column]:.3g} "
            f"without, so that ordinary inputs use 1/{ratio[column]:.0f} of the codes. Check {what}, or "
            "remove them."
        ]
    return []


def _widened(calibration: Calibration, handful: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Returns, per tensor, (ratio, width, width without the `handful` most extreme samples)."""
    width = calibration.high.max(axis=0) - calibration.low.min(axis=0)
    without = np.sort(calibration.high, axis=0)[-1 - handful] - np.sort(calibration.low, axis=0)[handful]
    ratio = width / np.maximum(without, np.finfo(np.float32).tiny)
    ratio[(width < SMALLEST_RANGE) | (without <= 0)] = 0.0
    return ratio, width, without


def _rows(rows: list[int]) -> str:
    if len(rows) == 1:
        return f"Row {rows[0]}"
    return f"{len(rows)} rows ({', '.join(map(str, rows[:5]))}{', ...' if len(rows) > 5 else ''})"


def _constant_notes(calibration: Calibration, layers: LayerNames) -> list[str]:
    low, high = calibration.low.min(axis=0), calibration.high.max(axis=0)
    flat = (high - low <= 0) if len(calibration.low) > 1 else np.zeros(len(low), bool)
    tiny = np.maximum(np.abs(low), np.abs(high)) < SMALLEST_RANGE
    large = {layers.of(calibration.names[i]) for i in np.flatnonzero(~tiny)}
    found = []
    for mask, what in (
        (flat & ~tiny, "give the same number for every input"),
        (tiny, f"stay below {SMALLEST_RANGE:g} on the data, which integers of this range cannot tell from 0"),
    ):
        named = dict.fromkeys(layers.of(calibration.names[i]) for i in np.flatnonzero(mask))
        # A squareplus of 0 is 1: a layer with such a result is not close to 0, whatever its sums are.
        names = [name for name in named if mask is not tiny or name not in large]
        if names:
            found.append(
                f"{len(names)} layer(s) {what}: {', '.join(f'`{name}`' for name in names[:5])}"
                f"{', ...' if len(names) > 5 else ''}. Is the model trained, and are the inputs scaled as in training?"
            )
    return found

"""Whether a file of one time step moves away from Keras over long sequences, with its own states fed back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.agreement import Agreement
from sqp_tflite.run.by_step import by_step
from sqp_tflite.run.interpreters import Outputs, RuntimeFailedError
from sqp_tflite.run.judge import spread
from sqp_tflite.run.sequences import Stream, joined
from sqp_tflite.source.samples import Samples
from sqp_tflite.source.step.step import Step
from sqp_tflite.wording import apart

LIMIT = 1e-3
"""Max drift of a float file, over the range: each step passes on the rounding of all steps before it."""


def drift(
    rows: tuple[Agreement, ...], content: bytes, stream: Stream, samples: Samples, steps: Mapping[str, Step]
) -> tuple[Agreement, ...]:
    """Returns the rows with the errors at single steps, after 4 times as many steps as a sequence has, too.

    Args:
        rows: Of the comparison over the model's sequences.
        content: The file.
        stream: How it is run.
        samples: The sequences, of which as many as are needed are joined.
        steps: {what the rows are against: the step in Keras that computes the reference}.
    """
    times = next(iter(steps.values())).times
    inputs = joined(samples, times)
    length = samples.inputs[0].shape[1]
    wanted = {against: by_step(step, inputs) for against, step in steps.items()}
    found: dict[str, Outputs | None] = {}
    made = []
    for row in rows:
        judged = row.status in ("ok", "differs") and not row.emulated and row.output in wanted[row.against]
        if judged and row.runtime not in found:
            found[row.runtime] = _outputs(row.runtime, content, inputs, stream)
        outputs = found.get(row.runtime) if judged else None
        if outputs is not None and row.on == next(iter(samples.parts())):
            place = list(wanted[row.against]).index(row.output)
            late = steps[row.against].late[place]
            row = _with(row, outputs.values[place], wanted[row.against][row.output], (length, times), late)
        made.append(row)
    return tuple(made)


def _outputs(runtime: str, content: bytes, inputs: tuple[NDArray[Any], ...], stream: Stream) -> Outputs | None:
    try:
        return stream.steps(runtime, content, inputs)
    except RuntimeFailedError:  # It ran the samples: the rows say how.
        return None


def _with(row: Agreement, ours: NDArray[Any], theirs: NDArray[Any], span: tuple[int, int], late: int) -> Agreement:
    length, times = span
    size = max(spread(theirs[:, late:]), row.spread or 0.0) or float(np.abs(theirs).max(initial=0.0)) or 1.0
    places = dict.fromkeys(max(late + 1, place) for place in (1, length // 4, length // 2, length, times * length))
    errors = np.abs(ours.astype(np.float64) - theirs)
    seen = tuple((place, float(errors[:, place - 1].max(initial=0.0)) / size) for place in places)
    row = dataclasses.replace(row, drift=seen)
    step, worst = max(seen, key=lambda one: one[1])
    limit = max(row.limit or 0.0, LIMIT)
    if row.status != "ok" or worst <= limit:
        return row
    off, most = apart(worst, limit)
    reason = (
        f"output `{row.output}`: with its own states fed back the file is off by {off} of the range at step {step}; "
        f"the limit is {most}"
    )
    return dataclasses.replace(row, status="differs", reason=reason)

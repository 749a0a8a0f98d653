"""Exchanges, before the plan, the activations that need exp or log and the last softmax or sigmoid."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqp_keras
from sqp_tflite.errors import BadInputError
from sqp_tflite.load import Loaded, reload
from sqp_tflite.report import Replacement
from sqp_tflite.samples import Samples

HEADS = ("keep", "logits")


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A model with other activations, and what changed.

    Attributes:
        loaded: The changed model; the very one that came in where nothing was asked for.
        replacements: One per activation that was exchanged.
        notes: How to read outputs that lost their head; what was left and why.
        threshold: Above which value the first output says yes if it is one unit: 0 where its sigmoid was dropped.
    """

    loaded: Loaded
    replacements: tuple[Replacement, ...] = ()
    notes: tuple[str, ...] = ()
    threshold: float = 0.5


def exchange(loaded: Loaded, inputs: Samples, *, replace: str | Mapping[str, Any] | None, head: str) -> Exchanged:
    """Returns the model as it is to be exported; the user's own is only read.

    Args:
        loaded: What `load` returned.
        inputs: The user's samples, on which "fast" fits; seeded ones fit nothing.
        replace: A rule of `sqp_keras.replace_activations`, None to leave all.
        head: "logits" to drop a final softmax or sigmoid, "keep" to leave it.

    Raises:
        BadInputError: A rule that means nothing for this model, or a model that cannot be copied.
    """
    if replace is None and head == "keep":
        return Exchanged(loaded)
    if loaded.model is None:
        raise BadInputError(
            f"`--replace` and `--head logits` need the Keras model. Received: `{loaded.source}`, a SavedModel, which "
            "holds finished graphs. Save the model as .keras and export that."
        )
    try:
        return _exchanged(loaded, inputs, replace, head)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"{error}") from error


def _exchanged(loaded: Loaded, inputs: Samples, replace: str | Mapping[str, Any] | None, head: str) -> Exchanged:
    model, threshold = loaded.model, 0.5
    notes: list[str] = []
    replacements: tuple[Replacement, ...] = ()
    if head == "logits":
        model, heads = sqp_keras.drop_head(model)
        names = [dropped.output for dropped in heads if dropped.was == "sigmoid"]
        first = (getattr(loaded.model, "output_names", None) or [""])[0]
        threshold = 0.0 if set(names) & {"", first} else 0.5
        dropped_none = "No output ends in a softmax or sigmoid: nothing was dropped."
        notes += [f"{dropped}." for dropped in heads] or [dropped_none]
    if replace is not None:
        data = list(inputs.inputs) if inputs.given else None
        model, report = sqp_keras.replace_activations(model, replace, data=data)
        replacements = tuple(
            Replacement(row.layer, row.was, row.now, row.terms, row.max_change) for row in report.replacements
        )
        notes += [f"{row.layer}: {row.note}" for row in report.replacements if row.note]
        notes += [
            f"{row.layer} ({row.activation}) was left: {row.reason}."
            for row in report.unchanged
            if row.reason != "needs no exp and no log"
        ]
    return Exchanged(reload(loaded, model), replacements, tuple(notes), threshold)


def named(replacements: tuple[Replacement, ...], rows: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the plan's rows with what each exchanged activation was."""
    was = {row.layer: row.was for row in replacements}
    return tuple(
        dataclasses.replace(row, activation=f"{was[row.layer]} -> {row.activation}") if row.layer in was else row
        for row in rows
    )

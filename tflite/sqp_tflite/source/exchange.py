"""Exchanges, before the plan, the activations that need exp or log and the last softmax or sigmoid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import keras
import numpy as np

import sqp_keras
from sqp_keras.models import sites
from sqp_keras.models.rules import Cause
from sqp_keras.models.sites import is_functional
from sqp_tflite.errors import OptionError
from sqp_tflite.report import Activation, PlanRow, Replacement
from sqp_tflite.source.activations import activation
from sqp_tflite.source.calling import compiled, structured
from sqp_tflite.source.keras_errors import raised_in, running
from sqp_tflite.source.load import Loaded, reload
from sqp_tflite.source.samples import Samples
from sqp_tflite.wording import said

MAX_ERRORS = (1e-3, 3e-4, 1e-4)
"""Max change of a value under "accurate", as a share of the activation's range: the first that is good enough."""

GOOD_ENOUGH = 0.005
"""Change of an output, over its range, above which the next of `MAX_ERRORS` is tried (docs/existing_models.md)."""

_WORTH = 0.9
"""A smaller bound costs square roots: it is taken if it leaves less than this share of the change."""

_ROWS = 32
"""Samples that the choice among `MAX_ERRORS` is made on."""

_LONGEST = 600
"""Characters of what `sqp_keras` says about a rule: it lists the activations of the model."""

ACCURATE_CHANGE = 0.02
"""Max change of an output by "accurate", over its range."""

OTHER_CHANGE = 0.25
"""The same for every other rule. What is further off computes something else."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A model with other activations, and what changed.

    Attributes:
        loaded: The changed model; the same object as before if nothing was asked for.
        given: The user's model, without the heads that were dropped: what the file is compared with in the end.
        heads: What was dropped behind each output, "" for nothing; () if nothing was.
        change: Max change of an output, over its range, that the rule is meant to keep; 0 without `replace`.
        accurate: Whether `replace` was "accurate" throughout.
        replacements: One per activation that was exchanged.
        notes: How to read outputs whose softmax or sigmoid was dropped; what was left and why.
        left: Pairs (layer whose activation was left, what to do about it).
        was: Pairs (layer whose activation was exchanged, that activation).
        repaired: Whether the user's file computes something else than it means, and is not what this is compared with.
        unproven: What no comparison covers, in sentences.
    """

    loaded: Loaded
    given: Loaded
    heads: tuple[str, ...] = ()
    change: float = 0.0
    accurate: bool = True
    replacements: tuple[Replacement, ...] = ()
    notes: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    was: tuple[tuple[str, Activation], ...] = ()
    repaired: bool = False
    unproven: tuple[str, ...] = ()


def exchange(
    loaded: Loaded,
    inputs: Samples,
    *,
    replace: str | Mapping[str, Any] | None,
    head: str,
    max_error: float | None = None,
    positive: bool = False,
) -> Exchanged:
    """Returns the model as it is to be exported; the user's own is only read.

    Args:
        loaded: What `load` returned.
        inputs: The user's samples, to which "fast" is fitted; made-up ones are not used.
        replace: A rule of `sqp_keras.replace_activations`, None to leave all.
        head: "logits" to drop a final softmax or sigmoid, "keep" to leave it.
        max_error: Max change of a value under "accurate", a share of the activation's range; None for the first of
            `MAX_ERRORS` that keeps every output within `GOOD_ENOUGH` of its range.
        positive: Whether softplus, sigmoid and exponential stay above 0 under "accurate" and "fast".

    Raises:
        OptionError: A rule that does not fit this model, or a model that cannot be copied.
    """
    if replace is None and head == "keep":
        return Exchanged(loaded, loaded)
    if loaded.model is None:
        raise OptionError(
            f"`--replace` and `--head logits` need Keras layers. Received: `{loaded.source}`, of which there is a "
            "finished graph only. Leave them out: with `--quantize int8 --lowering table --data FILE.npz` activations "
            "of one number become tables (softmax is none). Or save the model with model.save('model.keras') in the "
            "program that makes it."
        )
    with running(loaded.source):
        try:
            return _exchanged(loaded, inputs, replace, head, max_error, positive)
        except (TypeError, ValueError) as error:
            if not raised_in(error, sqp_keras.__name__):  # By a layer that cannot run.
                raise
            raise OptionError(f"{said(error, _LONGEST)}.") from error


def about_zeros(activations: Iterable[str]) -> tuple[str, ...]:
    """Returns what is to be said about activations that were above 0 everywhere and can be exactly 0 now."""
    listed = ", ".join(sorted(set(activations)))
    if not listed:
        return ()
    return (f"Can be exactly 0 now: {listed}. Before a logarithm, a square root or a division add --positive.",)


def _exchanged(
    loaded: Loaded,
    inputs: Samples,
    replace: str | Mapping[str, Any] | None,
    head: str,
    max_error: float | None,
    positive: bool,
) -> Exchanged:
    given, heads, notes = without_heads(loaded) if head == "logits" else (loaded, (), ())
    if replace is None:
        return Exchanged(given, given, heads, notes=notes)
    data = structured(given.model, inputs.inputs) if inputs.given else None

    def with_bound(bound: float) -> tuple[Loaded, sqp_keras.ReplacementReport]:
        model, report = sqp_keras.replace_activations(
            given.model, replace, data=data, max_error=bound, positive=positive
        )
        return reload(loaded, model), report

    new, report = with_bound(MAX_ERRORS[0] if max_error is None else max_error)
    rules = set(replace.values() if isinstance(replace, Mapping) else [replace])
    if max_error is None and "accurate" in rules:
        new, report, chosen = refined(given, new, report, inputs, with_bound)
        notes += chosen
    replacements = tuple(
        Replacement(row.layer, row.was, row.now, row.terms, row.max_change) for row in report.replacements
    )
    notes += tuple(f"{row.layer}: {row.note}" for row in report.replacements if row.note)
    notes += about_zeros(report.zeros)
    unchanged = [row for row in report.unchanged if row.cause is not Cause.ALLOWED]
    notes += tuple(f"{row.layer} ({row.activation}) was left: {row.reason}." for row in unchanged)
    accurate = rules == {"accurate"}
    return Exchanged(
        new,
        given,
        heads,
        change=ACCURATE_CHANGE if accurate else OTHER_CHANGE,
        accurate=accurate,
        replacements=replacements,
        notes=notes,
        left=tuple((row.layer, _remedy(row)) for row in unchanged),
        was=_before(loaded.model, replacements),
    )


class Replaced(Protocol):
    """What an exchange says about itself."""

    @property
    def replacements(self) -> Sequence[Any]:
        """Returns one row per activation, with `terms`, its number of roots."""


_Report = TypeVar("_Report", bound=Replaced)


def refined(
    given: Loaded,
    new: Loaded,
    report: _Report,
    inputs: Samples,
    with_bound: Callable[[float], tuple[Loaded, _Report]],
) -> tuple[Loaded, _Report, tuple[str, ...]]:
    """Returns the exchange with the first bound that changes no output by more than `GOOD_ENOUGH`, and a note on it.

    A bound that gains nothing is passed over: where another rule is what changes the outputs, more roots do not help.
    Many activations in sequence amplify what each of them changes, so that the bound of one says little about the end.

    Args:
        given: The model before.
        new: The model with the first of `MAX_ERRORS`.
        report: What was exchanged in it.
        inputs: The samples.
        with_bound: Returns the model, and the report, with another bound.
    """
    arrays, sets = [array[:_ROWS] for array in inputs.inputs], tuple(inputs.parts().values())
    before = compiled(given.model, given.call)(arrays)
    first = last = _change(before, compiled(new.model, new.call)(arrays), sets)
    best, chosen = (new, report), MAX_ERRORS[0]
    for bound in MAX_ERRORS[1:]:
        if last <= GOOD_ENOUGH:
            break
        try:
            finer = with_bound(bound)
        except ValueError:  # Some activation has no sum that is so close.
            break
        change = _change(before, compiled(finer[0].model, finer[0].call)(arrays), sets)
        if change < _WORTH * last:
            best, chosen, last = finer, bound, change
    if chosen == MAX_ERRORS[0]:
        return *best, ()
    count = sum(row.terms is not None for row in report.replacements)
    note = (
        f"The {count} sums of roots follow their activations within {chosen:g} of their range instead of "
        f"{MAX_ERRORS[0]:g}: an output would have changed by {first:.2g} of its range, now {last:.2g} "
        f"(--max-error {MAX_ERRORS[0]:g} has fewer roots)."
    )
    return *best, (note,)


def _change(before: Mapping[str, Any], after: Mapping[str, Any], sets: tuple[slice, ...]) -> float:
    """Returns the largest change of an output in a set over its range there, which includes 0; 0 if it is NaN.

    As in the verdict each set has a range of its own, and at least that of the first: made-up inputs that are 1000
    times as large as ordinary ones would hide what changes for these.
    """
    changes = [0.0]
    for was, now in zip(before.values(), after.values(), strict=True):
        held, made, least = np.asarray(was, np.float64), np.asarray(now, np.float64), 0.0
        for place in sets:
            spread = max(float(np.ptp(np.append(held[place], 0.0))), least)
            changes.append(float(np.abs(made[place] - held[place]).max(initial=0.0)) / (spread or 1.0))
            least = least or spread
    return max(change for change in changes if np.isfinite(change))


def without_heads(loaded: Loaded) -> tuple[Loaded, tuple[str, ...], tuple[str, ...]]:
    """Returns the model without its last softmax or sigmoid, what each output lost, and how to read it now.

    Raises:
        OptionError: The model cannot be copied.
    """
    try:
        model, heads = sqp_keras.drop_head(loaded.model)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{error}") from error
    if not heads:
        return loaded, (), (_nothing_dropped(model),)
    lost = {dropped.output: dropped.was for dropped in heads}
    names = [""] if isinstance(model, keras.Sequential) or len(model.outputs) == 1 else list(model.output_names)
    return reload(loaded, model), tuple(lost.get(name, "") for name in names), tuple(f"{one}." for one in heads)


def _before(model: Any, replacements: tuple[Replacement, ...]) -> tuple[tuple[str, Activation], ...]:
    """The exchanged activations as they were, under the names that the exchange gave them (gelu or gelu_tanh)."""
    held = {site.label: activation(site) for site in sites.sites(model)}
    return tuple(
        (row.layer, dataclasses.replace(held.get(row.layer, Activation(row.was)), name=row.was)) for row in replacements
    )


def _nothing_dropped(model: Any) -> str:
    if isinstance(model, keras.Sequential) or is_functional(model):
        return "No output ends in a softmax or sigmoid: nothing was dropped."
    return (
        f"Nothing was dropped: only Sequential and functional models say which layer makes an output, and "
        f"`{model.name}` is neither."
    )


def _remedy(row: sqp_keras.Unchanged) -> str:
    if row.cause is Cause.NO_RULE:
        return f"Add {row.activation}=accurate to `--replace`."
    if row.cause is Cause.KEPT:
        return f"`--replace` says to keep it; {row.activation}=accurate exchanges it."
    return f"`--replace` left it: {row.reason}."


def named(was: tuple[tuple[str, Activation], ...], rows: tuple[PlanRow, ...]) -> tuple[PlanRow, ...]:
    """Returns the plan's rows with what each exchanged activation was.

    Args:
        was: Of an `Exchanged`.
        rows: Of the plan for the changed model.
    """
    before = dict(was)
    return tuple(dataclasses.replace(row, was=before.get(row.layer)) for row in rows)

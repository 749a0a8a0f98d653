"""Exchanges the activations of an existing model that need exp or log."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from sqp_keras import accept, private
from sqp_keras.family.attention import WITH_SOFTMAX
from sqp_keras.models import observe, rules
from sqp_keras.models.choose import Choice, choose
from sqp_keras.models.observe import Seen
from sqp_keras.models.rebuild import CannotCopyError, rebuild
from sqp_keras.models.rules import Cause, Decision
from sqp_keras.models.sites import function_at, in_own_code, paths, sites

_FARTHER_OFF = (
    '"fast" stays ten to hundreds of times as far off as "accurate", even after distill: use "accurate" unless the '
    "device has no time for its roots"
)
"""docs/algebraic.md has the figures; benchmarks/distill_zoo.py measures them."""

_REMEDY_OF_ZERO = "before a logarithm, a square root or a division pass positive=True"


@dataclass(frozen=True, slots=True)
class Replacement:
    """One activation that was exchanged.

    Attributes:
        layer: Path of the layer, e.g. "encoder/dense" or "lstm/lstm_cell.recurrent_activation".
        was: Keras's name of the activation.
        now: What it is now, e.g. "algebraic softplus" or "squareplus(b=1.52)".
        terms: Number of square roots; None for a form without any.
        max_change: Max change of a value: over the layer's own inputs if data was given, else over the real line
            (over [-8, 8] for a form that is not meant to be close).
        mean_change: Mean change over the layer's own inputs; None without data.
        note: What else the user must know; often empty.
        least: The least value of the new form if the activation was above 0 everywhere (softplus, sigmoid,
            exponential): 0.0 if a logarithm or a division can fail, above 0 with `positive=True`; else None.
    """

    layer: str
    was: str
    now: str
    terms: int | None
    max_change: float | None
    mean_change: float | None
    note: str = ""
    least: float | None = None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """One activation that was left as it was, and why.

    Attributes:
        layer: Path of the layer.
        activation: Keras's name of the activation.
        cause: Why it was left.
        spelled: The activation's name in the model.
    """

    layer: str
    activation: str
    cause: Cause
    spelled: str = ""

    @property
    def reason(self) -> str:
        """Returns the cause in words."""
        return rules.reason(self.cause, self.activation, self.spelled or self.activation)


@dataclass(frozen=True, slots=True)
class ReplacementReport:
    """What `replace_activations` did, in the order of the model's layers; `fast` if a rule was "fast"."""

    replacements: tuple[Replacement, ...]
    unchanged: tuple[Unchanged, ...]
    fast: bool = False

    @property
    def zeros(self) -> tuple[str, ...]:
        """Returns the activations that were above 0 everywhere and can be exactly 0 now."""
        return tuple(sorted({row.was for row in self.replacements if row.least == 0.0}))

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain data."""
        unchanged = [{**asdict(row), "cause": row.cause.value, "reason": row.reason} for row in self.unchanged]
        return {"replacements": [asdict(row) for row in self.replacements], "unchanged": unchanged}

    def __str__(self) -> str:
        """Returns the report as a table."""
        rows: list[tuple[str, ...]] = [("layer", "was", "now", "roots", "max change", "mean change")]
        for r in self.replacements:
            changes = ["-" if v is None else f"{v:.2g}" for v in (r.max_change, r.mean_change)]
            rows.append((r.layer, r.was, r.now, "-" if r.terms is None else str(r.terms), *changes))
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines += [f"note: {r.layer}: {r.note}" for r in self.replacements if r.note]
        lines += [f"note: can be exactly 0 here: {', '.join(self.zeros)}; {_REMEDY_OF_ZERO}"] if self.zeros else []
        lines += [f"note: {_FARTHER_OFF}"] if self.fast and self.replacements else []
        lines += [f"unchanged: {u.layer} ({u.activation}): {u.reason}" for u in self.unchanged]
        return "\n".join(lines)


def replace_activations(
    model: keras.Model,
    rule: str | Mapping[str, Any] = "accurate",
    keep: Iterable[str] = (),
    data: Any = None,
    *,
    max_error: float = 1e-3,
    positive: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
) -> tuple[Any, ReplacementReport]:
    """Returns a new model with the same weights and other activations, and a report; `model` is not changed.

    The new model is not compiled.

    Args:
        model: A built Keras model: Sequential, functional, nested, shared layers, recurrent layers, wrappers, and
            subclassed models and layers that can be made from their configuration.
        rule: "accurate": sums of square roots with enough terms. "fast": as few roots as possible, mostly one, with b
            fitted to the layer's own inputs if `data` is given; meant to be followed by `distill`, and still ten to
            hundreds of times as far off as "accurate" (docs/algebraic.md). A mapping from the
            name of a layer, of a nested model or of an activation (the most specific one counts, "*" is all others)
            to one of these, to "keep", to the name of an activation such as "hard_silu", or to a layer such as
            Squareplus(b=2.0).
        keep: Layers and activations to leave as they are.
        data: Inputs of the model, about 256 of which are run: an array, a list or dictionary of arrays, or a dataset.
        max_error: For "accurate": max change of a value, as a share of the activation's range if that is finite
            (2 for tanh), else of 1.
        positive: Under "accurate" and "fast", keep softplus, sigmoid and exponential above 0 (by 2**-15 or less, see
            `algebraic`), for a logarithm, a square root or a division behind them. A softmax can still be 0.
        custom_objects: Your own classes and functions that cannot be found in the model.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A rule is not valid for this model, or a layer cannot be copied.

    Example:
        new, report = replace_activations(model, {"silu": "accurate", "head": "keep"}, data=x_train)
    """
    model, custom_objects = accept.model("model", model), accept.objects("custom_objects", custom_objects)
    given = tuple(rule.values()) if isinstance(rule, Mapping) else (rule,)
    found, keep, positive = sites(model), accept.names("keep", keep), accept.boolean("positive", positive)
    decisions = _without_hidden(model, rules.decide(found, rule, keep, max_error, data is not None, positive))
    changed = [decision for decision in decisions if decision.form]
    seen = _seen(model, changed, data)
    made = {id(d): choose(d, s) for d, s in zip(changed, seen, strict=True)}
    substitutes = {(id(d.site.owner), d.site.attribute): made[id(d)].make for d in changed}
    new = rebuild(model, substitutes, custom_objects)
    lost = _lost(model, new, changed, custom_objects)
    replacements = tuple(_row(d, made[id(d)], s, lost) for d, s in zip(changed, seen, strict=True))
    # A layer without an activation is not worth a row.
    unchanged = tuple(
        Unchanged(d.site.label, d.was, d.cause, d.site.activation.spelled)
        for d in decisions
        if d.cause is not None and d.was != "linear"
    )
    return new, ReplacementReport(replacements, unchanged, "fast" in given)


def _without_hidden(model: keras.Model, decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """Returns the decisions, less the exchange of attention's softmax if this release hides it."""
    hidden = set()
    if not private.attention_is_open():
        holders = {path for path, layer in paths(model) if isinstance(layer, tuple(WITH_SOFTMAX))}
        hidden = {id(d) for d in decisions if d.form == "softmax" and d.site.path.rpartition("/")[0] in holders}
    if not private.scores_are_open():
        hidden |= {id(d) for d in decisions if d.form and d.site.attribute in in_own_code(d.site.owner)}
    return tuple(Decision(d.site, d.was, cause=Cause.HIDDEN) if id(d) in hidden else d for d in decisions)


def _seen(model: keras.Model, changed: list[Decision], data: Any) -> list[Seen | None]:
    if data is None:
        return [None] * len(changed)
    elementwise = [decision for decision in changed if decision.form != "softmax" and decision.was != "softmax"]
    seen = dict(
        zip(map(id, elementwise), observe.observe(model, tuple(d.site for d in elementwise), data), strict=True)
    )
    return [seen.get(id(decision)) for decision in changed]


def _row(decision: Decision, choice: Choice, seen: Seen | None, lost: Mapping[int, str]) -> Replacement:
    largest, mean = choice.bound, None
    if choice.run is not None and seen is not None:
        change = np.abs(_on_array(choice.run, seen.x) - seen.y)
        largest, mean = float(change.max()), float(change.mean())
    elif choice.run is not None and choice.bound is None:
        x = np.linspace(-8.0, 8.0, 4001)
        largest = float(np.abs(_on_array(choice.run, x) - _on_array(_runner(decision), x)).max())
    note = lost.get(id(decision), "")
    least = choice.least if rules.can_be_zero(decision) else None
    return Replacement(decision.site.label, decision.was, choice.now, choice.terms, largest, mean, note, least)


def _on_array(run: Callable[..., Any], x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(ops.convert_to_numpy(run(ops.convert_to_tensor(x[None], "float32")))[0], np.float64)


def _runner(decision: Decision) -> Callable[..., Any]:
    site = decision.site
    if site.attribute:
        return function_at(site)
    if isinstance(site.owner, keras.layers.Layer):
        return type(site.owner).from_config(site.owner.get_config())
    return site.owner.call


def _lost(
    model: keras.Model, new: Any, changed: list[Decision], custom_objects: Mapping[str, Any] | None
) -> dict[int, str]:
    """Returns notes on exchanges that a saved file would not hold: those in classes that make their own layers."""
    users = [(path, layer) for path, layer in _user_layers(model)]
    inside = [d for d in changed if any(path == "" or f"{d.site.path}/".startswith(f"{path}/") for path, _ in users)]
    if not inside:
        return {}
    names = ", ".join(sorted({type(layer).__name__ for _, layer in users}))
    try:
        again = [site.activation.name for site in sites(rebuild(new, {}, custom_objects))]
    except CannotCopyError as error:
        return {id(d): f"a saved file may not load: {error}" for d in inside}
    now = [site.activation.name for site in sites(new)]
    order = {(id(site.owner), site.attribute): i for i, site in enumerate(sites(model))}
    text = (
        f"is in this model but not in a file saved from it: a class of yours ({names}) makes its own layers and its "
        "get_config does not name the activation. Export this model as it is"
    )
    places = {id(d): order[id(d.site.owner), d.site.attribute] for d in inside}
    return {key: text for key, i in places.items() if len(again) != len(now) or again[i] != now[i]}


def _user_layers(model: keras.Model) -> Iterable[tuple[str, keras.layers.Layer]]:
    for path, layer in [("", model), *paths(model)]:
        own = type(layer).__module__.split(".")[0] not in ("keras", "sqp_keras")
        if own and isinstance(layer, keras.layers.Layer):
            yield path, layer

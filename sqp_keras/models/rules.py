"""Which activation becomes what: reads the rule of `replace_activations` and decides site by site."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import keras

from sqp_keras import accept
from sqp_keras.family import coefficients
from sqp_keras.family.names import canonical
from sqp_keras.models.sites import UNKNOWN, Site

RULES = ("accurate", "fast", "keep")

ALLOWED = frozenset(
    {*coefficients.PASSED, "hard_sigmoid_keras2", "prelu", "squareplus", "algebraic", "algebraic_softmax"}
)
"""Activations that need neither exp nor log."""


class Cause(str, Enum):
    """Why an activation was left as it was."""

    KEPT = "kept"
    NO_RULE = "no_rule"
    ALLOWED = "allowed"
    SAME = "same"
    NO_FORM = "no_form"
    NEEDS_DATA = "needs_data"
    HIDDEN = "hidden"


_REASONS = {
    Cause.KEPT: "kept, as requested",
    Cause.NO_RULE: "no rule for it",
    Cause.ALLOWED: "needs no exp and no log",
    Cause.NEEDS_DATA: "exponential has a sum only up to a largest input: pass data, or use Algebraic(upper=...)",
    Cause.HIDDEN: "this Keras release hides the softmax of attention",
}

_NO_FORM = {
    "log_softmax": "needs the logarithm of a sum of exponentials; if it is the last layer, drop it and read the logits",
    "sparsemax": "sorts its input, which a sum of square roots cannot do",
    "glu": "splits its input, which an elementwise form cannot do; write it as a product with Algebraic('sigmoid')",
    "sparse_plus": "has no exp and no log; Keras writes it with a selection",
    "sparse_sigmoid": "has no exp and no log; Keras writes it with a selection",
    "tanh_shrink": "has no sum of its own; write it as x - Algebraic('tanh')(x)",
    UNKNOWN: "is your own code, which is never run to find out what it computes",
}

Form = Literal["algebraic", "squareplus", "softmax", "named", "layer", ""]

TO_SQUAREPLUS = ("softplus", "silu", "gelu", "gelu_tanh", "mish")


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one site.

    Attributes:
        site: The activation.
        was: Its name, "gelu_tanh" for gelu with `approximate=True`.
        form: "algebraic", "squareplus", "softmax", "named" (an activation of Keras), "layer", or "" to leave it.
        of: The name of a "named" one.
        terms: Number of roots of an "algebraic" one.
        alpha: Parameter of elu and celu.
        axis: Axis or axes of a "softmax".
        fitted: Whether b is fitted on data ("fast").
        positive: Whether the values are held above 0.
        layer: The layer whose configuration a "layer" one takes.
        cause: Why it is left; None if it is exchanged.
    """

    site: Site
    was: str
    form: Form = ""
    of: str = ""
    terms: int | None = None
    alpha: float = 1.0
    axis: Any = -1
    fitted: bool = False
    positive: bool = False
    layer: Any = None
    cause: Cause | None = None


def decide(
    sites: tuple[Site, ...], rule: Any, keep: Iterable[str], max_error: float, has_data: bool, positive: bool = False
) -> tuple[Decision, ...]:
    """Returns a decision per site.

    Args:
        sites: The activations of the model.
        rule: "accurate", "fast", or a mapping from an activation's or a layer's name to one of these, to "keep", to
            the name of an activation, or to a layer; "*" means all others.
        keep: Names of layers and activations to leave as they are.
        max_error: For "accurate".
        has_data: Whether inputs were given; exponential needs them.
        positive: Whether what is above 0 everywhere stays so under "accurate" and "fast".

    Raises:
        TypeError: `rule` or `keep` is of another type.
        ValueError: A rule or a name is not valid for these activations.
    """
    _check(rule, keep, max_error)
    rules = {"*": rule} if isinstance(rule, str) else dict(rule)
    known = {canonical(key) for site in sites for key in _names(site)}
    for key in [*rules, *keep]:
        # An activation that this model does not use may be named: one table of rules can serve many models.
        if key != "*" and canonical(key) not in known and canonical(key) not in _activations():
            where = "" if key in rules else " in `keep`"
            raise ValueError(
                f"A rule is for an activation or a layer of the model. Received: {accept.shown(key)}{where}. "
                f"The model has: {_some(sorted({site.label for site in sites}))}."
            )
    kept = {canonical(name) for name in keep}
    made = (_decide(site, rules, kept, max_error, has_data) for site in sites)
    return tuple(replace(d, positive=positive and can_be_zero(d)) for d in made)


def can_be_zero(decision: Decision) -> bool:
    """Returns whether a site's activation is above 0 everywhere and its new form, unless held, is not."""
    return decision.form in ("algebraic", "squareplus") and decision.was in coefficients.POSITIVE


def reason(cause: Cause, was: str, spelled: str) -> str:
    """Returns a sentence without a full stop that says why an activation was left.

    Args:
        cause: The cause.
        was: The activation's name.
        spelled: Its name in the model.
    """
    if cause is Cause.SAME:
        return f"is {was} already"
    if cause is Cause.NO_FORM:
        return f"`{spelled}` {_NO_FORM.get(was, 'has no algebraic form here')}"
    return _REASONS[cause]


def was_name(site: Site) -> str:
    """Returns the name under which the sum is looked up."""
    parameters = dict(site.activation.parameters)
    if site.activation.name == "gelu" and parameters.get("approximate"):
        return "gelu_tanh"
    return site.activation.name


def _check(rule: Any, keep: Any, max_error: Any) -> None:
    form = '"accurate", "fast" or a mapping from names to rules'
    if not isinstance(rule, str | Mapping):
        accept.wrong_type("rule", form, rule, "Pass e.g. 'accurate'.")
    accept.names("keep", keep)
    if isinstance(rule, str) and rule not in RULES:
        accept.wrong_value("rule", form, rule, "Pass e.g. 'accurate'.")
    for name, value in rule.items() if isinstance(rule, Mapping) else ():
        if not isinstance(name, str) or not isinstance(value, str | keras.layers.Layer):
            raise TypeError(
                f"A rule is a string or a layer. Received: {accept.shown(value)} for `{accept.shown(name)}` in "
                '`rule`. Pass "accurate", "fast", "keep", the name of an activation, or a layer.'
            )
        if isinstance(value, str) and value not in (*RULES, "keep") and canonical(value) not in _activations():
            raise ValueError(
                'A rule is "accurate", "fast", "keep" or the name of an activation. Received: '
                f"{accept.shown(value)} for {accept.shown(name)}."
            )
    if not accept.is_number(max_error) or not 0.0 < max_error < 1.0:
        accept.wrong_value("max_error", "a share of the activation's range, above 0", max_error, "Pass e.g. 1e-3.")


def _some(labels: list[str]) -> str:
    return ", ".join(labels[:8]) + (f" and {len(labels) - 8} more" if len(labels) > 8 else "")


def _names(site: Site) -> tuple[str, ...]:
    parts = site.path.split("/")
    return (site.label, site.path, parts[-1], *("/".join(parts[:i]) for i in range(1, len(parts))), was_name(site))


def _rule(site: Site, rules: Mapping[str, Any]) -> Any:
    """Returns the most specific rule: the exact place, the layer's name, a model around it, the activation, all."""
    held = {canonical(key): value for key, value in rules.items()}
    parts = site.path.split("/")
    around = ["/".join(parts[:i]) for i in range(len(parts) - 1, 0, -1)]
    for key in (site.label, site.path, parts[-1], *around, was_name(site), site.activation.name, "*"):
        if canonical(key) in held:
            return held[canonical(key)]
    return "keep"


def _decide(site: Site, rules: Mapping[str, Any], keep: set[str], max_error: float, has_data: bool) -> Decision:
    was = was_name(site)
    if keep & {canonical(name) for name in _names(site)}:
        return Decision(site, was, cause=Cause.KEPT)
    rule = _rule(site, rules)
    if isinstance(rule, keras.layers.Layer):
        return Decision(site, was, form="layer", layer=rule)
    if rule == "keep":
        return Decision(site, was, cause=Cause.KEPT if "keep" in rules.values() else Cause.NO_RULE)
    if rule not in RULES:
        return _named(site, was, rule)
    if was in ALLOWED:
        return Decision(site, was, cause=Cause.ALLOWED)
    return _by_rule(site, was, rule, max_error, has_data)


def _named(site: Site, was: str, rule: str) -> Decision:
    name = canonical(rule)
    if name == was:
        return Decision(site, was, cause=Cause.SAME)
    return Decision(site, was, form="squareplus" if name == "squareplus" else "named", of=name)


def _by_rule(site: Site, was: str, rule: str, max_error: float, has_data: bool) -> Decision:
    parameters = dict(site.activation.parameters)
    if was == "softmax":
        return Decision(site, was, form="softmax", axis=parameters.get("axis", -1))
    if was not in coefficients.names():
        return Decision(site, was, cause=Cause.NO_FORM)
    if was == "exponential" and not has_data:
        return Decision(site, was, cause=Cause.NEEDS_DATA)
    alpha = float(parameters.get("alpha") or 1.0)
    if rule == "fast" and was in TO_SQUAREPLUS:
        return Decision(site, was, form="squareplus", fitted=True)
    if rule == "fast":
        return Decision(site, was, "algebraic", terms=coefficients.term_counts(was)[0], alpha=alpha, fitted=True)
    terms = None if was == "exponential" else coefficients.enough(was, max_error, alpha)
    return Decision(site, was, form="algebraic", terms=terms, alpha=alpha)


def _activations() -> frozenset[str]:
    names = {canonical(name) for name, value in vars(keras.activations).items() if callable(value) and name.islower()}
    return frozenset(names - {"get", "serialize", "deserialize"} | {"squareplus", "prelu", "gelu_tanh", "leaky_relu"})

"""Chooses what replaces an activation: the layer or function, its name, what it computes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from sqp_keras.activation.constants import B_CURVATURE
from sqp_keras.activation.layer import Squareplus
from sqp_keras.family import coefficients
from sqp_keras.family.algebraic import evaluate
from sqp_keras.family.algebraic_layer import Algebraic, AlgebraicSoftmax
from sqp_keras.models.fit import fitted_b, fitted_sum
from sqp_keras.models.observe import Seen
from sqp_keras.models.rules import Decision

SOFTMAX_ERROR = 5e-4
"""Max error of the algebraic softmax for up to 1000 values; docs/algebraic.md lists it by length."""

_UPPER_MARGIN = 1.0
"""How far above the largest observed input the sum still follows exponential."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What replaces one site.

    Attributes:
        make: Function of the owner that returns the layer or function.
        now: Its name in the report.
        terms: Number of square roots, None if it has none.
        run: What it computes on an array; None if it is not elementwise.
        bound: Max error over the real line, None if it is not known.
        least: The least value of a sum or squareplus in the place of an activation that is above 0 everywhere.
    """

    make: Callable[[Any], Any]
    now: str
    terms: int | None
    run: Callable[[npt.NDArray[np.float64]], Any] | None
    bound: float | None
    least: float = 0.0


def choose(decision: Decision, seen: Seen | None) -> Choice:
    """Returns what replaces a site.

    Args:
        decision: What was decided for it; not to leave it.
        seen: What the activation receives and returns, None if it is not known.

    Raises:
        ValueError: The rule names an activation that Keras lacks, or exponential without a known largest input.
    """
    if decision.form == "softmax":
        axis = decision.axis
        make = _maker(decision, lambda **kw: AlgebraicSoftmax(axis, **kw))
        return Choice(make, "algebraic softmax", None, None, SOFTMAX_ERROR)
    if decision.form == "squareplus":
        b = fitted_b(decision.was, seen) if decision.fitted else B_CURVATURE
        floor = coefficients.LEAST_POSITIVE if decision.positive else 0.0
        now = f"squareplus(b={b:.4g}{f', floor={floor:.2g}' if floor else ''})"
        make = _maker(decision, lambda **kw: Squareplus(b=b, floor=floor, **kw))
        return Choice(make, now, 1, Squareplus(b=b, floor=floor), None, least=floor)
    if decision.form == "named":
        return _named_choice(decision)
    if decision.form == "layer":
        config = decision.layer.get_config()
        drop = {key: value for key, value in config.items() if key not in ("name", "dtype")}
        kind = type(decision.layer)
        run = decision.layer
        return Choice(_maker(decision, lambda **kw: kind.from_config({**drop, **kw})), kind.__name__, None, run, None)
    return _algebraic_choice(decision, seen)


def _named_choice(decision: Decision) -> Choice:
    function = keras.activations.get(decision.of) if decision.of != "gelu_tanh" else None
    if function is None:
        raise ValueError("Keras has no activation gelu_tanh. Received: a rule 'gelu_tanh'. Use 'gelu' or 'accurate'.")
    if decision.site.attribute:
        return Choice(lambda owner: function, decision.of, None, function, None)
    make = _maker(decision, lambda **kw: keras.layers.Activation(function, **kw))
    return Choice(make, decision.of, None, function, None)


def _algebraic_choice(decision: Decision, seen: Seen | None) -> Choice:
    of, terms, alpha = decision.was, decision.terms, decision.alpha
    upper = None
    if of == "exponential":
        if seen is None:
            raise ValueError(
                f"`{decision.site.label}` uses exponential and never ran on `data`, so its largest input is unknown. "
                f"Keep it: keep=['{decision.site.label}']."
            )
        upper = float(seen.x.max()) + _UPPER_MARGIN
    made = coefficients.find(of, terms, alpha, upper)
    if decision.fitted and seen is not None:
        made = fitted_sum(made, seen)
    positive = decision.positive
    made = coefficients.above_zero(of, made, upper) if positive else made
    config = made.config()
    make = _maker(decision, lambda **kw: Algebraic(of, terms, alpha, upper, config, positive, **kw))
    count = sum(len(part.roots) for part in made.parts)
    now = f"algebraic {of}{', above 0' if positive else ''}"
    return Choice(make, now, count, lambda x: evaluate(x, made), made.value_error, least=made.low or 0.0)


def _maker(decision: Decision, build: Callable[..., Any]) -> Callable[[Any], Any]:
    def make(owner: Any) -> Any:
        name = owner.name if not decision.site.attribute else f"{owner.name}_{decision.site.attribute.strip('_')}"
        policy = getattr(owner, "dtype_policy", None)
        return build(name=name, dtype=policy) if policy is not None else build(name=name)

    return make

"""The sums of square roots that replace activations with exp or log, read from coefficients.json and scaled."""

import dataclasses
import functools
import json
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

from sqp_keras import accept

SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805

PASSED = (
    "linear",
    "relu",
    "relu6",
    "leaky_relu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "hard_shrink",
    "soft_shrink",
    "threshold",
)
"""Activations without exp and log: they stay Keras's own."""


@dataclass(frozen=True, slots=True)
class Root:
    """One term, weight * sqrt((t - centre)**2 + b)."""

    weight: float
    centre: float
    b: float

    def numbers(self) -> list[float]:
        """Returns the three numbers as a saved layer and the data file hold them."""
        return [self.weight, self.centre, self.b]


@dataclass(frozen=True, slots=True)
class Part:
    """slope*t + the sum of the roots of t, with t = x clipped to [low, high].

    Attributes:
        low: Lower end of t, None for none.
        high: Upper end of t, None for none.
        slope: Factor of t.
        roots: The terms with a square root.
    """

    low: float | None
    high: float | None
    slope: float
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """offset + rectifier*relu(x) + the parts, and its max error.

    Attributes:
        offset: The constant.
        rectifier: Factor of relu(x); 0 for none.
        parts: One part, or two for an activation with a kink at 0.
        value_error: Max error of the value over the real line, in exact arithmetic.
        slope_error: The same for the first derivative.
        low: Lower end of the value, None for none. Cancellation and the error itself would lead below it.
        high: Upper end of the value, None for none.
    """

    offset: float
    rectifier: float
    parts: tuple[Part, ...]
    value_error: float
    slope_error: float
    low: float | None = None
    high: float | None = None

    def config(self) -> dict[str, Any]:
        """Returns the numbers as plain data, for a saved layer."""
        return {
            "offset": self.offset,
            "rectifier": self.rectifier,
            "parts": [
                {"low": p.low, "high": p.high, "slope": p.slope, "roots": [root.numbers() for root in p.roots]}
                for p in self.parts
            ],
            "value_error": self.value_error,
            "slope_error": self.slope_error,
            "low": self.low,
            "high": self.high,
        }


_NUMBERS = ("offset", "rectifier", "value_error", "slope_error")


def from_config(config: dict[str, Any]) -> Sum:
    """Returns the sum that `Sum.config` wrote.

    Raises:
        ValueError: A number is missing or not finite, or a b is not positive.
    """
    try:
        parts = tuple(
            Part(part["low"], part["high"], float(part["slope"]), tuple(_root(root) for root in part["roots"]))
            for part in config["parts"]
        )
        offset, rectifier, value_error, slope_error = (float(config[name]) for name in _NUMBERS)
        low, high = (None if config.get(end) is None else float(config[end]) for end in ("low", "high"))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"`coefficients` are what `get_config` wrote. Received: {accept.shown(config)}.") from error
    made = Sum(offset, rectifier, parts, value_error, slope_error, low, high)
    numbers = [
        *(end for end in (low, high) if end is not None),
        made.offset,
        made.rectifier,
        *(part.slope for part in parts),
    ]
    roots = [root for part in parts for root in part.roots]
    numbers += [number for root in roots for number in root.numbers()]
    if not all(map(math.isfinite, numbers)) or any(root.b <= 0.0 for root in roots):
        raise ValueError(f"`coefficients` are finite and each b is positive. Received: {accept.shown(config)}.")
    return made


def _root(numbers: Any) -> Root:
    weight, centre, b = map(float, numbers)
    return Root(weight, centre, b)


@functools.cache
def table() -> dict[tuple[str, int], Sum]:
    """Returns the sums of the data file, by activation and number of roots."""
    text = resources.files("sqp_keras.family").joinpath("coefficients.json").read_text(encoding="utf-8")
    return {(item["of"], item["terms"]): from_config(item) for item in json.loads(text)["sums"]}


_BASE = {"sigmoid": "tanh", "log_sigmoid": "softplus", "selu": "elu", "celu": "elu", "exponential": "elu"}


_ENDS: dict[str, tuple[float | None, float | None]] = {
    "softplus": (0.0, None),
    "exponential": (0.0, None),
    "log_sigmoid": (None, 0.0),
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
}
"""What the values of an activation never pass. A sum is held there: its logarithm, or a division by it, relies on it.

TensorFlow's converter puts most of these clips into the last ADD, where they cost nothing.
"""


POSITIVE = ("softplus", "sigmoid", "exponential")
"""Activations that are above 0 for every x; their sums, like the activations in float32, can be exactly 0."""

LEAST_POSITIVE = 2.0**-15
"""The least value of a positive sum, as a share of `span`: float16 holds it and its reciprocal."""


def names() -> tuple[str, ...]:
    """Returns the activations that have a sum, in alphabetical order."""
    return tuple(sorted({of for of, _ in table()} | set(_BASE)))


def term_counts(of: str) -> tuple[int, ...]:
    """Returns the numbers of roots that an activation can be written with, in rising order."""
    base = _BASE.get(of, of)
    counts = sorted(terms for name, terms in table() if name == base)
    return tuple(terms for terms in counts if of != "exponential" or table()[base, terms].rectifier)


@functools.cache
def find(of: str, terms: int | None = None, alpha: float = 1.0, upper: float | None = None) -> Sum:
    """Returns the sum for an activation.

    Args:
        of: Keras's name for it, e.g. "softplus"; "gelu" is the one with erf, "gelu_tanh" Keras's `approximate=True`.
        terms: Number of roots; None for the fewest within 1e-3 of the activation (of its range if that is finite).
        alpha: Of elu and celu.
        upper: For exponential: the largest input; the sum stays at exp(upper) above it.

    Raises:
        ValueError: There is no such sum, or exponential was requested without `upper`.
    """
    if of not in names():
        raise ValueError(f"There is an algebraic form of {', '.join(names())}. Received: of={of[:80]!r}.")
    counts = term_counts(of)
    if terms is None:
        terms = enough(of, 1e-3, alpha, upper)
    if isinstance(terms, bool) or terms not in counts:
        raise ValueError(f"{of} can be written with {_listed(counts)} roots. Received: terms={terms!r}.")
    return _held(of, _transformed(of, table()[_BASE.get(of, of), terms], alpha, upper))


def above_zero(of: str, made: Sum, upper: float | None = None) -> Sum:
    """Returns the sum of one of the `POSITIVE`, held above 0 by a value within its max error, which stays the same."""
    least = min(LEAST_POSITIVE * span(of, upper=upper), made.value_error)
    return dataclasses.replace(made, low=max(least, made.low or 0.0))


def _held(of: str, made: Sum) -> Sum:
    """Returns the sum with the ends of its activation's values; one root as in squareplus never passes 0."""
    single = len(made.parts) == 1 and len(made.parts[0].roots) == 1
    low, high = (None, None) if single else _ENDS.get(of, (None, None))
    return dataclasses.replace(made, low=low, high=high)


def enough(of: str, max_error: float, alpha: float = 1.0, upper: float | None = None) -> int:
    """Returns the fewest roots that stay within `max_error` times the activation's `span`.

    Raises:
        ValueError: Even the largest sum exceeds it.
    """
    counts = term_counts(of)
    sums = [find(of, count, alpha, upper) for count in counts]
    allowed = max_error * span(of, alpha, upper)
    for count, made in zip(counts, sums, strict=True):
        if made.value_error <= allowed:
            return count
    best = min(made.value_error for made in sums)
    raise ValueError(
        f"No sum for {of} stays within {allowed:.3g}; the best one has a max error of {best:.3g}. Received: "
        f"max_error={max_error:g}. Raise max_error to {_up(best / span(of, alpha, upper)):.2g}, or keep the activation."
    )


def _up(value: float) -> float:
    """A number above 0 with two digits, none of them smaller: what a message names must be enough."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit


def span(of: str, alpha: float = 1.0, upper: float | None = None) -> float:
    """Returns the length of the activation's range if that is finite; else 1 (the unit of its bend), or alpha."""
    if of in ("tanh", "softsign"):
        return 2.0
    if of == "exponential":
        return math.exp(upper or 0.0)
    return max(alpha, 1e-30) if of in ("elu", "celu") else 1.0


def _transformed(of: str, base: Sum, alpha: float, upper: float | None) -> Sum:
    if of in ("elu", "celu") and not (math.isfinite(alpha) and alpha > 0.0):
        raise ValueError(f"`alpha` of {of} is a positive number. Received: alpha={alpha}.")
    if of == "sigmoid":
        return _affine(base, outer=0.5, inner=0.5, shift=0.0, offset=0.5)
    if of == "log_sigmoid":
        return _affine(base, outer=-1.0, inner=-1.0, shift=0.0, offset=0.0)
    if of == "celu":
        return _affine(base, outer=alpha, inner=1.0 / alpha, shift=0.0, offset=0.0)
    if of == "elu" and alpha == 1.0:
        return base
    if of in ("elu", "selu"):
        scale, bend = (SELU_SCALE, SELU_ALPHA) if of == "selu" else (1.0, alpha)
        return _bent(base, scale, bend)
    if of == "exponential":
        if upper is None or not math.isfinite(upper) or abs(upper) > 80.0:
            raise ValueError(
                "exponential grows faster than any sum of square roots; it can be written up to a largest input. "
                f"Received: upper={upper}. Pass upper=<largest input> (at most 80 in size), or keep exponential."
            )
        top = math.exp(upper)
        made = _affine(_bent(base, 1.0, 1.0, rectifier=False), outer=top, inner=1.0, shift=upper, offset=top)
        return made
    return base


def _affine(base: Sum, outer: float, inner: float, shift: float, offset: float) -> Sum:
    """Returns outer * base(inner * (x - shift)) + offset, for base without a rectifier or inner > 0 and shift = 0."""
    size = abs(inner)

    def end(value: float | None) -> float | None:
        return None if value is None else value / inner + shift

    constant = outer * base.offset + offset
    parts = []
    for part in base.parts:
        low, high = (part.low, part.high) if inner > 0 else (part.high, part.low)
        roots = tuple(Root(outer * size * r.weight, r.centre / inner + shift, r.b / inner**2) for r in part.roots)
        # slope * inner * (t - shift): the part with shift moves to the constant.
        parts.append(Part(end(low), end(high), outer * part.slope * inner, roots))
        constant -= outer * part.slope * inner * shift
    rectifier = outer * base.rectifier * inner
    slope_error = abs(outer * inner) * base.slope_error
    return Sum(constant, rectifier, tuple(parts), abs(outer) * base.value_error, slope_error)


def _bent(base: Sum, scale: float, alpha: float, rectifier: bool = True) -> Sum:
    """Returns scale * (relu(x) + alpha * (base below 0)), base being elu; with one root, x itself bends."""
    if not base.rectifier:
        # elu(x) = squareplus(x + 1) - 1: for another alpha the bend moves to -alpha.
        made = _affine(base, outer=scale * alpha, inner=1.0 / alpha, shift=0.0, offset=0.0)
        return _measured_one_root(made, scale, alpha)
    size = scale * alpha
    parts = tuple(
        Part(p.low, p.high, size * p.slope, tuple(Root(size * r.weight, r.centre, r.b) for r in p.roots))
        for p in base.parts
    )
    return Sum(size * base.offset, scale * float(rectifier), parts, size * base.value_error, size * base.slope_error)


def _measured_one_root(made: Sum, scale: float, alpha: float) -> Sum:
    """Returns the same sum with its max errors against scale*elu, which do not follow from those at alpha = 1."""
    (part,) = made.parts
    (root,) = part.roots
    steps = range(-4000, 4001)
    value_error = slope_error = 0.0
    for step in steps:
        x = 20.0 * (step / 4000.0) ** 3
        length = math.sqrt((x - root.centre) ** 2 + root.b)
        value = made.offset + part.slope * x + root.weight * length
        slope = part.slope + root.weight * (x - root.centre) / length
        truth = scale * (x if x > 0 else alpha * math.expm1(x))
        true_slope = scale * (1.0 if x > 0 else alpha * math.exp(x))
        value_error = max(value_error, abs(value - truth))
        slope_error = max(slope_error, abs(slope - true_slope) if x else 0.0)
    tail = abs(root.weight) * root.b / (2.0 * 20.0)
    return Sum(made.offset, made.rectifier, made.parts, max(value_error, tail) * 1.01, slope_error * 1.01)


def _listed(counts: tuple[int, ...]) -> str:
    return " or ".join([", ".join(map(str, counts[:-1])), str(counts[-1])]) if len(counts) > 1 else str(counts[0])

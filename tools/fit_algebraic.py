"""Fits the sums of square roots in sqp_keras/family/coefficients.json for the smallest max error.

    python tools/fit_algebraic.py               improve the stored sums from where they are, print the table
    python tools/fit_algebraic.py --search 12   look for better ones from 12 random starts each (minutes)
    python tools/fit_algebraic.py --docs        write the table in docs/algebraic.md

A stored sum is only replaced by one that is better by more than one part in a hundred, so that a second run changes
nothing. Needs scipy. Method: least squares in the nonlinear parameters (the weights follow from a linear problem with
the limits as side conditions), then a sequence of linear programmes that lowers the max error itself.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares, linprog
from scipy.special import erf, expit

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "sqp_keras" / "family" / "coefficients.json"
PAGE = ROOT / "docs" / "algebraic.md"
BEGIN, END = "<!-- sums -->", "<!-- /sums -->"
Array = npt.NDArray[np.float64]

LARGEST_WEIGHT = {"even": 2.5, "odd": 2.5, "line": 2.5, "halves": 2.5, "bend": 8.0}
"""Larger weights fit better on paper, and lose it again to cancellation in float32 ("bend" is clipped: it may)."""
LARGEST_SHIFT = 30.0
FLOOR = -14.0
"""Below this exp is taken as exp(FLOOR), 8e-7."""
CEILING = 4096.0
"""Past this softsign is held: it moves by 2.4e-4 more, and float32 would lose more than that to cancellation."""


def _gelu_tanh(x: Array) -> Array:
    inner = np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1.0 + np.tanh(inner)))


TRUTH: dict[str, Callable[[Array], Array]] = {
    "softplus": lambda x: np.logaddexp(0.0, x),
    "silu": lambda x: x * expit(x),
    "gelu": lambda x: 0.5 * x * (1.0 + erf(x / np.sqrt(2.0))),
    "gelu_tanh": _gelu_tanh,
    "mish": lambda x: x * np.tanh(np.logaddexp(0.0, x)),
    "tanh": np.tanh,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """One sum to fit.

    Attributes:
        of: The activation.
        terms: Number of square roots that are evaluated.
        shape: "even" (x/2 plus a function of abs(x)), "odd", "line" (no symmetry), "bend" (exp on [FLOOR, 0], x above)
            or "halves" (an odd function fitted on x >= 0, for a kink at 0).
        centred: For "even": how many of the roots are centred at 0; the others come in mirrored pairs.
    """

    of: str
    terms: int
    shape: str
    centred: int = 0

    @property
    def free(self) -> int:
        """Returns how many (c, b) there are."""
        if self.shape == "even":
            return self.centred + (self.terms - self.centred) // 2
        return self.terms // 2 if self.shape in ("odd", "halves") else self.terms


SPECS = (
    Spec("softplus", 1, "even", 1),
    Spec("softplus", 2, "even", 2),
    Spec("softplus", 3, "even", 1),
    Spec("softplus", 5, "even", 1),
    Spec("silu", 1, "even", 1),
    Spec("silu", 2, "even", 2),
    Spec("silu", 3, "even", 1),
    Spec("silu", 5, "even", 1),
    Spec("silu", 7, "even", 1),
    Spec("gelu", 1, "even", 1),
    Spec("gelu", 2, "even", 2),
    Spec("gelu", 3, "even", 1),
    Spec("gelu", 4, "even", 2),
    Spec("gelu", 6, "even", 2),
    Spec("gelu_tanh", 1, "even", 1),
    Spec("gelu_tanh", 2, "even", 2),
    Spec("gelu_tanh", 3, "even", 1),
    Spec("gelu_tanh", 4, "even", 2),
    Spec("gelu_tanh", 6, "even", 2),
    Spec("mish", 1, "line"),
    Spec("mish", 2, "line"),
    Spec("mish", 3, "line"),
    Spec("mish", 5, "line"),
    Spec("tanh", 2, "odd"),
    Spec("tanh", 4, "odd"),
    Spec("tanh", 6, "odd"),
    Spec("softsign", 4, "halves"),
    Spec("elu", 1, "line"),
    Spec("elu", 2, "bend"),
)


def samples(spec: Spec) -> Array:
    """Returns the inputs on which the max error is lowered: dense where the bend is, out to 1e4 for the tails."""
    near, far = np.linspace(0.0, 12.0, 301), 12.0 + 1e4 * np.sinh(np.linspace(0.05, 9.0, 80)) / np.sinh(9.0)
    half = np.concatenate([near, far])
    if spec.shape == "line":
        return np.concatenate([-half[:0:-1], half])
    if spec.shape == "bend":
        return np.concatenate([np.linspace(FLOOR, -4.0, 100), np.linspace(-4.0, 0.0, 241)[1:]])
    return half


class Problem:
    """A sum of roots as a function of its parameters: linear ones `w`, then the shifts c and log(b)."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.x, self.largest = spec, samples(spec), LARGEST_WEIGHT[spec.shape]
        self.extra = 2 if spec.shape in ("bend", "halves") else 0
        base = {"even": self.x / 2.0, "line": self.x / 2.0}.get(spec.shape, np.zeros_like(self.x))
        if spec.of == "elu" and spec.shape == "line":
            base = base - 0.5
        self.base = base
        self.y = TRUTH[spec.of](self.x) - base

    def roots(self, c: Array, log_b: Array) -> tuple[Array, Array, Array]:
        """Returns the columns of roots and their derivatives by c and by log(b)."""
        columns = []
        for j in range(self.spec.free):
            b = np.exp(log_b[j])
            sides = {"odd": ((-1.0, 1.0), (1.0, -1.0))}.get(self.spec.shape, ((1.0, 1.0),))
            if self.spec.shape == "even" and j >= self.spec.centred:
                sides = ((1.0, 1.0), (-1.0, 1.0))
            shift = 0.0 if self.spec.shape == "even" and j < self.spec.centred else c[j]
            value, by_c, by_b = np.zeros_like(self.x), np.zeros_like(self.x), np.zeros_like(self.x)
            for side, sign in sides:
                root = np.sqrt((self.x - side * shift) ** 2 + b)
                value += sign * root
                by_c += -sign * side * (self.x - side * shift) / root
                by_b += sign * b / (2.0 * root)
            columns.append((value, by_c, by_b))
        one, two, three = (np.array(part).T for part in zip(*columns, strict=True))
        return one, two, three

    def matrix(self, c: Array, log_b: Array) -> Array:
        """Returns the columns that the linear parameters weigh."""
        plain = np.stack([np.ones_like(self.x), self.x], 1) if self.extra else np.zeros((len(self.x), 0))
        return np.hstack([plain, self.roots(c, log_b)[0]])

    def limits(self, c: Array, log_b: Array) -> tuple[Array, Array]:
        """Returns A and d: with A w = d the sum has the right limits (and passes through 0 where it must)."""
        ones, shape = np.ones(len(c)), self.spec.shape
        if shape == "even":
            return np.where(np.arange(len(c)) < self.spec.centred, 1.0, 2.0)[None], np.array([0.5])
        if shape == "odd":
            return 2.0 * c[None], np.array([1.0])
        if shape == "line":
            return np.stack([ones, c]), np.array([0.5, -0.5 if self.spec.of == "elu" else 0.0])
        through_zero = np.concatenate([[1.0, 0.0], np.sqrt(c**2 + np.exp(log_b))])
        if shape == "bend":
            return through_zero[None], np.array([0.0])
        return np.array([through_zero, [0.0, 1.0, *ones], [1.0, 0.0, *-c]]), np.array([0.0, 0.0, 1.0])

    def weights(self, c: Array, log_b: Array) -> Array:
        """Returns the linear parameters of least squared error that keep the limits."""
        side, d = self.limits(c, log_b)
        start = np.linalg.lstsq(side, d, rcond=None)[0]
        free = np.linalg.svd(side)[2][len(d) :].T
        if not free.shape[1]:
            return start
        matrix = self.matrix(c, log_b)
        step = np.linalg.lstsq(matrix @ free, self.y - matrix @ start, rcond=1e-12)[0]
        return np.asarray(start + free @ step)

    def project(self, w: Array, c: Array, log_b: Array) -> Array:
        """Returns the nearest linear parameters that keep the limits exactly."""
        side, d = self.limits(c, log_b)
        return np.asarray(w + np.linalg.lstsq(side, d - side @ w, rcond=None)[0])

    def error(self, w: Array, c: Array, log_b: Array) -> float:
        """Returns the max error over the samples."""
        return float(np.abs(self.matrix(c, log_b) @ w - self.y).max())


def _limit_slopes(problem: Problem, q: Array, n: int, m: int) -> tuple[Array, Array]:
    def violation(p: Array) -> Array:
        side, d = problem.limits(p[n : n + m], p[n + m :])
        return np.asarray(side @ p[:n] - d)

    eye = 1e-6 * np.eye(len(q))
    return violation(q), np.array([(violation(q + e) - violation(q - e)) / 2e-6 for e in eye]).T


def descend(problem: Problem, c: Array, log_b: Array, rounds: int = 80) -> tuple[float, Array, Array, Array]:
    """Returns a local optimum of the max error: each round solves the linearised problem in a box around here."""
    w = problem.weights(c, log_b)
    for _ in range(100):
        bounded = np.append(w[: problem.extra], np.clip(w[problem.extra :], -problem.largest, problem.largest))
        w = problem.project(bounded, c, log_b)
    n, m, best, radius = len(w), len(c), problem.error(w, c, log_b), 0.3
    for _ in range(rounds):
        q = np.concatenate([w, c, log_b])
        _, by_c, by_b = problem.roots(c, log_b)
        matrix, inner = problem.matrix(c, log_b), w[problem.extra :]
        scale = np.concatenate([np.maximum(np.abs(w), 0.1), np.ones(2 * m)])
        slopes = np.hstack([matrix, by_c * inner, by_b * inner]) * scale / best
        residual = (matrix @ w - problem.y) / best
        low = np.concatenate([np.full(n, -problem.largest), np.full(m, -LARGEST_SHIFT), np.full(m, -5.0)])
        low[: problem.extra] = -50.0
        high = np.concatenate([-low[: n + m], np.full(m, 7.0)])
        bounds = [
            (max(-radius, min(0.0, (lo - v) / s)), min(radius, max(0.0, (hi - v) / s)))
            for lo, hi, v, s in zip(low, high, q, scale, strict=True)
        ]
        off, side = _limit_slopes(problem, q, n, m)
        ones = np.ones((len(residual), 1))
        answer = linprog(
            np.append(np.zeros(len(q)), 1.0),
            A_ub=np.vstack([np.hstack([slopes, -ones]), np.hstack([-slopes, -ones])]),
            b_ub=np.concatenate([-residual, residual]),
            A_eq=np.hstack([side * scale, np.zeros((len(off), 1))]),
            b_eq=-off,
            bounds=[*bounds, (0.0, None)],
            method="highs",
        )
        if answer.x is not None:
            moved = q + answer.x[:-1] * scale
            w2 = problem.project(moved[:n], moved[n : n + m], moved[n + m :])
            error = problem.error(w2, moved[n : n + m], moved[n + m :])
        if answer.x is not None and error < best * (1.0 - 1e-9):
            w, c, log_b, best, radius = w2, moved[n : n + m], moved[n + m :], error, min(1.0, 1.5 * radius)
        else:
            radius /= 3.0
        if radius < 1e-8:
            break
    return best, w, c, log_b


def search(problem: Problem, seed: int, starts: int) -> tuple[float, Array, Array, Array]:
    """Returns the best local optimum from `starts` random starts."""
    random, m, found = np.random.default_rng(seed), problem.spec.free, []
    symmetric = problem.spec.shape in ("even", "odd")
    for _ in range(starts):
        start = np.concatenate([random.uniform(0.1 if symmetric else -4.0, 4.0, m), random.uniform(-0.5, 3.5, m)])

        def residual(p: Array, power: int = 1) -> Array:
            c, log_b = np.clip(p[:m], -LARGEST_SHIFT, LARGEST_SHIFT), np.clip(p[m:], -5.0, 7.0)
            w = problem.weights(c, log_b)
            r = (problem.matrix(c, log_b) @ w - problem.y) * 1e3
            large = np.maximum(np.abs(w[problem.extra :]) - problem.largest, 0.0)
            return np.append(np.sign(r) * np.abs(r) ** power, 1e2 * large)

        for power in (1, 3):
            start = least_squares(residual, start, max_nfev=60, kwargs={"power": power}).x
        c, log_b = np.clip(start[:m], -LARGEST_SHIFT, LARGEST_SHIFT), np.clip(start[m:], -5.0, 7.0)
        outcome = descend(problem, c, log_b)
        if np.abs(outcome[1][problem.extra :]).max() <= problem.largest * 1.001:
            found.append(outcome)
    if not found:
        raise ArithmeticError(f"no start led to a sum for {problem.spec}; run again with more starts (--search)")
    return min(found, key=lambda outcome: outcome[0])


def _dyadic(value: float, bits: int) -> float:
    return float(np.round(value * 2.0**bits) / 2.0**bits)


def entry(spec: Spec, w: Array, c: Array, log_b: Array) -> dict[str, Any]:
    """Returns the sum as it is stored: numbers that float32 holds exactly, whose weights cancel exactly."""
    extra = 2 if spec.shape in ("bend", "halves") else 0
    inner = [_dyadic(v, 22) for v in w[extra:]]
    shift, size = [_dyadic(v, 18) for v in c], [_dyadic(v, 18) for v in np.exp(log_b)]
    roots: list[list[float]] = []
    for j, (weight, at, b) in enumerate(zip(inner, shift, size, strict=True)):
        if spec.shape == "even" and j < spec.centred:
            roots.append([weight, 0.0, b])
        elif spec.shape in ("even", "odd"):
            sign = 1.0 if spec.shape == "even" else -1.0
            roots += [[weight, -abs(at), b], [sign * weight, abs(at), b]]
            if spec.shape == "odd" and at < 0.0:
                roots[-2][0], roots[-1][0] = -weight, weight
        else:
            roots.append([weight, at, b])
    if spec.shape in ("even", "line"):
        # What rounding left over goes to the first root: the sum must be 1/2 to the last bit.
        roots[0][0] = 0.5 - sum(root[0] for root in roots[1:])
        part = {"low": None, "high": None, "slope": 0.5, "roots": roots}
        offset = sum(root[0] * root[1] for root in roots) if spec.shape == "line" else 0.0
        return {"offset": offset, "rectifier": 0.0, "parts": [part]}
    if spec.shape == "odd":
        return {"offset": 0.0, "rectifier": 0.0, "parts": [{"low": None, "high": None, "slope": 0.0, "roots": roots}]}
    return _folded(spec, roots, w)


def _folded(spec: Spec, roots: list[list[float]], w: Array) -> dict[str, Any]:
    at_zero = sum(weight * np.sqrt(c * c + b) for weight, c, b in roots)
    if spec.shape == "bend":
        part = {"low": FLOOR, "high": 0.0, "slope": _dyadic(w[1], 22), "roots": roots}
        return {"offset": -float(at_zero), "rectifier": 1.0, "parts": [part]}
    slope = -sum(root[0] for root in roots)
    right = {"low": 0.0, "high": CEILING, "slope": slope, "roots": roots}
    left = {"low": -CEILING, "high": 0.0, "slope": slope, "roots": [[-weight, -c, b] for weight, c, b in roots]}
    return {"offset": 0.0, "rectifier": 0.0, "parts": [right, left]}


def evaluate(stored: dict[str, Any], x: Array) -> tuple[Array, Array]:
    """Returns value and slope of a stored sum in float64."""
    y = stored["offset"] + stored["rectifier"] * np.maximum(x, 0.0)
    slope = stored["rectifier"] * (x > 0.0)
    for part in stored["parts"]:
        low, high = part["low"], part["high"]
        t = np.clip(x, low, high) if low is not None or high is not None else x
        inside = (t == x) & ((high is None) | (x != high)) & ((low is None) | (x != low) | (high is None))
        value, rise = part["slope"] * t, np.full_like(x, part["slope"])
        for weight, c, b in part["roots"]:
            root = np.sqrt((t - c) ** 2 + b)
            value, rise = value + weight * root, rise + weight * (t - c) / root
        y, slope = y + value, slope + inside * rise
    return np.asarray(y), np.asarray(slope)


def bounds_of(spec: Spec, stored: dict[str, Any]) -> tuple[float, float]:
    """Returns the max error of value and slope on a dense grid and in the tails, rounded up to three digits."""
    near = np.linspace(-16.0, 16.0, 640_001)
    far = np.geomspace(16.0, 1e6, 60_001)
    x = np.concatenate([-far[::-1], near, far])
    value, slope = evaluate(stored, x)
    truth = TRUTH[spec.of]
    step = 1e-5
    true_slope = (truth(x + step) - truth(x - step)) / (2.0 * step)
    kink = (np.abs(x) <= 2.0 * step) if spec.of in ("softsign", "elu") else np.zeros_like(x, bool)
    errors = np.abs(value - truth(x)).max(), np.abs(slope - true_slope)[~kink].max()
    return _up(errors[0]), _up(errors[1])


def _up(value: float) -> float:
    digits = 10.0 ** (np.floor(np.log10(value)) - 2.0)
    return float(f"{np.ceil(value / digits) * digits:.3g}")


def unpack(spec: Spec, stored: dict[str, Any]) -> tuple[Array, Array]:
    """Returns (c, log b) of a stored sum, to start from."""
    roots = stored["parts"][0]["roots"]
    if spec.shape in ("even", "odd"):
        centred = spec.centred if spec.shape == "even" else 0
        roots = roots[:centred] + roots[centred + 1 :: 2]
    return np.array([root[1] for root in roots]), np.log([root[2] for root in roots])


def fit(spec: Spec, stored: dict[str, Any] | None, seed: int, starts: int) -> dict[str, Any]:
    """Returns the stored sum, or a better one if there is one."""
    problem, candidates = Problem(spec), []
    if stored is not None:
        candidates.append(descend(problem, *unpack(spec, stored)))
    if stored is None or starts:
        candidates.append(search(problem, seed, starts or 8))
    _, w, c, log_b = min(candidates, key=lambda candidate: candidate[0])
    made = entry(spec, w, c, log_b)
    value, slope = bounds_of(spec, made)
    if stored is not None and value >= 0.99 * stored["value_error"]:
        return stored
    better = {"of": spec.of, "terms": spec.terms, **made, "value_error": value, "slope_error": slope}
    # From a better place it may go on: until it doesn't, so that the next run has nothing to do.
    return fit(spec, better, seed, 0)


def read() -> list[dict[str, Any]]:
    """Returns the stored sums, none where there's no file yet."""
    return list(json.loads(FILE.read_text(encoding="utf-8"))["sums"]) if FILE.exists() else []


def write(sums: list[dict[str, Any]]) -> None:
    about = "Made by tools/fit_algebraic.py. roots: [weight, centre, b], each weight*sqrt((t-centre)^2+b)"
    lines = ",\n".join("  " + json.dumps(item) for item in sums)
    FILE.write_text(f'{{\n "about": {json.dumps(about)},\n "sums": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def table() -> str:
    """Returns the page's table of all sums of the package, with the ops that TensorFlow traces."""
    import tensorflow as tf

    from sqp_keras.family import coefficients
    from sqp_keras.family.algebraic import evaluate

    lines = ["| activation | roots | value within | slope within | ops | which |", "|---|---:|---:|---:|---:|---|"]
    for of in coefficients.names():
        for terms in coefficients.term_counts(of):
            made = coefficients.find(of, terms, 1.0, 0.0 if of == "exponential" else None)
            traced = tf.function(lambda x, made=made: evaluate(x, made)).get_concrete_function(tf.TensorSpec((1, 4)))
            types = [op.type for op in traced.graph.get_operations()]
            used = [_OPS[kind] for kind in types if kind in _OPS]
            errors = f"{made.value_error:.3g} | {made.slope_error:.3g}"
            lines.append(f"| {of} | {terms} | {errors} | {len(used)} | {' '.join(sorted(set(used)))} |")
    return "\n".join(lines)


_OPS = {kind: kind.removesuffix("V2").upper() for kind in ("AddV2", "Mul", "Sqrt", "Relu", "Minimum", "Maximum", "Sub")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", type=int, default=0, metavar="STARTS", help="random starts per sum (default: 0)")
    parser.add_argument("--only", default="", metavar="NAME", help="fit this activation only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--docs", action="store_true", help="only write the table in docs/algebraic.md")
    arguments = parser.parse_args()
    if arguments.docs:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}", encoding="utf-8")
        return 0
    stored = {(item["of"], item["terms"]): item for item in read()}
    for spec in SPECS:
        key = spec.of, spec.terms
        if arguments.only in ("", spec.of) or key not in stored:
            stored[key] = fit(spec, stored.get(key), arguments.seed, arguments.search)
            write([stored[s.of, s.terms] for s in SPECS if (s.of, s.terms) in stored])
        print(
            f"{spec.of:10} {spec.terms} {stored[key]['value_error']:9.3g} {stored[key]['slope_error']:9.3g}", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

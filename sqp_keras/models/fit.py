"""Fits b to what an activation receives and returns."""

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sqp_keras.activation.constants import B_MINIMAX
from sqp_keras.family import coefficients
from sqp_keras.family.coefficients import Part, Root, Sum
from sqp_keras.models.observe import Seen


def fitted_b(was: str, seen: Seen | None) -> float:
    """Returns the b of the squareplus with the least squared error on what was seen.

    Args:
        was: Name of the activation.
        seen: Its inputs and outputs; without them the b with the smallest max error is returned.
    """
    if seen is None:
        return default_b(was)

    def error(b: float) -> float:
        return float(np.mean((0.5 * (seen.x + np.sqrt(seen.x**2 + b)) - seen.y) ** 2))

    return _lowest(error)


def fitted_sum(made: Sum, seen: Seen) -> Sum:
    """Returns the sum with all b scaled by the factor of least squared error; its limits do not depend on b."""
    if len(made.parts) != 1 or made.rectifier:
        return made
    part = made.parts[0]

    def scaled(factor: float) -> Sum:
        roots = tuple(Root(root.weight, root.centre, root.b * factor) for root in part.roots)
        return dataclasses.replace(made, parts=(Part(None, None, part.slope, roots),))

    def error(factor: float) -> float:
        return float(np.mean((_evaluated(scaled(factor), seen.x) - seen.y) ** 2))

    fitted = scaled(_lowest(error))
    x = np.concatenate([np.linspace(-30.0, 30.0, 6001), seen.x])
    drift = float(np.abs(_evaluated(fitted, x) - _evaluated(made, x)).max())
    return dataclasses.replace(fitted, value_error=made.value_error + drift)


def default_b(was: str) -> float:
    """Returns the b of the squareplus with the smallest max error against an activation."""
    return B_MINIMAX if was == "softplus" else coefficients.find(was, 1).parts[0].roots[0].b


def _evaluated(made: Sum, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    part = made.parts[0]
    y = made.offset + part.slope * x
    for root in part.roots:
        y = y + root.weight * np.sqrt((x - root.centre) ** 2 + root.b)
    return np.asarray(y)


def _lowest(error: Callable[[float], float]) -> float:
    """Returns the b (or factor of b) in [1e-2, 1e2] of least error, to 0.1 %, by ever finer scans of its logarithm."""
    low, high = np.log(1e-2), np.log(1e2)
    best = 0.0
    for _ in range(4):
        points = np.linspace(low, high, 41)
        best = float(points[int(np.argmin([error(float(np.exp(p))) for p in points]))])
        width = (high - low) / 40.0
        low, high = max(np.log(1e-2), best - width), min(np.log(1e2), best + width)
    return float(np.exp(best))

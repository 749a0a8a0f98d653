"""The lines that an activation approaches: what it is where the roots of its sum would cancel or overflow."""

import functools
import math
from dataclasses import dataclass

from sqp_keras.family.coefficients import Sum

RANGE = 4096.0
"""Up to this abs(x) (more for a wide bend) a sum is computed in training; further out its activation is a line."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What an activation is outside [-reach, reach].

    Attributes:
        reach: The end of the range in which the sum is computed.
        left: Slope and value at 0 of the line on the left.
        right: The same on the right.
    """

    reach: float
    left: tuple[float, float]
    right: tuple[float, float]


@functools.cache
def lines(of: str, made: Sum) -> Lines | None:
    """Returns the lines that an activation approaches, None if clips of x hold its sum there already.

    They are those that the sum approaches, with the activation's own limit where the two differ by the sum's error.
    """
    if not made.parts or any(part.low is not None or part.high is not None for part in made.parts):
        return None
    roots = [root for part in made.parts for root in part.roots]
    bent = of in ("elu", "celu", "selu")
    found = []
    for side in (-1.0, 1.0):
        slope = sum(part.slope for part in made.parts) + side * sum(root.weight for root in roots)
        value = made.offset - side * sum(root.weight * root.centre for root in roots)
        level = not round(slope, 12)
        ends = () if bent else (made.low, made.high, 0.0) if level else (0.0,)
        near = (end for end in ends if end is not None and abs(end - value) <= min(made.value_error, 0.01))
        value = next(near, value)
        value = value if not level or made.low is None else max(value, made.low)
        found.append((round(slope + (made.rectifier if side > 0 else 0.0), 12), value))
    wide = max((abs(root.centre) + math.sqrt(root.b) for root in roots), default=0.0)
    return Lines(max(RANGE, 256.0 * wide), found[0], found[1])

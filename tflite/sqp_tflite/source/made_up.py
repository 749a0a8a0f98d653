"""Made-up inputs, for a comparison without the user's data: ordinary ones, and such as overflow what can overflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.agreement import EXTREME, LARGE, ORDINARY

if TYPE_CHECKING:
    from sqp_tflite.source.load import InputSpec

FACTORS = {LARGE: 30.0, EXTREME: 1000.0}
"""How many times as far from its middle as ordinary inputs."""

FAR = 4
"""Samples of each of these sets."""

COUNT = 32
"""Samples in all."""

_SEED = 20210101


@dataclass(frozen=True, slots=True)
class Scale:
    """What numbers an input of a model takes.

    Attributes:
        centre: Their middle; a number, or an array that broadcasts against the input's shape.
        width: Their standard deviation, or half of their range if they are spread evenly.
        even: Whether they are spread evenly, as pixels are; otherwise normally.
        ends: The smallest and the largest value, where codes hold no more; None for no bounds.
    """

    centre: Any = 0.0
    width: Any = 1.0
    even: bool = False
    ends: tuple[float, float] | None = None


def made_up(
    specs: tuple[InputSpec, ...], scales: Mapping[str, Scale] | None = None
) -> tuple[tuple[NDArray[Any], ...], tuple[tuple[str, int], ...]]:
    """Returns seeded inputs, each of shape (samples, *shape), and how many of them are in which set, in order.

    Of the ordinary ones the first is the middle of the input's numbers and the second lies evenly between the middle
    and one width from it. Integers have ordinary ones only, as have inputs that are bounded.

    Args:
        specs: The model's inputs.
        scales: What numbers they take, by name; without one, about -3 to 3.
    """
    generator = np.random.default_rng(_SEED)
    given = scales or {}
    free = any(_floating(spec) and given.get(spec.name, Scale()).ends is None for spec in specs)
    sets = (
        ((ORDINARY, COUNT - len(FACTORS) * FAR), *((name, FAR) for name in FACTORS)) if free else ((ORDINARY, COUNT),)
    )
    return tuple(_values(spec, given.get(spec.name), sets, generator) for spec in specs), sets


def _floating(spec: InputSpec) -> bool:
    return np.issubdtype(np.dtype(spec.dtype), np.floating)


def _values(
    spec: InputSpec, scale: Scale | None, sets: tuple[tuple[str, int], ...], generator: np.random.Generator
) -> NDArray[Any]:
    shape = (COUNT, *spec.shape)
    if not _floating(spec):
        low, high = _integers(spec, scale)
        values: NDArray[Any] = generator.integers(low, high, shape, endpoint=True)
        values[0] = low
        if spec.categories:  # A sequence of padding only has no mean.
            values[0, ..., :1] = high
        return values.astype(spec.dtype)
    scale = scale or Scale()
    values = generator.uniform(-1.0, 1.0, shape) if scale.even else generator.standard_normal(shape)
    values[0], values[1] = 0.0, generator.uniform(0.0, 1.0, spec.shape)
    first = 0
    for name, count in sets:
        values[first : first + count] *= FACTORS.get(name, 1.0)
        first += count
    values = np.asarray(scale.centre) + np.asarray(scale.width) * values
    return (values if scale.ends is None else np.clip(values, *scale.ends)).astype(spec.dtype)


def _integers(spec: InputSpec, scale: Scale | None) -> tuple[int, int]:
    """The smallest and the largest value."""
    dtype = np.dtype(spec.dtype)
    if scale is None and spec.categories:
        return 0, spec.categories - 1
    if scale is not None:
        low, high = float(np.min(scale.centre - scale.width)), float(np.max(scale.centre + scale.width))
    else:
        # One byte holds a pixel or a code; more are usually numbers of categories, of which two exist at least.
        low, high = (0.0, 1.0) if dtype.itemsize > 1 or dtype.kind == "b" else (-np.inf, np.inf)
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(np.clip(np.rint(low), limits.min, limits.max)), int(np.clip(np.rint(high), limits.min, limits.max))

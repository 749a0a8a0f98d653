"""Returns how long calls take on a machine that is also busy with other things: interleaved, median, quartiles."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of one call: the median of the rounds and the quartiles around it."""

    median: float
    low: float
    high: float
    rounds: int


def interleave(
    calls: Mapping[str, Callable[[], object]], seconds: float, *, least: int = 7, most: int = 400, warm_up: int = 2
) -> dict[str, Timing]:
    """Returns the timing of each call.

    A round makes every call once, in an order that is new each time (from a fixed seed), so that whatever slows the
    machine for a while slows all of them alike. Rounds are added until `seconds` are used up, within [least, most].
    """
    names = list(calls)
    order = random.Random(0)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(warm_up):
        for call in calls.values():
            call()
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < least or (rounds < most and time.perf_counter() < end):
        order.shuffle(names)
        for name in names:
            start = time.perf_counter()
            calls[name]()
            samples[name].append((time.perf_counter() - start) * 1000)
        rounds += 1
    return {name: _summary(samples[name]) for name in calls}


def _summary(values: list[float]) -> Timing:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Timing(median, low, high, len(values))

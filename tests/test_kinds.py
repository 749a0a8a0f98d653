"""The comparison with stock int8 says "behind" where ours is, seed by seed, and not where seeds differ only."""

import numpy as np
import pytest

from benchmarks import kinds
from benchmarks.kinds import Cell, behind, page, row, verdict

SPREAD = np.random.default_rng(0).normal(0.01, 0.002, 8)
NOISE = np.random.default_rng(1).normal(0, 0.0002, 8)
SAME = np.full(8, 0.99)


def cell(errors=SPREAD, rms=SPREAD / 3, same=SAME):
    return Cell(*(tuple(map(float, values)) for values in (errors, rms, same)))


def test_equal_files_are_not_behind():
    assert verdict(cell(), cell()) == "not behind"


def test_what_seeds_move_is_not_behind():
    assert behind(cell(SPREAD + NOISE - NOISE.mean()), cell()) == ()


@pytest.mark.parametrize(
    ("ours", "figure"),
    [
        (cell(errors=SPREAD + 0.0005 + NOISE), "max error by 0.0005"),
        (cell(rms=SPREAD / 3 + 0.0002 + NOISE / 3), "RMS by 0.0002"),
        (cell(same=SAME - 0.01 - NOISE), "same class by 0.01"),
    ],
)
def test_a_difference_that_is_smaller_than_the_spread_of_the_seeds_is_seen(ours, figure):
    (found,) = behind(ours, cell())
    assert found.startswith(figure) and verdict(ours, cell()).startswith("behind: ")


def test_a_file_that_fails_is_behind_and_one_without_stock_is_not_judged():
    assert verdict(Cell(failure="refused"), cell()) == "behind: refused"
    assert verdict(cell(), Cell(failure="failed")) == ""


def test_a_row_that_is_behind_is_decided_by_other_seeds(monkeypatch):
    asked = []
    worse = {kinds.SEEDS: cell(SPREAD + 0.001), kinds.MORE_SEEDS: cell()}
    monkeypatch.setattr(kinds, "theirs", lambda name, seeds: cell())
    monkeypatch.setattr(
        kinds, "ours", lambda name, quantize, lowering, seeds: asked.append(seeds) or worse.get(seeds, cell())
    )
    assert row("flip").endswith("| not behind |")
    assert asked[1:] == [kinds.SEEDS, kinds.MORE_SEEDS]
    worse[kinds.MORE_SEEDS] = cell(SPREAD + 0.001)
    line = row("flip")
    assert "| behind: max error" in line and "Behind stock int8: flip." in page([line])

"""The constants are what their names say."""

import numpy as np
import pytest

from sqp_keras import B_CURVATURE, B_MINIMAX, B_VALUE

X = np.linspace(-30, 30, 600_001)


def distance(b):
    return (X + np.sqrt(X * X + b)) / 2 - np.logaddexp(X, 0)


def test_curvature_at_zero_is_that_of_softplus():
    # y'' = b / (2*s**3) at 0 is 1 / (2*sqrt(b)); softplus has 1/4.
    assert 1 / (2 * np.sqrt(B_CURVATURE)) == 1 / 4


def test_value_at_zero_is_that_of_softplus_and_none_is_below():
    np.testing.assert_allclose(B_VALUE, 4 * np.log(2) ** 2, rtol=1e-15)
    assert distance(B_VALUE).min() > -1e-15
    assert distance(B_VALUE * 0.999).min() < 0


@pytest.mark.parametrize(
    ("b", "largest"),
    [(B_CURVATURE, 0.3069), (B_VALUE, 0.1039), (B_MINIMAX, 0.0759)],
)
def test_largest_distance_to_softplus(b, largest):
    assert np.abs(distance(b)).max() == pytest.approx(largest, abs=5e-5)


def test_minimax_is_the_best_b():
    best = np.abs(distance(B_MINIMAX)).max()
    for other in (0.9999, 1.0001):
        assert np.abs(distance(B_MINIMAX * other)).max() > best

"""The formulas are the closed forms, in NumPy's float64 and at the ends of the range."""

import numpy as np
import pytest

from sqp_keras.activation import formulas

X = np.array([-1e3, -30.0, -2.0, -0.5, 0.0, 0.5, 2.0, 30.0, 1e3])
C = [1e-3, 1.0, 25.0]
# A few roundings of float64; left of 0 the textbook form cancels, so the truth is taken from the mirrored side.
RTOL = 1e-14


def roots(x, c):
    z = np.abs(x) / 2
    return z, np.sqrt(z * z + c)


def truth(x, c):
    z, root = roots(x, c)
    return np.where(x > 0, z + root, c / (z + root))


@pytest.mark.parametrize("c", C)
@pytest.mark.parametrize("bounded", [False, True])
def test_value_is_half_of_x_plus_root(c, bounded):
    np.testing.assert_allclose(formulas.value(np, X, c, "float64", bounded), truth(X, c), rtol=RTOL)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_order_of_the_steps_changes_no_bit(dtype):
    bits = {"float32": np.uint32, "float64": np.uint64}[dtype]
    x = np.random.default_rng(0).integers(0, np.iinfo(bits).max, 200_000, dtype=bits).view(dtype)
    x = np.concatenate([x, np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, *X], dtype)])
    for c in np.asarray([1e-30, 1.0, 1e30], dtype) / 4:
        with np.errstate(all="ignore"):
            tail = formulas.value(np, -np.abs(x), c, dtype)
            np.testing.assert_array_equal(formulas.value(np, x, c, dtype), np.maximum(x, 0) + tail)


@pytest.mark.parametrize("c", C)
def test_derivatives_are_those_of_the_closed_form(c):
    y, (_, root) = truth(X, c), roots(X, c)
    np.testing.assert_allclose(formulas.slope(np, y, c, "float64"), y / (2 * root), rtol=RTOL)
    np.testing.assert_allclose(formulas.value_by_c(np, y, c, "float64"), 1 / (2 * root), rtol=RTOL)


@pytest.mark.parametrize("c", C)
def test_second_derivatives_are_finite_differences_of_the_slope(c):
    y = truth(X[2:-2], c)
    step = 1e-6
    by_y = (formulas.slope(np, y + step * y, c, "float64") - formulas.slope(np, y - step * y, c, "float64")) / y
    by_c = formulas.slope(np, y, c * (1 + step), "float64") - formulas.slope(np, y, c * (1 - step), "float64")
    # Central differences: the square of the step and the rounding of the slope over the step.
    np.testing.assert_allclose(formulas.slope_by_y(np, y, c, "float64"), by_y / (2 * step), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(formulas.slope_by_c(np, y, c, "float64"), by_c / (2 * step * c), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_ends_of_the_range_stay_finite(dtype):
    largest = formulas.LARGEST[dtype]
    x = np.array([-largest, 0.0, largest], dtype)
    c = np.array(1.0, dtype)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(formulas.value(np, x, c, dtype)[1:], np.array([1.0, largest], dtype))
        assert 0.0 <= formulas.value(np, x, c, dtype)[0] < np.finfo(dtype).tiny * 4
    y = np.array([0.0, 1.0, np.inf], dtype)
    with np.errstate(divide="ignore", over="ignore"):
        np.testing.assert_array_equal(formulas.slope(np, y, c, dtype), [0.0, 0.5, 1.0])


def test_halves_are_computed_in_float32():
    assert [formulas.compute_dtype(d) for d in ("float16", "bfloat16", "float32", "float64")] == [
        *["float32"] * 3,
        "float64",
    ]

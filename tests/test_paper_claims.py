"""Each equation and claim of "Squareplus: A Softplus-Like Algebraic Rectifier" (Barron, 2021), as a test."""

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from sqp_keras import B_CURVATURE, B_VALUE, squareplus

X = np.concatenate([np.linspace(-20, 20, 4001), [-1e8, -1e3, 1e3, 1e8]])
BS = [0.25, 1.0, B_VALUE, B_CURVATURE, 9.0]
EPS = np.finfo(np.float64).eps


def value(x, b):
    return squareplus(np.asarray(x, np.float64), b).numpy()


def slopes(x, b, order):
    def differentiate(x, order):
        if order == 0:
            return squareplus(x, b)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = differentiate(x, order - 1)
        return tape.gradient(y, x)

    return differentiate(tf.constant(x, tf.float64), order).numpy()


@pytest.mark.parametrize("b", BS)
def test_equation_1_definition(b):
    with mpmath.workdps(40):
        want = [float((mpmath.mpf(x) + mpmath.sqrt(mpmath.mpf(x) ** 2 + b)) / 2) for x in X.tolist()]
    np.testing.assert_allclose(value(X, b), want, rtol=4 * EPS)


@pytest.mark.parametrize("b", BS)
def test_is_never_negative(b):
    assert (value(X, b) > 0).all()


@pytest.mark.parametrize("b", [0, *BS])
def test_is_never_below_relu(b):
    assert (value(X, b) >= np.maximum(X, 0)).all()


@pytest.mark.parametrize("b", BS)
def test_approaches_relu_far_from_zero(b):
    # The distance to relu is b/4 divided by more than abs(x).
    far = X[np.abs(X) > 10]
    assert (value(far, b) - np.maximum(far, 0) <= b / 4 / np.abs(far) + 2 * EPS * np.abs(far)).all()


def test_b_zero_is_relu():
    np.testing.assert_array_equal(value(X, 0), np.maximum(X, 0))


def test_larger_b_is_a_larger_value():
    values = np.stack([value(np.linspace(-20, 20, 401), b) for b in (0, *BS)])
    assert (np.diff(values, axis=0) > 0).all()


@pytest.mark.parametrize("b", BS)
def test_equation_2_first_derivative(b):
    s = np.sqrt(X * X + b)
    want = np.where(X > 0, (1 + X / s) / 2, b / (2 * s * (s - np.minimum(X, 0))))
    np.testing.assert_allclose(slopes(X, b, 1), want, rtol=16 * EPS)


@pytest.mark.parametrize("b", BS)
def test_equation_3_second_derivative(b):
    near = X[np.abs(X) <= 20]
    # Left of 0 the digits of y count twice in the second derivative.
    np.testing.assert_allclose(slopes(near, b, 2), b / (2 * (near**2 + b) ** 1.5), rtol=64 * EPS)


@pytest.mark.parametrize("b", BS)
def test_derivative_lies_between_0_and_1_and_is_one_half_at_the_origin(b):
    found = slopes(X, b, 1)
    assert (found > 0).all()
    assert (found <= 1).all()
    assert slopes([0.0], b, 1) == 0.5


def test_derivative_at_the_origin_is_one_half_for_b_zero_too():
    assert slopes([0.0], 0, 1) == 0.5


@pytest.mark.parametrize("b", BS)
def test_is_smooth_and_convex(b):
    for order in (1, 2, 3):
        found = slopes(np.linspace(-1e-3, 1e-3, 201), b, order)
        assert np.isfinite(found).all()
        # Steps of 1e-5 times a next derivative below 100 for b >= 1/4: no jump at 0.
        assert np.abs(np.diff(found)).max() < 1e-3
    assert (slopes(X, b, 2) >= 0).all()


def test_second_derivative_is_a_students_t_density():
    # Two degrees of freedom, scale sqrt(b/2): density 1 / (2*sqrt(2)*scale) * (1 + (x/scale)**2 / 2)**-1.5.
    for b in BS:
        scale, x = np.sqrt(b / 2), np.linspace(-10, 10, 101)
        density = (1 + (x / scale) ** 2 / 2) ** -1.5 / (2 * np.sqrt(2) * scale)
        np.testing.assert_allclose(slopes(x, b, 2), density, rtol=64 * EPS)


def test_b_4_has_the_curvature_of_softplus_at_the_origin():
    assert slopes([0.0], B_CURVATURE, 2) == 0.25


def test_b_value_has_the_value_of_softplus_at_the_origin():
    np.testing.assert_allclose(value([0.0], B_VALUE), np.log(2), rtol=2 * EPS)


def test_b_value_is_never_below_softplus():
    near = X[np.abs(X) <= 20]
    assert (value(near, B_VALUE) >= np.logaddexp(near, 0) * (1 - 4 * EPS)).all()


def test_first_derivative_of_softplus_at_the_origin_is_shared_by_every_b():
    for b in BS:
        np.testing.assert_allclose(slopes([0.0], b, 1), 1 / (1 + np.exp(0.0)), rtol=2 * EPS)


@pytest.mark.parametrize("a", [0.1, 2.0, 7.5])
@pytest.mark.parametrize("b", BS)
def test_scaling_the_input_is_the_same_as_another_b(b, a):
    np.testing.assert_allclose(value(a * X, b) / a, value(X, b / a**2), rtol=16 * EPS)


def test_tail_is_slower_than_that_of_softplus():
    x = np.array([-5.0, -10.0, -20.0, -40.0])
    ratio = value(x, B_CURVATURE) / np.logaddexp(x, 0)
    assert (np.diff(ratio) > 0).all()
    # Like 1/abs(x): twice as far is half as much.
    np.testing.assert_allclose(value(-1e8, 4.0) / value(-2e8, 4.0), 2, rtol=1e-12)


def test_stays_finite_where_exp_overflows():
    assert np.isfinite(squareplus(np.float32([-1e4, 1e4, 3e38])).numpy()).all()
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(np.float32(1e4)))

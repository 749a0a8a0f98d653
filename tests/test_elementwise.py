"""Operators in wide numbers: each is what its name says, with its options and its fused activation."""

import mpmath
import numpy as np
import pytest

from sqp_tflite.flatbuffer.elementwise import BINARY, ELEMENTWISE, UNARY, apply

X = np.array([-7.0, -1.0, 0.0, 0.5, 3.0])


def test_operators_are_what_their_names_say():
    assert {"ADD", "SQRT", "GELU", "CAST", "SELECT_V2"} <= ELEMENTWISE
    assert not set(UNARY) & set(BINARY)
    assert np.allclose(apply("LOGISTIC", [X], {}), 1 / (1 + np.exp(-X)))
    assert np.allclose(apply("SELECT", [X > 0, X, -X], {}), np.abs(X))
    assert np.array_equal(apply("PRELU", [X, np.array(0.5)], {}), np.where(X >= 0, X, 0.5 * X))


def test_options_are_read_by_their_names():
    assert np.allclose(apply("LEAKY_RELU", [X], {"alpha": 0.25}), np.where(X >= 0, X, 0.25 * X))
    exact = [float(x * mpmath.ncdf(x)) for x in X]
    tanh = [float(x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + 0.044715 * x**3)))) for x in X]
    # 1e-12: the results are float64, of sizes up to 3.
    assert np.allclose(apply("GELU", [X], {"approximate": False}), exact, rtol=0, atol=1e-12)
    assert np.allclose(apply("GELU", [X], {"approximate": True}), tanh, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("fused", "expected"),
    [
        ("NONE", X + 1),
        ("RELU", np.maximum(X + 1, 0)),
        ("RELU6", np.clip(X + 1, 0, 6)),
        ("RELU_N1_TO_1", np.clip(X + 1, -1, 1)),
        ("TANH", np.tanh(X + 1)),
        ("SIGN_BIT", np.sign(X + 1)),
    ],
)
def test_the_fused_activation_is_applied(fused, expected):
    assert np.allclose(apply("ADD", [X, np.array(1.0)], {"fusedActivationFunction": fused}), expected)


def test_other_operators_are_refused():
    with pytest.raises(ValueError, match="must be elementwise.*CONV_2D"):
        apply("CONV_2D", [X], {})

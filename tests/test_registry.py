"""The string "squareplus" means this package, until it is given back."""

import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest

import sqp_keras
from sqp_keras import private
from sqp_keras.activation import registry

ACTIVATIONS = sys.modules["keras.src.activations"]


@pytest.fixture(autouse=True)
def _restore():
    yield
    registry.register()


def test_string_means_this_package():
    assert keras.activations.get("squareplus") is sqp_keras.squareplus
    assert keras.layers.Dense(1, "squareplus").activation is sqp_keras.squareplus
    assert keras.layers.Activation("squareplus").activation is sqp_keras.squareplus


def test_unregister_gives_the_string_back():
    sqp_keras.unregister()
    assert keras.activations.get("squareplus") is keras.activations.squareplus
    assert keras.activations.get("squareplus") is not sqp_keras.squareplus
    sqp_keras.unregister()
    assert registry.register()
    assert keras.activations.get("squareplus") is sqp_keras.squareplus


def test_registering_twice_remembers_the_stock_function():
    registry.register()
    registry.register()
    sqp_keras.unregister()
    assert keras.activations.get("squareplus") is keras.activations.squareplus


def test_other_strings_are_untouched():
    assert keras.activations.get("relu") is keras.activations.relu


def test_unregister_leaves_a_later_owner_alone():
    def theirs(x):
        return x

    ACTIVATIONS.ALL_OBJECTS_DICT["squareplus"], ours = theirs, ACTIVATIONS.ALL_OBJECTS_DICT["squareplus"]
    sqp_keras.unregister()
    assert keras.activations.get("squareplus") is theirs
    ACTIVATIONS.ALL_OBJECTS_DICT["squareplus"] = ours


@pytest.mark.parametrize("hidden", ["missing", "of another type"])
def test_hidden_table_warns_once_and_the_rest_works(monkeypatch, hidden):
    if hidden == "missing":
        monkeypatch.delattr(ACTIVATIONS, "ALL_OBJECTS_DICT")
    else:
        monkeypatch.setattr(ACTIVATIONS, "ALL_OBJECTS_DICT", ())
    monkeypatch.setattr(private, "_warned", set())
    with pytest.warns(UserWarning, match="hides the table of activation names"):
        assert not registry.register()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not registry.register()
        sqp_keras.unregister()
    x = np.float32([[1.0, -1.0]])
    assert keras.layers.Dense(2, activation=sqp_keras.squareplus)(x).shape == (1, 2)
    assert sqp_keras.Squareplus()(x).shape == (1, 2)


def test_other_backends_give_the_same_values_and_slopes():
    code = """
import sys
sys.modules["tensorflow"] = None  # It would only cost seconds.
import numpy as np, keras, sqp_keras
x = np.float32([-1e30, -300, -1, 0, 2, 300, 1e30])
y = np.asarray(sqp_keras.squareplus(x))
z = np.abs(x.astype(float)) / 2
h = z + np.sqrt(z * z + 1)
np.testing.assert_allclose(y, np.where(x < 0, 1 / h, h), rtol=4e-7)
assert keras.activations.get("squareplus") is sqp_keras.squareplus
np.testing.assert_array_equal(np.asarray(sqp_keras.squareplus(x, 0)), np.maximum(x, 0))
np.testing.assert_allclose(np.asarray(sqp_keras.Squareplus(b=4., floor=1.)(x)), y + 1, rtol=4e-7)
inputs = keras.Input((7,)); model = keras.Model(inputs, sqp_keras.squareplus(inputs))
np.testing.assert_allclose(np.asarray(model(x[None]))[0], y, rtol=4e-7)
if keras.config.backend() == "jax":
    import jax
    f = lambda v: sqp_keras.squareplus(v)
    points = [-3.0, 0.0, 2.0]
    for order, want in ((1, lambda v, s: (1 + v / s) / 2), (2, lambda v, s: 2 / s**3), (3, lambda v, s: -6 * v / s**5)):
        f = jax.grad(f)
        for v in points:
            assert abs(float(f(v)) - want(v, (v * v + 4) ** 0.5)) < 1e-6, (order, v)
    assert abs(float(jax.hessian(sqp_keras.squareplus)(0.0)) - 0.25) < 1e-7
    assert float(jax.grad(lambda v: sqp_keras.squareplus(v, 0))(0.0)) == 0.5
    assert abs(float(jax.grad(lambda b: sqp_keras.squareplus(1.0, b))(np.float32(3))) - 1 / 8) < 1e-7
    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(4, activation=sqp_keras.Squareplus(2., "channel"))])
    model.compile("adam", "mse")
    loss = model.fit(x[None] * 1e-30, np.ones((1, 4)), epochs=20, verbose=0).history["loss"]
    assert loss[-1] < loss[0]
"""
    for backend in ("jax", "numpy"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"KERAS_BACKEND": backend, "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{backend}: {done.stderr}"

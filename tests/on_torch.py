"""Promises of the PyTorch backend; run by `make test-torch` in an environment of its own, which has no TensorFlow."""

import os

os.environ["KERAS_BACKEND"] = "torch"

from pathlib import Path

import keras
import numpy as np
import pytest
import torch

import sqp_keras
from sqp_keras import squareplus

X = np.array([-30.0, -3.0, -0.5, 0.0, 0.7, 2.0, 30.0])
B = 2.5
S = np.sqrt(X * X + B)
WANTED = {"": (X + S) / 2, "r": (X + S) / (2 * S), "rr": B / (2 * S**3), "rrr": -3 * B * X / (2 * S**5)}
TOLERANCE = 1e-14  # A few roundings of float64 in expressions of size 1.


def nested(order, b=B):
    def function(x):
        return squareplus(x, b)

    for letter in reversed(order):
        function = {"r": torch.func.grad, "f": forward}[letter](function)
    return torch.func.vmap(function)


def forward(function):
    return lambda x: torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]


@pytest.mark.parametrize("order", ["", "r", "f", "rr", "rf", "fr", "rrr", "rrf", "rfr", "frr", "frf"])
def test_orders_and_directions(order):
    got = nested(order)(torch.tensor(X))
    np.testing.assert_allclose(got.numpy(), WANTED["r" * len(order)], rtol=0, atol=TOLERANCE)


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, x_dot):
        return x_dot * 3 * ctx.saved_tensors[0] ** 2


def test_forward_over_forward_is_lost_by_pytorch_itself():
    # The second derivative of the cube of 2 is 12. When this fails, add "ff" and its kind to the orders above.
    assert float(forward(forward(Cube.apply))(torch.tensor(2.0))) == 0.0


def test_the_grid_sees_a_planted_fault(monkeypatch):
    from sqp_keras.backends import torch as rules

    monkeypatch.setattr(rules.formulas, "slope_by_y", lambda ns, y, c, dtype: 0.0 * y)
    assert np.abs(nested("rr")(torch.tensor(X)).numpy() - WANTED["rr"]).max() > 0.1


def test_autograd_of_three_orders_and_of_b():
    x, b = torch.tensor(X, requires_grad=True), torch.tensor([B], dtype=torch.float64, requires_grad=True)
    y = squareplus(x, b)
    (by_b,) = torch.autograd.grad(y.sum(), b, retain_graph=True)
    np.testing.assert_allclose(by_b.numpy(), [(1 / (4 * S)).sum()], atol=TOLERANCE)
    for order in ("r", "rr", "rrr"):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        np.testing.assert_allclose(y.detach().numpy(), WANTED[order], atol=TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_infinities_nan_and_halves(dtype):
    x = torch.tensor([np.inf, -np.inf, np.nan, 300.0, -300.0], dtype=dtype, requires_grad=True)
    y = squareplus(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    np.testing.assert_array_equal(y.detach().double().numpy()[:3], [np.inf, 0, np.nan])
    np.testing.assert_array_equal(x.grad.double().numpy()[:3], [1, 0, np.nan])
    np.testing.assert_allclose(y.detach().double().numpy()[3:], [300 + 1 / 300, 1 / 300], rtol=2**-8)


def test_only_the_output_is_kept():
    kept = []
    x = torch.ones(1000, requires_grad=True) * 2
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = squareplus(x)
    assert [t.data_ptr() for t in kept] == [y.data_ptr()]


def test_b_zero_is_relu_with_one_half_at_zero():
    x = torch.tensor([-np.inf, -2.0, 0.0, 3.0, np.inf], requires_grad=True)
    y = squareplus(x, 0)
    y.sum().backward()
    np.testing.assert_array_equal(y.detach(), [0, 0, 0, 3, np.inf])
    np.testing.assert_array_equal(x.grad, [0, 0, 0.5, 1, 1])


def test_compiled_it_gives_the_same():
    x = torch.tensor(X, dtype=torch.float32, requires_grad=True)
    y = torch.compile(lambda t: squareplus(t, B), backend="aot_eager")(x)
    y.sum().backward()
    np.testing.assert_allclose(y.detach(), WANTED[""], rtol=1e-6)
    np.testing.assert_allclose(x.grad, WANTED["r"], rtol=1e-6)


def test_the_file_that_tensorflow_opens_is_one_of_this_backend():
    # tests/test_trained_on_torch.py opens and exports it; data/make_trained_on_torch.py made it.
    file = Path(__file__).parent / "data" / "trained_on_torch.keras"
    with np.load(file.with_suffix(".npz")) as data:
        np.testing.assert_allclose(keras.models.load_model(file).predict(data["x"], verbose=0), data["y"], atol=2e-5)


def test_training_replacing_distilling_and_saving(tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "squareplus"), keras.layers.Dense(8, "tanh")])
    model.add(sqp_keras.Squareplus(learn_b="channel"))
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    losses = model.fit(x, np.tile(x, 2), epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    student, _ = sqp_keras.replace_activations(model, "fast", data=x)
    student, report = sqp_keras.distill(student, model, x, 2, verbose=0)
    assert report.after < report.before
    student.save(tmp_path / "m.keras")
    np.testing.assert_allclose(
        keras.models.load_model(tmp_path / "m.keras").predict(x, verbose=0), student.predict(x, verbose=0), rtol=1e-6
    )

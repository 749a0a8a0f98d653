"""Whatever a user passes to a public function of `sqp_keras`: it works, or one line says which argument is wrong."""

import keras
import numpy as np
import pytest

import sqp_keras
from models import dense
from strange import faults

ERRORS = (TypeError, ValueError)
X = np.linspace(-2.0, 2.0, 8, dtype="float32").reshape(2, 4)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return dense("silu", (4, 4))


def distill(model, /, **given):
    return sqp_keras.distill(**{"student": model, "teacher": model, "data": X, "epochs": 0, "verbose": 0, **given})


CALLS = {
    "squareplus": (lambda _, /, **given: sqp_keras.squareplus(**{"x": X, **given}), ("x", "b")),
    "squareplus_inverse": (lambda _, /, **given: sqp_keras.squareplus_inverse(**{"y": X, **given}), ("y", "b")),
    "algebraic": (
        lambda _, /, **given: sqp_keras.algebraic(**{"x": X, "of": "elu", **given}),
        ("x", "of", "terms", "alpha", "upper", "coefficients"),
    ),
    "algebraic exponential": (
        lambda _, /, **given: sqp_keras.algebraic(**{"x": X, "of": "exponential", **given}),
        ("upper",),
    ),
    "Squareplus": (
        lambda _, /, **given: sqp_keras.Squareplus(**given)(X),
        ("b", "learn_b", "floor", "shared_axes", "b_initializer", "b_regularizer", "b_constraint"),
    ),
    # Not called: Keras puts a frame of its own around what a call raises.
    "Squareplus with channels": (
        lambda _, /, **given: sqp_keras.Squareplus(learn_b="channel", **given),
        ("b", "shared_axes", "b_initializer", "b_regularizer", "b_constraint"),
    ),
    "AlgebraicSoftmax": (lambda _, /, **given: sqp_keras.AlgebraicSoftmax(**given), ("axis",)),
    "Algebraic": (
        lambda _, /, **given: sqp_keras.Algebraic(**{"of": "elu", **given})(X),
        ("of", "terms", "alpha", "upper", "coefficients"),
    ),
    "replace_activations": (
        lambda net, /, **given: sqp_keras.replace_activations(**{"model": net, **given}),
        ("model", "rule", "keep", "data", "max_error", "custom_objects"),
    ),
    "drop_head": (
        lambda net, /, **given: sqp_keras.drop_head(**{"model": net, **given}),
        ("model", "custom_objects"),
    ),
    "distill": (
        distill,
        ("student", "teacher", "data", "epochs", "layer_epochs", "batch_size", "learning_rate", "patience", "budget",
         "measure", "seed", "verbose"),
    ),
}  # fmt: skip


ITS_OWN = {
    "b_initializer": ("a function", "a class"),
    "b_regularizer": ("a function", "a class"),
    "b_constraint": ("a function", "a class"),
    "measure": ("a function", "a class"),
}
"""Values that are accepted and then fail by themselves: `len` as an initialiser."""

BOTH = {"rule": ("A rule ",), "student": ("Student and teacher",), "teacher": ("Student and teacher",)}
"""Messages about an argument in other words."""


@pytest.mark.parametrize(("function", "name"), [(made, name) for made, (_, names) in CALLS.items() for name in names])
def test_a_function_takes_any_value_or_says_what_is_wrong(function, name, model, tmp_path, monkeypatch):
    # What follows the checks costs most of the time and is not the subject.
    monkeypatch.setattr("sqp_keras.models.distill.rebuild", lambda net, _: net)
    monkeypatch.setattr("sqp_keras.models.distill._Training._fit", lambda *_: 0)
    call, _ = CALLS[function]
    assert (
        faults(
            name,
            lambda value: call(model, **{name: value}),
            tmp_path,
            ERRORS,
            BOTH.get(name, ()),
            ITS_OWN.get(name, ()),
        )
        == []
    )

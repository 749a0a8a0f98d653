"""Every activation is found by reading layers: its place, its name, its parameters."""

import keras
import numpy as np
import pytest
from keras import layers

import sqp_keras
from replaceable import CASES, functional, my_softplus, sequential
from sqp_keras.models.sites import UNKNOWN, identify, is_functional, paths, sites


@pytest.mark.parametrize(
    ("activation", "name", "parameters"),
    [
        (None, "linear", {}),
        ("swish", "silu", {}),
        (keras.activations.gelu, "gelu", {}),
        (layers.Activation("mish"), "mish", {}),
        (layers.ELU(0.5), "elu", {"alpha": 0.5}),
        (layers.Softmax(axis=1), "softmax", {"axis": 1}),
        (sqp_keras.squareplus, "squareplus", {}),
        (sqp_keras.Squareplus(b=2.0), "squareplus", {"b": 2.0, "learn_b": None, "floor": 0.0}),
        (sqp_keras.Algebraic("tanh", 4), "algebraic", {"of": "tanh", "terms": 4, "alpha": 1.0, "upper": None}),
        (my_softplus, UNKNOWN, {}),
        (lambda x: x, UNKNOWN, {}),
        (layers.Dense(1), UNKNOWN, {}),
        ("no_such_name", UNKNOWN, {}),
    ],
)
def test_an_activation_is_named_as_keras_names_it(activation, name, parameters):
    found = identify(activation)
    assert (found.name, dict(found.parameters)) == (name, parameters)


def test_an_operation_is_named_with_its_parameters():
    model = functional(lambda i: keras.ops.elu(keras.ops.gelu(i, approximate=False), alpha=0.5))
    found = [(site.activation.name, dict(site.activation.parameters)) for site in sites(model)]
    assert found == [("gelu", {"approximate": False}), ("elu", {"alpha": 0.5})]


def test_a_class_of_the_users_is_not_taken_for_keras_own():
    class Softmax(layers.Layer):
        pass

    assert identify(Softmax()).name == UNKNOWN


def test_a_layer_that_is_used_twice_is_one_site():
    layer = layers.Dense(8, "selu")
    assert [site.activation.name for site in sites(functional(lambda i: layer(layer(i))))] == ["selu"]


def test_places_are_named_from_the_model_down():
    inner = keras.Sequential([keras.Input((8,)), layers.Dense(4, "gelu", name="dense")], name="inner")
    model = sequential(inner, layers.Reshape((2, 2)), layers.LSTM(3, name="lstm"))
    cell = model.layers[-1].cell.name
    assert [site.label for site in sites(model)] == ["inner/dense", f"lstm/{cell}", f"lstm/{cell}.recurrent_activation"]
    assert [path for path, _ in paths(model)][:2] == ["inner", "inner/dense"]


def test_no_layer_is_run_to_find_out_what_it_computes():
    def fails(x):
        raise AssertionError("was run")

    layer = layers.Dense(2)
    layer.activation = fails
    (site,) = sites(keras.Sequential([layer]))
    assert (site.activation.name, site.activation.spelled) == (UNKNOWN, "fails")


def test_functional_models_are_told_from_the_others():
    i = keras.Input((8,))

    class Own(keras.Model):
        def call(self, x):
            return x

    class Graph(keras.Model):
        def __init__(self):
            super().__init__(i, layers.Dense(1)(i))

    models = [functional(layers.Dense(1)), Graph(), sequential(layers.Dense(1)), Own(), CASES["subclassed"]()]
    assert [is_functional(model) for model in models] == [True, True, False, False, False]
    assert not is_functional(np.zeros(1))

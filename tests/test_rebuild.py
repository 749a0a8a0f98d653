"""A copied model computes the same, and what cannot be copied is refused with the layer."""

import keras
import numpy as np
import pytest
from keras import layers

import sqp_keras
from replaceable import NoConfig, functional, inputs_of, my_softplus, sequential
from sqp_keras.models.rebuild import CannotCopyError, rebuild


def test_models_that_cannot_be_copied_are_refused_with_the_layer():
    with pytest.raises(CannotCopyError, match=r"no_config.*NoConfig.*get_config"):
        sqp_keras.replace_activations(functional(lambda i: NoConfig(4)(i)))
    with pytest.raises(CannotCopyError, match="not built yet"):
        sqp_keras.replace_activations(keras.Sequential([layers.Dense(2, "tanh")]))
    with pytest.raises(TypeError, match="Keras model"):
        sqp_keras.replace_activations("model.keras")


def test_code_of_the_users_own_is_carried_over_as_it_is():
    model = sequential(
        layers.Lambda(lambda t: t * 2.0),
        layers.Dense(4, my_softplus),
        layers.Dense(4, lambda t: t + 1.0),
        layers.PReLU(),
    )
    x = inputs_of(model)
    np.testing.assert_array_equal(rebuild(model, {})(x), model(x))


def test_a_model_compiled_with_a_loss_of_ones_own_is_copied_and_stays_compiled():
    def own_loss(y, made):
        return keras.ops.mean(keras.ops.abs(y - made), axis=-1)

    for model in (sequential(layers.Dense(2, "tanh")), functional(layers.Dense(2, "tanh"))):
        model.compile("sgd", own_loss)
        new, _ = sqp_keras.replace_activations(model)
        assert model.compiled
        assert not new.compiled


@pytest.mark.parametrize("build", [sequential, functional])
def test_what_a_normalization_learnt_is_copied(build):
    """It computes with a copy of its weights, which setting those leaves as it was."""
    norm = layers.Normalization(axis=-1)
    norm.adapt(np.random.default_rng(0).normal(300.0, 40.0, (200, 8)).astype("float32"))
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), norm, layers.Dense(3, "gelu")])
    if build is functional:
        model = keras.Model(model.inputs, model.outputs)
    x = np.random.default_rng(1).normal(300.0, 40.0, (16, 8)).astype("float32")
    np.testing.assert_array_equal(rebuild(model, {})(x), model(x))

"""The algebraic layers keep their numbers, take masks and say what they refuse."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import sqp_keras
from sqp_keras.family import coefficients


def saved_and_loaded(model, path):
    model.save(path)
    return keras.models.load_model(path)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_saved_layer_keeps_its_numbers_when_the_table_changes(tmp_path, monkeypatch, suffix):
    i = keras.Input((4,))
    model = keras.Model(i, sqp_keras.Algebraic("softplus", 3)(keras.layers.Dense(3, sqp_keras.Algebraic("tanh"))(i)))
    x = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
    before = model(x)
    monkeypatch.setattr(coefficients, "table", lambda: {})
    coefficients.find.cache_clear()
    again = saved_and_loaded(model, tmp_path / f"m{suffix}")
    np.testing.assert_array_equal(again(x), before)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"of": "sine"}, "algebraic form of .*Received: of='sine'"),
        ({"of": "softplus", "terms": 4}, "1, 2, 3 or 5 roots. Received: terms=4"),
        ({"of": "exponential"}, "largest input.*Received: upper=None"),
        ({"of": "elu", "alpha": -1.0}, "alpha` of elu is a positive number"),
        ({"of": "softmax"}, "Use AlgebraicSoftmax"),
        ({"of": "softplus", "coefficients": {"offset": 0}}, "what `get_config` wrote"),
    ],
)
def test_bad_arguments_say_the_rule_and_the_remedy(arguments, words):
    with pytest.raises(ValueError, match=words):
        sqp_keras.Algebraic(**arguments)


def test_of_must_be_a_name():
    with pytest.raises(TypeError, match="name of an activation"):
        sqp_keras.Algebraic(3)


def test_softmax_masks_and_takes_several_axes():
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    mask = np.array([True, False, True, True])
    y = ops.convert_to_numpy(sqp_keras.AlgebraicSoftmax()(x, mask=mask))
    assert y[..., 1].max() < 1e-12
    both = ops.convert_to_numpy(sqp_keras.AlgebraicSoftmax(axis=(1, 2))(x))
    np.testing.assert_allclose(both.sum(axis=(1, 2)), 1.0, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_matches_keras_and_has_no_exp(tmp_path, causal):
    keras.utils.set_random_seed(0)
    i = keras.Input((6, 8))
    stock = keras.layers.MultiHeadAttention(2, 4)
    ours = sqp_keras.AlgebraicAttention(2, 4)
    model = keras.Model(i, [stock(i, i, use_causal_mask=causal), ours(i, i, use_causal_mask=causal)])
    ours.set_weights(stock.get_weights())
    x = np.random.default_rng(0).normal(size=(4, 6, 8)).astype("float32") * 3
    a, b = model(x)
    # Each weight within 1.7e-4, six values of size about 5, one projection.
    np.testing.assert_allclose(a, b, atol=6 * 5 * 1.7e-4)
    graph = tf.function(lambda t: ours(t, t)).get_concrete_function(tf.TensorSpec((1, 6, 8))).graph
    assert not {"Exp", "Softmax"} & {op.type for op in graph.get_operations()}
    again = saved_and_loaded(model, tmp_path / "m.keras")
    np.testing.assert_array_equal(again(x)[1], b)

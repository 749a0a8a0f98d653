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
        ({"of": "tanh", "positive": True}, "softplus, sigmoid, exponential. Received: of='tanh'. Leave it out"),
        ({"of": "softmax", "positive": True}, "`positive` is for .*of='softmax'"),
    ],
)
def test_bad_arguments_say_the_rule_and_the_remedy(arguments, words):
    with pytest.raises(ValueError, match=words):
        sqp_keras.Algebraic(**arguments)


def test_of_must_be_a_name():
    with pytest.raises(TypeError, match="name of an activation"):
        sqp_keras.Algebraic(3)


def test_positive_is_true_or_false():
    with pytest.raises(TypeError, match="`positive` is True or False. Received: positive=1 of type int"):
        sqp_keras.Algebraic("softplus", positive=1)


WIDE = np.concatenate([-np.geomspace(6e4, 1e-6, 3001), [0.0], np.geomspace(1e-6, 6e4, 3001)])
FUNCTIONS = {"log": ops.log, "sqrt": ops.sqrt, "reciprocal": lambda y: 1 / y}


def through(layer, function, x):
    """Returns function(layer(x)), and its derivative in float32."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(layer(x))
    # In float16 the derivative of 1/y, 1/y**2, overflows below 0.004 whatever y comes from.
    return np.array([y] if x.dtype == tf.float16 else [y, tape.gradient(y, x)])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("of", coefficients.POSITIVE)
def test_a_positive_sum_has_a_logarithm_a_root_and_a_reciprocal(of, function, dtype):
    given = {"of": of, "upper": 3.0 if of == "exponential" else None, "dtype": dtype}
    x = WIDE.astype(dtype)
    assert np.isfinite(through(sqp_keras.Algebraic(**given, positive=True), FUNCTIONS[function], x)).all()
    if (function, dtype) != ("sqrt", "float16"):  # The fault that `positive` is for: an exact 0.
        assert not np.isfinite(through(sqp_keras.Algebraic(**given), FUNCTIONS[function], x)).all()


@pytest.mark.parametrize("of", coefficients.POSITIVE)
def test_holding_a_sum_above_zero_keeps_its_max_error(of):
    truth = {"softplus": lambda x: np.logaddexp(0, x), "sigmoid": lambda x: np.exp(-np.logaddexp(0, -x))}
    truth["exponential"] = lambda x: np.exp(np.minimum(x, 3.0))
    for terms in coefficients.term_counts(of):
        upper = 3.0 if of == "exponential" else None
        layer = sqp_keras.Algebraic(of, terms, upper=upper, positive=True, dtype="float64")
        y = np.array(layer(WIDE))
        assert y.min() > 0
        # 1 %: the bound has three digits; the far left of exponential rounds in its shifted parts.
        assert np.abs(y - truth[of](WIDE)).max() <= 1.01 * layer.sum.value_error


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_saved_layer_stays_positive(tmp_path, suffix):
    i = keras.Input((2,))
    layer = sqp_keras.Algebraic("softplus", 3, positive=True, dtype="float32")
    model = keras.Model(i, [layer(i), sqp_keras.algebraic(i, "sigmoid", positive=True)])
    again = saved_and_loaded(model, tmp_path / f"m{suffix}")
    assert [layer.positive for layer in again.layers[1:]] == [True, True]
    for before, after in zip(model(-WIDE[None, :2]), again(-WIDE[None, :2]), strict=True):
        np.testing.assert_array_equal(after, before)
    for value in again(np.full((1, 2), -50.0)):
        assert np.min(value) > 0


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

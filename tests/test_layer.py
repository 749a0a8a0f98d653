"""Promises of the layer: fixed and learnt b, floor, masks, dtypes, shapes, refusals."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqp_keras import Squareplus, squareplus
from sqp_keras.activation.constants import B_LEARNT_SMALLEST
from sqp_keras.activation.layer import KeepPositive

X = np.random.default_rng(0).normal(0, 2, (8, 5, 3)).astype(np.float32)


def test_layer_is_the_function_plus_floor():
    np.testing.assert_array_equal(Squareplus(b=2.0)(X), squareplus(X, 2.0))
    np.testing.assert_array_equal(Squareplus(b=2.0, floor=1e-3)(X), squareplus(X, 2.0) + 1e-3)


def test_floor_is_the_smallest_output_of_a_positive_head():
    assert float(Squareplus(floor=1e-3)(np.float32(-1e30))) >= 1e-3


def test_fixed_b_is_no_weight():
    stock = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
    ours = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, activation=Squareplus(b=2.0)), keras.layers.Dense(1)]
    )
    assert len(ours.weights) == len(stock.weights)
    ours.set_weights(stock.get_weights())


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ({"learn_b": "layer"}, ()),
        ({"learn_b": "channel"}, (3,)),
        ({"learn_b": "channel", "shared_axes": [1]}, (1, 3)),
        ({"learn_b": "channel", "shared_axes": 2}, (5, 1)),
        ({"learn_b": "channel", "shared_axes": (-1,)}, (5, 1)),
        ({"learn_b": "channel", "shared_axes": []}, (5, 3)),
    ],
)
def test_learnt_b_has_one_value_per_unshared_entry(arguments, shape):
    layer = Squareplus(b=2.0, **arguments)
    np.testing.assert_array_equal(layer(X), squareplus(X, 2.0))
    assert [tuple(w.shape) for w in layer.trainable_weights] == [shape]
    np.testing.assert_array_equal(layer.b, np.full(shape, 2.0))


def test_shared_axes_agree_with_prelu():
    for axes in ([1], [2], [1, 2], []):
        prelu = keras.layers.PReLU(shared_axes=axes)
        ours = Squareplus(learn_b="channel", shared_axes=axes)
        prelu(X), ours(X)
        assert tuple(prelu.alpha.shape) == tuple(ours.b.shape)


@pytest.mark.parametrize("kind", [keras.layers.PReLU, lambda: Squareplus(learn_b="layer")])
def test_inside_another_layer_a_weight_appears_at_the_first_call_as_keras_has_it(kind):
    # When this fails, the limit in docs/numerics.md is gone.
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation=kind())])
    before = len(model.weights)
    model(np.zeros((1, 4), "float32"))
    assert (before, len(model.weights)) == (2, 3)


@pytest.mark.parametrize(
    ("learn_b", "jit"),
    [
        ("channel", True),
        ("layer", False),
        pytest.param("layer", True, marks=pytest.mark.large),
        pytest.param("channel", False, marks=pytest.mark.large),
    ],
)
def test_recovers_a_known_b_from_data(learn_b, jit):
    true_b = np.float32([0.5, 2.0, 9.0]) if learn_b == "channel" else np.float32(2.5)
    x = np.random.default_rng(1).normal(0, 2, (256, 3)).astype(np.float32)
    y = squareplus(x, true_b)
    model = keras.Sequential([keras.Input((3,)), Squareplus(learn_b=learn_b)])
    model.compile(keras.optimizers.Adam(0.1), "mse", jit_compile=jit)
    # One epoch of 250 equal batches: an epoch costs more than a step.
    model.fit(tf.data.Dataset.from_tensors((x, y)).repeat(250), shuffle=False, verbose=0)
    np.testing.assert_allclose(model.layers[0].b, true_b, rtol=0.02)


def test_learnt_b_stays_positive():
    # The truth is relu, so that every step wants a smaller b, and steps are large.
    x = np.random.default_rng(1).normal(0, 1, (64, 3)).astype(np.float32)
    model = keras.Sequential([keras.Input((3,)), Squareplus(b=0.5, learn_b="channel")])
    model.compile(keras.optimizers.SGD(50.0), "mse")
    model.fit(x, np.maximum(x, 0), epochs=5, verbose=0)
    assert (model.layers[0].b.numpy() >= np.float32(B_LEARNT_SMALLEST)).all()
    assert np.isfinite(model.predict(x, verbose=0)).all()


def test_positivity_check_sees_a_planted_fault(monkeypatch):
    monkeypatch.setattr(KeepPositive, "__call__", lambda self, w: w)
    x = np.random.default_rng(1).normal(0, 1, (64, 3)).astype(np.float32)
    model = keras.Sequential([keras.Input((3,)), Squareplus(b=0.5, learn_b="channel")])
    model.compile(keras.optimizers.SGD(50.0), "mse", jit_compile=False)
    model.fit(x, np.maximum(x, 0), epochs=5, verbose=0)
    assert not (model.layers[0].b.numpy() >= np.float32(B_LEARNT_SMALLEST)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "initialiser", ["zeros", "random_normal", "glorot_uniform", "ones", keras.initializers.Constant(np.nan)]
)
def test_any_initialiser_gives_a_b_that_trains(initialiser, dtype):
    keras.utils.set_random_seed(4)
    layer = Squareplus(learn_b="channel", b_initializer=initialiser, dtype=dtype)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(X) ** 2)
    b = np.asarray(layer.b, np.float64)
    assert (b >= np.asarray(B_LEARNT_SMALLEST, dtype).astype(float)).all()
    assert np.isfinite(tape.gradient(loss, layer.trainable_weights)[0]).all()
    assert Squareplus.from_config(layer.get_config()).get_config() == layer.get_config()
    # The first values that may be a b stay what the initialiser made.
    if initialiser == "ones":
        np.testing.assert_array_equal(b, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("jit", [True, False])
def test_nan_and_infinity_never_pass_the_constraint(jit, dtype):
    w = tf.constant([np.nan, np.inf, -np.inf, -1.0, 0.0, 2.0], dtype)
    held = tf.cast(tf.function(KeepPositive(), jit_compile=jit)(w), "float64").numpy()
    largest = 65504.0 if dtype == "float16" else 1e30
    # One rounding of the smallest half.
    np.testing.assert_allclose(held, [1e-4, largest, 1e-4, 1e-4, 1e-4, 2.0], rtol=2**-8)


def test_a_step_that_gives_nan_does_not_lose_b():
    model = keras.Sequential([keras.Input((3,)), Squareplus(b=0.5, learn_b="channel")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x = X[:, 0]
    model.train_on_batch(x, np.full_like(x, np.nan))
    assert np.isfinite(model.layers[0].b.numpy()).all()
    model.reset_metrics()  # Keras 3.12 returns the mean of all steps since.
    losses = [float(model.train_on_batch(x, np.maximum(x, 0))) for _ in range(2)]
    assert np.isfinite(losses).all()


def test_initialiser_regulariser_and_constraint_of_b():
    layer = Squareplus(
        learn_b="channel",
        b_initializer=keras.initializers.Constant(3.0),
        b_regularizer=keras.regularizers.L2(0.1),
        b_constraint=keras.constraints.MaxNorm(1.0),
    )
    layer(X)
    np.testing.assert_array_equal(layer.b, [3, 3, 3])
    assert float(layer.losses[0]) == pytest.approx(0.1 * 27)
    constrained = layer.b.constraint(tf.constant([3.0, -4.0, 0.0]))
    np.testing.assert_allclose(constrained, [0.6, B_LEARNT_SMALLEST, B_LEARNT_SMALLEST], rtol=1e-6)


def test_config_makes_an_equal_layer():
    layer = Squareplus(
        b=2.0,
        learn_b="channel",
        floor=0.5,
        shared_axes=[1],
        b_initializer="ones",
        b_regularizer="l2",
        b_constraint="unit_norm",
        name="act",
        dtype="mixed_float16",
    )
    again = Squareplus.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.name, again.dtype_policy.name) == ("act", "mixed_float16")


def test_mask_passes_through():
    inputs = keras.Input((4,), dtype="int32")
    hidden = Squareplus()(keras.layers.Embedding(10, 3, mask_zero=True)(inputs))
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(hidden))
    short, long = model(np.int32([[1, 2, 0, 0]])), model(np.int32([[1, 2, 1, 2]]))
    np.testing.assert_allclose(short, long, rtol=1e-6)


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("learn_b", [None, "layer", "channel"])
def test_dtype_policies(policy, learn_b):
    layer = Squareplus(b=1.9, learn_b=learn_b, dtype=policy)
    want = policy.removeprefix("mixed_")
    assert layer(X).dtype == want
    assert layer(keras.Input((5, 3))).dtype == want
    assert layer.compute_output_spec(keras.KerasTensor((None, 5, 3))).dtype == want
    if learn_b:
        assert layer.b.dtype == ("float32" if policy.startswith("mixed") else policy)
        # A b in float32 is not rounded to a half on its way.
        b = float(tf.cast(layer.b.value, tf.float64).numpy().ravel()[0])
        np.testing.assert_array_equal(tf.cast(layer(X), "float64"), tf.cast(squareplus(tf.cast(X, want), b), "float64"))


@pytest.mark.parametrize("shape", [(), (3,), (None, 3), (2, None, None, 3)])
def test_output_spec_is_the_input_shape(shape):
    spec = Squareplus().compute_output_spec(keras.KerasTensor(shape))
    assert spec.shape == shape
    assert Squareplus().compute_output_shape(shape) == shape


@pytest.mark.parametrize("jit", [True, False])
def test_unknown_sizes_and_batches_of_any_length(jit):
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, Squareplus(learn_b="channel")(inputs))
    model.compile(jit_compile=jit)
    for length in (1, 7):
        np.testing.assert_allclose(model.predict(X[:, :length], verbose=0), squareplus(X[:, :length]), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"b": -1.0}, ValueError, "0 or a finite number"),
        ({"b": [1.0, 2.0]}, TypeError, "one number"),
        ({"b": "4"}, TypeError, "number or a tensor"),
        ({"learn_b": "pixel"}, ValueError, 'None, "layer" or "channel"'),
        ({"learn_b": True}, ValueError, 'None, "layer" or "channel"'),
        ({"b": 0.0, "learn_b": "layer"}, ValueError, "starts at or above"),
        ({"floor": "1"}, TypeError, "`floor` is a number"),
        ({"floor": float("nan")}, ValueError, "`floor` is a finite number"),
        ({"shared_axes": [1]}, ValueError, 'for learn_b="channel"'),
        ({"shared_axes": [1], "learn_b": "layer"}, ValueError, 'for learn_b="channel"'),
        ({"b_regularizer": "l2"}, ValueError, "for a learnt b"),
        ({"b_initializer": "ones"}, ValueError, "for a learnt b"),
    ],
)
def test_refuses_wrong_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        Squareplus(**arguments)


@pytest.mark.parametrize(
    ("arguments", "shape", "words"),
    [
        ({}, (3,), "channel axis"),
        ({}, (2, None), "known size"),
        ({"shared_axes": [2]}, (2, None, 3), "known size"),
        ({"shared_axes": [3]}, (2, 5, 3), "counts the axes"),
        ({"shared_axes": [0]}, (2, 5, 3), "counts the axes"),
    ],
)
def test_refuses_shapes_without_room_for_b(arguments, shape, words):
    with pytest.raises(ValueError, match=words):
        Squareplus(learn_b="channel", **arguments).build(shape)


def test_refuses_sparse_and_ragged():
    with pytest.raises(TypeError, match="dense"):
        Squareplus()(tf.sparse.from_dense([[1.0, 0.0]]))
    with pytest.raises(TypeError, match="dense"):
        Squareplus()(keras.Input((3,), sparse=True))
    with pytest.raises(TypeError, match="dense"):
        Squareplus().call(tf.ragged.constant([[1.0], [1.0, 2.0]]))


def test_gated_recurrent_layers_train():
    x = np.random.default_rng(0).normal(size=(8, 6, 2)).astype(np.float32)
    model = keras.Sequential(
        [keras.Input((6, 2)), keras.layers.LSTM(4, activation="squareplus"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    losses = model.fit(x, x[:, 0, :1], epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]

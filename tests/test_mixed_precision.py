"""Training in half precision with huge inputs stays finite."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sqp_keras import Squareplus, squareplus


class Watch(keras.callbacks.Callback):
    """Remembers whether every loss was finite."""

    def __init__(self):
        super().__init__()
        self.steps, self.finite = 0, True

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        self.finite = self.finite and bool(np.isfinite(logs["loss"]))


@pytest.mark.parametrize(
    ("policy", "epochs"),
    [
        ("mixed_float16", 1),
        ("mixed_bfloat16", 1),
        pytest.param("mixed_float16", 8, marks=pytest.mark.large),
        pytest.param("mixed_bfloat16", 8, marks=pytest.mark.large),
    ],
)
def test_training_with_inputs_of_deviation_300_stays_finite(policy, epochs):
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(0, 300, (1_600, 8)).astype(np.float32)
    y = np.tanh(x[:, :1] / 300)
    # The first activation sees the raw inputs, in the range where a square overflows float16.
    model = keras.Sequential([
        keras.Input((8,)),
        Squareplus(learn_b="channel", dtype=policy),
        keras.layers.BatchNormalization(dtype=policy),
        keras.layers.Dense(16, "squareplus", dtype=policy),
        keras.layers.Dense(1, dtype="float32"),
    ])  # fmt: skip
    optimizer = keras.optimizers.Adam(1e-3)
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer) if "bfloat" not in policy else optimizer, "mse")
    watch = Watch()
    history = model.fit(x, y, batch_size=16, epochs=epochs, verbose=0, callbacks=[watch]).history["loss"]
    assert watch.steps == 100 * epochs
    assert watch.finite
    assert all(np.isfinite(w).all() for w in model.get_weights())
    assert epochs == 1 or history[-1] < history[0]


def test_watch_sees_a_planted_fault():
    watch = Watch()
    watch.on_train_batch_end(0, {"loss": 1.0})
    assert watch.finite
    watch.on_train_batch_end(1, {"loss": float("nan")})
    assert not watch.finite


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_in_halves_are_finite_for_every_input(dtype):
    x = tf.bitcast(tf.constant(np.arange(2**16, dtype=np.uint16)), dtype)
    x = tf.boolean_mask(x, tf.math.is_finite(x))
    b = tf.Variable(2.0)
    for jit in (True, False):

        @tf.function(jit_compile=jit)
        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = squareplus(x, b)
            return y, *tape.gradient(y, [x, b])

        for got in step(x):
            assert np.isfinite(tf.cast(got, tf.float64)).all()


def test_float16_with_batches_of_one():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation=Squareplus(), dtype="float16")])
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    x = np.random.default_rng(0).normal(0, 1, (500, 4)).astype(np.float16)
    losses = model.fit(x, np.abs(x[:, :1]), batch_size=1, epochs=1, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert all(np.isfinite(w).all() for w in model.get_weights())

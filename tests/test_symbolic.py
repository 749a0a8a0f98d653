"""A function called on a symbolic tensor becomes its layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_keras
from sqp_keras import symbolic


@pytest.mark.parametrize(
    ("call", "layer", "config"),
    [
        (lambda x: sqp_keras.squareplus(x, 2.0), sqp_keras.Squareplus, {"b": 2.0}),
        (lambda x: sqp_keras.algebraic(x, "swish", 3), sqp_keras.Algebraic, {"of": "silu", "terms": 3}),
        (lambda x: sqp_keras.algebraic(x, "elu", alpha=0.5), sqp_keras.Algebraic, {"of": "elu", "alpha": 0.5}),
        (lambda x: symbolic.call("squareplus", x, b=3.0), sqp_keras.Squareplus, {"b": 3.0}),
    ],
)
def test_a_symbolic_call_makes_the_layer_with_the_arguments(call, layer, config):
    x = keras.Input((4,))
    model = keras.Model(x, call(x))
    assert type(model.layers[-1]) is layer
    assert config.items() <= model.layers[-1].get_config().items()


def test_a_layer_class_stays_itself_when_it_registers(monkeypatch):
    monkeypatch.setattr(symbolic, "_LAYERS", {})

    @symbolic.layer_of("double")
    class Double:
        def __init__(self, factor, dtype):
            self.factor, self.dtype = factor, dtype

        def __call__(self, x):
            return x * self.factor

    assert isinstance(Double, type)
    np.testing.assert_array_equal(symbolic.call("double", np.float32([3]), factor=2), [6])


@pytest.fixture
def mixed():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
@pytest.mark.parametrize("of", ["squareplus", "softplus", "elu"])
def test_a_symbolic_call_has_the_dtype_of_the_function(of, dtype, mixed):
    call = sqp_keras.squareplus if of == "squareplus" else lambda x: sqp_keras.algebraic(x, of)
    x = keras.Input((3,), dtype=dtype)
    y = call(x)
    given = tf.cast(tf.constant([[-2.0, 0.0, 3.0]]), dtype)
    assert y.dtype == call(given).dtype
    made = keras.Model(x, y)(given)
    assert made.dtype == y.dtype
    np.testing.assert_array_equal(tf.cast(made, "float64"), tf.cast(call(given), "float64"))


@pytest.mark.parametrize(
    "b", [tf.constant([1.0, 2.0, 3.0]), np.float32([1, 2, 3]), [1.0, 2.0, 3.0], keras.KerasTensor((3,))]
)
def test_a_symbolic_call_refuses_several_b_and_names_the_function(b):
    with pytest.raises(TypeError, match="`b` is a single number in a call that builds a functional model") as caught:
        sqp_keras.squareplus(keras.Input((3,)), b)
    assert "of the layer" not in str(caught.value)


def test_the_remedy_for_several_b_works(tmp_path):
    b = np.float32([1, 2, 3])
    x = keras.Input((3,))
    layer = sqp_keras.Squareplus(learn_b="channel", b_initializer=keras.initializers.Constant(b), trainable=False)
    keras.Model(x, layer(x)).save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    assert not again.trainable_weights
    given = np.float32([[-1, 0, 1]])
    np.testing.assert_array_equal(again(given), sqp_keras.squareplus(given, b))

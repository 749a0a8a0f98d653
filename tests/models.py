"""Small models that tests export, and files of TensorFlow's converter."""

import keras
import tensorflow as tf

import sqp_keras

L = keras.layers


def dense(activation="squareplus", units=(8, 3), features=4) -> keras.Model:
    """A two-layer perceptron."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((features,), name="x"),
            L.Dense(units[0], activation=activation, name="hidden"),
            L.Dense(units[1], name="out"),
        ],
        name="mlp",
    )


def two_in_two_out() -> keras.Model:
    """Inputs and outputs whose alphabetical order isn't Keras's."""
    keras.utils.set_random_seed(0)
    z, a = keras.Input((4,), name="z_in"), keras.Input((3,), name="a_in")
    joined = L.Concatenate()([L.Dense(5, activation="squareplus")(z), L.Dense(4)(a)])
    return keras.Model([z, a], [L.Dense(2, name="z_out")(joined), L.Dense(1, name="a_out")(joined)], name="two")


@keras.saving.register_keras_serializable(package="tests.models")
class Subclassed(keras.Model):
    """A model whose call computes activations by itself."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = L.Dense(6)
        self.second = L.Dense(5, activation="squareplus")
        self.last = L.Dense(2)

    def call(self, x):
        h = sqp_keras.squareplus(self.first(x), b=2.0)
        h = keras.activations.squareplus(self.second(h))
        return self.last(h)


def subclassed() -> keras.Model:
    """A subclassed model, built by a call."""
    keras.utils.set_random_seed(0)
    model = Subclassed(name="own")
    model(keras.ops.zeros((2, 4)))
    return model


def converted(function, *shapes) -> bytes:
    """Returns a TFLite file of any TensorFlow function, made by TensorFlow's converter only."""
    specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    concrete = tf.function(function).get_concrete_function(*specs)
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()

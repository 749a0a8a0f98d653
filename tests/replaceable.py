"""Models with activations in every place where one can be, and what tests of their exchange share."""

import keras
import numpy as np
from keras import layers

from sqp_keras.models.sites import sites

RANDOM = np.random.default_rng(7)


@keras.saving.register_keras_serializable(package="tests")
class Block(layers.Layer):
    """A layer of standard layers, one as activation=, one as a layer, one in a list, one inside a Sequential."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = layers.Dense(units, activation="softplus")
        self.elu = layers.ELU(alpha=0.5)
        self.steps = [layers.Activation("tanh")]
        self.side = keras.Sequential([layers.Dense(units), layers.Activation("silu")])

    def call(self, x):
        return self.steps[0](self.elu(self.dense(x))) + self.side(x)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.hidden = layers.Dense(units, activation="mish")
        self.head = layers.Dense(2, activation="sigmoid")

    def call(self, x):
        return self.head(self.hidden(x))

    def get_config(self):
        return {"units": self.units}


class NoConfig(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.dense = layers.Dense(units, activation="softplus")

    def call(self, x):
        return self.dense(x)


def my_softplus(x):
    return keras.ops.log(keras.ops.exp(x) + 1.0)


def functional(function, shape=(8,)):
    i = keras.Input(shape)
    return keras.Model(i, function(i))


def sequential(*held, shape=(8,)):
    return keras.Sequential([keras.Input(shape), *held])


def shared(i):
    layer = layers.Dense(8, "selu")
    inner = sequential(layers.Dense(4, "gelu"), layers.Activation("celu"))
    return inner(layer(layer(i))) + inner(i * 0.5)


def operations(i):
    x = keras.ops.silu(layers.Dense(8)(i))
    x = keras.ops.gelu(x * 2.0 + 1.0)
    return keras.ops.softmax(keras.ops.elu(x, alpha=0.5), axis=-1)


def subclassed():
    model = Subclassed()
    model(np.zeros((1, 8), "float32"))
    return model


CASES = {
    "strings, layers, functions": lambda: sequential(
        layers.Dense(8, "softplus"),
        layers.Activation("tanh"),
        layers.Dense(8, keras.activations.selu),
        layers.ELU(0.5),
        layers.Dense(6, activation=layers.ELU()),
        layers.Dense(4, "swish"),
        layers.Softmax(),
    ),
    "shared and nested": lambda: functional(shared),
    "operations": lambda: functional(operations),
    "user layer": lambda: functional(lambda i: layers.Dense(2)(Block(6)(i))),
    "subclassed": subclassed,
    "recurrent": lambda: sequential(
        layers.Bidirectional(layers.LSTM(4, return_sequences=True)), layers.GRU(3), layers.Dense(1), shape=(5, 3)
    ),
    "wrappers": lambda: sequential(
        layers.TimeDistributed(layers.ELU()),
        layers.TimeDistributed(sequential(layers.Dense(2), layers.Activation("softplus"))),
        shape=(5, 8),
    ),
    "attention": lambda: functional(lambda i: layers.MultiHeadAttention(2, 4)(i, i), (6, 8)),
    "convolutions": lambda: sequential(
        layers.Conv2D(4, 3, activation="mish"),
        layers.DepthwiseConv2D(3, activation="softplus"),
        layers.SeparableConv2D(4, 1, activation="softsign"),
        layers.Conv2DTranspose(2, 2, activation="log_sigmoid"),
        layers.BatchNormalization(),
        layers.GlobalAveragePooling2D(),
        shape=(8, 8, 2),
    ),
}


def inputs_of(model, rows=12):
    shape = getattr(model, "input_shape", None) or (None, 8)
    return (RANDOM.normal(size=(rows, *shape[1:])) * 2).astype("float32")


def state(model):
    return [site.activation for site in sites(model)], [w.copy() for w in model.get_weights()]

"""A layer of a user's own, which a file names and `--import benchmarks.custom_layer` brings."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="benchmarks")
class ScaledRectifier(keras.layers.Layer):
    """Returns max(x, 0) * scale + offset, with a scale and an offset per channel."""

    def build(self, input_shape):
        """Makes the weights."""
        shape = input_shape[-1:]
        self.scale = self.add_weight(shape=shape, initializer=keras.initializers.RandomUniform(0.5, 1.5))
        self.offset = self.add_weight(shape=shape, initializer=keras.initializers.RandomUniform(-0.5, 0.5))

    def call(self, x):
        """Returns the output, of the shape of `x`."""
        return ops.relu(x) * self.scale + self.offset

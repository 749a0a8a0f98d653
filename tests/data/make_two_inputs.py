"""Makes two_inputs_int8.tflite and two_inputs_float32.tflite: a small network with two inputs and two outputs.

Run it in this folder; with the same versions of TensorFlow and Keras running it again changes nothing.
"""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def network() -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    image, extra = keras.Input((16, 16, 1), name="image"), keras.Input((4,), name="extra")
    x = layers.Conv2D(8, 3, activation="relu", name="conv")(image)
    x = layers.DepthwiseConv2D(3, activation="relu", name="depthwise")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    x = layers.Concatenate(name="join")([x, extra])
    return keras.Model([image, extra], [layers.Dense(4, name="scores")(x), layers.Dense(1, name="sigma")(x)])


def main() -> None:
    model = network()
    specs = [tf.TensorSpec((1, *tensor.shape[1:]), name=tensor.name) for tensor in model.inputs]
    function = tf.function(lambda *inputs: model(list(inputs)), autograph=False).get_concrete_function(*specs)
    frozen = convert_variables_to_constants_v2(function)
    Path("two_inputs_float32.tflite").write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([frozen]).convert())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    generator = np.random.default_rng(0)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: (
        [generator.normal(size=spec.shape).astype("float32") for spec in specs] for _ in range(20)
    )
    converter.inference_input_type = converter.inference_output_type = tf.int8
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    Path("two_inputs_int8.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main()

"""Makes the TFLite files of tests/data/stock: digits nets of many activations, as TensorFlow's converter writes them.

    python -m tools.stock_files tests/data/stock

Two networks, each in float32, in int8 (quantised by the converter on 256 training images, integers at both ends), with
float16 weights and with int8 weights; and one file with sparse weights. Takes a minute. The accuracy on the 360 test
images is printed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

NETS = {
    "sigmoid_to_softplus": ("sigmoid", "tanh", "silu", "hard_silu", "softplus"),
    "elu_to_mish": ("elu", "gelu", "mish"),
}
"""The activations of each network, one behind each convolution."""
EPOCHS = 40


def images():
    """Returns scikit-learn's digits as (train images, test images, train labels, test labels), pixels in [0, 1]."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found, labels = load_digits(return_X_y=True)
    scaled = (found / 16.0).astype(np.float32).reshape(-1, 8, 8, 1)
    return train_test_split(scaled, labels, test_size=360, random_state=0, stratify=labels)


def trained(activations: tuple[str, ...]):
    """Returns a network of small convolutions with these activations and a softmax, trained on the digits."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(3)
    stack = [keras.Input((8, 8, 1), name="image")]
    for place, name in enumerate(activations):
        stack.append(layers.Conv2D(12, 3, padding="same", name=f"conv{place}"))
        stack.append(layers.Activation(getattr(keras.activations, name), name=name))
        if place == 1:
            stack.append(layers.MaxPooling2D(2))
    stack += [layers.Flatten(), layers.Dense(10, activation="softmax", name="digit")]
    model = keras.Sequential(stack)
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    x, test, y, labels = images()
    model.fit(x, y, 32, EPOCHS, verbose=0)
    print(f"{', '.join(activations)}: accuracy {model.evaluate(test, labels, verbose=0)[1]:.4f}", flush=True)
    return model


def converted(folder: str, kind: str) -> bytes:
    """Returns what the converter makes of a SavedModel: "float", "int8", "half" or "weights"."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "half":
        converter.target_spec.supported_types = [tf.float16]
    if kind == "int8":
        x = images()[0]
        converter.representative_dataset = lambda: ([x[place : place + 1]] for place in range(256))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def sparse() -> bytes:
    """Returns a file whose first dense layer has blocks of four weights, most of them zero and left out."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(8)]
    model = keras.Sequential([keras.Input((64,), batch_size=1, name="x"), *layers])
    weights, bias = layers[0].get_weights()
    blocks = np.random.default_rng(0).random((16, 64)) < 0.15
    layers[0].set_weights([weights * np.kron(blocks, np.ones((4, 1))), bias + 0.1])
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.EXPERIMENTAL_SPARSITY]
    return converter.convert()


def main(target: Path) -> None:
    """Writes the files."""
    target.mkdir(parents=True, exist_ok=True)
    (target / "sparse.tflite").write_bytes(sparse())
    for name, activations in NETS.items():
        model = trained(activations)
        with tempfile.TemporaryDirectory() as folder:
            model.export(folder, verbose=False)
            for kind in ("float", "int8", "half", "weights"):
                (target / f"{name}_{kind}.tflite").write_bytes(converted(folder, kind))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

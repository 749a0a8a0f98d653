"""Makes trained_on_torch.keras and .npz on Keras's PyTorch backend: a small trained network, inputs, and its outputs.

Run it in this folder in the environment of `make test-torch`; the tests open and export the file on TensorFlow.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

import sqp_keras


def main() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(4, 3, activation="squareplus"),
        keras.layers.Conv2D(4, 3, activation="softplus"),
        keras.layers.Flatten(),
        keras.layers.Dense(8),
        sqp_keras.Squareplus(learn_b="channel"),
        keras.layers.Dense(3),
    ])  # fmt: skip
    x = np.random.default_rng(0).normal(size=(64, 8, 8, 1)).astype("float32")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(x, x.mean(axis=(1, 2)) * [1.0, 2.0, 3.0], epochs=5, verbose=0)
    new, _ = sqp_keras.replace_activations(model, "accurate", data=x)
    new.save("trained_on_torch.keras")
    np.savez("trained_on_torch.npz", x=x, y=new.predict(x, verbose=0))


if __name__ == "__main__":
    main()

"""A regression that says how sure it is, small enough for a microcontroller.

    python examples/mean_sigma_regression.py --output progression

Two heads share a body: the mean of the progression of diabetes one year on (scikit-learn's data, 10 numbers per
patient) and sigma, its standard deviation, trained together by the likelihood. Sigma must be positive: softplus ensures
that, and becomes three square roots for the device; a floor keeps it away from 0. Writes progression.keras and
progression.tflite.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import layers, ops
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import sqp_keras
from sqp_tflite import export

FLOOR = 0.05
"""Smallest sigma, in standard deviations of the target: without it the likelihood has no bound."""


def patients() -> list[np.ndarray]:
    """Returns (x, x_test, y, y_test); the target has mean 0 and variance 1."""
    x, y = load_diabetes(return_X_y=True)
    x, y = (x / x.std(axis=0)).astype("float32"), ((y - y.mean()) / y.std()).astype("float32")
    return train_test_split(x, y[:, None], test_size=110, random_state=0)


def build() -> keras.Model:
    """Returns the model with the outputs mean and sigma, concatenated into one tensor for the loss."""
    x = keras.Input((10,), name="patient")
    body = layers.Dense(16, activation="tanh", kernel_regularizer=keras.regularizers.L2(1e-3))(x)
    mean = layers.Dense(1, name="mean")(body)
    sigma = layers.Dense(1, activation="softplus", name="raw_sigma")(body)
    sigma = layers.Rescaling(1.0, offset=FLOOR, name="sigma")(sigma)
    return keras.Model(x, layers.Concatenate(name="mean_and_sigma")([mean, sigma]), name="progression")


def likelihood(y: object, mean_and_sigma: object) -> object:
    """Returns the negative logarithm of the normal density, without its constant."""
    mean, sigma = mean_and_sigma[:, :1], mean_and_sigma[:, 1:]
    return ops.mean(ops.log(sigma) + 0.5 * ops.square((y - mean) / sigma), axis=-1)


def quality(model: keras.Model, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Returns the mean likelihood and the share of targets within two sigma."""
    made = np.asarray(model(x))
    inside = np.abs(y[:, 0] - made[:, 0]) < 2.0 * made[:, 1]
    return float(np.mean(likelihood(y, made))), float(np.mean(inside))


def main() -> int:
    """Trains, replaces, compares, exports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("progression"), help="folder to write to")
    parser.add_argument("--epochs", type=int, default=120, help="passes over the training data (default: 120)")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    x, x_test, y, y_test = patients()
    model = build()
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss=likelihood)
    model.fit(x, y, epochs=arguments.epochs, batch_size=33, verbose=0)

    small, report = sqp_keras.replace_activations(model, "accurate", data=x)
    print(report)
    (before, _), (after, inside) = (quality(m, x_test, y_test) for m in (model, small))
    print(f"negative log likelihood: {before:.4f} with softplus and tanh, {after:.4f} with square roots")
    smallest = float(np.asarray(small(x_test))[:, 1].min())
    print(f"targets within two sigma: {100 * inside:.0f} %; smallest sigma {smallest:.3f}")

    arguments.output.mkdir(parents=True, exist_ok=True)
    small.save(arguments.output / "progression.keras", include_optimizer=False)
    made = export(small, arguments.output / "progression.tflite", data={"patient": x_test})
    print(f"{len(made.model_bytes)} bytes; verdict: {made.report.verdict}")
    return 0 if made.report.verdict == "ok" and abs(after - before) < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())

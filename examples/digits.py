"""The main task on real data: train a small squareplus CNN on handwritten digits, export it, prove the file.

    python examples/digits.py --output demo-output

The data are scikit-learn's 1797 digits of 8 by 8 pixels. Writes digits.keras, the test images with their labels
as digits_test.npz, digits.tflite in float32, and digits_int8.tflite, whose ranges come from 256 training images.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sqp_keras  # noqa: F401  registers the string "squareplus"


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns train and test images, shape (n, 8, 8, 1) in [0, 1], and their labels: (x, x_test, y, y_test)."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
    return train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)


def build() -> keras.Model:
    """Returns a CNN in which every activation is squareplus; the last layer gives logits."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(32, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("squareplus"),
            layers.DepthwiseConv2D(3, padding="same", activation="squareplus"),
            layers.Conv2D(48, 1, use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("squareplus"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(10, name="digit"),
        ],
        name="digits",
    )


def train(output: Path, epochs: int) -> float:
    """Trains the model, saves it with its test data and returns its accuracy on the test images."""
    keras.utils.set_random_seed(1)
    x, x_test, y, y_test = digits()
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(5e-3, epochs * len(x) // 32)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(x, y, batch_size=32, epochs=epochs, verbose=0)
    accuracy = model.evaluate(x_test, y_test, verbose=0)[1]
    model.save(output / "digits.keras")
    np.savez(output / "digits_test.npz", image=x_test, y=y_test)
    np.savez(output / "digits_train.npz", image=x[:256], y=y[:256])
    return accuracy


def run(command: list[str]) -> None:
    """Runs one of the package's commands as a user would, and shows it."""
    print(f"\n$ {' '.join(command)}", flush=True)
    code = subprocess.run([str(Path(sys.executable).with_name(command[0])), *command[1:]], check=False).returncode
    if code:
        sys.exit(code)


def main() -> None:
    """Trains, exports and shows what the files contain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for what is written")
    parser.add_argument("--epochs", type=int, default=25)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    print("Training a squareplus CNN on 1437 handwritten digits ...", flush=True)
    accuracy = train(options.output, options.epochs)
    print(f"Keras test accuracy: {accuracy:.4f} on 360 images")
    model, data = str(options.output / "digits.keras"), str(options.output / "digits_test.npz")
    file = str(options.output / "digits.tflite")
    run(["sqp-export", model, "-o", file, "--data", data])
    small, training = str(options.output / "digits_int8.tflite"), str(options.output / "digits_train.npz")
    run(["sqp-export", model, "-o", small, "--quantize", "int8", "--data", training])
    run(["sqp-check", model, small, "--data", data])


if __name__ == "__main__":
    main()

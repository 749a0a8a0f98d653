"""Makes examples/firmware: what a firmware engineer gets, for a network that reads handwritten digits.

    python examples/firmware.py            exports the trained model again; this changes nothing except the times in
                                           the report
    python examples/firmware.py --train    trains it first (scikit-learn's digits, a few seconds)

The folder examples/firmware/digits is the unchanged output of `sqp-export --emit project`: see its README.md.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sqp_keras  # noqa: F401  registers the string "squareplus"
from sqp_tflite import CStyle, Export, export

HERE = Path(__file__).resolve().parent / "firmware"
COMMAND = (
    "sqp-export digits.keras -o digits.tflite --quantize int8 --lowering table --data digits_test.npz "
    "--emit project --report report.html"
)


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns train and test images, shape (n, 8, 8, 1) in [0, 1], and their labels: (x, x_test, y, y_test)."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
    return train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)


def train(path: Path) -> None:
    """Trains the network and saves it without its optimizer."""
    keras.utils.set_random_seed(2)
    x, x_test, y, y_test = digits()
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(10, 3, activation="squareplus", name="strokes"),
            layers.Conv2D(16, 3, strides=2, activation="squareplus", name="parts"),
            layers.Flatten(name="flat"),
            layers.Dense(10, name="digit"),
        ],
        name="digits",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rate = keras.optimizers.schedules.CosineDecay(8e-3, 60 * len(x) // 32)
    model.compile(optimizer=keras.optimizers.Adam(rate), loss=loss, metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=60, verbose=0)
    print(f"Keras test accuracy: {model.evaluate(x_test, y_test, verbose=0)[1]:.4f}")
    model.save(path, include_optimizer=False)


def make(folder: Path, report: bool = True) -> Export:
    """Exports the trained model of the working directory with its project into a folder."""
    _, x_test, _, y_test = digits()
    return export(
        "digits.keras",
        folder / "digits.tflite",
        quantize="int8",
        lowering="table",
        data={"image": x_test, "y": y_test},
        emit=("project",),
        c_style=CStyle("digits"),
        reports=(folder / "report.html",) if report else (),
        command=COMMAND,
    )


def main() -> None:
    """Trains if requested, exports, and removes the second copy of the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="train the network again")
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)
    if parser.parse_args().train or not Path("digits.keras").exists():
        train(Path("digits.keras"))
    made = make(Path())
    Path("digits.tflite").unlink()  # The folder contains it.
    print(f"{len(made.files)} files in {HERE / 'digits'}; {made.report.agreement[0]}")


if __name__ == "__main__":
    main()

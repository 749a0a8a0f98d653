"""Digits CNNs trained with each activation, then exchanged: the accuracy before and after.

    python benchmarks/replace_accuracy.py               the whole table (minutes), written to docs/algebraic.md
    python benchmarks/replace_accuracy.py --only mish   one row, printed

scikit-learn's handwritten digits: 8x8 images, a seeded shuffle, one third held out. "accurate" runs without any
retraining, "fast" with b fitted on the training images and after `distill` on them, without labels.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

import sqp_keras

PAGE = Path(__file__).resolve().parent.parent / "docs" / "algebraic.md"
BEGIN, END = "<!-- digits -->", "<!-- /digits -->"
ACTIVATIONS = ("softplus", "elu", "silu", "gelu", "mish", "tanh", "sigmoid")


@dataclass(frozen=True, slots=True)
class Row:
    """Accuracies of one trained network, in per cent of the held-out images."""

    activation: str
    original: float
    accurate: float
    fast: float
    distilled: float

    def cells(self) -> str:
        """Returns the row of the table."""
        numbers = " | ".join(f"{v:.2f}" for v in (self.original, self.accurate, self.fast, self.distilled))
        return f"| {self.activation} | {numbers} |"


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images = (images[order] / 16.0).astype("float32").reshape(-1, 8, 8, 1)
    labels, cut = labels[order], len(images) * 2 // 3
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def network(activation: str, images: np.ndarray, labels: np.ndarray) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(12, 3, activation=activation),
            layers.Conv2D(24, 3, activation=activation),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(32, activation=activation),
            layers.Dense(10, activation="softmax"),
        ]
    )
    # Three sigmoids in a row learn slowly: a larger step for all.
    model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="sparse_categorical_crossentropy")
    model.fit(images, labels, epochs=30, batch_size=64, verbose=0)
    return model


def accuracy(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> float:
    return 100.0 * float(np.mean(np.argmax(model(images, training=False), axis=-1) == labels))


def measure(activation: str) -> Row:
    train, train_labels, test, test_labels = data()
    original = network(activation, train, train_labels)
    accurate, _ = sqp_keras.replace_activations(original, "accurate")
    fast, _ = sqp_keras.replace_activations(original, "fast", data=train)
    distilled, _ = sqp_keras.distill(fast, original, train, 15, batch_size=64, learning_rate=2e-3, verbose=0)
    return Row(activation, *(accuracy(m, test, test_labels) for m in (original, accurate, fast, distilled)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ACTIVATIONS, help="measure this activation and print it")
    only = parser.parse_args().only
    head = "| hidden activation | trained | accurate | fast | fast, distilled |\n|---|---:|---:|---:|---:|"
    print(head, flush=True)
    rows = []
    for activation in (only,) if only else ACTIVATIONS:
        rows.append(measure(activation))
        print(rows[-1].cells(), flush=True)
    if only is None:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        table = "\n".join([head, *(row.cells() for row in rows)])
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    kept = all(row.original - row.accurate <= 0.3 and row.original - row.distilled <= 0.5 for row in rows)
    print("within 0.3 points (accurate) and 0.5 points (distilled):", "yes" if kept else "no")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

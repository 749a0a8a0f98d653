"""An anomaly detector for a small device, from a network that was trained with exp.

    python examples/anomaly_autoencoder.py --output anomaly

An autoencoder learns to rebuild measurements of harmless cells (scikit-learn's breast cancer data, 30 numbers per
sample); samples that it rebuilds badly are unusual. It is trained with ELU, like many published models. ELU is
replaced with square roots without retraining, and the file is proven on the target's interpreter. Writes
autoencoder.keras, autoencoder.tflite, and threshold.txt, the error above which a sample counts as unusual.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

import sqp_keras
from sqp_tflite import export


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns training samples (harmless only), test samples and whether each of these is unusual."""
    data = load_breast_cancer()
    harmless = data.target == 1
    usual, unusual = data.data[harmless], data.data[~harmless]
    usual = usual[np.random.default_rng(0).permutation(len(usual))]
    train, held = usual[:250], usual[250:]
    # A log shortens the long tails; mean and spread come from the training samples only.
    mean, spread = np.log1p(train).mean(axis=0), np.log1p(train).std(axis=0)
    train, held, unusual = (((np.log1p(part) - mean) / spread).astype("float32") for part in (train, held, unusual))
    return train, np.concatenate([held, unusual]), np.repeat([False, True], [len(held), len(unusual)])


def build() -> keras.Model:
    """Returns the autoencoder: 30 numbers through 4 and back."""
    return keras.Sequential(
        [
            keras.Input((30,), name="measurements"),
            layers.Dense(24, activation="elu"),
            layers.Dense(4, activation="elu", name="code"),
            layers.Dense(24, activation="elu"),
            layers.Dense(30, name="rebuilt"),
        ],
        name="autoencoder",
    )


def errors(model: keras.Model, x: np.ndarray) -> np.ndarray:
    """Returns how badly the model rebuilds each sample."""
    return np.mean((np.asarray(model(x)) - x) ** 2, axis=-1)


def main() -> int:
    """Trains, replaces, compares, exports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("anomaly"), help="folder to write to (default: anomaly)")
    parser.add_argument("--epochs", type=int, default=150, help="passes over the training data (default: 150)")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    train, test, unusual = measurements()
    model = build()
    model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="mse")
    model.fit(train, train, epochs=arguments.epochs, batch_size=50, verbose=0)

    small, report = sqp_keras.replace_activations(model, "accurate", data=train)
    print(report)
    before, after = (roc_auc_score(unusual, errors(m, test)) for m in (model, small))
    print(f"area under the ROC curve: {before:.4f} with elu, {after:.4f} with square roots")

    arguments.output.mkdir(parents=True, exist_ok=True)
    small.save(arguments.output / "autoencoder.keras")
    threshold = float(np.quantile(errors(small, train), 0.99))
    (arguments.output / "threshold.txt").write_text(f"{threshold:.6g}\n", encoding="utf-8")
    made = export(small, arguments.output / "autoencoder.tflite", data={"measurements": test})
    print(f"threshold {threshold:.3g}; {len(made.model_bytes)} bytes; verdict: {made.report.verdict}")
    return 0 if made.report.verdict == "ok" and after > before - 0.003 else 1


if __name__ == "__main__":
    sys.exit(main())

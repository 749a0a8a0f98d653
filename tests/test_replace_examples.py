"""The two examples with exchanged activations run, and write files that are proven."""

from pathlib import Path

import keras
import pytest

import sqp_keras  # noqa: F401  the saved models hold its layers
from sqp_keras.models.sites import sites

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("script", "stem", "words"),
    [
        ("anomaly_autoencoder", "autoencoder", "area under the ROC curve"),
        ("mean_sigma_regression", "progression", "negative log likelihood"),
    ],
)
def test_an_example_exchanges_exports_and_proves(command, tmp_path, script, stem, words):
    ran = command(f"{ROOT}/examples/{script}.py", "--output", tmp_path, "--epochs", "8")
    assert ran.code == 0, ran.err
    assert words in ran.out
    assert "verdict: ok" in ran.out
    assert (tmp_path / f"{stem}.tflite").stat().st_size > 1000
    model = keras.models.load_model(tmp_path / f"{stem}.keras", compile=False)
    assert {site.activation.name for site in sites(model)} <= {"algebraic", "linear"}

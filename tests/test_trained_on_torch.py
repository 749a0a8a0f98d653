"""A file that was trained on Keras's PyTorch backend opens on TensorFlow, computes the same and is exported."""

from pathlib import Path

import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.run import interpreters

FILE = Path(__file__).parent / "data" / "trained_on_torch.keras"


@pytest.fixture(scope="module")
def data():
    with np.load(FILE.with_suffix(".npz")) as held:
        return dict(held)


def test_it_computes_the_same_here(data):
    model = keras.models.load_model(FILE)
    # Float32 in another order: some roundings of values of size 1.
    np.testing.assert_allclose(model.predict(data["x"], verbose=0), data["y"], rtol=0, atol=2e-5)
    b = next(layer for layer in model.layers if getattr(layer, "learn_b", None)).weights[0]
    assert np.ptp(b) > 0  # It was learnt there.


@pytest.mark.parametrize("quantize", ["float32", "int8"])
def test_it_is_exported_and_the_file_computes_what_torch_did(data, quantize):
    made = sqp_tflite.export(FILE, quantize=quantize, data={"x": data["x"]}, io="float32")
    assert made.report.verdict == "ok"
    if interpreters.installed("litert"):
        values = [interpreters.run("litert", made.model_bytes, (row[None],)).values[0][0] for row in data["x"][:16]]
        # Float32: as above. Int8: the verdict judges it; 1/16 of the range shows that it is the same function.
        bound = 2e-5 if quantize == "float32" else np.ptp(data["y"]) / 16
        assert np.abs(np.array(values) - data["y"][:16]).max() <= bound

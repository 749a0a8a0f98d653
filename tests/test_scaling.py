"""Samples that do not have the scale of the training are said; right ones never are."""

import io
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from rich.console import Console

from sqp_tflite.cli.text import show_report
from sqp_tflite.emit.rendering import render
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.pipeline import export
from sqp_tflite.run.scaling import scaling_warnings
from sqp_tflite.source.samples import Samples
from tools import zoo

L = keras.layers
PIXELS = np.random.default_rng(0).uniform(0, 1, (80, 8, 8, 1)).astype(np.float32)
SCALES = {"pixels": PIXELS * 255, "unit": PIXELS, "standard": (PIXELS - 0.5) / 0.29}


def warnings(model, x):
    arrays = x if isinstance(x, tuple) else (x,)
    loaded = SimpleNamespace(model=model, inputs=[SimpleNamespace(name=tensor.name) for tensor in model.inputs])
    return scaling_warnings(loaded, Samples(arrays, None, True))


def with_batch_norm(x):
    """A model whose batch normalisation has seen `x`."""
    keras.utils.set_random_seed(0)
    norm = L.BatchNormalization(momentum=0.5, name="first_norm")
    model = keras.Sequential([keras.Input((8, 8, 1), name="x"), L.Conv2D(4, 3), norm, L.Flatten(), L.Dense(2)])
    for _ in range(12):
        model(x, training=True)
    return model


def with_normalization(x):
    norm = L.Normalization(axis=None, name="scaled")
    norm.adapt(x)
    return keras.Sequential([keras.Input((8, 8, 1), name="x"), norm, L.Flatten(), L.Dense(2)])


def with_rescaling(x):
    scale = 1 / 255 if x.max() > 2 else 1.0
    return keras.Sequential([keras.Input((8, 8, 1), name="x"), L.Rescaling(scale), L.Flatten(), L.Dense(2)])


@pytest.mark.parametrize("made", [with_batch_norm, with_normalization, with_rescaling])
@pytest.mark.parametrize("trained", SCALES)
def test_the_data_of_the_training_are_right_and_those_of_another_scale_are_not(made, trained):
    model = made(SCALES[trained])
    assert warnings(model, SCALES[trained]) == ()
    assert warnings(model, SCALES[trained] * 0.8) == ()
    if trained == "pixels":
        (said,) = warnings(model, SCALES["unit"])
        assert "Are the inputs scaled as in training" in said
    elif made is not with_rescaling:
        (said,) = warnings(model, SCALES["pixels"])
        assert "do not fit the model's training" in said and "Pass --data with" in said


LARGE = [pytest.param(name, marks=pytest.mark.large) for name in ("Z06", "Z08", "Z11", "Z19")]


@pytest.mark.parametrize("identifier", ["Z07", "Z09", "Z10", "Z12", "Z23", *LARGE])
def test_models_with_records_raise_no_false_alarm(identifier):
    model = zoo.build(identifier)
    found = zoo.samples(model, 20)
    assert warnings(model, tuple(found[tensor.name] for tensor in model.inputs)) == ()


def test_what_records_nothing_says_nothing():
    fresh = keras.Sequential([keras.Input((8, 8, 1)), L.BatchNormalization(), L.Flatten(), L.Dense(2)])
    assert warnings(fresh, SCALES["pixels"] * 1000) == ()
    trained = with_batch_norm(SCALES["unit"])
    assert warnings(trained, SCALES["pixels"][:4]) == ()
    seeded = Samples((SCALES["pixels"],), None, False)
    assert scaling_warnings(SimpleNamespace(model=trained, inputs=()), seeded) == ()
    assert scaling_warnings(SimpleNamespace(model=None, inputs=()), Samples((PIXELS,), None, True)) == ()


def test_a_channel_that_was_constant_in_training_does_not_count():
    x = np.concatenate([PIXELS, np.zeros_like(PIXELS), np.zeros_like(PIXELS)], axis=-1)
    norm = L.Normalization()
    norm.adapt(x)
    model = keras.Sequential([keras.Input((8, 8, 3), name="x"), norm, L.Flatten(), L.Dense(2)])
    assert warnings(model, x) == ()
    assert warnings(model, x * 255) != ()


def test_the_report_has_the_warning_everywhere_and_its_remedy_ends_it():
    model = with_normalization(SCALES["unit"])
    exported = export(model, data={"x": SCALES["pixels"]})
    (said,) = exported.report.warnings
    # 255, less what the rows that are left out change.
    assert "what `scaled` receives spreads 254 times as far as in training" in said
    printed = io.StringIO()
    show_report(Console(file=printed, width=400), exported.report)
    assert f"warning: {said}" in printed.getvalue()
    assert exported.report.to_dict()["warnings"] == [said]
    page = render(exported.report, read(exported.model_bytes), exported.model_bytes, ".html").decode()
    assert "The samples do not fit" in page
    assert export(model, data={"x": SCALES["unit"]}).report.warnings == ()

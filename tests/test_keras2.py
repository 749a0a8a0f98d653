"""A name in a file of Keras 2 means what it meant there, in every type of numbers."""

import json
import zipfile

import h5py
import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_keras.family.keras2 import hard_sigmoid_keras2
from sqp_tflite.errors import BadInputError
from sqp_tflite.flatbuffer.mark import mark_of
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.source.load import load

L = keras.layers
SLOPES = {"keras2": 1 / 5, "keras3": 1 / 6}
X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32) * 2


def written_by(path, version):
    """Lets a file say that another Keras wrote it; "" for a file that does not say it."""
    if path.suffix == ".h5":
        with h5py.File(path, "r+") as file:
            del file.attrs["keras_version"]
            if version:
                file.attrs["keras_version"] = version
        return path
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    parts["metadata.json"] = json.dumps({"keras_version": version} if version else {}).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)
    return path


def saved(folder, *layers, shape=(4,), version="2.15.0", ending="h5"):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input(shape, name="x"), *layers])
    rng = np.random.default_rng(2)
    model.set_weights([rng.normal(size=w.shape).astype("float32") for w in model.get_weights()])
    path = folder / f"m.{ending}"
    model.save(path)
    return written_by(path, version)


def gate(x, slope):
    """The hard sigmoid by its definition, in float64."""
    return np.clip(np.float64(x) * slope + 0.5, 0, 1)


def dense_of(path, slope, x=X):
    kernel, bias = load(path, hard_sigmoid="keras3").model.get_weights()
    return gate(np.float64(x) @ kernel + bias, slope)


def lstm_of(model, sequences, slope):
    """An independent LSTM, gates in Keras's order: input, forget, cell, output."""
    kernel, recurrent, bias = map(np.float64, model.get_weights())
    h = c = np.zeros((len(sequences), recurrent.shape[0]))
    for step in np.moveaxis(np.float64(sequences), 1, 0):
        i, f, g, o = np.split(step @ kernel + h @ recurrent + bias, 4, axis=-1)
        c = gate(f, slope) * c + gate(i, slope) * np.tanh(g)
        h = gate(o, slope) * np.tanh(c)
    return h


def gru_of(model, sequences, slope, after):
    """An independent GRU, gates in Keras's order: update, reset, candidate."""
    kernel, recurrent = map(np.float64, model.get_weights())
    h = np.zeros((len(sequences), recurrent.shape[0]))
    for step in np.moveaxis(np.float64(sequences), 1, 0):
        (xz, xr, xh), (uz, ur, uh) = np.split(step @ kernel, 3, axis=-1), np.split(recurrent, 3, axis=-1)
        z, r = gate(xz + h @ uz, slope), gate(xr + h @ ur, slope)
        candidate = np.tanh(xh + (r * (h @ uh) if after else (r * h) @ uh))
        h = z * h + (1 - z) * candidate
    return h


VERSIONS = {"1.2.2": "keras2", "2.15.0": "keras2", "2.2.4-tf": "keras2", "3.0.0": "keras3", "3.15.1": "keras3"}


@pytest.mark.parametrize("ending", ["h5", "keras"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_slope_is_that_of_the_keras_that_wrote_the_file(version, ending, tmp_path):
    path = saved(tmp_path, L.Dense(3, activation="hard_sigmoid", name="out"), version=version, ending=ending)
    loaded, meant = load(path), VERSIONS[version]
    found = np.asarray(next(iter(loaded.call([X]).values())))
    np.testing.assert_allclose(found, dense_of(path, SLOPES[meant]), atol=2e-6)
    # The planted fault is the other slope.
    assert np.abs(found - dense_of(path, SLOPES["keras3" if meant == "keras2" else "keras2"])).max() > 0.05
    assert len(loaded.warnings) == (meant == "keras2")
    if loaded.warnings:
        assert version in loaded.warnings[0] and "`out`" in loaded.warnings[0] and "1/5" in loaded.warnings[0]


@pytest.mark.parametrize(("version", "choice"), [("2.15.0", "keras3"), ("3.15.1", "keras2"), ("", "keras2")])
def test_the_user_may_decide(version, choice, tmp_path):
    path = saved(tmp_path, L.Dense(3), L.Activation("hard_sigmoid", name="end"), version=version)
    loaded = load(path, hard_sigmoid=choice)
    kernel, bias = loaded.model.get_weights()
    expected = gate(np.float64(X) @ kernel + bias, SLOPES[choice])
    np.testing.assert_allclose(np.asarray(loaded.call([X])["end"]), expected, atol=2e-6)
    assert len(loaded.warnings) == 1 and "--hard-sigmoid" in loaded.warnings[0]


def test_a_file_that_does_not_say_what_wrote_it_is_asked_about(tmp_path):
    path = saved(tmp_path, L.Dense(3, activation="hard_sigmoid", name="out"), version="")
    with pytest.raises(BadInputError, match="`out` in .*--hard-sigmoid keras2 or keras3"):
        load(path)


def test_a_choice_that_changes_nothing_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="has none. Leave it out"):
        load(saved(tmp_path, L.Dense(3, activation="relu")), hard_sigmoid="keras2")
    live = keras.Sequential([keras.Input((4,)), L.Dense(3, activation="hard_sigmoid")])
    with pytest.raises(BadInputError, match="the arithmetic itself"):
        load(live, hard_sigmoid="keras2")


@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_gates_of_recurrent_layers_have_the_old_slope(ending, tmp_path):
    sequences = np.random.default_rng(3).normal(size=(16, 6, 4)).astype("float32")
    path = saved(tmp_path, L.LSTM(5, recurrent_activation="hard_sigmoid"), shape=(6, 4), ending=ending)
    loaded = load(path)
    found = np.asarray(next(iter(loaded.call([sequences]).values())))
    np.testing.assert_allclose(found, lstm_of(loaded.model, sequences, 1 / 5), atol=5e-6)
    assert np.abs(found - lstm_of(loaded.model, sequences, 1 / 6)).max() > 0.01
    assert "recurrent_activation" in loaded.warnings[0]


def test_every_layer_inside_another_is_reached(tmp_path):
    inner = keras.Sequential([keras.Input((4,)), L.Dense(3, activation="hard_sigmoid", name="deep")], name="inner")
    warning = load(saved(tmp_path, inner, L.Dense(2, activation="hard_sigmoid", name="end"))).warnings[0]
    assert "`inner/deep`" in warning and "`end`" in warning
    both = L.Bidirectional(L.LSTM(2, recurrent_activation="hard_sigmoid"), name="both")
    assert load(saved(tmp_path, both, shape=(3, 4))).warnings[0].count("recurrent_activation") == 2
    assert load(saved(tmp_path, L.ConvLSTM2D(2, 3, recurrent_activation="hard_sigmoid"), shape=(2, 4, 4, 1))).warnings


@pytest.mark.parametrize("kept", [True, False])
def test_a_gru_from_before_reset_after_resets_in_front(kept, tmp_path):
    """Without a bias the weights fit both, and nothing else would tell."""
    sequences = np.random.default_rng(3).normal(size=(16, 6, 4)).astype("float32")
    gru = L.GRU(5, recurrent_activation="hard_sigmoid", use_bias=False, reset_after=True, name="old")
    path = saved(tmp_path, gru, shape=(6, 4), version="2.1.2")
    if not kept:
        with h5py.File(path, "r+") as file:
            file.attrs["model_config"] = file.attrs["model_config"].replace('"reset_after": true, ', "")
            assert "reset_after" not in file.attrs["model_config"]
    loaded = load(path)
    found = np.asarray(next(iter(loaded.call([sequences]).values())))
    np.testing.assert_allclose(found, gru_of(loaded.model, sequences, 1 / 5, after=kept), atol=5e-6)
    assert np.abs(found - gru_of(loaded.model, sequences, 1 / 5, after=not kept)).max() > 0.01
    assert any("reset_after" in warning for warning in loaded.warnings) == (not kept)


MODES = {
    "float32": ({}, 1e-5),
    "int8": ({"quantize": "int8"}, 0.03),
    "int8 table": ({"quantize": "int8", "lowering": "table"}, 0.03),
    "int16x8": ({"quantize": "int16x8"}, 0.02),
}
"""The tolerance is some steps of int8 weights; the other slope is off by more."""


@pytest.mark.parametrize("mode", MODES)
def test_the_file_computes_it_in_every_type_of_numbers(mode, tmp_path):
    options, tolerance = MODES[mode]
    path = saved(tmp_path, L.Dense(3, activation="hard_sigmoid", name="out"))
    exported = sqp_tflite.export(path, data={"x": X}, **options)
    found = run_tflm(exported.model_bytes, X)
    assert np.abs(found - dense_of(path, SLOPES["keras2"])).max() < tolerance
    assert np.abs(found - dense_of(path, SLOPES["keras3"])).max() > 2 * tolerance
    report = exported.report
    assert report.verdict == "ok" and "Keras 2.15.0" in report.warnings[0]
    assert [row.now.name for row in report.plan] == ["hard_sigmoid_keras2"]


def run_tflm(content, x):
    """The file on TensorFlow Lite Micro, quantised and dequantised here."""
    from tflite_micro import runtime

    graph = read(content)
    (source,), (target,) = graph.inputs, graph.outputs
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=1 << 20)
    found = []
    for row in x:
        given = row[None]
        if source.quantization:
            limits = np.iinfo(source.dtype)
            codes = np.round(given / source.quantization.scales[0]) + source.quantization.zero_points[0]
            given = np.clip(codes, limits.min, limits.max).astype(source.dtype)
        interpreter.set_input(given, 0)
        interpreter.invoke()
        values = np.float64(interpreter.get_output(0)[0])
        if target.quantization:
            values = (values - target.quantization.zero_points[0]) * target.quantization.scales[0]
        found.append(values)
    return np.array(found)


def test_a_replacement_keeps_the_old_slope(tmp_path):
    """A copy is made from the configuration, in which a plain name would mean Keras 3's."""
    path = saved(tmp_path, L.Dense(3, activation="silu"), L.Dense(3, activation="hard_sigmoid", name="out"))
    report = sqp_tflite.export(path, replace="accurate", dry_run=True).report
    assert report.plan[-1].now.name == "hard_sigmoid_keras2"


def test_check_takes_the_files_meaning_from_the_export(tmp_path, command):
    path, output = saved(tmp_path, L.Dense(3, activation="hard_sigmoid", name="out")), tmp_path / "o.tflite"
    ran = command("sqp-export", path, "-o", output, "--hard-sigmoid", "keras3", "--json")
    assert ran.code == 0 and "slope 1/6, as you asked" in json.loads(ran.out)["warnings"][0], ran.err
    assert mark_of(read(output.read_bytes())).hard_sigmoid == "keras3"
    assert command("sqp-check", path, output, "--quiet").code == 0
    assert command("sqp-check", path, output, "--quiet", "--hard-sigmoid", "keras2").code == 3


def test_the_form_is_the_definition():
    x = np.linspace(-4, 4, 4001, dtype="float32")
    np.testing.assert_allclose(np.asarray(hard_sigmoid_keras2(x)), gate(x, 1 / 5), atol=3e-7)

"""Without data a verdict rests on made-up inputs: of the model's scale, each set judged by itself, and it says so."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import sqp_tflite
from models import dense
from sqp_tflite.agreement import Agreement, verdict
from sqp_tflite.emit.rendering import render
from sqp_tflite.flatbuffer.mark import mark_of
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters
from sqp_tflite.run.compare import compare
from sqp_tflite.run.judge import Reference
from sqp_tflite.source.load import load
from sqp_tflite.source.records import scales
from sqp_tflite.source.samples import samples

L = keras.layers
WORDS = "judged on made-up inputs: pass --data"
DATA = {"x": np.random.default_rng(0).normal(size=(64, 4)).astype("float32")}


def ran(command, *call) -> tuple[int, str]:
    done = command(*call)
    return done.code, done.out


def small() -> keras.Model:
    """Small kernels: on ordinary inputs an output spans little, on those a thousand times as large a lot."""
    keras.utils.set_random_seed(0)
    near = keras.initializers.RandomNormal(stddev=0.1, seed=0)
    layers = [L.Dense(16, "silu", kernel_initializer=near, name=f"d{i}") for i in range(4)]
    return keras.Sequential([keras.Input((8,), name="x"), *layers, L.Dense(1, kernel_initializer=near, name="y")])


def test_large_inputs_do_not_hide_what_is_wrong_with_ordinary_ones(command, tmp_path):
    small().save(tmp_path / "m.keras")
    code, out = ran(command, "sqp-export", tmp_path / "m.keras", "--replace", "fast", "--json")
    found = json.loads(out)
    assert code == 3 and found["judged_on"] == "made-up inputs"
    status = {row["on"]: row["status"] for row in found["agreement"] if row["against"] == "given"}
    assert status["ordinary"] == "differs" and status["extreme"] == "ok"
    # The remedy that is named: accurate sums.
    code, out = ran(command, "sqp-export", tmp_path / "m.keras", "--replace", "accurate")
    assert code == 0 and out.startswith("OK ") and WORDS in out.splitlines()[0]
    code, out = ran(command, "sqp-check", tmp_path / "m.keras", tmp_path / "m.tflite")
    assert code == 0 and out.startswith("AGREES") and WORDS in out.splitlines()[0]


def test_the_page_says_what_a_verdict_rests_on():
    made = sqp_tflite.export(dense())
    graph = read(made.model_bytes)
    assert WORDS in render(made.report, graph, made.model_bytes, ".html").decode()
    given = dataclasses.replace(made.report, judged_on="data")
    assert WORDS not in render(given, graph, made.model_bytes, ".html").decode()


def adapted(centre: float, width: float) -> L.Layer:
    layer = L.Normalization(axis=-1)
    layer.adapt(np.random.default_rng(0).normal(centre, width, (400, 4)).astype("float32"))
    return layer


def trained(layers: list, shape: tuple, values: np.ndarray) -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input(shape, name="x"), *layers])
    for _ in range(30):
        model(values, training=True)
    return model


GREAT = np.random.default_rng(1).normal(300.0, 40.0, (200, 4)).astype("float32")
PIXELS = np.random.default_rng(1).uniform(0, 255, (8, 8, 8, 1)).astype("float32")
NORM = {"momentum": 0.5}
SCALES = {
    "Normalization": (lambda: trained([adapted(300.0, 40.0)], (4,), GREAT), (300, 40)),
    "Normalization behind a reshape": (
        lambda: trained([L.Reshape((2, 2)), L.Flatten(), adapted(300.0, 40.0)], (4,), GREAT),
        (300, 40),
    ),
    "BatchNormalization": (lambda: trained([L.BatchNormalization(**NORM)], (4,), GREAT), (300, 40)),
    "BatchNormalization behind a Conv2D": (
        lambda: trained([L.Conv2D(3, 3), L.BatchNormalization(**NORM)], (8, 8, 1), PIXELS),
        (0, 74),
    ),
    "Rescaling from 0 to 1": (lambda: trained([L.Rescaling(1 / 255)], (8, 8, 1), PIXELS), (127.5, 74)),
    "Rescaling from -1 to 1": (lambda: trained([L.Rescaling(1 / 127.5, -1)], (8, 8, 1), PIXELS), (127.5, 74)),
    "in a model within": (
        lambda: trained([keras.Sequential([L.Resizing(4, 4), L.Rescaling(1 / 255)])], (8, 8, 1), PIXELS),
        (127.5, 74),
    ),
    "nothing": (lambda: trained([L.Dense(2)], (4,), GREAT), (0, 1)),
}


@pytest.mark.parametrize("case", SCALES)
def test_ordinary_inputs_have_the_scale_that_the_layers_tell(case):
    build, (centre, width) = SCALES[case]
    loaded = load(build())
    found = samples(None, loaded.inputs, scales=lambda: scales(loaded))
    ordinary = found.inputs[0][found.parts()["ordinary"]]
    assert ordinary.mean() == pytest.approx(centre, abs=0.25 * width)
    assert ordinary.std() == pytest.approx(width, rel=0.35 if "behind a Conv" in case else 0.2)
    assert np.abs(found.inputs[0][found.parts()["large"]] - centre).max() > 25 * width


def test_each_table_has_its_own_rows():
    first, second = keras.Input((3,), dtype="int32", name="word"), keras.Input((3,), dtype="int32", name="place")
    joined = L.Concatenate()([L.Embedding(500, 2)(first), L.Embedding(7, 2)(second)])
    loaded = load(keras.Model([first, second], joined))
    words, places = samples(None, loaded.inputs, scales=lambda: scales(loaded)).inputs
    assert 400 < words.max() < 500 and places.max() == 6 and min(words.min(), places.min()) == 0


def compared(monkeypatch, theirs, ours):
    """Rows of outputs that are set, for the made-up samples of one number."""
    found = samples(None, load(dense(units=(2, 1), features=1)).inputs)
    values = np.zeros((len(found), 1))
    for name, part in found.parts().items():
        values[part] = np.resize(theirs[name], (part.stop - part.start, 1))
    given = values.copy()
    for name, part in found.parts().items():
        given[part] += ours.get(name, 0.0)
    monkeypatch.setattr(interpreters, "run", lambda *_: interpreters.Outputs((given.astype("f4"),), (given,), (None,)))
    rows = compare(b"", found, Reference("given", {"y": values.astype("f4")}, 1e-3)).rows
    return {row.on: row for row in rows if row.runtime == "litert"}


def test_outputs_that_saturate_are_judged_by_what_ordinary_ones_span(monkeypatch):
    theirs = {"ordinary": [-1.0, 0.0, 1.0], "large": 1.0, "extreme": 1.0}
    rows = compared(monkeypatch, theirs, {"large": 1e-3, "extreme": 1e-2})
    assert rows["large"].status == "ok" and rows["large"].error_of_range == pytest.approx(5e-4, rel=0.01)
    assert rows["extreme"].status == "differs" and "1000 times as large" in rows["extreme"].reason


def test_what_overflows_in_keras_is_left_out(monkeypatch):
    theirs = {"ordinary": [0.0, 1.0], "large": [3.0, np.inf], "extreme": np.inf}
    rows = compared(monkeypatch, theirs, {})
    assert list(rows) == ["ordinary", "large"] and rows["large"].samples == 2
    assert {row.status for row in rows.values()} == {"ok"}


VERDICTS = {
    "ok": [("ordinary", "ok"), ("large", "ok"), ("beyond", "saturates")],
    "parity_failed": [("ordinary", "ok"), ("large", "differs")],
    "not_proven": [("ordinary", "saturates"), ("ends", "ok")],
}


@pytest.mark.parametrize("word", VERDICTS)
def test_a_verdict_needs_a_set_that_decides(word):
    rows = tuple(Agreement("litert", status, on=on) for on, status in VERDICTS[word])
    absent = (Agreement("tflm", "not checked"),)
    assert verdict(rows) == verdict(rows + absent) == word and verdict(absent) == "not_proven"


@pytest.fixture(scope="module")
def integer():
    return sqp_tflite.export(dense(), quantize="int8", data=DATA)


def test_an_integer_file_is_never_said_to_be_wrong_without_data(integer):
    assert integer.report.judged_on == "data" and not integer.report.basis
    rows = sqp_tflite.check(dense(), integer.model_bytes)
    assert {row.on for row in rows} == {"ordinary"} and verdict(rows) == "ok"
    assert verdict(sqp_tflite.check(dense(), integer.model_bytes, DATA)) == "ok"


def test_an_integer_file_of_another_model_is_not_said_to_be_right(integer, command, tmp_path):
    other = dense()
    other.set_weights([-weight for weight in other.get_weights()])
    assert verdict(sqp_tflite.check(other, integer.model_bytes)) == "not_proven"
    other.save(tmp_path / "m.keras")
    (tmp_path / "m.tflite").write_bytes(integer.model_bytes)
    np.savez(tmp_path / "d.npz", **DATA)
    done = command("sqp-check", tmp_path / "m.keras", tmp_path / "m.tflite")
    assert done.code == 2 and done.out.startswith("NOT PROVEN") and done.err.endswith("pass them with --data.\n")
    code, out = ran(command, "sqp-check", tmp_path / "m.keras", tmp_path / "m.tflite", "--data", tmp_path / "d.npz")
    assert code == 3 and out.startswith("DIFFERS")


def test_a_file_for_another_interpreter_need_not_run_on_tflm():
    made = sqp_tflite.export(dense(), quantize="float16", target="litert").model_bytes
    assert mark_of(read(made)).runtime == "litert"
    rows = sqp_tflite.check(dense(), made)
    assert verdict(rows) == "ok"
    (absent,) = (row for row in rows if row.runtime == "tflm")
    assert absent.status == "not checked" and "exported for LiteRT" in absent.reason


def test_an_exchange_is_judged_on_the_data_it_was_fitted_to():
    """Fitted to narrow data; ordinary made-up inputs are far outside of them."""
    model, narrow = small(), {"x": DATA["x"].repeat(2, axis=1) * 3.0}
    made = sqp_tflite.export(model, replace="fast", data=narrow, max_change=3.0)
    assert mark_of(read(made.model_bytes)).data
    rows = sqp_tflite.check(model, made.model_bytes, ends=True)
    assert "differs" not in {row.status for row in rows}


def test_an_export_is_printed_in_a_line(integer):
    assert str(integer) == f"Export('ok', 'mlp', int8, tflm, {len(integer.model_bytes):,} bytes)"
    assert "no file" in repr(sqp_tflite.export(dense(), dry_run=True))

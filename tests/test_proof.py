"""The reference is the user's own model: what an exchange, a dropped head or a map changed is seen and said."""

import keras
import numpy as np
import pytest

import sqp_tflite
from models import dense
from sqp_tflite import pipeline
from sqp_tflite.agreement import GIVEN, WRITTEN, Agreement
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.mark import NAME, Mark, mark_of, put
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.journal import Compared

L = keras.layers


def deep(activation: str, units: int = 16) -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [L.Dense(units, activation, name=f"{activation}_{i}") for i in range(4)]
    return keras.Sequential([keras.Input((8,), name="x"), *layers, L.Dense(1, name="out")])


def inputs(model: keras.Model, count: int = 64) -> dict:
    return {"x": np.random.default_rng(0).normal(size=(count, *model.input_shape[1:])).astype("float32")}


def by_reference(report) -> dict:
    return {kind: report.worst("tflm", kind) for kind in (GIVEN, WRITTEN)}


def test_another_function_is_not_ok():
    """relu for tanh: the file is what was written, and not at all the user's model."""
    model = deep("tanh")
    with pytest.raises(sqp_tflite.ParityError) as caught:
        sqp_tflite.export(model, replace={"tanh": "relu"}, data=inputs(model))
    assert caught.value.exit_code == 3
    rows = by_reference(caught.value.report)
    assert rows[WRITTEN].status == "ok" and rows[WRITTEN].error_of_range < 1e-5
    assert rows[GIVEN].status == "differs" and rows[GIVEN].error_of_range > 0.25
    assert "--max-change" in str(caught.value) and "--replace accurate" in str(caught.value)


def test_both_remedies_for_another_function_work():
    model = deep("tanh")
    accepted = sqp_tflite.export(model, replace={"tanh": "relu"}, data=inputs(model), max_change=10.0).report
    assert by_reference(accepted)[GIVEN].limit == 10.0 and "distill" in accepted.warnings[-1]
    accurate = sqp_tflite.export(model, replace="accurate", data=inputs(model)).report
    assert by_reference(accurate)[GIVEN].error_of_range < 0.02 and not accurate.warnings


def test_fast_on_a_deep_model_says_what_it_costs():
    """Four silu layers: the conversion is exact to 1e-6, the file is off by much of the range."""
    model = deep("silu")
    try:
        report = sqp_tflite.export(model, replace="fast", data=inputs(model)).report
        assert by_reference(report)[GIVEN].error_of_range <= 0.25
        assert "sqp_keras.distill" in report.warnings[-1]
    except sqp_tflite.ParityError as error:
        report = error.report
        assert "sqp_keras.distill" in str(error)
    rows = by_reference(report)
    assert rows[WRITTEN].error_of_range < 1e-5 and rows[GIVEN].error_of_range > 0.02


def test_a_limit_of_ones_own_is_kept():
    model = deep("silu")
    with pytest.raises(sqp_tflite.ParityError, match="--max-error"):
        sqp_tflite.export(model, replace="accurate", data=inputs(model), max_change=1e-6)
    report = sqp_tflite.export(model, replace="accurate", data=inputs(model), max_change=0.05).report
    assert by_reference(report)[GIVEN].limit == 0.05


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf"), "much"])
def test_a_limit_must_be_a_positive_number(limit):
    with pytest.raises(sqp_tflite.BadInputError, match="max_change.*above 0"):
        sqp_tflite.export(deep("silu"), max_change=limit)


def test_without_exchange_there_is_one_reference():
    report = sqp_tflite.export(deep("relu")).report
    assert {row.against for row in report.agreement} == {GIVEN}


def test_each_output_has_its_rows_under_its_name():
    keras.utils.set_random_seed(0)
    x = keras.Input((4,), name="x")
    model = keras.Model(x, {"mean": L.Dense(2, name="a")(x), "spread": L.Dense(3, name="b")(x)})
    report = sqp_tflite.export(model).report
    rows = [row for row in report.agreement if row.runtime == "litert"]
    assert [row.output for row in rows if row.on == "ordinary"] == [row.name for row in report.outputs]
    assert [row.name for row in report.outputs] == ["mean", "spread"] and {row.output for row in rows} == {
        "mean",
        "spread",
    }


@pytest.mark.parametrize("rule", ["accurate", "fast"])
def test_check_and_export_agree_about_one_file(rule):
    """The file says itself how far it is meant to be off, and which head it lost."""
    keras.utils.set_random_seed(0)
    layers = [L.Dense(6, "silu"), L.Dense(3, "softmax", name="head")]
    model = keras.Sequential([keras.Input((4,), name="x"), *layers])
    data = inputs(model)
    exported = sqp_tflite.export(model, replace=rule, head="logits", data=data)
    rows = sqp_tflite.check(model, exported.model_bytes, data)
    theirs = {row.runtime: row for row in exported.report.agreement if row.against == GIVEN}
    for row in rows:
        ours = theirs[row.runtime]
        assert (row.status, row.limit) == ("ok", ours.limit) and row.argmax_agreement == ours.argmax_agreement
        assert row.error_of_range == pytest.approx(ours.error_of_range)
    stricter = sqp_tflite.check(model, exported.model_bytes, data, tolerance=1e-9)
    assert {row.status for row in stricter} == {"differs"}


def test_a_file_says_no_more_than_so_much_about_its_own_limit():
    """The planted fault: the file of another model, which says that it may be off by any amount."""
    model, other = dense(), dense(activation="relu")
    for layer in other.layers:
        layer.set_weights([-3.0 * values for values in layer.get_weights()])
    forged = Editor(sqp_tflite.export(other).model_bytes)
    put(forged, Mark(1e9))
    rows = sqp_tflite.check(model, forged.bytes())
    assert {row.status for row in rows if row.on == "ordinary"} == {"differs"} and {row.limit for row in rows} == {0.25}
    assert all("--tolerance 1e+09, if you trust its maker" in row.reason for row in rows if row.on == "ordinary")
    assert {row.status for row in sqp_tflite.check(model, forged.bytes(), tolerance=1e9)} == {"ok"}


def test_a_file_that_changes_nothing_has_no_mark():
    plain = sqp_tflite.export(deep("relu")).model_bytes
    assert NAME not in read(plain).metadata and mark_of(read(plain)) == Mark()
    written, editor = Mark(0.02, ("softmax", "")), Editor(plain)
    put(editor, written)
    assert mark_of(read(editor.bytes())) == written


@pytest.mark.parametrize(
    "content", [b"[1]", b"null", b"{", b'{"limit": "x"}', b'{"limit": -1}', b'{"heads": [1]}', b"\xff"]
)
def test_a_damaged_mark_is_none(content):
    editor = Editor(sqp_tflite.export(deep("relu")).model_bytes)
    editor.add_metadata(NAME, memoryview(content))
    assert mark_of(read(editor.bytes())) == Mark()


def test_a_mapped_activation_is_not_proven(tmp_path):
    @keras.saving.register_keras_serializable("mine")
    def bend(x):
        return keras.ops.softplus(x)

    path = tmp_path / "m.keras"
    deep_model = keras.Sequential([keras.Input((4,)), L.Dense(4, bend)])
    deep_model.save(path)
    keras.saving.get_custom_objects().pop("mine>bend")
    report = sqp_tflite.export(path, names={"mine>bend": "squareplus"}).report
    assert report.verdict == "ok" and len(report.unproven) == 1
    assert "`mine>bend`" in report.unproven[0] and "squareplus" in report.unproven[0]


def test_an_offset_that_eats_all_codes_is_not_ok_and_its_remedies_work():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,), name="x"), L.Dense(16, "relu"), L.Dense(1, name="out")])
    data = inputs(model, 200)
    kernel, _ = model.layers[-1].get_weights()
    kernel *= 0.6 / np.abs(model.predict(data["x"], verbose=0)).max()
    model.layers[-1].set_weights([kernel, np.array([1013.0], "float32")])
    with pytest.raises(sqp_tflite.ParityError, match="one code for all samples.*--quantize int16x8.*constant offset"):
        sqp_tflite.export(model, quantize="int8", data=data)
    assert sqp_tflite.export(model, quantize="int16x8", data=data).report.verdict == "ok"
    model.layers[-1].set_weights([kernel, np.array([0.0], "float32")])
    assert sqp_tflite.export(model, quantize="int8", data=data).report.verdict == "ok"


def test_a_positive_head_that_becomes_zero_in_integers_is_said():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,), name="x"), L.Dense(1, "softplus", name="sigma")])
    kernel, bias = model.layers[-1].get_weights()
    model.layers[-1].set_weights([8 * kernel, bias])
    options = {"data": inputs(model, 200), "quantize": "int8", "lowering": "table"}
    found = sqp_tflite.export(model, **options).report.warnings
    assert any("`sigma` is above 0 in Keras" in warning for warning in found)
    linear = keras.Sequential([keras.Input((8,), name="x"), L.Dense(1, name="sigma")])
    assert not sqp_tflite.export(linear, quantize="int8", data=inputs(linear)).report.warnings


def test_both_remedies_for_a_narrow_column_work():
    def built(apart: bool) -> keras.Model:
        keras.utils.set_random_seed(0)
        x = keras.Input((8,), name="x")
        hidden = L.Dense(8, "relu")(x)
        wide, narrow = L.Dense(2, name="wide")(hidden), L.Dense(1, name="narrow")(hidden)
        wide = L.Rescaling(300.0)(wide)
        return keras.Model(x, [wide, narrow] if apart else L.Concatenate(name="both")([wide, narrow]))

    model = built(False)
    with pytest.raises(sqp_tflite.ParityError, match="column 2 of 3.*int16x8.*an output of its own") as caught:
        sqp_tflite.export(model, quantize="int8", data=inputs(model))
    lines = str(caught.value).splitlines()
    assert all(line.count("--quantize int16x8") < 2 for line in lines) and "Next:" not in lines[-1]
    assert sqp_tflite.export(model, quantize="int16x8", data=inputs(model)).report.verdict == "ok"
    assert sqp_tflite.export(built(True), quantize="int8", data=inputs(model)).report.verdict == "ok"


@pytest.mark.parametrize("runtime", ["tflite-runtime", "litert"])
def test_where_only_tflite_runtime_differs_at_int16_one_scale_for_each_dense_layer_is_the_remedy(runtime, monkeypatch):
    """As for RNNoise, trained, see the next test; with one scale each it agrees everywhere."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,), name="x"), L.Dense(6, "relu"), L.Dense(3)])
    given = {"quantize": "int16x8", "data": inputs(model)}
    rows = (Agreement("tflm", "ok"), Agreement(runtime, "differs", "the max error is 4.4"))
    with (
        monkeypatch.context() as planted,
        pytest.raises(sqp_tflite.ParityError, match="the max error is 4.4") as caught,
    ):
        planted.setattr(pipeline, "compared", lambda *_: Compared(rows))
        sqp_tflite.export(model, **given)
    assert ("Use --per-tensor" in str(caught.value)) is (runtime == "tflite-runtime")
    # The command line shows the report.
    assert any("Use --per-tensor" in note for note in caught.value.report.notes) is (runtime == "tflite-runtime")
    assert sqp_tflite.export(model, per_tensor=True, **given).report.verdict == "ok"

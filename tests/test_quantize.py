"""Integer and half-precision exports: nothing hidden in float, names and order kept, odd models survived."""

import dataclasses
import importlib

import keras
import numpy as np
import pytest

import models
import sqp_keras
import written
from sqp_tflite.errors import BadInputError, CrashedError, ExportError, ParityError, RefusedError
from sqp_tflite.flatbuffer import edit
from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.pipeline import export
from sqp_tflite.quantize.islands import Islands
from sqp_tflite.quantize.quantize import hidden_floats, quantize
from sqp_tflite.quantize.recipe import Request
from sqp_tflite.source.samples import Samples
from sqp_tflite.worker import ChildError, Worker
from tools import zoo

L = keras.layers
INTEGER = [
    ("int8", "algebraic"),
    ("int8", "table"),
    ("int8", "integer"),
    ("int16x8", "algebraic"),
    ("int16x8", "integer"),
]
ISLAND = {"MUL", "ADD", "SQRT"}


def residual():
    """Activations behind a convolution, a sum, a pooling; two outputs, one of them an activation."""
    keras.utils.set_random_seed(0)
    i = keras.Input((8, 8, 3), name="image")
    x = L.Conv2D(4, 3, padding="same", activation="squareplus", name="first")(i)
    y = L.Conv2D(4, 3, padding="same", name="second")(x)
    x = L.Activation("squareplus", name="joined")(L.Add()([x, y]))
    x = L.Dense(5, activation="squareplus", name="dense")(L.GlobalAveragePooling2D()(x))
    return keras.Model(i, [L.Dense(3, name="logits")(x), L.Dense(1, activation="squareplus", name="sigma")(x)])


def data(model, count=40):
    return zoo.samples(model, count)


@pytest.fixture(scope="module")
def exports():
    """Every integer form of the residual model."""
    model = residual()
    kernel, bias = model.get_layer("logits").get_weights()
    # A column that hardly varies would be judged by its own few codes.
    model.get_layer("logits").set_weights([kernel / np.ptp(model.predict(data(model), verbose=0)[0], axis=0), bias])
    return {
        (quantize, lowering): export(model, data=data(model), quantize=quantize, lowering=lowering)
        for quantize, lowering in INTEGER
    }


@pytest.mark.parametrize("form", INTEGER)
def test_no_float_is_left_but_the_activations(exports, form):
    main = read(exports[form].model_bytes).main
    floats = [op for op in main.ops if op.dtype in FLOAT_DTYPES and op.name != "QUANTIZE"]
    if form[1] != "algebraic":
        assert not floats
        return
    assert {op.name for op in floats} == ISLAND
    # MUL ADD SQRT ADD for each of four activations; the sum in front of one has two readers and keeps its halving.
    assert len(floats) == 4 * 4 + 1


@pytest.mark.parametrize("form", INTEGER)
def test_names_order_types_and_scales_are_in_the_report(exports, form):
    report = exports[form].report
    integer = "int8" if form[0] == "int8" else "int16"
    assert [row.name for row in report.inputs] == ["image"]
    assert [row.name for row in report.outputs] == ["logits", "sigma"]
    for row in report.inputs + report.outputs:
        assert row.dtype == integer
        assert row.scale > 0 and row.zero_point is not None


@pytest.mark.parametrize("form", INTEGER)
def test_the_error_of_each_layer_is_in_the_report(exports, form):
    rows = exports[form].report.layer_errors
    assert {"first", "second", "dense", "logits", "sigma"} <= {row.layer for row in rows}
    shares = [row.error_of_range for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[0] < 0.1


def test_a_table_activation_is_cast_add_gather(exports):
    ops = [op.name for op in read(exports["int8", "table"].model_bytes).main.ops]
    assert ops.count("GATHER") == ops.count("CAST") == 4


def test_integer_islands_are_int16(exports):
    main = read(exports["int8", "integer"].model_bytes).main
    assert {op.dtype for op in main.ops if op.name == "RSQRT"} == {"int16"}
    assert not [op for op in main.ops if op.name == "SQRT"]


def test_a_hidden_float_operator_is_found(exports):
    """The planted fault: the algebraic file judged as if nothing may stay in float."""
    graph = read(exports["int8", "algebraic"].model_bytes)
    request = Request(Combination("int8", "table"))
    found = hidden_floats(graph, request, Islands(frozenset(), frozenset()), LayerNames(("first", "dense")))
    assert {finding.op for finding in found} == ISLAND
    assert all("would stay in float" in finding.rule for finding in found)


@pytest.mark.parametrize("lowering", ["algebraic", "table", "integer"])
def test_float_ends(lowering):
    model = models.two_in_two_out()
    report = export(model, data=data(model), quantize="int8", lowering=lowering, io="float32").report
    assert [row.name for row in report.inputs] == ["z_in", "a_in"]
    assert [row.name for row in report.outputs] == ["z_out", "a_out"]
    assert {row.dtype for row in report.inputs + report.outputs} == {"float32"}
    assert {row.status for row in report.agreement if row.runtime == "tflm"} == {"ok"}


@pytest.mark.parametrize("quantize", ["float16", "dynamic"])
def test_small_weights_for_the_runtimes_that_have_them(quantize):
    model = zoo.build("Z16")
    plain = export(model, target="litert")
    small = export(model, data=data(model), quantize=quantize, lowering="table", target="litert")
    assert len(small.model_bytes) < 0.75 * len(plain.model_bytes)
    assert any("writes the algebraic form" in note for note in small.report.notes)
    assert {row.status for row in small.report.agreement if row.runtime != "tflm"} == {"ok"}


def test_without_data_an_integer_model_is_refused():
    with pytest.raises(BadInputError, match="representative inputs"):
        export(models.dense(), quantize="int8")


def test_a_combination_is_refused_before_the_model_is_looked_at(tmp_path):
    file = tmp_path / "model.keras"
    file.write_bytes(b"no model at all")
    with pytest.raises(RefusedError, match="nearest that works: --quantize int8") as refusal:
        export(file, quantize="dynamic")
    assert refusal.value.report.verdict == "refused"


def test_other_activations_need_tables_and_the_refusal_says_so():
    model = zoo.build("Z22", head="original")
    with pytest.raises(RefusedError, match="EXP.*--lowering table"):
        export(model, data=data(model), quantize="int8", lowering="algebraic")
    assert export(model, data=data(model), quantize="int8", lowering="table").report.verdict == "ok"


def test_operators_that_the_quantiser_lacks_become_tables():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,), name="x"), L.Dense(8), L.LeakyReLU(negative_slope=0.1), L.Dense(2)])
    exported = export(model, data=data(model), quantize="int8")
    assert "GATHER" in {row.op for row in exported.report.ops}
    exported = export(model, data=data(model), quantize="int16x8")
    assert ("LEAKY_RELU", "float32") in {(row.op, row.dtype) for row in exported.report.ops}
    with pytest.raises(RefusedError, match="LEAKY_RELU.*--lowering algebraic"):
        export(model, data=data(model), quantize="int16x8", lowering="integer")


@pytest.mark.parametrize("form", [("int8", "integer"), ("int16x8", "integer"), ("int8", "table")])
def test_the_algebraic_family_in_integers(form):
    """Of elu's form: its minimum has no integer operator, and is written with a subtraction and RELU."""
    keras.utils.set_random_seed(0)
    hidden = [L.Dense(8, activation=sqp_keras.Algebraic(of)) for of in ("silu", "elu")]
    model = keras.Sequential([keras.Input((4,), name="x"), *hidden, L.Dense(2)])
    exported = export(model, data=data(model), quantize=form[0], lowering=form[1])
    assert not [row for row in exported.report.ops if row.dtype in FLOAT_DTYPES]


def scaled(factor):
    model = models.dense()
    model.set_weights([weights * factor for weights in model.get_weights()])
    return model


def dead_channel():
    model = models.dense()
    kernel, bias, *rest = model.get_weights()
    kernel[:, 2], kernel[:, 3] = 0.0, kernel[:, 3] * 1e-12
    bias[2], bias[3] = 3.0, -2.0
    model.set_weights([kernel, bias, *rest])
    return model


@pytest.mark.parametrize("form", [("int8", "algebraic"), ("int8", "table"), ("int16x8", "integer")])
@pytest.mark.parametrize("model", [lambda: scaled(0.0), dead_channel], ids=["all weights 0", "dead channels"])
def test_degenerate_models_export(model, form):
    built = model()
    exported = export(built, data=data(built), quantize=form[0], lowering=form[1])
    assert exported.report.verdict == "ok"
    if model is not dead_channel:
        assert any("Is the model trained" in note for note in exported.report.notes)


@pytest.mark.parametrize(
    ("model", "factor"), [(lambda: scaled(1e-12), 1.0), (models.dense, 1e25)], ids=["tiny weights", "huge inputs"]
)
def test_models_out_of_any_range_give_a_message(model, factor):
    built = model()
    inputs = {name: values * np.float32(factor) for name, values in data(built).items()}
    with pytest.raises(ExportError, match="does not agree|numbers must be finite") as error:
        export(built, data=inputs, quantize="int8", lowering="integer")
    assert isinstance(error.value, (ParityError, BadInputError))


def test_labels_give_the_accuracy_before_and_after():
    model = models.dense()
    inputs = data(model, 64)
    labels = np.argmax(model.predict(inputs["x"], verbose=0), axis=1)
    report = export(model, data={**inputs, "y": labels}, quantize="int8", lowering="table").report
    row = next(row for row in report.agreement if row.runtime == "tflm")
    assert row.metric_before == 1.0
    assert row.metric_after == row.argmax_agreement > 0.9


# `exports` has a model in all forms.
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, marks=pytest.mark.large) if form in (("int8", "integer"), ("int16x8", "algebraic")) else form
        for form in INTEGER
    ],
)
def test_a_slice_of_the_matrix(form):
    """All models are in benchmarks/matrix.py; these are quick and unlike each other: 2D, depthwise, two outputs."""
    for identifier in ("Z03", "Z23"):
        model = zoo.build(identifier)
        report = export(model, data=data(model, 33), quantize=form[0], lowering=form[1]).report
        statuses = {row.runtime: row.status for row in report.agreement}
        assert statuses["tflm"] == statuses["litert"] == "ok"
        assert dataclasses.asdict(report)["quantize"] == form[0]


def test_the_zoo_is_what_was_published():
    for identifier in ("Z01", "Z03", "Z11", "Z14", "Z16", "Z22"):
        activation = "elu" if identifier == "Z11" else "relu"
        model = zoo.build(identifier, activation, "original")
        assert model.count_params() == zoo.ENTRIES[identifier].parameters


class Inline:
    """A worker that works in this process."""

    def call(self, function, *arguments):
        module, _, name = function.partition(":")
        return getattr(importlib.import_module(module), name)(*arguments)


def test_a_file_is_unpacked_once_per_step_that_changes_it(monkeypatch):
    """Own names; the quantiser's file with own names; tables, float ends and Keras's names."""
    opened = []
    unpack = edit.opened
    monkeypatch.setattr(edit, "opened", lambda content: opened.append(content) or unpack(content))
    inputs = np.random.default_rng(0).uniform(-1, 1, (40, 4)).astype(np.float32)
    request = Request(Combination("int8", "table"), float_io=True)
    samples = Samples((inputs,), None, given=True)
    content = written.perceptron()
    opened.clear()
    made = quantize(content, samples, request, LayerNames(), Inline())
    assert len(opened) == 3
    graph = read(made.content)
    assert {tensor.dtype for tensor in graph.inputs + graph.outputs} == {"float32"}
    assert "GATHER" in [op.name for op in graph.main.ops]


@pytest.mark.parametrize("sign", [1, -1])
def test_the_codes_of_numbers_far_from_zero_reach_to_zero(sign):
    """Kernels pad with the code of 0, so that every range holds it; here the data by itself would not."""
    model = models.dense()
    *others, bias = model.get_weights()
    model.set_weights([*others, bias + 100.0 * sign])
    inputs = data(model)
    report = export(model, data=inputs, quantize="int8", lowering="table").report
    outputs = model.predict(inputs["x"], verbose=0)
    assert (outputs * sign).min() > 0
    (row,) = report.outputs
    low, high = (-128 - row.zero_point) * row.scale, (127 - row.zero_point) * row.scale
    assert row.zero_point == (-128 if sign > 0 else 127)
    # One step of room: the zero point is rounded to a code.
    assert low <= min(outputs.min(), 0) + row.scale and high >= max(outputs.max(), 0) - row.scale
    assert {line.status for line in report.agreement if line.runtime == "tflm"} == {"ok"}


def test_a_file_that_litert_does_not_run_has_no_error_per_layer(monkeypatch):
    """The comparison says later which interpreter refuses it, and the target may run it all the same."""
    stock = Worker.call

    def call(worker, function, *arguments, **named):
        if function.endswith("layer_errors_here"):
            raise ChildError(kind, "add.cc:228 data->input1_shift <= 0 was not true.")
        return stock(worker, function, *arguments, **named)

    monkeypatch.setattr(Worker, "call", call)
    model, kind = models.dense(), "RuntimeError"
    given = {"data": zoo.samples(model, 32), "quantize": "int8"}
    report = export(model, **given).report
    assert report.verdict == "ok" and not report.layer_errors
    assert any("does not run the file" in note for note in report.notes)
    kind = "KeyError"
    with pytest.raises(CrashedError, match="could not be made"):
        export(model, **given)

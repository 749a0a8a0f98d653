"""A batch norm behind an activation becomes part of the weights behind it, exactly, or a note says what keeps it."""

import keras
import numpy as np
import pytest
from keras import layers as L

import sqp_tflite
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.source import norms
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.trace import trace
from test_rewrites import run


def norm(spread=2.0):
    made = keras.initializers
    return L.BatchNormalization(
        name="norm",
        moving_mean_initializer=made.RandomNormal(0, 1, 1),
        moving_variance_initializer=made.RandomUniform(0.5, 2, 2),
        gamma_initializer=made.RandomUniform(1 / spread, spread, 3),
        beta_initializer=made.RandomNormal(0, 1, 4),
    )


class Shift(L.Layer):
    def call(self, x):
        return x + np.float32([1, -2, 3, 0.5])


def image(*behind):
    return (7, 6, 3), [L.Conv2D(4, 3, activation="squareplus"), norm(), *behind]


def sequence(*behind):
    return (9, 3), [L.Conv1D(4, 3, activation="squareplus"), norm(), *behind]


FOLDED = {
    "a convolution": lambda: image(L.Conv2D(5, 3)),
    "one of 1x1": lambda: image(L.Conv2D(5, 1, padding="same")),
    "one behind a Reshape": lambda: image(L.Reshape((5, 2, 8)), L.Conv2D(6, 1)),
    "one without bias": lambda: image(L.Conv2D(5, 3, use_bias=False), L.ReLU()),
    "another norm behind": lambda: image(L.Conv2D(5, 3, use_bias=False), L.BatchNormalization(), L.ReLU()),
    "a depthwise one": lambda: image(L.DepthwiseConv2D(3, depth_multiplier=2)),
    "a sequence": lambda: sequence(L.Conv1D(5, 3, strides=2)),
    "a dense layer": lambda: ((6,), [L.Dense(5, activation="squareplus"), norm(), L.Dense(3)]),
    "a dense layer per step": lambda: ((4, 6), [L.Dense(5, activation="squareplus"), norm(), L.Dense(3)]),
    "a flattened image": lambda: image(L.Flatten(), L.Dense(3)),
    "a constant for each channel": lambda: image(Shift(), L.Conv2D(5, 3)),
    "a constant in front of a dense layer": lambda: ((6,), [L.Dense(4, "relu"), Shift(), L.Dense(3, use_bias=False)]),
    "the input": lambda: ((7, 6, 3), [norm(), L.Conv2D(4, 3)]),
}
KEPT = {
    "padding": lambda: image(L.Conv2D(5, 3, padding="same", name="next")),
    "causal padding": lambda: sequence(L.Conv1D(5, 3, padding="causal", name="next")),
    "padding of its own": lambda: image(L.ZeroPadding2D(1), L.Conv2D(5, 3, name="next")),
}


def model_of(case):
    keras.utils.set_random_seed(0)
    shape, layers = case()
    return keras.Sequential([keras.Input(shape, name="x"), *layers])


def data_of(model, count=32):
    return {"x": np.float32(np.random.default_rng(0).normal(size=(count, *model.input_shape[1:])))}


def folded(model, integer=False):
    traced = trace(plan(load(model)))
    return traced, *norms.folded(traced.graph_def, integer, traced.layers.of)


@pytest.mark.parametrize("name", FOLDED)
def test_a_norm_is_folded_within_rounding(name):
    model = model_of(FOLDED[name])
    traced, graph_def, notes = folded(model)
    assert graph_def != traced.graph_def and notes == ()
    for x in data_of(model, 3)["x"]:
        (wanted,), (got,) = run(traced.graph_def, traced, x), run(graph_def, traced, x)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("name", KEPT)
def test_padding_keeps_a_norm_and_a_note_says_what_it_costs(name):
    traced, graph_def, (note,) = folded(model_of(KEPT[name]))
    assert graph_def == traced.graph_def
    assert note.startswith("`norm` stays a MUL and an ADD of") and "`next`" in note and 'padding="valid"' in note


@pytest.mark.parametrize("name", ["a convolution", "a flattened image"])
@pytest.mark.parametrize("options", [{}, {"quantize": "int8", "lowering": "table"}], ids=["float32", "int8 table"])
def test_no_operator_of_the_norm_is_left(name, options):
    model = model_of(FOLDED[name])
    report = sqp_tflite.export(model, data=data_of(model), **options).report
    counts = {}
    for row in report.ops:
        counts[row.op] = counts.get(row.op, 0) + row.count
    counts.pop("RESHAPE", None)
    contractions = counts.pop("CONV_2D", 0) + counts.pop("FULLY_CONNECTED", 0)
    table = {"CAST": 1, "ADD": 1, "GATHER": 1}
    assert (contractions, counts) == (2, table if options else {"MUL": 1, "ADD": 2, "SQRT": 1})


def test_the_report_has_the_note():
    assert any(note.startswith("`norm` stays") for note in sqp_tflite.export(model_of(KEPT["padding"])).report.notes)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: L.Conv2D(4, 3)(L.ReLU()(norm()(L.Conv2D(4, 3)(x)))),  # The converter folds it to the front.
        lambda x: (lambda y: L.Concatenate()([L.Conv2D(4, 3)(y), L.Conv2D(4, 3)(y)]))(norm()(L.ReLU()(x))),
        lambda x: L.ReLU()(norm()(L.ReLU()(x))),
    ],
    ids=["behind a convolution", "two readers", "no convolution"],
)
def test_other_norms_stay_without_a_note(make):
    x = keras.Input((7, 6, 3), name="x")
    traced, graph_def, notes = folded(keras.Model(x, make(x)))
    assert graph_def == traced.graph_def and notes == ()


def test_in_integers_channels_that_are_far_apart_stay():
    model = model_of(lambda: ((6,), [L.Dense(5, activation="squareplus"), norm(), L.Dense(3)]))
    held = model.get_layer("norm")
    held.gamma.assign([1.0, 1.0, 1.0, 1.0, 1000.0])
    traced, graph_def, _ = folded(model, integer=True)
    assert graph_def == traced.graph_def
    assert folded(model)[1] != traced.graph_def


def test_a_wrong_fold_is_seen(monkeypatch):
    monkeypatch.setattr(norms, "_pads", lambda conv: False)
    model = model_of(KEPT["padding"])
    with pytest.raises(sqp_tflite.ParityError, match="does not agree"):
        sqp_tflite.export(model, data=data_of(model))


def test_sums_of_constants_are_no_operators():
    """The stock converter keeps an ADD for a constant of each channel that is added behind an activation."""
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    sums = Shift()(L.Dense(4, "relu")(x) + 1.5) + 2.0
    model = keras.Model(x, L.Dense(3)(sums))
    for quantize in ("float32", "int8"):
        report = sqp_tflite.export(model, quantize=quantize, data=data_of(model)).report
        assert {row.op: row.count for row in report.ops} == {"FULLY_CONNECTED": 2}


@pytest.mark.parametrize(("lowering", "count"), [("algebraic", 1), ("integer", 2), ("table", 0)])
def test_two_activations_in_sequence_have_one_conversion_each_way(lowering, count):
    """Between two islands the numbers stay as they are: no QUANTIZE meets another, or one of an equal scale."""
    keras.utils.set_random_seed(0)
    layers = [L.Dense(8, "squareplus"), L.Activation("squareplus"), L.Dense(3)]
    model = keras.Sequential([keras.Input((6,), name="x"), *layers])
    exported = sqp_tflite.export(model, quantize="int8", data=data_of(model), lowering=lowering)
    main = read(exported.model_bytes).main
    makers, conversions = main.makers(), [op for op in main.ops if op.name in ("QUANTIZE", "DEQUANTIZE")]
    assert len([op for op in conversions if op.name == "QUANTIZE"]) == count
    for op in conversions:
        before, after = (main.tensors[ends[0]] for ends in (op.inputs, op.outputs))
        assert (before.dtype, before.quantization) != (after.dtype, after.quantization)
        assert op.inputs[0] not in makers or makers[op.inputs[0]].name not in ("QUANTIZE", "DEQUANTIZE")

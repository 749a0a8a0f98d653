"""The plan of a finished export is what its file holds: every operator is in one row, under the right activation."""

import dataclasses
from collections import Counter

import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import sqp_keras
import sqp_tflite
from sqp_tflite import making
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.schema import pack, unpack
from sqp_tflite.journal import Given, Journal
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.options import ExportOptions
from sqp_tflite.report import Activation, Form, PlanRow
from sqp_tflite.source.held import FUSING, _by_layer, held
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import Plan
from sqp_tflite.source.samples import open_data, samples
from sqp_tflite.worker import lent, may_fork
from written import perceptron

L = keras.layers
X = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
SLOPES = keras.initializers.RandomUniform(0.0, 0.5, seed=1)

EXP = ("softplus", "sigmoid", "tanh", "silu", "elu", "gelu", "mish", "selu", "celu", "exponential", "log_sigmoid")
KEPT = {
    **{name: name for name in ("relu", "relu6", "leaky_relu", "hard_sigmoid", "hard_silu", "hard_tanh", "squareplus")},
    "slope": lambda name: L.ReLU(negative_slope=0.1, name=name),
    "most": lambda name: L.ReLU(max_value=3.0, name=name),
    "above": lambda name: L.ReLU(threshold=1.0, name=name),
    "prelu": lambda name: L.PReLU(SLOPES, name=name),
    "learnt": lambda name: sqp_keras.Squareplus(learn_b="channel", name=name),
    "floor": lambda name: sqp_keras.Squareplus(floor=0.1, name=name),
}
SUMS = {f"sum_{of}": lambda name, of=of: sqp_keras.Algebraic(of, name=name) for of in ("tanh", "elu")}

SQUAREPLUS = "MUL ADD SQRT ADD"
TABLE = "a table: CAST ADD GATHER"
LINES = {"relu": "RELU", "relu6": "RELU6", "hard_sigmoid": "RELU6", "hard_tanh": "RELU_N1_TO_1"}
LEAK = {"prelu": "RELU SUB MUL ADD"}
INT16 = "in int16: MUL ADD RSQRT MUL ADD"
FORMS = {
    ("float32", "algebraic"): (
        {**{name: name for name in EXP}, **KEPT, "half": lambda name: L.ELU(alpha=0.5, name=name), **SUMS},
        LINES
        | dict.fromkeys(("squareplus", "learnt", "floor"), SQUAREPLUS)
        | {"leaky_relu": "LEAKY_RELU", "slope": "LEAKY_RELU", "hard_silu": "HARD_SWISH", "prelu": "PRELU"}
        | {"above": "GREATER SELECT_V2", "softplus": "refused: EXP, LOG", "half": "refused: ELU"}
        | {"celu": "refused: EXP", "tanh": "refused: TANH", "gelu": "refused: GELU"},
    ),
    ("int8", "algebraic"): (
        {**KEPT, **SUMS},
        LINES
        | LEAK
        | dict.fromkeys(("squareplus", "learnt", "floor"), f"in float: DEQUANTIZE {SQUAREPLUS} QUANTIZE")
        | {"leaky_relu": TABLE, "slope": TABLE, "hard_silu": "HARD_SWISH", "above": "refused: GREATER"},
    ),
    ("int8", "table"): (
        {**KEPT, **SUMS, **{name: name for name in EXP}},
        LINES
        | LEAK
        | dict.fromkeys(("squareplus", "learnt", "floor", "leaky_relu", "slope", "hard_silu", "above"), TABLE)
        | dict.fromkeys((name for name in EXP if name != "celu"), TABLE)
        | {"celu": "RELU CAST ADD GATHER ADD", "sum_tanh": TABLE},
    ),
    ("int8", "integer"): (
        {"squareplus": "squareplus", "relu": "relu", "leaky_relu": "leaky_relu"},
        {"relu": "RELU", "leaky_relu": TABLE, "squareplus": "in int16: QUANTIZE MUL ADD RSQRT MUL ADD QUANTIZE"},
    ),
    ("int16x8", "algebraic"): (
        {**KEPT, **SUMS},
        LINES
        | LEAK
        | dict.fromkeys(("squareplus", "learnt", "floor"), f"in float: DEQUANTIZE {SQUAREPLUS} QUANTIZE")
        | dict.fromkeys(("leaky_relu", "slope"), "in float: DEQUANTIZE LEAKY_RELU QUANTIZE")
        | {"hard_silu": "in float: DEQUANTIZE HARD_SWISH QUANTIZE"},
    ),
    ("int16x8", "integer"): (
        {**KEPT, **SUMS},
        LINES
        | LEAK
        | dict.fromkeys(("squareplus", "learnt", "floor"), INT16)
        | dict.fromkeys(("leaky_relu", "slope"), "refused: LEAKY_RELU")
        | {"hard_silu": "refused: HARD_SWISH", "most": "refused: MINIMUM", "above": "refused: GREATER"},
    ),
}
"""By form: activations, and what some of them become. The halving of a sum and a last offset are folded."""


def model(activations) -> keras.Model:
    """A branch for each activation, all in one model: one export for all."""
    keras.utils.set_random_seed(0)
    x = keras.Input((4,), name="x")
    ends = []
    for name, made in activations.items():
        layer = L.Activation(made, name=name) if isinstance(made, str) else made(name)
        ends.append(L.Dense(1, name=f"{name}_out")(layer(L.Dense(3, name=f"{name}_in")(x))))
    return keras.Model(x, ends)


def made(activations, form: tuple[str, str]) -> tuple[Plan, Graph, making.Made]:
    """An export up to its audit: without an interpreter."""
    options = ExportOptions(model(activations), wanted=Combination(*form), data={"x": X})
    loaded = load(options.model)
    given, done = Given(loaded, samples(open_data(options.data), loaded.inputs)), Journal(options)
    with lent("convert", (), fork=may_fork()) as worker:
        changed, planned = making.planned(options, given, done)
        found = making.made(options, given, changed, planned, worker, done, lambda step: None)
    return done.get(Plan), found.graph, found


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_the_plan_is_what_the_file_holds(form):
    activations, expected = FORMS[form]
    plan, graph, found = made(activations, form)
    rows = {row.layer: row for row in plan.rows}
    assert {name: rows[name].becomes for name in expected} == expected
    # Every operator and every fused clip is in one row.
    held_by_all = Counter(op for row in plan.rows for op in row.ops)
    in_file = Counter(op.name for _, op in graph.all_ops()) + Counter(op.fused for _, op in graph.all_ops() if op.fused)
    # RESHAPE only brings a condition into the shape that SELECT_V2 takes.
    del in_file["FULLY_CONNECTED"], in_file["RESHAPE"]
    assert held_by_all == in_file
    assert {row.layer for row in plan.rows if row.refused} == {finding.layer for finding in found.findings}


def test_layers_with_several_activations_stay_as_planned():
    graph = made({"relu": "relu"}, ("float32", "algebraic"))[1]
    now = Activation("relu", ())
    rows = tuple(PlanRow(label, now, Form.OPS, ("PLANNED",)) for label in ("relu", "relu.recurrent_activation"))
    plan = Plan(load(model({"relu": "relu"})), Combination(), rows, ())
    layers = LayerNames(("relu", "relu_in", "relu_out"))
    assert held(plan, graph, layers, ()) == plan
    (alone,) = held(dataclasses.replace(plan, rows=rows[:1]), graph, layers, ()).rows
    assert alone.ops == ("RELU",)


def test_own_code_has_the_operators_that_the_file_holds():
    """What the converter folds into the layer in front leaves none."""

    def doubled(x):
        return x * 2.0

    x = keras.Input((4,), name="x")
    folded = L.Dense(3, activation=doubled, name="folded")(x)
    model = keras.Model(x, L.Activation(doubled, name="kept")(L.Dense(3, activation="relu")(folded)))
    rows = {row.layer: row for row in sqp_tflite.export(model).report.plan}
    assert (rows["kept"].ops, rows["kept"].becomes) == (("MUL",), "its own code: MUL")
    assert (rows["folded"].ops, rows["folded"].becomes) == ((), "its own code")


@pytest.mark.parametrize(("inputs", "outputs"), [([], []), ([], [0]), ([0], [])])
def test_an_operator_that_reads_or_writes_nothing_has_a_layer_too(inputs, outputs):
    """Loops that hand nothing on, and handles of variables, in SavedModels that were not written by Keras."""
    model = unpack(perceptron())
    model.subgraphs[0].operators.append(schema.OperatorT(opcodeIndex=0, inputs=inputs, outputs=outputs))
    graph = read(pack(model))
    found = _by_layer(graph, LayerNames(), ())
    assert sum(map(len, found.values())) >= sum(op.name not in FUSING for op in graph.subgraphs[0].ops)

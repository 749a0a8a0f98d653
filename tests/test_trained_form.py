"""Squareplus in a SavedModel comes out as every other export writes it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_keras
import sqp_tflite
from sqp_keras.activation import formulas
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.source.rewrites import ALWAYS, rewritten
from sqp_tflite.source.trained_form import without_limits

L = keras.layers


def ops_of(exported):
    return sorted(op.name for op in read(exported.model_bytes).main.ops)


@pytest.fixture(scope="module")
def built(once):
    """The string, a learnt b for each channel, another b, and one behind a pooling."""

    def make(folder):
        keras.utils.set_random_seed(1)
        layers = [
            keras.Input((8, 8, 1), name="x"),
            L.Conv2D(4, 3, activation="squareplus"),
            L.MaxPooling2D(2),
            sqp_keras.Squareplus(learn_b="channel"),
            L.Flatten(),
            L.Dense(3, name="d"),
            sqp_keras.Squareplus(b=1.5),
        ]
        model = keras.Sequential(layers)
        model.save(folder / "m.keras")
        model.export(folder / "saved", verbose=False)

    return once("trained-form", make)


def test_a_saved_model_has_the_operators_of_its_keras_model(built):
    exported, wanted = sqp_tflite.export(built / "saved"), sqp_tflite.export(built / "m.keras")
    assert ops_of(exported) == ops_of(wanted)
    assert not {"ABS", "DIV", "MAXIMUM", "MINIMUM"} & set(ops_of(exported))
    assert any("MUL ADD SQRT ADD" in note for note in exported.report.notes)


def test_in_integers_it_is_the_form_of_an_activation(built):
    """Islands and tables go by the names that the form gets."""
    data = {"x": np.random.default_rng(2).normal(size=(40, 8, 8, 1)).astype("float32")}
    for lowering in ("algebraic", "table"):
        given = {"quantize": "int8", "lowering": lowering, "data": data}
        exported, wanted = sqp_tflite.export(built / "saved", **given), sqp_tflite.export(built / "m.keras", **given)
        assert {name: ops_of(exported).count(name) for name in ("SQRT", "GATHER")} == {
            name: ops_of(wanted).count(name) for name in ("SQRT", "GATHER")
        }


def graph_of(value):
    """The operations of a frozen graph after the rewriting of value(x)."""

    def traced(x):
        with tf.name_scope("act"):
            return tf.identity(value(x))

    concrete = tf.function(traced, autograph=False).get_concrete_function(tf.TensorSpec((1, 5), name="x"))
    before = concrete.graph.as_graph_def().SerializeToString()
    after = tf.compat.v1.GraphDef.FromString(rewritten(before, ALWAYS))
    nodes = {node.name: node for node in after.node}
    needed, waiting = [], [concrete.outputs[0].op.name]
    while waiting:
        node = nodes[waiting.pop()]
        needed.append(node.op)
        waiting += [name.partition(":")[0].lstrip("^") for name in node.input]
    function = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(after, name=""), [])
    run = function.prune("x:0", concrete.outputs[0].name)
    return set(needed), lambda x: run(tf.constant(x)).numpy()


X = np.float32([[-300.0, -2.0, 0.0, 0.5, 1e4]])


def of_older_releases(x, c, bounded):
    z = tf.abs(x) * 0.5
    root = tf.sqrt(z * z + c) if bounded else tf.maximum(tf.sqrt(tf.minimum(z * z, 2.0**124) + c), z)
    return tf.maximum(x, 0.0) + c / (z + root)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(
    "form", [lambda x, c, bounded: formulas.value(tf, x, c, "float32", bounded), of_older_releases]
)
def test_it_is_found_and_computes_the_same(form, bounded):
    kinds, run = graph_of(lambda x: form(x, tf.constant(0.7), bounded))
    assert kinds <= {"Placeholder", "Const", "Mul", "AddV2", "Sqrt", "Identity"}
    exact = (np.float64(X) + np.sqrt(np.float64(X) ** 2 + 2.8)) / 2
    # x/2 and the root cancel on the left: half a unit in the last place of each.
    np.testing.assert_allclose(run(X), exact, atol=2**-24 * 300, rtol=2**-22)


@pytest.mark.parametrize(
    "value",
    [
        lambda x, z, c: tf.maximum(x, 0.1) + c / (z + tf.sqrt(z * z + c)),
        lambda x, z, c: tf.maximum(x, 0.0) + c / (z + tf.sqrt(z * z + 2 * c)),
        lambda x, z, c: tf.maximum(x, 0.0) + c / (z + tf.sqrt(z * x + c)),
        lambda x, z, c: tf.maximum(x, 0.0) + c / (z + tf.maximum(tf.sqrt(tf.minimum(z * z, 9.0) + c), z)),
        lambda x, z, c: tf.maximum(2 * x, 0.0) + c / (z + tf.sqrt(z * z + c)),
        lambda x, z, c: tf.maximum(2 * x + (tail := c / (z + tf.sqrt(z * z + c))), tail),
        lambda x, z, c: tf.maximum(x + (tail := c / (z + tf.sqrt(z * z + c))), 2 * tail),
        lambda x, z, c: tf.maximum(x - (tail := c / (z + tf.sqrt(z * z + c))), tail),
    ],
)
def test_what_only_looks_like_it_stays(value):
    def odd(x):
        return value(x, tf.abs(x) * 0.5, tf.constant(0.7))

    kinds, run = graph_of(odd)
    assert "RealDiv" in kinds
    np.testing.assert_allclose(run(X), odd(tf.constant(X)).numpy(), rtol=1e-6)


@pytest.mark.large
def test_a_saved_model_has_no_limits(tmp_path):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((4,), name="x"), *(sqp_keras.Algebraic(of) for of in ("silu", "tanh")), L.Dense(2)]
    )
    model.save(tmp_path / "m.keras")
    model.export(tmp_path / "saved", verbose=False)
    exported, wanted = (sqp_tflite.export(tmp_path / name) for name in ("saved", "m.keras"))
    assert ops_of(exported) == ops_of(wanted)
    assert not {"ABS", "GREATER", "SELECT", "SELECT_V2"} & set(ops_of(exported))


@pytest.mark.parametrize(
    ("call", "left"),
    [
        (lambda x: sqp_keras.algebraic(x, "silu"), 0),
        (lambda x: tf.where(tf.abs(x) > 4096.0, tf.zeros_like(x), x), 1),
    ],
)
def test_only_the_selection_of_limits_is_left_out(call, left):
    graph = tf.function(call, autograph=False).get_concrete_function(tf.TensorSpec((1, 4))).graph
    changed = rewritten(graph.as_graph_def().SerializeToString(), {"SelectV2": without_limits})
    nodes = tf.compat.v1.GraphDef.FromString(changed).node
    used, waiting = set(), [graph.outputs[0].op.name]
    while waiting:
        name = waiting.pop().partition(":")[0]
        node = next(node for node in nodes if node.name == name)
        used |= {node.op}
        waiting += node.input
    assert ("SelectV2" in used) == ("Abs" in used) == bool(left)

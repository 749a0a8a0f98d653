"""In an activation's form sqrt(v) becomes v*rsqrt(v) and min(a, b) a - relu(a - b); elsewhere nothing changes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_keras
from sqp_tflite.layer_names import in_scope
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.rsqrt import with_rsqrt
from sqp_tflite.source.trace import trace

L = keras.layers
X = np.concatenate([[0.0], np.geomspace(1e-3, 60, 20), -np.geomspace(1e-3, 60, 20)]).astype(np.float32)[None]


def graphs(*layers: L.Layer) -> tuple[bytes, bytes, str, str]:
    """The frozen graph before and after, and the names of its input and output."""
    traced = trace(plan(load(keras.Sequential([keras.Input((X.size,), name="x"), *layers]))))
    return traced.graph_def, with_rsqrt(traced.graph_def), traced.inputs[0].name, traced.outputs[0]


def nodes(content: bytes) -> list[tuple[str, bool]]:
    """Pairs (type, whether it belongs to an activation's form)."""
    return [(node.op, in_scope(node.name)) for node in tf.compat.v1.GraphDef.FromString(content).node]


def values(content: bytes, source: str, result: str) -> np.ndarray:
    definition = tf.compat.v1.GraphDef.FromString(content)
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
    return wrapped.prune(f"{source}:0", f"{result}:0")(tf.constant(X)).numpy()


ACTIVATIONS = {
    "squareplus": lambda: sqp_keras.Squareplus(),
    "tanh": lambda: sqp_keras.Algebraic("tanh"),
    "softplus": lambda: sqp_keras.Algebraic("softplus"),
    "elu": lambda: sqp_keras.Algebraic("elu"),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_form_has_no_root_and_no_minimum_and_the_same_values(name):
    before, after, source, result = graphs(ACTIVATIONS[name]())
    assert ("Sqrt", True) in nodes(before)
    assert not {"Sqrt", "Minimum"} & {op for op, form in nodes(after) if form}
    assert ("Rsqrt", True) in nodes(after)
    expected = values(before, source, result)
    # Each root is off by some float32 roundings, of numbers up to the largest input.
    np.testing.assert_allclose(values(after, source, result), expected, rtol=2e-6, atol=2e-6 * float(np.abs(X).max()))


def test_roots_of_the_users_own_stay_as_they_are():
    """sqrt(0) is 0, while 0 * rsqrt(0) is NaN."""

    class Root(L.Layer):
        def call(self, x):
            return keras.ops.minimum(keras.ops.sqrt(keras.ops.relu(x)), 3.0)

    before, after, source, result = graphs(Root(name="root"))
    assert nodes(after) == nodes(before)
    assert values(after, source, result)[0, 0] == 0.0

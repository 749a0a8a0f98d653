"""Every spelling of squareplus, in every kind of model, becomes MUL ADD SQRT ADD, exactly where Keras has it."""

import collections

import keras
import numpy as np
import pytest

import sqp_keras
import sqp_tflite
from models import Subclassed, dense, subclassed, two_in_two_out
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.trace import trace

L = keras.layers
SQUAREPLUS = {"MUL": 1, "ADD": 2, "SQRT": 1}


def ops(model: keras.Model, **options) -> collections.Counter:
    exported = sqp_tflite.export(model, **options)
    return collections.Counter(op.name for _, op in read(exported.model_bytes).all_ops())


def activations(counted: collections.Counter) -> dict[str, int]:
    return {name: counted[name] for name in SQUAREPLUS}


def sequential(*layers, shape=(8, 8, 3)) -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input(shape), *layers])


SPELLINGS = {
    "string": lambda: L.Dense(4, activation="squareplus"),
    "keras function": lambda: L.Dense(4, activation=keras.activations.squareplus),
    "our function": lambda: L.Dense(4, activation=sqp_keras.squareplus),
    "layer as activation": lambda: L.Dense(4, activation=sqp_keras.Squareplus(b=2.0)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_gives_the_same_ops(spelling):
    counted = ops(sequential(SPELLINGS[spelling](), L.Dense(2), shape=(5,)))
    assert counted == {**SQUAREPLUS, "FULLY_CONNECTED": 2}


def test_layer_gives_the_same_ops():
    assert ops(sequential(L.Dense(4), sqp_keras.Squareplus(b=0.5), L.Dense(2), shape=(5,))) == {
        **SQUAREPLUS,
        "FULLY_CONNECTED": 2,
    }


@pytest.mark.parametrize("learn_b", ["layer", "channel"])
def test_a_learnt_b_is_one_constant_in_the_add(learn_b):
    layer = sqp_keras.Squareplus(learn_b=learn_b)
    model = sequential(L.Conv2D(4, 3), layer)
    b = np.float32([0.5, 1.0, 4.0, 9.0]) if learn_b == "channel" else np.float32(2.5)
    layer.set_weights([b])
    content = sqp_tflite.export(model).model_bytes
    graph = read(content)
    assert activations(collections.Counter(op.name for _, op in graph.all_ops())) == SQUAREPLUS
    added = [graph.main.tensors[i] for op in graph.main.ops if op.name == "ADD" for i in op.inputs]
    assert [tensor.constant_bytes for tensor in added if tensor.constant] == [4 * b.size]
    assert np.float32(b / 4).tobytes() in content


FOLDING = {
    "Conv2D": lambda: [L.Conv2D(4, 3)],
    "Conv2D without bias": lambda: [L.Conv2D(4, 3, use_bias=False)],
    "Conv2D, batch norm": lambda: [L.Conv2D(4, 3, use_bias=False), L.BatchNormalization()],
    "DepthwiseConv2D": lambda: [L.DepthwiseConv2D(3)],
    "DepthwiseConv2D, batch norm": lambda: [L.DepthwiseConv2D(3), L.BatchNormalization()],
    "SeparableConv2D": lambda: [L.SeparableConv2D(4, 3)],
    "Conv2DTranspose": lambda: [L.Conv2DTranspose(4, 3)],
    "Conv2DTranspose, batch norm": lambda: [L.Conv2DTranspose(4, 3), L.BatchNormalization()],
    "Dense": lambda: [L.Flatten(), L.Dense(4)],
    "Dense, batch norm": lambda: [L.Flatten(), L.Dense(4), L.BatchNormalization()],
    "Conv1D": lambda: [L.Reshape((64, 3)), L.Conv1D(4, 3)],
}


@pytest.mark.parametrize("name", FOLDING)
def test_the_half_is_folded_into_the_layer_in_front(name):
    assert activations(ops(sequential(*FOLDING[name](), sqp_keras.Squareplus()))) == SQUAREPLUS


@pytest.mark.parametrize("front", [L.MaxPooling2D, L.ReLU])
def test_one_more_mul_where_nothing_takes_the_half(front):
    assert activations(ops(sequential(front(), sqp_keras.Squareplus()))) == {**SQUAREPLUS, "MUL": 2}


def test_second_consumer_keeps_the_layer_in_front_as_it_is():
    x = keras.Input((5,))
    h = L.Dense(4)(x)
    model = keras.Model(x, L.Concatenate()([sqp_keras.squareplus(h), h]))
    assert activations(ops(model)) == {**SQUAREPLUS, "MUL": 2}


def test_b_zero_is_relu():
    exported = sqp_tflite.export(sequential(L.Dense(4), sqp_keras.Squareplus(b=0.0), shape=(5,)))
    (op,) = read(exported.model_bytes).main.ops
    assert (op.name, op.fused) == ("FULLY_CONNECTED", "RELU")


def test_batch_norm_is_folded_and_shapes_are_fixed():
    model = sequential(
        L.Conv2D(4, 3, use_bias=False),
        L.BatchNormalization(),
        L.Activation("squareplus"),
        L.Reshape((-1, 4)),
        L.Flatten(),
        L.Dense(2),
    )
    counted = ops(model)
    assert set(counted) == {"CONV_2D", "MUL", "ADD", "SQRT", "RESHAPE", "FULLY_CONNECTED"}
    assert activations(counted) == SQUAREPLUS


def test_subclassed_model_is_reached():
    # Three activations: our function, the layer's string, Keras's function on a tensor.
    assert activations(ops(subclassed())) in ({"MUL": 4, "ADD": 6, "SQRT": 3},)


def test_nested_and_shared_models_are_reached():
    keras.utils.set_random_seed(0)
    inner = keras.Sequential([keras.Input((4,)), L.Dense(4, activation="squareplus")], name="inner")
    x = keras.Input((4,))
    model = keras.Model(x, L.Dense(1)(inner(inner(x))))
    assert activations(ops(model)) == {"MUL": 2, "ADD": 4, "SQRT": 2}


def test_inputs_and_outputs_keep_keras_order_and_names():
    exported = sqp_tflite.export(two_in_two_out())
    graph = read(exported.model_bytes)
    assert [t.name for t in graph.inputs] == ["z_in", "a_in"]
    assert [t.shape for t in graph.inputs] == [(1, 4), (1, 3)]
    assert [t.name for t in graph.outputs] == ["z_out", "a_out"]
    assert [row.name for row in exported.report.outputs] == ["z_out", "a_out"]


def test_dict_inputs_and_outputs_keep_their_names():
    a, b = keras.Input((2,), name="left"), keras.Input((3,), name="right")
    model = keras.Model({"left": a, "right": b}, {"sum": L.Dense(2)(L.Concatenate()([a, b])), "copy": L.Dense(1)(a)})
    graph = read(sqp_tflite.export(model).model_bytes)
    assert [t.name for t in graph.inputs] == ["left", "right"]
    assert {t.name for t in graph.outputs} == {"sum", "copy"}


def test_an_input_may_be_an_output_too():
    x = keras.Input((3,), name="x")
    graph = read(sqp_tflite.export(keras.Model(x, [x, L.Dense(2, name="y")(x)]), target="litert").model_bytes)
    assert len(graph.outputs) == 2


def test_the_model_is_left_as_it_was():
    model = dense()
    x = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)
    before, config = model.predict(x, verbose=0), model.to_json()
    builtin = keras.src.backend.nn.squareplus
    sqp_tflite.export(model)
    np.testing.assert_array_equal(model.predict(x, verbose=0), before)
    assert model.to_json() == config
    assert keras.src.backend.nn.squareplus is builtin
    assert not any("_open_name_scope" in vars(layer) for layer in model.layers)


def test_the_model_is_put_back_when_tracing_fails():
    class Broken(keras.layers.Layer):
        def call(self, x):
            return x if x.shape[0] != 1 else undefined  # noqa: F821

    model = keras.Sequential([keras.Input((3,)), Broken()])
    with pytest.raises(Exception, match="undefined"):
        trace(plan(load(model)))
    assert "_open_name_scope" not in vars(model.layers[0])
    assert sqp_keras.forms.current() is None


def test_mixed_precision_is_exported_in_float32():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = dense()
    finally:
        keras.config.set_dtype_policy("float32")
    exported = sqp_tflite.export(model)
    assert {op.dtype for _, op in read(exported.model_bytes).all_ops()} == {"float32"}
    assert any("half precision" in note for note in exported.report.notes)
    assert model.layers[0].dtype_policy.name == "mixed_float16"


def test_random_ops_are_refused_by_name():
    class Sampling(keras.layers.Layer):
        def call(self, x):
            return x + keras.random.normal((1, 3))

    with pytest.raises(sqp_tflite.RefusedError, match="random numbers") as caught:
        sqp_tflite.export(keras.Sequential([keras.Input((3,)), Sampling(name="sampling")]))
    assert {finding.layer for finding in caught.value.findings} == {"sampling"}


def test_written_variables_are_refused():
    class Counter(keras.layers.Layer):
        def build(self, shape):
            self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x):
            self.count.assign(self.count + 1.0)
            return x + self.count

    with pytest.raises(sqp_tflite.RefusedError, match="an input and an output"):
        sqp_tflite.export(keras.Sequential([keras.Input((3,)), Counter(name="counter")]))


def test_subclassed_file_needs_no_import(tmp_path):
    model = subclassed()
    model.save(tmp_path / "own.keras")
    assert Subclassed is not None  # registered in this process
    assert sqp_tflite.export(tmp_path / "own.keras").report.verdict == "ok"


def test_findings_of_a_saved_model_bear_the_users_names(tmp_path):
    layers = [L.Dense(3, activation="gelu", name="bend"), L.Dense(2, name="head")]
    keras.Sequential([keras.Input((4,), name="x"), *layers]).export(tmp_path / "saved", verbose=False)
    with pytest.raises(sqp_tflite.RefusedError) as caught:
        sqp_tflite.export(tmp_path / "saved")
    assert [finding.layer for finding in caught.value.findings] == ["bend"]

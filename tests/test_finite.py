"""No number of a file is NaN or an infinity by accident, whether the samples come across it or not."""

import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from sqp_tflite.cli.commands import inspect_main
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.audit import audit
from sqp_tflite.ops.finite import amiss
from sqp_tflite.report import Kind
from sqp_tflite.source import finite
from sqp_tflite.source.load import load
from written import Written, perceptron

L = keras.layers
INF, NAN = float("inf"), float("nan")


class Spare(L.Layer):
    """Has a weight that it never uses."""

    def build(self, shape):
        self.spare = self.add_weight(shape=(2,), name="spare", trainable=False)

    def call(self, x):
        return x * 2.0


class Masked(L.Layer):
    """Adds a constant."""

    def __init__(self, values, **kwargs):
        super().__init__(**kwargs)
        self.values = values

    def call(self, x):
        return keras.ops.maximum(x, keras.ops.convert_to_tensor(np.float32(self.values)))


def model(*layers, shape=(3,), dtype="float32") -> keras.Model:
    return keras.Sequential([keras.Input(shape, dtype=dtype, name="x"), *layers], name="net")


def planted(net, layer, weight, where, value) -> keras.Model:
    """The model with one number of one weight exchanged."""
    (held,) = [one for one in net.get_layer(layer).weights if one.name == weight]
    values = keras.ops.convert_to_numpy(held).copy()
    values[where] = value
    held.assign(values)
    return net


CASES = {
    "a row that no sample asks for": (
        lambda: planted(model(L.Embedding(10, 4, name="e"), shape=(2,), dtype="int32"), "e", "embeddings", 7, NAN),
        "NaN in 4 of 40 values of `e: embeddings`",
    ),
    "a bias that relu hides": (
        lambda: planted(model(L.Dense(2, "relu", name="d")), "d", "bias", 0, -INF),
        "infinity in 1 of 2 values of `d: bias`",
    ),
    "a bias that relu6 hides": (
        lambda: planted(model(L.Dense(2, "relu6", name="d")), "d", "bias", 1, INF),
        "infinity in 1 of 2 values of `d: bias`",
    ),
    "a kernel that a bound hides": (
        lambda: planted(model(L.Dense(2, name="d"), L.ReLU(1.0)), "d", "kernel", (0, 0), INF),
        "infinity in 1 of 6 values of `d: kernel`",
    ),
    "a variance that divides": (
        lambda: planted(model(L.BatchNormalization(name="bn"), L.Dense(2)), "bn", "moving_variance", 2, INF),
        "infinity in 1 of 3 values of `bn: moving_variance`",
    ),
    "a weight that nothing uses": (lambda: planted(model(Spare(name="s")), "s", "spare", 0, NAN), "`s: spare`"),
    "a nested one": (
        lambda: model(planted(model(L.Dense(2, "relu", name="d")), "d", "bias", 0, -INF)),
        "`net/d: bias`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_weight_that_is_not_finite_is_refused_whatever_the_samples_show(case):
    net, says = CASES[case]
    with pytest.raises(BadInputError, match="Every weight of `net` must be finite") as caught:
        load(net())
    assert says in str(caught.value) and "checkpoint" in str(caught.value)


def test_the_remedy_an_earlier_state_of_the_model_exports():
    net = model(L.Dense(2, "relu", name="d"))
    before = net.get_weights()
    planted(net, "d", "bias", 0, -INF)
    for numbers in ("float32", "float16", "dynamic"):
        with pytest.raises(BadInputError, match="must be finite"):
            sqp_tflite.export(net, quantize=numbers, target="litert")
    net.set_weights(before)
    assert sqp_tflite.export(net).report.verdict == "ok"


def test_a_saved_model_is_held_to_it(tmp_path):
    planted(model(L.Dense(2, "relu", name="d")), "d", "bias", 0, -INF).export(tmp_path / "saved", verbose=False)
    with pytest.raises(BadInputError, match="infinity in 1 of 2 values of `.*bias"):
        load(tmp_path / "saved")


def test_weights_that_a_saved_model_holds_as_constants_are(tmp_path):
    held, kernel = tf.Module(), tf.constant([[INF], [1.0]])
    held.serve = tf.function(lambda x: tf.nn.relu6(tf.matmul(tf.abs(x), kernel)), [tf.TensorSpec((1, 2), name="x")])
    tf.saved_model.save(held, str(tmp_path / "saved"), signatures=held.serve)
    with pytest.raises(BadInputError, match="constants of .* must be finite. Received: infinity in 1 of 2"):
        sqp_tflite.export(tmp_path / "saved", data=np.ones((4, 2), "float32"))


def test_an_infinity_that_is_no_weight_has_a_meaning():
    assert sqp_tflite.export(model(Masked([-INF, 0.0, 0.0]))).report.verdict == "ok"
    with pytest.raises(BadInputError, match="NaN in 1 of 3 values of a constant of `hides`"):
        sqp_tflite.export(model(Masked([NAN, 0.0, 0.0], name="hides"), L.ReLU(1.0)))


def test_what_float16_cannot_hold_is_refused_and_float32_solves_it():
    net = planted(model(L.Dense(64, name="d"), L.ReLU(1.0), shape=(64,)), "d", "kernel", (0, 0), 1e6)
    with pytest.raises(RefusedError, match="infinity in 1 of 4,096 values.*float32") as caught:
        sqp_tflite.export(net, quantize="float16", target="litert")
    assert caught.value.findings[0].kind is Kind.WEIGHTS and caught.value.findings[0].layer == "d"
    assert caught.value.report.solution == 'quantize="float32"'
    assert sqp_tflite.export(net, quantize="float32", target="litert").report.verdict == "ok"


def test_a_file_with_nan_is_a_finding_of_an_inspection(tmp_path, capfd):
    path = tmp_path / "nan.tflite"
    path.write_bytes(perceptron(bias=[NAN, 0.0, 0.0, 0.0]))
    for require in ("runs", "both"):
        assert inspect_main([str(path), "--json", "--require", require]) == 1
        found = json.loads(capfd.readouterr().out)
        assert found["findings"][0]["kind"] == "weights" and "NaN in 1 of 4" in found["findings"][0]["rule"]
    path.write_bytes(perceptron())
    assert inspect_main([str(path), "--json"]) == 0


@pytest.mark.parametrize(
    ("value", "op", "bad"), [(-INF, "ADD", False), (NAN, "ADD", True), (INF, "MUL", True), (-INF, "MAXIMUM", False)]
)
def test_infinities_of_a_file_count_among_weights_only(value, op, bad):
    file = Written()
    x = file.value(name="x")
    content = file.ends([x], [file.op(op, x, file.constant([value, 0.0, 0.0, 0.0]), name="y")])
    assert [one.kind for one in audit(read(content), "litert")] == [Kind.WEIGHTS] * bad


def test_a_scale_counts(tmp_path):
    file = Written()
    x = file.value(name="x", scale=NAN)
    content = file.ends([x], [file.op("ABS", x, name="y")])
    assert "of its scale" in audit(read(content), "litert")[-1].rule


def test_what_is_amiss_is_counted():
    assert amiss(np.float32([1, NAN, INF, 0])) == "NaN and infinity in 2 of 4 values"
    assert amiss(np.float32([1, INF]), infinite=False) == amiss(np.float32([1e38, -1e9])) == ""


@pytest.mark.parametrize("own", [tf.Module(), tf.constant(1.0), {"a": 1}, [1, "b"], None, 3])
def test_what_a_saved_model_calls_its_variables_may_be_anything(own):
    held = types.SimpleNamespace(variables=own)
    assert finite.variables_of(held) == ()
    held.variables = [tf.Variable(2.0), "no variable"]
    assert len(finite.variables_of(held)) == 1


def test_a_negative_variance_is_named():
    net = model(L.BatchNormalization(name="bn"), L.Dense(2))
    net.layers[0].moving_variance.assign([1.0, -1.0, -2.0])
    with pytest.raises(BadInputError, match="must be 0 or more. Received: 2 negative values in `bn: moving_variance`"):
        load(net)
    net.layers[0].moving_variance.assign([1.0, 0.0, 2.0])  # The remedy.
    load(net)


def test_numpys_error_handling_of_the_caller_changes_nothing():
    net = model(L.Dense(2))
    with np.errstate(all="raise"):
        with pytest.raises(BadInputError, match="finite|infinity|float32"):
            sqp_tflite.export(net, data={"x": np.full((4, 3), 1e300)})
        sqp_tflite.export(net, data={"x": np.full((4, 3), 1e-300)})

"""The audit lets no forbidden op pass, and lists every finding with its layer."""

import keras
import pytest
import tensorflow as tf

import sqp_tflite
from models import converted, dense
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.audit import audit, op_rows
from sqp_tflite.ops.policy import ADMITTED, TARGETS, broken_rule


@pytest.fixture(scope="module")
def exported() -> bytes:
    return sqp_tflite.export(dense()).model_bytes


@pytest.mark.parametrize("target", TARGETS)
def test_own_file_passes(exported, target):
    assert audit(read(exported), target) == ()


FORBIDDEN = {
    "EXP": tf.exp,
    "LOG": tf.math.log,
    "LOGISTIC": tf.sigmoid,
    "TANH": tf.tanh,
    "SOFTMAX": tf.nn.softmax,
    "ELU": tf.nn.elu,
    "GELU": tf.nn.gelu,
    "SIN": tf.sin,
    "POW": lambda x: tf.pow(x, 3.3),
    "LOG_SOFTMAX": tf.nn.log_softmax,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", FORBIDDEN)
def test_a_smuggled_op_is_found(op, target):
    findings = audit(read(converted(lambda x: FORBIDDEN[op](x * 2.0 + 1.0), (1, 4))), target)
    assert op in {finding.op for finding in findings}
    assert all(finding.rule and finding.remedy for finding in findings)


def test_flex_ops_are_found():
    concrete = tf.function(lambda x: tf.linalg.inv(x)).get_concrete_function(tf.TensorSpec((1, 4, 4)))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    (finding,) = audit(read(converter.convert()), "litert")
    assert "Flex" in finding.rule


def test_ops_without_a_counterpart_are_refused_with_their_layers():
    class Inverse(keras.layers.Layer):
        def call(self, x):
            return tf.math.erfinv(x)

    class Counting(keras.layers.Layer):
        def call(self, x):
            return tf.cast(tf.math.betainc(x, x, 0.5), "float32")

    model = keras.Sequential([keras.Input((4,)), Inverse(name="inverse"), Counting(name="counting")])
    with pytest.raises(sqp_tflite.RefusedError, match="no built-in TFLite operator") as caught:
        sqp_tflite.export(model)
    assert {(f.layer, f.op) for f in caught.value.findings} == {("inverse", "Erfinv"), ("counting", "Betainc")}


def test_ops_inside_a_loop_are_found():
    def loop(x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y)), (0, x))[1]

    found = {finding.op for finding in audit(read(converted(loop, (1, 4))), "tflm")}
    assert {"WHILE", "TANH"} <= found


def test_open_shapes_are_one_finding_per_input():
    (finding,) = audit(read(converted(lambda x: tf.sqrt(x + 1.0) * 2.0, (1, None))), "tflm")
    assert "open dimension: (1, ?)" in finding.rule


def test_all_findings_are_listed_with_their_layers():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(4, activation="softplus", name="first"),
            keras.layers.Dense(4, activation="gelu", name="second"),
            keras.layers.Dense(3, activation="softmax", name="head"),
        ]
    )
    with pytest.raises(sqp_tflite.RefusedError, match="4 reasons") as caught:
        sqp_tflite.export(model)
    assert {(f.layer, f.op) for f in caught.value.findings} == {
        ("first", "EXP"),
        ("first", "LOG"),
        ("second", "GELU"),
        ("head", "SOFTMAX"),
    }
    assert "--head logits" in str(caught.value) and "--replace accurate" in str(caught.value)
    assert caught.value.report.verdict == "refused"


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_that_needs_exp_or_log_is_admitted(target):
    for op in (
        "EXP LOG LOGISTIC TANH SOFTMAX LOG_SOFTMAX ELU GELU POW SIN COS WHILE IF CALL_ONCE VAR_HANDLE CUSTOM:x".split()
    ):
        assert op not in ADMITTED and broken_rule(op, "float32", target)


def test_sqrt_int8_is_refused_on_the_microcontroller_only_where_it_lacks_it():
    assert "float32 only" in broken_rule("SQRT", "int8", "tflm")
    assert broken_rule("SQRT", "float32", "tflm") is None


def test_rows_count_ops_and_name_layers(exported):
    rows = {row.op: row for row in op_rows(read(exported), LayerNames(("hidden", "out"), (("out", "out"),)))}
    assert rows["ADD"].count == 2 and rows["ADD"].layers == ("hidden",)
    assert rows["FULLY_CONNECTED"].layers == ("hidden", "out")

"""The reader sees what is in a file; the audit lets no forbidden op pass."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import sqp_tflite
from models import dense
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.audit import audit, op_rows
from sqp_tflite.ops.policy import ADMITTED, TARGETS, broken_rule


def converted(function, *shapes) -> bytes:
    """A TFLite file of any TensorFlow function, by TensorFlow's converter alone."""
    specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    concrete = tf.function(function).get_concrete_function(*specs)
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()


@pytest.fixture(scope="module")
def exported() -> bytes:
    return sqp_tflite.export(dense()).model_bytes


def test_reads_ops_tensors_and_hash(exported):
    graph = read(exported)
    assert isinstance(graph, Graph) and graph.schema_version == 3 and graph.size_bytes == len(exported)
    assert [op.name for op in graph.main.ops] == ["FULLY_CONNECTED", "MUL", "ADD", "SQRT", "ADD", "FULLY_CONNECTED"]
    assert {op.dtype for op in graph.main.ops} == {"float32"}
    weights = graph.main.tensors[graph.main.ops[0].inputs[1]]
    assert weights.shape == (8, 4) and weights.constant_bytes == 8 * 4 * 4


def test_inspect_takes_a_path(exported, tmp_path):
    (tmp_path / "m.tflite").write_bytes(exported)
    assert sqp_tflite.inspect(tmp_path / "m.tflite") == read(exported)


def test_codes_above_127_and_old_codes_are_read(exported):
    """The code is the larger of two fields: writers fill one, the other or both."""
    model = schema.ModelT.InitFromPackedBuf(exported, 0)
    for code in model.operatorCodes:
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        code.builtinCode, code.deprecatedBuiltinCode = number, 0
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    names = [op.name for op in read(bytes(builder.Output())).main.ops]
    assert names == [op.name for op in read(exported).main.ops]


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.8, 0.95])
def test_a_file_cut_short_is_refused(exported, share):
    with pytest.raises(sqp_tflite.BadInputError, match=r"damaged.*cut short|is not a TFLite file"):
        read(exported[: int(share * len(exported))])


@pytest.mark.parametrize("content", [b"", b"abc", b"PK\x03\x04" + b"x" * 100])
def test_other_files_are_refused(content):
    with pytest.raises(sqp_tflite.BadInputError, match="is not a TFLite file"):
        read(content)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(sqp_tflite.BadInputError, match="cannot be read"):
        read(tmp_path / "none.tflite")
    with pytest.raises(sqp_tflite.BadInputError, match="a folder"):
        read(tmp_path)


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


def test_an_open_batch_runs_as_one():
    graph = read(converted(lambda x: x + 1.0, (None, 4)))
    assert audit(graph, "tflm") == () and graph.inputs[0].shape == (1, 4) and graph.inputs[0].open == (0,)


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


NAMES = LayerNames(("enc", "enc/dense", "dense", "dense_1"), (("y", "dense_1"),))


@pytest.mark.parametrize(
    ("tensor", "layer"),
    [
        ("enc/dense/MatMul", "enc/dense"),
        ("dense_1/sqp.act/Sqrt", "dense_1"),
        ("dense/MatMul;dense/BiasAdd", "dense"),
        ("dense/sqp.act/mul;enc/dense/MatMul1", "enc/dense"),
        ("y", "dense_1"),
        ("scope/of/op", "scope/of"),
    ],
)
def test_tensor_names_lead_to_layers(tensor, layer):
    assert NAMES.of(tensor) == layer


def test_float_islands_of_an_integer_file_are_seen():
    generator = np.random.default_rng(0)
    model = dense(activation="elu")
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([generator.normal(size=(1, 4)).astype("float32")] for _ in range(8))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    (island,) = read(converter.convert()).float_islands()
    assert [op.name for op in island] == ["ELU"]

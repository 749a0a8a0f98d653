"""The audit lets no forbidden op pass, and lists every finding with its layer."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from models import converted, dense
from sqp_tflite.flatbuffer.edit import NewOp
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.audit import audit, op_rows
from sqp_tflite.ops.one_op import Case, build, constant
from sqp_tflite.ops.op_families import FAMILIES
from sqp_tflite.ops.policy import ADMITTED, DELEGATED, TARGETS, broken_rule, versions
from sqp_tflite.report import Kind
from sqp_tflite.run import interpreters
from written import Written


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


def run(target: str, content: bytes) -> None:
    """Runs a file on ones."""
    inputs = tuple(np.ones(tensor.shape, np.float32) for tensor in read(content).inputs)
    interpreters.run(target, content, inputs)


def in_version(op: str, version: int) -> bytes:
    return build(replace(FAMILIES[op].build(op, "float32"), version=version))


@pytest.mark.parametrize("target", ["litert", "tflite-runtime"])
@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "ADD", "MUL", "CONV_2D", "SQRT"])
def test_a_version_that_the_interpreter_lacks_is_found(op, target):
    """The planted fault is an operator one version too new: the real interpreter refuses it, and runs the last one."""
    if not interpreters.installed(target):
        pytest.skip(f"{target} is not installed")
    highest = versions(target)[op]
    assert audit(read(in_version(op, highest)), target) == ()
    run(target, in_version(op, highest))
    (finding,) = audit(read(in_version(op, highest + 1)), target)
    assert f"takes {op} up to version {highest}, the file has {highest + 1}" in finding.rule
    assert "Export the Keras model again with sqp-export" in finding.remedy
    with pytest.raises(interpreters.RuntimeFailedError, match=rf"Didn't find op for builtin opcode '{op}' version"):
        run(target, in_version(op, highest + 1))


def test_the_remedy_names_a_target_that_takes_the_version():
    content = in_version("FULLY_CONNECTED", 13)
    (finding,) = audit(read(content), "tflite-runtime")
    assert "`--target litert`" in finding.remedy
    assert audit(read(content), "litert") == ()
    run("litert", content)


def test_no_target_is_named_that_lacks_the_version_too():
    (finding,) = audit(read(in_version("ADD", 9)), "tflite-runtime")
    assert "litert" not in finding.remedy
    assert audit(read(in_version("ADD", 9)), "litert")


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "ADD"])
def test_tflm_ignores_versions(op):
    assert audit(read(in_version(op, 99)), "tflm") == ()
    run("tflm", in_version(op, 99))


@pytest.fixture(scope="module")
def dynamic() -> bytes:
    return sqp_tflite.export(dense(), quantize="dynamic", target="litert").model_bytes


def test_float_inputs_with_integer_weights_are_refused_where_no_kernel_reads_them(dynamic):
    findings = audit(read(dynamic), "tflm")
    assert {(f.op, f.dtype) for f in findings} == {("FULLY_CONNECTED", "float32 with int8 weights")}
    assert "no FULLY_CONNECTED for float inputs with int8 weights" in findings[0].rule
    assert "`--target litert`" in findings[0].remedy
    with pytest.raises(interpreters.RuntimeFailedError, match=r"Hybrid models are not supported|FULLY_CONNECTED"):
        run("tflm", dynamic)


@pytest.mark.parametrize("target", ["litert", "tflite-runtime"])
def test_a_dynamic_file_passes_where_the_kernels_read_it(dynamic, target):
    assert audit(read(dynamic), target) == ()


def with_integer_weights(op: str) -> Case:
    case = FAMILIES[op].build(op, "float32")
    shape, weights, *rest = case.inputs
    return replace(case, inputs=(shape, constant(weights.shape, "int8", 3, 0.01), *rest))


@pytest.mark.parametrize(("op", "target"), [("CONV_3D", "litert"), ("TRANSPOSE_CONV", "tflite-runtime")])
def test_the_hybrid_table_decides_for_every_target(op, target):
    """Neither interpreter has a kernel for it, and both say so."""
    if not interpreters.installed(target):
        pytest.skip(f"{target} is not installed")
    content = build(with_integer_weights(op))
    (finding,) = audit(read(content), target)
    assert finding.op == op and finding.dtype == "float32 with int8 weights"
    assert f"no {op} for float inputs with int8 weights, only BATCH_MATMUL" in finding.rule
    with pytest.raises(interpreters.RuntimeFailedError):
        run(target, content)


def test_the_hybrid_remedy_names_only_targets_that_read_such_weights():
    (finding,) = audit(read(build(with_integer_weights("TRANSPOSE_CONV"))), "tflite-runtime")
    assert "`--target litert`" in finding.remedy and "tflm" not in finding.remedy
    assert audit(read(build(with_integer_weights("TRANSPOSE_CONV"))), "litert") == ()


def test_more_dimensions_than_tflm_has_are_refused_and_a_reshape_helps():
    L, shape = keras.layers, (1, 2, 1, 2, 1, 2, 2)
    model = keras.Sequential([keras.Input(shape), L.Activation("squareplus", name="many")])
    with pytest.raises(
        sqp_tflite.RefusedError, match="`many`: TensorFlow Lite Micro has tensors of at most 6"
    ) as caught:
        sqp_tflite.export(model)
    assert {finding.kind for finding in caught.value.findings} == {Kind.SHAPE}
    assert "Reshape" in caught.value.findings[0].remedy
    fewer = keras.Sequential([keras.Input(shape), L.Reshape((2, 2, 4)), L.Activation("squareplus"), L.Reshape(shape)])
    assert sqp_tflite.export(fewer).report.verdict == "ok"


@pytest.mark.parametrize("rank", [6, 7])
@pytest.mark.parametrize("op", sorted(DELEGATED))
def test_more_dimensions_than_litert_delegates_are_refused_exactly_where_it_fails(op, rank):
    content = WIDE[op]((1,) + (2,) * (rank - 1))
    findings = audit(read(content), "litert")
    wide = [finding for finding in findings if finding.kind is Kind.SHAPE]
    assert all(f"LiteRT runs {op} on tensors of at most 6 dimensions" in finding.rule for finding in wide)
    try:
        interpreters.run("litert", content, (np.ones((1,) + (2,) * (rank - 1), "float32"),))
    except interpreters.RuntimeFailedError:
        assert wide
    else:
        assert not wide


@pytest.mark.parametrize("target", ["litert", "tflm"])
def test_an_input_with_fewer_dimensions_helps_a_dense_layer(target):
    L, shape = keras.layers, (2, 1, 2, 1, 2, 2)
    model = keras.Sequential([keras.Input(shape), L.Dense(2, name="wide")])
    with pytest.raises(sqp_tflite.RefusedError, match="`wide`: .* at most 6 dim.*so that 5 are left: in .*keras.Input"):
        sqp_tflite.export(model, target=target)
    fewer = keras.Sequential([keras.Input((2, 2, 2, 2)), L.Dense(2)])
    assert sqp_tflite.export(fewer, target=target).report.verdict == "ok"


@pytest.mark.parametrize(("op", "target"), [("ROUND", ""), ("FLOOR_MOD", ""), ("FLOOR", "")])
def test_another_target_is_named_only_where_it_has_the_operator(op, target):
    made = Written()
    x = made.value(name="x")
    given = [x, x] if op == "FLOOR_MOD" else [x]
    (finding,) = audit(read(made.ends([x], [made.op(op, *given)])), "tflm")
    assert "--target" not in finding.remedy and "compute it outside of the model" in finding.remedy


def _wide(function):
    return lambda shape: converted(function, shape)


WIDE = {
    "CONCATENATION": _wide(lambda x: tf.concat([x, x], -1)),
    "FULLY_CONNECTED": _wide(lambda x: tf.tensordot(x, np.ones((2, 3), "float32"), 1)),
    "MEAN": _wide(lambda x: tf.reduce_mean(x, -1)),
    "SOFTMAX": _wide(tf.nn.softmax),
    "SPLIT": _wide(lambda x: tf.split(x, 2, -1)[0]),
    "SUM": _wide(lambda x: tf.reduce_sum(x, [1, 2])),
}


CAST_INTO = "float32 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()


@pytest.mark.parametrize("target", ["tflm", "litert", "tflite-runtime"])
def test_a_cast_is_refused_exactly_where_the_interpreter_has_none(target):
    if not interpreters.installed(target):
        pytest.skip(f"{target} is not installed")
    for dtype in CAST_INTO:
        model = Written()
        x, y = model.value(name="x"), model.value(name="y", dtype=dtype)
        model.editor.add_op(NewOp("CAST", (x,), (y,)))
        content = model.ends([x], [y])
        found = [finding for finding in audit(read(content), target) if "CAST into" in finding.rule]
        try:
            interpreters.run(target, content, (np.ones((1, 1, 4), "float32"),))
            ran = True
        except interpreters.RuntimeFailedError:
            ran = False
        assert ran == (not found), dtype


def test_a_cast_that_tflm_lacks_is_named_with_its_layer_and_the_remedy_helps():
    inputs = keras.Input((4,), name="x")
    last = keras.layers.Dense(3, name="scores")(inputs)
    for dtype in ("float16", "int64"):
        with pytest.raises(sqp_tflite.RefusedError, match=f"no CAST into {dtype}.*Cast into float32 or int32"):
            sqp_tflite.export(keras.Model(inputs, keras.ops.cast(last, dtype)))
    assert sqp_tflite.export(keras.Model(inputs, keras.ops.cast(last, "int32"))).report.verdict == "ok"


@pytest.mark.parametrize(("dtype", "low", "high"), [("int8", -128, 127), ("uint16", 0, 65535), ("uint32", 0, 1e9)])
def test_a_cast_of_numbers_that_the_type_lacks_is_explained_and_a_clip_helps(dtype, low, high):
    """Interpreters agree on numbers that the type has only."""
    x = keras.Input((4,), name="x")
    wide = keras.layers.Dense(2, kernel_initializer="ones", name="d")(x)
    with pytest.raises(sqp_tflite.ParityError, match=f"casts floats into {dtype}.*keras.ops.clip"):
        sqp_tflite.export(keras.Model(x, keras.ops.cast(1e3 * wide, dtype)), target="litert")
    clipped = keras.ops.cast(keras.ops.clip(1e3 * wide, low, high), dtype)
    assert sqp_tflite.export(keras.Model(x, clipped), target="litert").report.verdict == "ok"

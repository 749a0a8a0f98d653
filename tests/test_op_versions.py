"""Operator versions and the oldest runtime are those that TensorFlow's converter writes for the same types."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.op_versions import METADATA, runtime_of, version_of, versioned
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters

L = keras.layers


@pytest.fixture(scope="module")
def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [L.Conv2D(4, 3), L.ReLU(), L.DepthwiseConv2D(3), L.MaxPooling2D(2), L.Flatten(), L.Dense(4), L.Dense(2)]
    return keras.Sequential([keras.Input((8, 8, 3), batch_size=1, name="x"), *layers])


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).normal(size=(40, 8, 8, 3)).astype(np.float32)}


def held(content: bytes) -> tuple[set[tuple[str, str, int]], str]:
    """The operators with type and version, and the oldest runtime."""
    graph = read(content)
    return {(op.name, op.dtype, op.version) for _, op in graph.all_ops()}, graph.metadata[METADATA].rstrip(
        b"\0"
    ).decode()


def stock(model: keras.Model, data: dict[str, np.ndarray]) -> bytes:
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: [[row[None]] for row in data["x"]]
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def test_an_int8_file_has_the_versions_of_the_stock_converter(model, data):
    exported = sqp_tflite.export(model, quantize="int8", data=data)
    assert held(exported.model_bytes) == held(stock(model, data))
    assert {row.status for row in exported.report.agreement} == {"ok"}


VERSIONS = {
    ("int8", "table"): ({"CAST": 3, "GATHER": 2, "FULLY_CONNECTED": 4}, "2.8.0"),
    ("int8", "algebraic"): ({"DEQUANTIZE": 2, "QUANTIZE": 1, "SQRT": 1, "FULLY_CONNECTED": 4}, "1.14.0"),
    ("int8", "integer"): ({"RSQRT": 3, "FULLY_CONNECTED": 4}, "2.15.0"),
    ("int16x8", "integer"): ({"RSQRT": 3, "ADD": 3, "MUL": 4, "FULLY_CONNECTED": 4}, "2.15.0"),
    ("dynamic", "algebraic"): ({"FULLY_CONNECTED": 3, "SQRT": 1}, "1.14.0"),
    ("float16", "algebraic"): ({"DEQUANTIZE": 3, "FULLY_CONNECTED": 1}, "1.15.0"),
}


@pytest.mark.parametrize("form", VERSIONS)
def test_every_form_says_what_it_needs_and_every_interpreter_takes_it(form, data):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,), name="x"), L.Dense(4, activation="squareplus"), L.Dense(2)])
    few = {"x": data["x"][:, 0, 0]}
    exported = sqp_tflite.export(model, quantize=form[0], lowering=form[1], data=few, target="litert")
    ops, runtime = held(exported.model_bytes)
    expected, oldest = VERSIONS[form]
    assert {name: max(version for op, _, version in ops if op == name) for name in expected} == expected
    assert runtime == oldest
    ran = {row.runtime for row in exported.report.agreement if row.status == "ok"}
    # tflite-runtime has no int16 RSQRT, TFLM neither half precision nor float inputs with int8 weights.
    lacking = {"tflite-runtime"} if "integer" in form else {"tflm"} if form[0] in ("float16", "dynamic") else set()
    assert ran >= {name for name in ("tflm", "litert", "tflite-runtime") if interpreters.installed(name)} - lacking


def test_operators_of_two_types_have_two_versions_and_twice_changes_nothing(model, data):
    content = sqp_tflite.export(model, quantize="int8", data=data).model_bytes
    editor = Editor(content)
    editor.set_versions([[1] * len(graph.ops) for graph in editor.graphs()])
    # The planted fault: versions of a float file.
    assert runtime_of(editor.graphs()) == "1.5.0"
    versioned(editor)
    assert held(editor.bytes()) == held(content)
    again = Editor(editor.bytes())
    versioned(again)
    assert again.bytes() == editor.bytes()


def test_every_operator_has_the_options_that_the_schema_has_for_it(model, data):
    content = sqp_tflite.export(model, quantize="int8", data=data).model_bytes
    held = schema.unpack(content)
    without = [
        schema.names("BuiltinOperator")[schema.op_number(held.operatorCodes[op.opcodeIndex])]
        for op in held.subgraphs[0].operators
        if op.builtinOptions is None and schema.options_table(schema.op_number(held.operatorCodes[op.opcodeIndex]))
    ]
    assert without == []
    (reshape,) = (op for op in read(content).main.ops if op.name == "RESHAPE")
    assert reshape.options["newShape"] == read(content).main.tensors[reshape.outputs[0]].shape


def test_a_dense_layer_of_two_inputs_says_so_in_its_version():
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, use_bias=False)])
    x = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
    graph = read(sqp_tflite.export(net, quantize="int8", data=x).model_bytes).main
    (op,) = graph.ops
    assert version_of(graph, dataclasses.replace(op, inputs=op.inputs[:2], version=1)) == 6
    assert version_of(graph, dataclasses.replace(op, inputs=(*op.inputs[:2], -1), version=1)) == 4


def test_tensorflows_analyzer_reads_a_file(model, data, capfd):
    content = sqp_tflite.export(model, quantize="int8", lowering="table", data=data).model_bytes
    tf.lite.experimental.Analyzer.analyze(model_content=content)
    assert "DEPTHWISE_CONV_2D(" in capfd.readouterr().out

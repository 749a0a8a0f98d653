"""The model of a file: constants without copies, options by name, lookups, and what a file computes with."""

import numpy as np
import pytest

from sqp_tflite.errors import BadInputError
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Graph, Quantization, Tensor, numbers, stored_weights
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.quantize.recipe import Request, quantize_here
from written import RANGES, Written, perceptron, weight_only


def made(quantize, lowering="algebraic", *, float_io=False) -> Graph:
    """The perceptron, as the real quantiser writes it."""
    request = Request(Combination(quantize, lowering, "litert"), float_io=float_io)
    return read(quantize_here(perceptron(), request, RANGES).content)


@pytest.mark.parametrize("quantize", ["float16", "dynamic"])
def test_files_with_small_weights_are_float_files_by_name(quantize):
    graph = made(quantize)
    assert (numbers(graph), graph.integer, graph.float_islands()) == (quantize, False, ())


def test_a_plain_file_computes_with_float32():
    graph = read(perceptron())
    assert (numbers(graph), graph.integer, graph.float_islands()) == ("float32", False, ())


@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
@pytest.mark.parametrize("lowering", ["algebraic", "integer"])
@pytest.mark.parametrize("float_io", [False, True])
def test_integer_files_are_known_by_what_they_compute(quantize, lowering, float_io):
    graph = made(quantize, lowering, float_io=float_io)
    assert {tensor.dtype == "float32" for tensor in graph.inputs + graph.outputs} == {float_io}
    assert (numbers(graph), graph.integer) == (quantize, True)


def test_the_islands_of_an_integer_file_are_its_float_operators():
    (island,) = made("int8").float_islands()
    assert [op.name for op in island] == ["MUL", "ADD", "SQRT", "ADD"]
    assert made("int8", "integer").integer


def test_weights_that_are_only_stored_as_integers_make_no_integer_file():
    graph = read(weight_only())
    assert {op.name for op in graph.main.ops if op.dtype == "int8"} == {"DEQUANTIZE"}
    assert (numbers(graph), graph.integer, graph.float_islands()) == ("float32", False, ())
    assert stored_weights(graph) == "int8"
    assert stored_weights(made("int8")) == stored_weights(read(perceptron())) == ""


def test_a_table_of_embeddings_alone_makes_no_integer_file():
    model = Written()
    ids = model.value(1, dtype="int32")
    table = model.constant(np.zeros((8, 4)), dtype="int8")
    model.editor.set_scale(table, 0.5)
    row = model.value(1, 4, scale=0.5)
    model.editor.add_op(NewOp("GATHER", (table, ids), (row,), "GatherOptions"))
    graph = read(model.ends([ids], [model.op("SQRT", model.op("DEQUANTIZE", row))]))
    assert numbers(graph) == "float32"


def test_an_activation_between_quantised_ends_is_an_integer_file():
    """All its arithmetic is a float island."""
    model = Written()
    x, y = model.value(name="x", scale=0.5), model.value(name="y", scale=0.5)
    root = model.op("SQRT", model.op("DEQUANTIZE", x))
    model.editor.add_op(NewOp("QUANTIZE", (root,), (y,), "QuantizeOptions"))
    graph = read(model.ends([x], [y]))
    assert numbers(graph) == "int8"
    assert [[op.name for op in island] for island in graph.float_islands()] == [["SQRT"]]


def test_pixels_without_a_scale_make_no_integer_file():
    model = Written()
    x = model.value(dtype="uint8")
    assert numbers(read(model.ends([x], [model.op("CAST", x, table="CastOptions")]))) == "float32"


def test_constants_are_read_only_views_of_the_file():
    content = perceptron()
    graph = read(content)
    kernel = graph.main.by_name()["kernel"]
    assert kernel.values.dtype == np.float32 and kernel.values.shape == (4, 4)
    assert np.shares_memory(kernel.values, np.frombuffer(content, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        kernel.values[0, 0] = 1
    assert graph.inputs[0].values is None and not graph.inputs[0].constant


@pytest.mark.parametrize(
    ("dtype", "data", "expected"),
    [("int4", [0x8F, 0x07], [-1, -8, 7]), ("uint4", [0x8F, 0x07], [15, 8, 7]), ("int2", [0b00_01_10_11], [-1, -2, 1])],
)
def test_packed_constants_are_unpacked(dtype, data, expected):
    values = Tensor(0, "w", (3,), dtype, data=memoryview(bytes(data))).values
    assert values.tolist() == expected and values.dtype == (np.uint8 if dtype == "uint4" else np.int8)


@pytest.mark.parametrize("dtype", ["string", "bfloat16", "resource"])
def test_types_that_numpy_lacks_have_no_values(dtype):
    assert Tensor(0, "w", (1,), dtype, data=memoryview(b"\0\0")).values is None


def test_sparse_constants_have_no_values():
    assert Tensor(0, "w", (1,), "int8", data=memoryview(b"\0"), sparse=True).values is None


def test_a_constant_shorter_than_its_shape_is_refused():
    with pytest.raises(BadInputError, match=r"`w` must hold the elements.*7 bytes for float32 \(2,\)"):
        _ = Tensor(0, "w", (2,), "float32", data=memoryview(b"1234567")).values


def test_options_have_the_names_of_the_schema():
    model = Written()
    x = model.value(1, 4, 4, 2)
    kernel = model.constant(np.zeros((2, 1, 1, 2)))
    fields = {"padding": "VALID", "strideW": 2, "strideH": 1, "fusedActivationFunction": "RELU6"}
    y = model.op("CONV_2D", x, kernel, -1, shape=(1, 4, 2, 2), table="Conv2DOptions", **fields)
    (op,) = read(model.ends([x], [y])).main.ops
    assert {name: op.options[name] for name in fields} == fields
    assert op.fused == "RELU6"
    with pytest.raises(TypeError, match="does not support item assignment"):
        op.options["padding"] = "SAME"


def test_makers_readers_and_names_are_found():
    main = read(perceptron()).main
    names = main.by_name()
    assert main.makers()[names["hidden/sqp.act/Sqrt"].index].name == "SQRT"
    assert [op.name for op in main.readers()[names["hidden"].index]] == ["MUL", "ADD"]
    assert names["x"].index not in main.makers() and names["y"].index not in main.readers()
    assert -1 not in main.readers()


def test_equal_files_are_equal_graphs_and_hash_alike():
    one, other = read(perceptron()), read(bytes(bytearray(perceptron())))
    assert one == other and hash(one) == hash(other)
    assert one != read(perceptron(bias=np.zeros(4)))


def test_metadata_and_signatures_are_read():
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(2, name="y")])
    graph = read(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    (signature,) = graph.signatures
    assert signature.key == "serving_default" and signature.subgraph == 0
    assert set(signature.inputs.values()) == set(graph.main.inputs)
    assert set(signature.outputs.values()) == set(graph.main.outputs)
    assert graph.metadata["min_runtime_version"].startswith(b"1.")


def test_quantisation_is_read_per_channel():
    kernel = made("int8").main.by_name()["kernel"]
    assert len(kernel.quantization.scales) == len(kernel.quantization.zero_points) == 4
    assert kernel.values.dtype == np.int8
    assert isinstance(kernel.quantization, Quantization) and kernel.quantization.axis == 0


def test_an_editor_reads_the_file_as_it_was_opened():
    editor = Editor(perceptron())
    editor.rename(editor.graph.main.inputs[0], "other")
    assert editor.graph == read(perceptron())
    assert editor.main().tensors[editor.graph.main.inputs[0]].name == "other"

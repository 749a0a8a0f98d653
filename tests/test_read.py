"""The reader sees what is in a file, and refuses what is not one."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import sqp_tflite
from models import converted, dense
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.schema import names, pack, unpack
from sqp_tflite.ops.audit import audit
from written import perceptron


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


@pytest.mark.parametrize(
    ("field", "value"),
    [("inputs", 99), ("inputs", -2), ("outputs", 99), ("outputs", -1), ("intermediates", 99)],
)
def test_a_reference_to_a_tensor_that_is_not_there_is_damage(field, value):
    model = unpack(perceptron())
    setattr(model.subgraphs[0].operators[0], field, [value])
    with pytest.raises(sqp_tflite.BadInputError, match="damaged"):
        read(pack(model))


@pytest.mark.parametrize(("tensor", "graph"), [(127, 0), (2**32 - 1, 0), (0, 7)])
def test_a_signature_of_what_is_not_there_is_damage(tensor, graph):
    model = unpack(perceptron())
    ends = [schema.TensorMapT(name=b"x", tensorIndex=tensor)]
    model.signatureDefs = [schema.SignatureDefT(signatureKey=b"serve", inputs=ends, outputs=[], subgraphIndex=graph)]
    with pytest.raises(sqp_tflite.BadInputError, match="damaged"):
        read(pack(model))


@pytest.mark.parametrize(("field", "value"), [("inputs", -1), ("outputs", 99)])
def test_an_end_that_is_not_there_is_damage(field, value):
    model = unpack(perceptron())
    setattr(model.subgraphs[0], field, [value])
    with pytest.raises(sqp_tflite.BadInputError, match="damaged"):
        read(pack(model))


@pytest.mark.parametrize("content", [b"", b"abc", b"PK\x03\x04" + b"x" * 100])
def test_other_files_are_refused(content):
    with pytest.raises(sqp_tflite.BadInputError, match="is not a TFLite file"):
        read(content)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(sqp_tflite.BadInputError, match="does not exist. Pass a .tflite file"):
        read(tmp_path / "none.tflite")
    with pytest.raises(sqp_tflite.BadInputError, match="a folder"):
        read(tmp_path)


def test_an_open_batch_runs_as_one():
    graph = read(converted(lambda x: x + 1.0, (None, 4)))
    assert audit(graph, "tflm") == () and graph.inputs[0].shape == (1, 4) and graph.inputs[0].open == (0,)


def test_float_islands_of_an_integer_file_are_seen():
    generator = np.random.default_rng(0)
    model = dense(activation="elu")
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([generator.normal(size=(1, 4)).astype("float32")] for _ in range(8))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    (island,) = read(converter.convert()).float_islands()
    assert [op.name for op in island] == ["ELU"]


@pytest.mark.parametrize("size", [1, 5, 15, 17, 64])
def test_a_constant_of_another_size_than_its_shape_says_is_damage(size):
    """Interpreters would read past its end."""
    model = unpack(perceptron())
    graph = model.subgraphs[0]
    (bias,) = [tensor for tensor in graph.tensors if tensor.name == b"bias"]
    model.buffers[bias.buffer].data = np.zeros(size, np.uint8)
    with pytest.raises(
        sqp_tflite.BadInputError, match=rf"damaged.*`bias`, float32 \(4,\), which takes 16.* with {size}"
    ):
        read(pack(model))


@pytest.mark.parametrize(
    ("dtype", "shape", "declared"),
    [
        ("int4", (3,), 2), ("int4", (2, 2), 2), ("uint4", (5,), 3), ("int2", (5,), 2), ("bool", (3,), 3),
        ("bfloat16", (3,), 6), ("float8_e5m2", (3,), 3), ("complex64", (2,), 16), ("float32", (), 4),
        ("float32", (0, 3), 0), ("string", (3,), None), ("resource", (), None),
    ],
)  # fmt: skip
def test_sizes_that_shapes_declare(dtype, shape, declared):
    assert Tensor(0, "c", shape, dtype).declared_bytes == declared
    assert Tensor(0, "c", shape, dtype, sparse=True).declared_bytes is None


def test_every_type_of_the_schema_has_a_size_or_none():
    sized = {name for name in names("TensorType").values() if Tensor(0, "", (), name.lower()).declared_bytes}
    assert set(names("TensorType").values()) - sized == {"STRING", "RESOURCE", "VARIANT"}


def test_a_shape_of_less_than_nothing_is_damaged():
    model = unpack(perceptron())
    model.subgraphs[0].tensors[0].shape = [1, -4]
    with pytest.raises(sqp_tflite.BadInputError, match=r"sizes of 0 or more. Received: `x` with \(1, -4\)"):
        read(pack(model))

"""Finished files of any origin in one form: fixed batch, constant shapes, dense float32 weights, nothing dead."""

import numpy as np
import pytest

from sqp_tflite.flatbuffer.cleaned import fold_shapes, fold_weights, shapes_of
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.sparse import dense
from sqp_tflite.run.interpreters import run_here
from written import Written

X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


def dense_layer(kernel_of, version=1):
    """x times a kernel that `kernel_of(model)` adds."""
    model = Written()
    x = model.value(name="x")
    y = model.value(name="y")
    inputs = (x, kernel_of(model), model.constant(np.arange(4), "bias"))
    model.editor.add_op(NewOp("FULLY_CONNECTED", inputs, (y,), "FullyConnectedOptions", version=version))
    return model.ends([x], [y])


KERNEL = np.linspace(-1, 1, 16).reshape(4, 4).astype(np.float16)


def half(model):
    stored = model.editor.add_constant("kernel", KERNEL)
    return model.op("DEQUANTIZE", stored, shape=(4, 4))


def codes(model):
    stored = model.editor.add_constant("kernel", np.arange(16, dtype=np.int8).reshape(4, 4))
    model.editor.set_scale(stored, 0.25)
    return stored


@pytest.mark.parametrize(
    ("kernel_of", "values"),
    [(half, KERNEL.astype(np.float32)), (codes, np.arange(16).reshape(4, 4) * np.float32(0.25))],
)
def test_narrow_weights_become_float32_of_the_same_value(kernel_of, values):
    content = dense_layer(kernel_of, version=9)
    editor = Editor(content)
    assert fold_weights(editor) == (0, 1)
    (op,) = read(editor.bytes()).main.ops
    held = read(editor.bytes()).main.tensors[op.inputs[1]]
    assert (op.name, op.version, held.dtype, held.quantization) == ("FULLY_CONNECTED", 1, "float32", None)
    assert np.array_equal(held.values, values)
    made = run_here("litert", editor.bytes(), (X,)).values[0]
    assert np.allclose(made, X @ values.T + np.arange(4), atol=1e-5)


def test_plain_weights_stay():
    content = dense_layer(lambda model: model.constant(KERNEL, "kernel"))
    editor = Editor(content)
    assert fold_weights(editor) == (0, 0)
    assert editor.bytes() == content


def reshaped():
    """A reshape whose target is computed from the shape of the input, as converters write it for an open batch."""
    model = Written()
    x = model.value(1, 2, 2, name="x")
    shape, first = model.value(3, dtype="int32", name="shape"), model.value(dtype="int32", name="first")
    target = model.value(2, dtype="int32", name="target")
    model.editor.add_op(NewOp("SHAPE", (x,), (shape,), "ShapeOptions", {"outType": "INT32"}))
    ends = [model.constant([one], dtype="int32") for one in (0, 1, 1)]
    options = {"shrinkAxisMask": 1}
    model.editor.add_op(NewOp("STRIDED_SLICE", (shape, *ends), (first,), "StridedSliceOptions", options))
    inputs = (first, model.constant(4, dtype="int32"))
    model.editor.add_op(NewOp("PACK", inputs, (target,), "PackOptions", {"valuesCount": 2}))
    y = model.op("RESHAPE", x, target, shape=(1, 4), name="y", table="ReshapeOptions")
    return model.ends([x], [y])


def test_shapes_become_constants():
    content = reshaped()
    assert shapes_of(read(content).main) == ("target",)
    editor = Editor(content)
    fold_shapes(editor, {"target": np.array([1, 4])})
    (op,) = read(editor.bytes()).main.ops
    assert op.name == "RESHAPE"
    assert np.array_equal(read(editor.bytes()).main.tensors[op.inputs[1]].values, [1, 4])
    x = X.reshape(5, 2, 2)[:, :, :] if X.size == 20 else X
    assert np.array_equal(run_here("litert", editor.bytes(), (x,)).values[0], X)


def test_what_nothing_depends_on_is_dropped():
    model = Written()
    x = model.value(name="x")
    y = model.op("NEG", x, name="y")
    model.op("EXP", x, name="dead")
    editor = Editor(model.ends([x], [y]))
    editor.drop_unused()
    graph = read(editor.bytes())
    assert [op.name for op in graph.main.ops] == ["NEG"]
    assert "dead" not in {tensor.name for tensor in graph.main.tensors}


class Level:
    """One dimension of the schema's DimensionMetadata."""

    def __init__(self, size=0, segments=None, indices=None):
        self.format, self.denseSize = (0, size) if segments is None else (1, 0)
        self.arraySegments, self.arrayIndices = (
            (None, None) if segments is None else (Values(segments), Values(indices))
        )


class Values:
    def __init__(self, values):
        self.values = values


class Sparsity:
    def __init__(self, order, levels, blocks=()):
        self.traversalOrder, self.dimMetadata, self.blockMap = order, levels, blocks


class Shaped:
    dtype = "float32"

    def __init__(self, *shape):
        self.shape = shape


def data(*values):
    return np.frombuffer(np.array(values, np.float32).tobytes(), np.uint8)


def test_compressed_rows_become_dense():
    """The example of the schema's own comment: rows dense, columns compressed."""
    levels = [Level(3), Level(segments=[0, 2, 2, 3], indices=[0, 3, 1])]
    made = dense(Sparsity([0, 1], levels), data(1, 2, 3), Shaped(3, 4))
    assert np.array_equal(made, [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]])


def test_blocks_become_dense():
    """A 4x4 matrix of 2x2 blocks, the upper right and the lower left one held."""
    levels = [Level(2), Level(segments=[0, 1, 2], indices=[1, 0]), Level(2), Level(2)]
    made = dense(Sparsity([0, 1, 2, 3], levels, [0, 1]), data(1, 2, 3, 4, 5, 6, 7, 8), Shaped(4, 4))
    assert np.array_equal(made, [[0, 0, 1, 2], [0, 0, 3, 4], [5, 6, 0, 0], [7, 8, 0, 0]])


def test_columns_may_be_traversed_first():
    levels = [Level(3), Level(segments=[0, 1, 1, 2], indices=[1, 0])]
    made = dense(Sparsity([1, 0], levels), data(5, 6), Shaped(2, 3))
    assert np.array_equal(made, [[0, 0, 6], [5, 0, 0]])


@pytest.mark.parametrize(
    "levels",
    [
        [Level(3), Level(segments=[0, 2, 2, 9], indices=[0, 3, 1])],
        [Level(3), Level(segments=[0, 2, 2, 3], indices=[0, 99, 1])],
        [Level(3), Level(segments=[0, 2], indices=[0, 3, 1])],
        [Level(3)],
    ],
)
def test_places_outside_of_the_tensor_give_none(levels):
    assert dense(Sparsity([0, 1], levels), data(1, 2, 3), Shaped(3, 4)) is None

"""Operations that a device lacks, or that the converter gets wrong, become others that give the same numbers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as L

import sqp_tflite
from sqp_tflite.source import rewrites
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.rewrites import ALWAYS, INTEGERS, MICRO, WIDE, rewritten
from sqp_tflite.source.trace import trace


class FromTheEnd(keras.layers.Layer):
    def call(self, x):
        return tf.cumsum(x, 1, exclusive=True, reverse=True)


class Before(keras.layers.Layer):
    def call(self, x):
        return tf.cumsum(x, 1, exclusive=True)


class Moved(keras.layers.Layer):
    def __init__(self, move):
        super().__init__()
        self.call = move


def patches(x):
    return tf.image.extract_patches(x, [1, 2, 3, 1], [1, 2, 3, 1], [1, 1, 1, 1], "VALID")


def gated(layer, **named):
    return lambda x: L.Multiply()([layer(4, 3, activation="relu", **named)(x), layer(4, 3, **named)(x)])


def depthwise(x, **named):
    return L.Add()([L.DepthwiseConv2D(3, padding="same", **named)(x), L.DepthwiseConv2D(3, padding="same", **named)(x)])


DILATED = {
    "two causal in one dimension": ((16, 4), gated(L.Conv1D, dilation_rate=2, padding="causal")),
    "two in one dimension": ((17, 4), gated(L.Conv1D, dilation_rate=3, padding="same")),
    "two without padding": ((17, 4), gated(L.Conv1D, dilation_rate=3)),
    "two images": ((12, 11, 3), gated(L.Conv2D, dilation_rate=2, padding="same")),
    "rows only": ((12, 11, 3), gated(L.Conv2D, dilation_rate=(2, 1), padding="same")),
    "columns only": ((12, 11, 3), gated(L.Conv2D, dilation_rate=(1, 2))),
    "two rates": ((12, 11, 3), gated(L.Conv2D, dilation_rate=(2, 3), padding="same")),
    "depthwise": ((12, 11, 3), lambda x: depthwise(x, dilation_rate=2)),
    "depthwise with multiplier": ((9, 9, 3), lambda x: depthwise(x, dilation_rate=2, depth_multiplier=2)),
    "separable": ((16, 4), lambda x: L.SeparableConv1D(4, 3, dilation_rate=2, padding="same")(x)),
}
KINDS = {
    **{name: (*case, "SpaceToBatchND") for name, case in DILATED.items()},
    "a residual of one channel": ((8, 1), lambda x: L.Add()([L.Dense(1)(x), x]), "BiasAdd of channels first"),
    "the same in other order": ((8, 1), lambda x: L.Add()([x, L.Conv1D(1, 1)(x)]), "BiasAdd of channels first"),
    "up-sampled sequence": ((5, 3), lambda x: L.UpSampling1D(3)(x), "Tile"),
    "up-sampled image": ((4, 5, 3), lambda x: L.UpSampling2D((2, 3))(x), "Tile"),
    "up-sampled volume": ((2, 3, 4, 2), lambda x: L.UpSampling3D(2)(x), "Tile"),
    "many copies": ((4,), lambda x: L.RepeatVector(40)(x), "Tile"),
    "a tile": ((3, 2), lambda x: keras.ops.tile(x, (1, 2, 3)), "Tile"),
    "unequal parts": (
        (8, 6),
        lambda x: L.Concatenate()([2 * y for y in keras.ops.split(x, [1, 3], axis=-1)]),
        "SplitV",
    ),
    "unequal steps": ((8, 6), lambda x: L.Concatenate(1)([2 * y for y in keras.ops.split(x, [5], axis=1)]), "SplitV"),
    "a vector of unit length": ((6,), L.UnitNormalization(), ""),
    "a one-hot": ((6,), lambda x: x[..., None] + keras.ops.one_hot(keras.ops.cast(x, "int32"), 3), "OneHot"),
    "a one-hot of other numbers": (
        (6,),
        lambda x: Moved(lambda y: tf.one_hot(tf.cast(y, "int64"), 3, 2.0, -1.0))(x),
        "OneHot",
    ),
    "how often": ((6,), lambda x: L.CategoryEncoding(4, output_mode="count")(keras.ops.abs(x)), "DenseBincount"),
    "whether": ((6,), lambda x: L.CategoryEncoding(4, output_mode="multi_hot")(keras.ops.abs(x)), "DenseBincount"),
    "the place of the largest": ((6,), lambda x: keras.ops.cast(keras.ops.argmax(x, -1), "float32"), "BitwiseAnd"),
    "the place of the least": ((6, 3), lambda x: keras.ops.cast(keras.ops.argmin(x, 1), "float32"), "BitwiseAnd"),
    "steps of images": ((4, 5, 6, 2), lambda x: L.TimeDistributed(L.MaxPooling2D())(x), "wide StridedSlice"),
    "from the last step": ((5, 2, 3, 2), lambda x: x[:, ::-2], "wide StridedSlice"),
    "inner channels": ((2, 3, 2, 5), lambda x: x[..., 1:4], "wide StridedSlice"),
    "patches": ((5, 6, 2), Moved(patches), "ExtractImagePatches"),
}
INTEGER = {
    "min of a sequence": ((6, 3), lambda x: keras.ops.min(x, axis=1), "Min"),
    "max of images": ((6, 5, 3), L.GlobalMaxPooling2D(), "Max"),
    "max of a sequence": ((6, 3), L.GlobalMaxPooling1D(), "Max"),
    "max over channels": ((6, 5), lambda x: x - keras.ops.max(x, axis=-1, keepdims=True), "Max"),
    "a quotient": ((6, 4), lambda x: L.Dense(4)(x) / (1.0 + keras.ops.square(L.Dense(4)(x))), ""),
    "a quotient of a vector": (
        (6, 4),
        lambda x: keras.ops.divide(np.float32([1, 2, 3, 4]), 1.0 + keras.ops.square(x)),
        "",
    ),
    "a running sum of a sequence": ((6, 3), lambda x: keras.ops.cumsum(x, axis=1), "Cumsum"),
    "a running sum of channels": ((6, 3), lambda x: keras.ops.cumsum(L.Dense(5)(x), axis=-1), "Cumsum"),
    "a sum from the end": ((6, 3), FromTheEnd(), "Cumsum"),
    "a running sum of many steps": ((530, 2), lambda x: keras.ops.cumsum(x, axis=1), "Cumsum"),
    "many steps, in whole blocks": ((24 * 24, 2), Before(), "Cumsum"),
    "many steps from the end": ((530, 2), FromTheEnd(), "Cumsum"),
    "turned in time": ((6, 3), lambda x: keras.ops.flip(x, axis=1), "ReverseV2"),
    "turned both ways": ((6, 5, 3), lambda x: keras.ops.flip(x, axis=(1, -1)), "ReverseV2"),
    "pixels of channels": ((4, 3, 8), Moved(lambda x: tf.nn.depth_to_space(x, 2)), "DepthToSpace"),
    "channels of pixels": ((4, 6, 3), Moved(lambda x: tf.nn.space_to_depth(x, 2)), "SpaceToDepth"),
    "a slope for each position": ((4, 4, 3), lambda x: L.PReLU("uniform")(L.Conv2D(3, 1)(x)), "Relu of Neg"),
}


MORE = {
    "rows in int64": ((6, 4), lambda x: keras.ops.take(x, np.array([0, 2, -1]), axis=1), ""),
    "a layer norm of int16": ((6, 4), L.LayerNormalization(), "SquaredDifference"),
    "a variance of int16": ((6, 4), lambda x: keras.ops.var(x, axis=1), "Square"),
    "a selection": ((6, 4), lambda x: keras.ops.where(x > 0, x, 0.1 * x), ""),
}
RULES = {
    **dict.fromkeys(INTEGER, (ALWAYS, INTEGERS)),
    "a layer norm of int16": (ALWAYS, WIDE),
    "a variance of int16": (ALWAYS, WIDE),
    "a selection": (ALWAYS, MICRO),
}


def model_of(shape, make):
    keras.utils.set_random_seed(3)
    inputs = keras.Input(shape, name="x")
    return keras.Model(inputs, make(inputs))


def run(graph_def, traced, x):
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph_def), name="")
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run([f"{name}:0" for name in traced.outputs], {f"{traced.inputs[0].name}:0": x[None]})


def held(graph_def, output):
    """Returns what is needed for the output, a few kinds by what is special about them."""
    nodes = {node.name: node for node in tf.compat.v1.GraphDef.FromString(graph_def).node}
    waiting, seen = [output], set()
    while waiting:
        name = waiting.pop().partition(":")[0]
        if name not in seen:
            seen.add(name)
            waiting += [given for given in nodes[name].input if not given.startswith("^")]
    kinds = {nodes[name].op for name in seen}
    if any(nodes[name].op == "BiasAdd" and nodes[name].attr["data_format"].s == b"NCHW" for name in seen):
        kinds.add("BiasAdd of channels first")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph_def), name="")
    sliced = [graph.get_operation_by_name(name).inputs[0] for name in seen if nodes[name].op == "StridedSlice"]
    if any(tensor.shape.rank > 4 for tensor in sliced):
        kinds.add("wide StridedSlice")
    if any(nodes[name].op == "Relu" and nodes[nodes[name].input[0]].op == "Neg" for name in seen):
        kinds.add("Relu of Neg")
    return kinds


@pytest.mark.parametrize("name", [*KINDS, *INTEGER, *MORE])
def test_the_rewritten_graph_gives_the_same_numbers(name):
    shape, make, gone = {**KINDS, **INTEGER, **MORE}[name]
    traced = trace(plan(load(model_of(shape, make))))
    (output,) = traced.outputs
    before, after = traced.graph_def, rewritten(traced.graph_def, *RULES.get(name, (ALWAYS,)))
    assert not gone or gone in held(before, output)
    assert gone not in held(after, output)
    # TensorFlow's own dilated depthwise convolution needs a GPU.
    if "depthwise" in name or name == "separable":
        return
    for seed, scale in ((0, 1.0), (1, 100.0), (2, 0.0)):
        x = np.float32(np.random.default_rng(seed).normal(0, scale, shape))
        (wanted,), (got,) = run(before, traced, x), run(after, traced, x)
        assert got.shape == wanted.shape
        # Convolutions add in another order on another machine: what is lost is a share of the largest sums.
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_what_needs_no_rule_stays_as_it_is():
    model = model_of((8, 8, 3), lambda x: L.Dense(2)(L.Flatten()(L.MaxPooling2D()(L.Conv2D(2, 3, padding="same")(x)))))
    traced = trace(plan(load(model)))
    assert rewritten(traced.graph_def, ALWAYS, INTEGERS, WIDE, MICRO) == traced.graph_def


def test_the_source_of_a_repeated_element_is_exact_in_float32():
    for times in range(2, rewrites.MOST_REPEATS + 1):
        size = rewrites.MOST_ELEMENTS // times
        places = np.arange(size * times)
        scale = np.float32(size) / np.float32(size * times)
        assert (np.floor(places.astype(np.float32) * scale).astype(int) == places // times).all(), times


@pytest.mark.parametrize("name", ["two causal in one dimension", "up-sampled image", "unequal parts", "max of images"])
@pytest.mark.parametrize("quantize", ["float32", "int8", "int16x8"])
def test_such_models_agree_on_every_interpreter(name, quantize):
    shape, make, gone = {**KINDS, **INTEGER}[name]
    data = np.float32(np.random.default_rng(0).normal(size=(32, *shape)))
    exported = sqp_tflite.export(model_of(shape, make), quantize=quantize, data=data)
    assert exported.report.verdict == "ok"
    ops = {row.op for row in exported.report.ops}
    assert not ops & {"TILE", "SPLIT_V", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"}
    assert ("REDUCE_MAX" in ops) == (gone == "Max" and quantize == "float32")
    assert ("RESIZE_NEAREST_NEIGHBOR" in ops) == (gone == "Tile")


CALCULATED = {
    **{name: case[:2] for name, case in INTEGER.items() if "quotient" in name or "sum" in name or "turned" in name},
    "a constant matrix for each step": (
        (6, 8),
        lambda x: keras.ops.einsum(
            "btc,tcd->btd", x, np.float32(np.random.default_rng(0).uniform(0.1, 1, (6, 8, 4)) * 2.0 ** -np.arange(4))
        ),
    ),
    "additive attention": ((6, 8), lambda x: L.AdditiveAttention()([L.Dense(4)(x), L.Dense(4)(x)])),
}
"""Kinds that had no integer form, or a wrong one."""


@pytest.mark.parametrize(
    ("name", "lowering"), [*((name, "table") for name in CALCULATED), ("additive attention", "integer")]
)
def test_what_had_no_integer_form_agrees_in_int8(name, lowering):
    model = model_of(CALCULATED[name][0], lambda x: L.Dense(3)(CALCULATED[name][1](x)))
    data = np.float32(np.random.default_rng(0).normal(size=(32, *CALCULATED[name][0])))
    report = sqp_tflite.export(model, quantize="int8", data=data, lowering=lowering, replace="accurate").report
    rows = [row for row in report.agreement if row.against == "given"]
    assert {row.runtime for row in rows if row.status == "ok"} >= {"tflm"}
    assert not [row for row in rows if row.status == "differs"]
    # A quotient is a product of two numbers with 8 bits each, and its divisor another.
    assert max(row.error_of_range for row in rows if row.status == "ok") < (0.06 if "quotient" in name else 0.03)
    assert not {row.op for row in report.ops} & {"CUMSUM", "REVERSE_V2", "DIV"}


def test_constant_matrices_of_int16_are_refused_with_a_layer_and_a_way_out():
    make, data = CALCULATED["a constant matrix for each step"][1], np.ones((8, 6, 8), "float32")
    model = model_of((6, 8), make)
    with pytest.raises(
        sqp_tflite.RefusedError, match=r"`einsum\w*`: .* no BATCH_MATMUL for int16.*Use `--quantize int8`"
    ):
        sqp_tflite.export(model, quantize="int16x8", data=data)
    assert sqp_tflite.export(model, quantize="int8", data=data).report.verdict == "ok"


def test_depthwise_with_dilation_agrees():
    data = np.float32(np.random.default_rng(0).normal(size=(16, 12, 11, 3)))
    exported = sqp_tflite.export(model_of(*DILATED["depthwise"]), quantize="int8", data=data)
    assert exported.report.verdict == "ok"


def test_an_image_is_enlarged_by_one_operator():
    exported = sqp_tflite.export(model_of(*KINDS["up-sampled image"][:2]))
    assert [row.op for row in exported.report.ops] == ["RESIZE_NEAREST_NEIGHBOR"]


@pytest.mark.parametrize(
    ("name", "quantize", "op"),
    [("rows in int64", "float32", "GATHER"), ("a selection", "float32", "SELECT_V2"),
     ("a layer norm of int16", "int16x8", "RSQRT")],
)  # fmt: skip
def test_what_the_target_lacks_is_written_with_what_it_has(name, quantize, op):
    shape, make, _ = MORE[name]
    data = np.float32(np.random.default_rng(0).normal(size=(32, *shape)))
    report = sqp_tflite.export(model_of(shape, make), quantize=quantize, data=data).report
    assert report.verdict == "ok" and op in {row.op for row in report.ops}

"""Layers that no device has are refused by name, in every type of numbers, and what the refusal says works."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite

L, ops = keras.layers, keras.ops


class Loop(L.Layer):
    def call(self, x):
        return ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, 0.5 * y + x), (0, x))[1]


class WrittenOut(L.Layer):
    def call(self, x):
        y = x
        for _ in range(3):
            y = 0.5 * y + x
        return y


class Scan(L.Layer):
    def call(self, x):
        steps = ops.swapaxes(x, 0, 1)
        return ops.scan(lambda c, a: (0.9 * c + a, 0.9 * c + a), ops.zeros_like(steps[0]), steps)[0]


class Steps(L.Layer):
    def call(self, x):
        c = ops.zeros_like(x[:, 0])
        for step in range(x.shape[1]):
            c = 0.9 * c + x[:, step]
        return c


class Branch(L.Layer):
    def call(self, x):
        return ops.cond(ops.mean(x) > 0, lambda: 2 * x, lambda: x + 1)


class Choice(L.Layer):
    def call(self, x):
        return ops.where(ops.mean(x, axis=-1, keepdims=True) > 0, 2 * x, x + 1)


class Python(L.Layer):
    def call(self, x):
        y = tf.numpy_function(lambda a: 2 * a, [x], tf.float32)
        y.set_shape(x.shape)
        return y


class Overlapping(L.Layer):
    strides = 1

    def call(self, x):
        strides = [1, self.strides, self.strides, 1]
        return tf.image.extract_patches(x, [1, 2, 2, 1], strides, [1, 1, 1, 1], "VALID")


class SideBySide(Overlapping):
    strides = 2


def two_steps(x):
    y = L.TimeDistributed(L.MaxPooling2D())(x)
    return L.MaxPooling2D((2, 1))(L.Reshape((4, 9, 2))(y))


IMAGE = (6, 6, 3)
LAYERS = {
    "loop": ((4,), Loop(name="odd"), "Write a loop of your own as a Python `for`", WrittenOut()),
    "scan": ((5, 3), Scan(name="odd"), "Write a loop of your own as a Python `for`", Steps()),
    "branch": ((4,), Branch(name="odd"), r"choose: keras.ops.where\(condition, a, b\)", Choice()),
    "bicubic": (IMAGE, L.UpSampling2D(2, interpolation="bicubic", name="odd"), 'Use interpolation="bilinear"',
                L.UpSampling2D(2, interpolation="bilinear")),
    "Python": ((4,), Python(name="odd"), "write it with operations of keras.ops", L.Rescaling(2.0)),
    "volume": ((4, 6, 6, 2), L.MaxPooling3D(2, name="odd"), "Pool in two steps", two_steps),
    "patches": (IMAGE, Overlapping(name="odd"), "side by side, with strides equal to their sizes", SideBySide()),
    "hash": ((4,), L.Hashing(8, name="odd"), "compute them before the model", L.Embedding(8, 2)),
}  # fmt: skip
"""Shape, what is refused, what the refusal says, and what it leads to."""
FLOAT_ONLY = ("branch",)
"""What is followed to success in float32 only: a table holds a function of one tensor."""


def model_of(shape, layer):
    keras.utils.set_random_seed(0)
    integers = isinstance(layer, (L.Hashing, L.Embedding))
    x = keras.Input(shape, dtype="int32" if integers else "float32", name="x")
    return keras.Model(x, L.Dense(2, name="out")(L.Flatten()(layer(x))))


def data_of(model):
    generator, (tensor,) = np.random.default_rng(0), model.inputs
    shape = (40, *tensor.shape[1:])
    return {
        "x": generator.integers(0, 8, shape).astype("int32")
        if tensor.dtype == "int32"
        else generator.normal(size=shape).astype("float32")
    }


@pytest.mark.parametrize("quantize", [pytest.param("float32", marks=pytest.mark.large), "int8"])
@pytest.mark.parametrize("name", LAYERS)
def test_an_odd_layer_is_refused_by_its_name(name, quantize):
    shape, layer, words, _ = LAYERS[name]
    model = model_of(shape, layer)
    with pytest.raises(sqp_tflite.RefusedError, match=words) as caught:
        sqp_tflite.export(model, quantize=quantize, data=data_of(model))
    assert {finding.layer for finding in caught.value.findings} == {"odd"}


@pytest.mark.large
@pytest.mark.parametrize("name", LAYERS)
def test_what_the_refusal_of_an_odd_layer_says_works(name):
    shape, _, _, other = LAYERS[name]
    for quantize in ("float32",) if name in FLOAT_ONLY else ("float32", "int8"):
        model = model_of(shape, other)
        assert (
            sqp_tflite.export(
                model, quantize=quantize, lowering="table" if quantize == "int8" else "algebraic", data=data_of(model)
            ).report.verdict
            == "ok"
        )


@pytest.mark.skipif(not hasattr(L, "MixUp"), reason="a Keras without it")
def test_a_layer_that_augments_data_is_one_finding_and_the_model_without_it_ships():
    model = model_of(IMAGE, L.MixUp(name="odd"))
    with pytest.raises(sqp_tflite.RefusedError, match="MixUp draws random numbers.*build the model that you export"):
        sqp_tflite.export(model)
    without = model_of(IMAGE, L.Identity())
    without.set_weights([w for w in model.get_weights() if w.dtype == np.float32])
    assert sqp_tflite.export(without).report.verdict == "ok"


CATEGORIES = {
    "one_hot": ((1,), {"output_mode": "one_hot"}),
    "multi_hot": ((3,), {"output_mode": "multi_hot"}),
    "count": ((3,), {"output_mode": "count"}),
}


@pytest.mark.parametrize("name", CATEGORIES)
def test_categories_are_encoded_on_the_device(name):
    shape, how = CATEGORIES[name]
    x = keras.Input(shape, dtype="int32", name="x")
    model = keras.Model(x, L.Dense(2)(L.CategoryEncoding(8, **how)(x)))
    report = sqp_tflite.export(model, quantize="int8", data=data_of(model)).report
    assert (report.inputs[0].dtype, report.verdict) == ("int32", "ok")
    assert {"GATHER"} < {row.op for row in report.ops} and "float32" not in {row.dtype for row in report.ops}

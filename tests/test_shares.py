"""In a file of int8 the last steps of a softmax have 16 bits, so that it is as exact as its rounding allows."""

import keras
import numpy as np
import pytest
from scipy.special import softmax

import sqp_tflite
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.quantize.shares import shares
from sqp_tflite.run.interpreters import decode
from sqp_tflite.run.layer_errors import observe_here
from written import Written

L = keras.layers
SCOPE = "layer/sqp.share"
STEPS = ("Mean", "sqp.act/Rsqrt", "sqp.act/Square", "mul")


def share(name="mul", scope=SCOPE):
    """The powers' share of their sum, and a clip and a product behind it."""
    model = Written()
    x = model.value(name="x")
    mean = model.op("MEAN", x, model.constant([1], "axes", "int32"), shape=(1, 1), name=f"{scope}/Mean", keepDims=True)
    root = model.op("RSQRT", mean, shape=(1, 1), name=f"{scope}/sqp.act/Rsqrt")
    square = model.op("MUL", root, root, shape=(1, 1), name=f"{scope}/sqp.act/Square", table="MulOptions")
    made = model.op("MUL", x, square, name=f"{scope}/{name}", table="MulOptions")
    behind = model.op("MUL", model.op("RELU", made, name="relu"), made, name="behind", table="MulOptions")
    return read(model.ends([x], [made, behind])).main


def test_the_steps_from_the_mean_to_the_share_are_wide_and_what_reads_the_share_is_not():
    assert shares(share(), "tflm") == {f"{SCOPE}/{step}" for step in STEPS}


def test_a_target_without_these_operators_keeps_8_bits():
    assert shares(share(), "tflite-runtime") == frozenset()


def test_the_mean_of_another_layer_is_not_one_of_these_steps():
    assert shares(share(scope="layer"), "tflm") == frozenset()


def two_softmaxes():
    """One inside, one as an output."""
    keras.utils.set_random_seed(0)
    x = keras.Input((12,), name="x")
    inside = L.Dense(6, activation="softmax", name="inside")(x)
    return keras.Model(x, [L.Dense(3, name="y")(inside), L.Dense(4, activation="softmax", name="end")(x)])


def furthest(done, data):
    """How far the results of both softmaxes are from softmax of the codes in front, in steps of the results."""
    main = read(done.model_bytes).main
    dense = {main.tensors[op.outputs[0]].name: op for op in main.ops if op.name == "FULLY_CONNECTED"}
    results = {"inside": dense[main.tensors[main.outputs[0]].name].inputs[0], "end": main.outputs[1]}
    found = []
    for layer, place in results.items():
        (front,) = (op for name, op in dense.items() if f"{layer}/" in name)
        logits, result = main.tensors[front.outputs[0]], main.tensors[place]
        codes = observe_here(done.model_bytes, (data,), (logits.name, result.name), codes=True)
        expected = softmax(decode(codes[logits.name], logits).astype("float64"), axis=-1)
        error = np.abs(decode(codes[result.name], result).reshape(expected.shape) - expected).max()
        found.append(error / result.quantization.scales[0])
    return max(found)


LEAST, MOST = 0.5, 0.6
"""A rounded number is half a step off; the terms of the algebraic softmax and 15 bits are a tenth of a step here."""


@pytest.mark.parametrize(
    ("lowering", "target", "exact"),
    [
        ("table", "tflm", True),
        ("table", "tflite-runtime", False),
        pytest.param("algebraic", "tflm", True, marks=pytest.mark.large),
    ],
)
def test_a_softmax_is_off_by_its_own_rounding_only(lowering, target, exact):
    data = np.float32(np.random.default_rng(1).normal(size=(64, 12)))
    given = {"data": data, "quantize": "int8", "lowering": lowering, "target": target, "replace": "accurate"}
    done = sqp_tflite.export(two_softmaxes(), **given)
    assert bool(furthest(done, data) < MOST) is exact
    assert furthest(done, data) > 0.9 * LEAST  # The codes are compared at all.

"""A maximum is taken before a table is looked up where the table never falls: the same codes, fewer lookups."""

import keras
import numpy as np
import pytest
from keras import layers as L

import sqp_tflite
from sqp_tflite.flatbuffer import pooling
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.quantize import quantize
from sqp_tflite.run.layer_errors import observe_here

DATA = np.float32(np.random.default_rng(0).normal(size=(24, 9, 8, 3)))


def export(activation, padding="valid", behind=(L.Flatten, lambda: L.Dense(2)), bias=0.0):
    keras.utils.set_random_seed(0)
    shifted = keras.initializers.Constant(bias)
    layers = [
        L.Conv2D(4, 3, activation=activation, bias_initializer=shifted),
        L.MaxPooling2D(2, padding=padding, name="pool"),
    ]
    model = keras.Sequential([keras.Input((9, 8, 3), name="x"), *layers, *(make() for make in behind)])
    return sqp_tflite.export(model, quantize="int8", lowering="table", replace="accurate", data={"x": DATA})


def ops(exported):
    return [op.name for op in read(exported.model_bytes).main.ops]


def outputs(exported):
    main = read(exported.model_bytes).main
    name = main.tensors[main.outputs[0]].name
    return observe_here(exported.model_bytes, (DATA,), (name,), codes=True)[name]


@pytest.mark.parametrize(
    ("activation", "padding", "behind"),
    [
        ("squareplus", "valid", (L.Flatten, lambda: L.Dense(2))),
        ("tanh", "same", (lambda: L.Conv2D(2, 1),)),
        ("softplus", "valid", ()),
    ],
)
def test_the_codes_are_the_same_with_a_quarter_of_the_lookups(monkeypatch, activation, padding, behind):
    swapped = export(activation, padding, behind)
    monkeypatch.setattr(quantize, "pool_first", lambda editor: 0)
    plain = export(activation, padding, behind)
    assert [op for op in ops(swapped) if op != "RESHAPE"][:5] == ["CONV_2D", "MAX_POOL_2D", "CAST", "ADD", "GATHER"]
    assert sorted(ops(swapped)) == sorted(ops(plain))
    np.testing.assert_array_equal(outputs(swapped), outputs(plain))
    looked_up = [read(one.model_bytes).main for one in (swapped, plain)]
    few, many = (
        next(main.tensors[op.outputs[0]].shape for op in main.ops if op.name == "GATHER") for main in looked_up
    )
    assert 4 * np.prod(few) <= np.prod(many) * (1 + (padding == "same"))
    assert {row.op: row.layers for row in swapped.report.ops}["MAX_POOL_2D"] == ("pool",)


def test_a_table_that_falls_is_looked_up_first(monkeypatch):
    right = export("silu", bias=-3.0)
    assert ops(right).index("GATHER") < ops(right).index("MAX_POOL_2D")
    monkeypatch.setattr(pooling, "_never_falls", lambda entries: True)
    with pytest.raises(sqp_tflite.ParityError, match="does not agree"):
        export("silu", bias=-3.0)


def test_a_table_whose_result_is_read_twice_stays():
    keras.utils.set_random_seed(0)
    x = keras.Input((9, 8, 3), name="x")
    y = L.Conv2D(4, 3, activation="squareplus")(x)
    ends = [L.GlobalAveragePooling2D()(y), L.GlobalAveragePooling2D()(L.MaxPooling2D(2)(y))]
    exported = sqp_tflite.export(keras.Model(x, ends), quantize="int8", lowering="table", data={"x": DATA})
    assert ops(exported).index("GATHER") < ops(exported).index("MAX_POOL_2D")

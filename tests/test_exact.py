"""Ranges in which nothing is rounded without need: no codes for what nothing reads, differences and clips exact."""

import keras
import numpy as np
import pytest
from keras import layers as L
from keras import ops

import sqp_tflite
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.quantize.exact import narrowed, settled
from sqp_tflite.run.layer_errors import observe_here
from written import Written

RANGES = {"x": (-4.0, 4.0), "layer": (-4.0, 3.0), "low": (-1.0, 2.0), "high": (-4.0, 3.0), "clip": (0.0, 3.0)}
NOTHING = frozenset()


def sliced(last="RELU", output=False):
    """A layer read through two slices, one with an operator behind it."""
    model = Written()
    x = model.value(name="x")
    layer = model.op("RESHAPE", x, name="layer")
    starts = [model.constant([0, place], f"from{place}", "int32") for place in (0, 2)]
    size = model.constant([1, 2], "size", "int32")
    low, high = (
        model.op("SLICE", layer, start, size, shape=(1, 2), name=name)
        for start, name in zip(starts, ("low", "high"), strict=True)
    )
    clip = model.op(last, high, shape=(1, 2), name="clip")
    return read(model.ends([x], [low, clip, *([layer] if output else [])])).main


def test_what_is_read_through_slices_and_clips_has_the_range_of_what_they_let_through():
    found = narrowed(RANGES, sliced())
    assert found == {"high": (0.0, 3.0), "layer": (-1.0, 3.0)}


@pytest.mark.parametrize("graph", [sliced("TANH"), sliced(output=True)], ids=["another operator", "an output"])
def test_what_is_read_whole_keeps_its_range(graph):
    assert "layer" not in narrowed(RANGES, graph)


def function(op, constant=None):
    model = Written()
    x = model.value(name="x")
    inputs = (x,) if constant is None else (x, model.constant(constant))
    return read(model.ends([x], [model.op(op, *inputs, name="y")])).main


def test_a_table_of_a_clip_has_the_step_of_its_source():
    ranges = {"x": (-4.0, 3.0), "y": (0.0, 3.0)}
    low, high = settled(ranges, function("RELU"), frozenset("y"))["y"]
    assert low == 0 and high == pytest.approx(7.0)  # 255 steps, as the source has.


@pytest.mark.parametrize(("op", "constant"), [("TANH", None), ("MUL", 0.3), ("SUB", 0.01)])
def test_a_table_that_must_round_keeps_its_range(op, constant):
    assert settled({"x": (-4.0, 3.0), "y": (-1.0, 1.0)}, function(op, constant), frozenset("y")) == {}


def test_an_operator_that_is_no_table_keeps_its_range():
    assert settled({"x": (-4.0, 3.0), "y": (0.0, 3.0)}, function("RELU"), NOTHING) == {}


def difference(reduced):
    """x - max(x), or x minus something else."""
    model = Written()
    x = model.value(name="x")
    axis = model.constant([1], "axis", "int32")
    top = model.op(reduced, x, axis, shape=(1, 1), name="top", table="ReducerOptions", keepDims=True)
    return read(model.ends([x], [model.op("SUB", x, top, name="y", table="SubOptions")])).main


def test_the_difference_to_the_largest_has_the_step_of_what_it_is_taken_of():
    ranges = {"x": (-4.0, 3.0), "top": (0.0, 3.0), "y": (-5.0, 0.0)}
    low, high = settled(ranges, difference("REDUCE_MAX"), NOTHING)["y"]
    assert (low, high) == (pytest.approx(-7.0), 0.0)
    assert settled(ranges, difference("MEAN"), NOTHING) == {}


def split_model():
    keras.utils.set_random_seed(0)
    x = keras.Input((8, 8, 3), name="x")
    first, second = ops.split(L.Conv2D(6, 3, name="conv")(x), [2], axis=-1)
    return keras.Model(x, L.Dense(3, name="last")(L.Flatten()(L.Concatenate()([L.ReLU()(second), L.ReLU()(first)]))))


@pytest.fixture(scope="module")
def split_file():
    data = np.float32(np.random.default_rng(1).normal(size=(64, 8, 8, 3)))
    return sqp_tflite.export(split_model(), data=data, quantize="int8", lowering="table")


def test_parts_of_unequal_size_share_one_scale_until_they_are_joined(split_file):
    main = read(split_file.model_bytes).main
    assert "QUANTIZE" not in {op.name for op in main.ops}
    (join,) = (op for op in main.ops if op.name == "CONCATENATION")
    (conv,) = (op for op in main.ops if op.name == "CONV_2D")
    assert main.tensors[conv.outputs[0]].quantization == main.tensors[join.outputs[0]].quantization


def test_the_error_of_a_layer_leaves_out_what_nothing_reads(split_file):
    """Negative numbers in front of the ReLU are beyond the codes: they are a third of the layer's range."""
    (error,) = (row.error_of_range for row in split_file.report.layer_errors if row.layer == "conv")
    assert error < 0.02  # A few steps of 1/255.


def test_the_difference_in_a_softmax_is_a_whole_number_of_steps():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((12,)), L.Dense(6, activation="softmax"), L.Dense(3)])
    data = np.float32(np.random.default_rng(1).normal(size=(64, 12)))
    done = sqp_tflite.export(model, data=data, quantize="int8", lowering="table", replace="accurate")
    main = read(done.model_bytes).main
    (sub,) = (op for op in main.ops if op.name == "SUB")
    before, largest, after = (main.tensors[index] for index in (*sub.inputs, *sub.outputs))
    codes = observe_here(done.model_bytes, (data,), (before.name, largest.name, after.name), codes=True)
    steps = codes[after.name].astype(int) - after.quantization.zero_points[0]
    assert np.array_equal(steps, codes[before.name].astype(int) - codes[largest.name])

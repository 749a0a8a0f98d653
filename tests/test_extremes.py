"""Inputs at the ends of a file's range and beyond them: enough of them, and exactly there."""

from pathlib import Path

import numpy as np
import pytest

from sqp_tflite.agreement import BEYOND, ENDS
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run.extremes import extremes
from sqp_tflite.source.samples import Samples

DATA = Path(__file__).parent / "data"
RANDOM = np.random.default_rng(0)
COUNT = 8
"""Samples of each set: all elements low, all high, six mixtures."""


def given(*arrays):
    return Samples(tuple(arrays), None, given=True)


def ordinary():
    image = RANDOM.uniform(-0.25, 0.75, (40, 16, 16, 1)).astype("float32")
    image[0, 0, 0], image[1, 0, 0] = -0.25, 0.75
    return given(image, RANDOM.normal(size=(40, 4)).astype("float32"))


def test_a_float_input_goes_to_the_ends_of_the_data_and_as_far_again_from_the_middle():
    graph, samples = read(DATA / "two_inputs_float32.tflite"), ordinary()
    sets = extremes(graph.inputs, samples)
    assert list(sets) == [ENDS, BEYOND]
    for name, low, high in ((ENDS, -0.25, 0.75), (BEYOND, -0.75, 1.25)):
        image, extra = sets[name].inputs
        assert image.shape == (COUNT, 16, 16, 1) and extra.shape == (COUNT, 4)
        assert image.dtype == extra.dtype == np.float32
        assert set(np.unique(image)) == {np.float32(low), np.float32(high)}
        assert (image[0] == low).all() and (image[1] == high).all()
        # The rest are mixtures, and no two are the same.
        assert len({sample.tobytes() for sample in image}) == COUNT
        assert all(0.2 < (sample == high).mean() < 0.8 for sample in image[2:])
        assert sets[name].labels is None and not sets[name].given


def test_a_quantised_input_goes_to_the_ends_of_its_codes_whatever_the_data():
    graph = read(DATA / "two_inputs_int8.tflite")
    sets = extremes(graph.inputs, given(np.zeros((3, 16, 16, 1), "float32"), np.zeros((3, 4), "float32")))
    for tensor, ends, beyond in zip(graph.inputs, sets[ENDS].inputs, sets[BEYOND].inputs, strict=True):
        scale, zero = tensor.quantization.scales[0], tensor.quantization.zero_points[0]
        low, high = (-128 - zero) * scale, (127 - zero) * scale
        assert ends.min() == np.float32(low) and ends.max() == np.float32(high)
        # Half a range further on each side: twice as far from the middle.
        assert beyond.min() == pytest.approx(low - (high - low) / 2)
        assert beyond.max() == pytest.approx(high + (high - low) / 2)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_indices_have_nothing_beyond_their_ends(dtype):
    graph = read(DATA / "two_inputs_float32.tflite")
    indices = np.array([[0, 1, 1, 0], [1, 0, 0, 1]]) * (7 if dtype == "int32" else 1)
    sets = extremes(graph.inputs, given(ordinary().inputs[0], indices.astype(dtype)))
    for chosen in sets.values():
        assert chosen.inputs[1].dtype == dtype
        assert set(np.unique(chosen.inputs[1].astype(int))) == {0, int(indices.max())}


@pytest.mark.parametrize(("value", "beyond"), [(0.0, {-1.0, 1.0}), (3.0, {0.0, 6.0}), (-0.5, {-1.5, 0.5})])
def test_a_constant_input_still_has_something_beyond_it(value, beyond):
    graph = read(DATA / "two_inputs_float32.tflite")
    sets = extremes(graph.inputs, given(ordinary().inputs[0], np.full((5, 4), value, "float32")))
    assert set(np.unique(sets[ENDS].inputs[1])) == {value}
    assert set(np.unique(sets[BEYOND].inputs[1])) == beyond


def test_the_same_call_gives_the_same_inputs():
    graph, samples = read(DATA / "two_inputs_int8.tflite"), ordinary()
    one, other = extremes(graph.inputs, samples), extremes(graph.inputs, samples)
    for name in one:
        assert all(np.array_equal(a, b) for a, b in zip(one[name].inputs, other[name].inputs, strict=True))

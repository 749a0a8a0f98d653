"""The layer that is wrong is the one that is named, and errors are what they are called."""

import tracemalloc

import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.report import LayerError
from sqp_tflite.run.layer_errors import MOST_SAMPLES, layer_errors_here, observe_here, pairs, worst_layers
from written import Written

NAMES = ("left", "right", "behind")
LAYERS = LayerNames(NAMES, tuple((name, name) for name in NAMES))
X = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")


def branched() -> keras.Model:
    """Two layers side by side and one behind the left one, each an output."""
    keras.utils.set_random_seed(0)
    i = keras.Input((4,), name="x")
    left, right = keras.layers.Dense(5, name="left")(i), keras.layers.Dense(6, name="right")(i)
    model = keras.Model(i, [left, right, keras.layers.Dense(2, name="behind")(left)])
    # What is wrong in unit 1 of `left` is a smaller share of what `behind` returns.
    kernel, bias = model.get_layer("behind").get_weights()
    kernel[1] *= 0.1
    model.get_layer("behind").set_weights([kernel, bias])
    return model


@pytest.fixture(scope="module")
def model():
    return branched()


@pytest.fixture(scope="module")
def plain(model) -> bytes:
    return sqp_tflite.export(model).model_bytes


def planted(model: keras.Model, content: bytes, layer: str) -> bytes:
    """The file with one weight of a layer doubled and moved by 1."""
    weights = model.get_layer(layer).get_weights()[0].T.astype("<f4")
    assert content.count(weights.tobytes()) == 1
    wrong = weights.copy()
    wrong[1, 2] = 2 * wrong[1, 2] + 1
    return content.replace(weights.tobytes(), wrong.tobytes())


@pytest.mark.parametrize(
    ("layer", "untouched"), [("left", {"right"}), ("right", {"left", "behind"}), ("behind", {"left", "right"})]
)
def test_a_planted_wrong_layer_is_ranked_first(model, plain, layer, untouched):
    wrong = planted(model, plain, layer)
    wanted = pairs(read(plain).main, read(wrong).main, LAYERS)
    rows = layer_errors_here(plain, wrong, (X,), wanted)
    assert {row.layer for row in rows} == set(NAMES)
    assert rows[0].layer == layer and rows[0].max_abs_error > 0.1
    assert {row.layer for row in rows if row.max_abs_error == 0} == untouched
    shares = [row.error_of_range for row in rows]
    assert shares == sorted(shares, reverse=True)


def test_errors_are_the_max_over_the_first_samples_and_its_share_of_the_range(model, plain):
    wrong = planted(model, plain, "left")
    rows = layer_errors_here(plain, wrong, (X,), pairs(read(plain).main, read(wrong).main, LAYERS))
    (row,) = (row for row in rows if row.layer == "left")
    few = X[:MOST_SAMPLES]
    kernel, bias = model.get_layer("left").get_weights()
    moved = np.abs((kernel[2, 1] + 1) * few[:, 2])
    values = few @ kernel + bias
    # float32 sums of four products.
    assert row.max_abs_error == pytest.approx(moved.max(), rel=1e-5)
    assert row.error_of_range == pytest.approx(moved.max() / np.ptp(values), rel=1e-5)
    assert np.abs((kernel[2, 1] + 1) * X[:, 2]).max() >= moved.max()


def test_the_same_file_has_no_errors(plain):
    rows = layer_errors_here(plain, plain, (X,), pairs(read(plain).main, read(plain).main, LAYERS))
    assert [row.max_abs_error for row in rows] == [0.0] * len(NAMES)


def test_every_tensor_of_every_sample_is_observed(model, plain):
    names = tuple(row[1] for row in pairs(read(plain).main, read(plain).main, LAYERS))
    found = observe_here(plain, (X,), names)
    expected = dict(zip(NAMES, model(X), strict=True))
    for layer, name, _ in pairs(read(plain).main, read(plain).main, LAYERS):
        # float32 sums of up to five products of numbers of about 1.
        np.testing.assert_allclose(found[name][:, 0], expected[layer], atol=1e-5)


def test_the_errors_of_many_samples_do_not_fill_the_memory():
    """A hundred layers of an image network on 64 samples are more than a machine holds."""
    model = Written()
    x = model.value(1, 1 << 17, name="x")
    y, names = x, []
    for place in range(12):
        names.append(f"layer{place}")
        y = model.op("NEG", y, shape=(1, 1 << 17), name=names[-1])
    content = model.ends([x], [y])
    inputs = (np.ones((48, 1 << 17), np.float32),)
    tracemalloc.start()
    rows = layer_errors_here(content, content, inputs, tuple((name, name, name) for name in names))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {row.max_abs_error for row in rows} == {0.0}
    assert peak < 60 * inputs[0][0].nbytes  # All of them would be 576 tensors for each file.


def small_difference_of_large_numbers() -> keras.Model:
    """Two layers around 1000 whose difference is about 1: a code of 8 bits is 4 wide there."""
    keras.utils.set_random_seed(0)
    i = keras.Input((4,), name="x")
    sides = [keras.layers.Dense(5, name=name)(i) for name in ("left", "right")]
    model = keras.Model(i, keras.layers.Dense(2, name="behind")(keras.layers.Subtract(name="difference")(sides)))
    for name in ("left", "right"):
        kernel, bias = model.get_layer(name).get_weights()
        model.get_layer(name).set_weights([kernel, bias + 1000])
    return model


def test_a_file_that_does_not_agree_names_its_worst_layers_and_a_next_step_that_works():
    model, data = small_difference_of_large_numbers(), {"x": X}
    with pytest.raises(sqp_tflite.ParityError, match=r"Furthest from the float file: `\w+` \([\d.]+ of") as caught:
        sqp_tflite.export(model, quantize="int8", data=data)
    assert caught.value.report.layer_errors[0].layer in str(caught.value) and "--quantize int16x8" in str(caught.value)
    assert sqp_tflite.export(model, quantize="int16x8", data=data).report.verdict == "ok"


def test_what_is_said_of_the_worst_layers_depends_on_the_numbers():
    rows = tuple(LayerError(f"layer{i}", "t", 1.0, 0.5 - 0.1 * i) for i in range(5))
    said = worst_layers(rows, "int16x8")
    assert "`layer2` (0.3 of its range)" in said and "layer3" not in said and "--quantize float32" in said
    assert worst_layers((), "int8", named=True) == ""
    assert worst_layers(rows, "float32") == "" and worst_layers((), "int8").startswith("Next: --quantize int16x8")

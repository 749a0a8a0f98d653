"""Ranges come only from the user's data, and anything odd about them is reported."""

import numpy as np
import pytest

from sqp_tflite.errors import BadInputError
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.combinations import require_data
from sqp_tflite.quantize import calibration
from sqp_tflite.quantize.calibration import Calibration

LAYERS = LayerNames(("dense", "head"))


def made(low, high, names=("dense/MatMul", "head/MatMul")):
    return Calibration(names, np.asarray(low, float), np.asarray(high, float))


def ordinary(count=400):
    generator = np.random.default_rng(0)
    return -generator.uniform(0.9, 1.0, (count, 2)), generator.uniform(0.9, 1.0, (count, 2))


def test_made_up_inputs_are_refused():
    with pytest.raises(BadInputError, match="representative inputs.*no data.*--data FILE.npz"):
        require_data("int8", False)


def test_ranges_are_the_extremes_over_all_samples():
    low, high = ordinary()
    assert made(low, high).ranges()["head/MatMul"] == (low[:, 1].min(), high[:, 1].max())


def test_ordinary_data_give_no_note():
    assert calibration.notes(made(*ordinary()), LAYERS) == ()


def test_few_samples_are_said():
    low, high = ordinary(5)
    (note,) = calibration.notes(made(low, high), LAYERS)
    assert "come from 5 samples" in note


def test_one_sample_that_sets_a_range_is_named():
    low, high = ordinary()
    high[17, 1] = 100.0
    (note,) = calibration.notes(made(low, high), LAYERS)
    assert note.startswith("Row 17 of 400 sets the range of 1 layer(s): `head` spans 101")


def test_a_handful_of_samples_is_named():
    low, high = ordinary()
    low[[3, 9, 21], 0] = -50.0
    (note,) = calibration.notes(made(low, high), LAYERS)
    assert note.startswith("3 rows (3, 9, 21) of 400 set the range")


def test_more_than_a_handful_is_the_data():
    low, high = ordinary()
    high[:20, 1] = 100.0
    assert calibration.notes(made(low, high), LAYERS) == ()


@pytest.mark.parametrize(("value", "words"), [(0.0, "cannot tell from 0: `dense`"), (3.0, "the same number")])
def test_constant_layers_are_named(value, words):
    low, high = ordinary()
    low[:, 0] = high[:, 0] = value
    (note,) = calibration.notes(made(low, high), LAYERS)
    assert words in note
    assert "Is the model trained" in note


@pytest.mark.parametrize("value", [np.inf, np.nan, 3.4e38])
def test_what_is_no_number_is_refused_with_its_row(value):
    low, high = ordinary()
    high[5, 1] = value
    with pytest.raises(BadInputError, match="`head` for row 5 .1 rows in total"):
        calibration.check(made(low, high), LAYERS)


def test_notes_are_about_what_a_user_knows_and_not_about_the_inside_of_an_activation():
    low, high = ordinary()
    names = ("dense/MatMul", "dense/sqp.act/mul", "dense/sqp.act/add")
    inside, result = low.copy(), high.copy()
    inside[3] = 1e9
    planted = Calibration(names, np.stack([low[:, 0]] * 3, 1), np.stack([high[:, 0], inside[:, 0], result[:, 0]], 1))
    assert calibration.notes(planted, LAYERS)  # The planted fault is seen where all are looked at ...
    assert calibration.notes(planted, LAYERS, frozenset(names) - {"dense/sqp.act/mul"}) == ()  # ... and is no fault.


def test_a_step_has_no_row_of_the_users_data():
    low, high = ordinary()
    high[3] = 1e6
    (note,) = calibration.notes(made(low, high), LAYERS, step=True)
    assert note.startswith("1 time step of ") and "Check the sequences" in note and "Row" not in note

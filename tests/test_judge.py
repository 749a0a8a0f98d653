"""What the judge sees: faults planted into outputs, in the measure of what Keras's outputs span."""

import re

import numpy as np
import pytest

from sqp_tflite.agreement import GIVEN, WRITTEN, tables
from sqp_tflite.run.interpreters import Outputs
from sqp_tflite.run.judge import Judged, Reference, judge
from sqp_tflite.run.metric import with_head

FLOAT = 1e-4
INTEGER = 0.25


def judged(ours, theirs, limit=FLOAT, scale=None, labels=None, heads=(), against=GIVEN, positive=()) -> Judged:
    """Judges outputs, each an array; with a scale they are rounded to int8 codes around 0."""
    values, codes = [], []
    for array in ours:
        code = array if scale is None else np.clip(np.round(array / scale), -128, 127).astype(np.int8)
        codes.append(code)
        values.append(code if scale is None else code * scale)
    outputs = Outputs(tuple(values), tuple(codes), (scale,) * len(values))
    reference = Reference(against, {f"y{i}": array for i, array in enumerate(theirs)}, limit, heads, positive)
    return judge("litert", outputs, reference, labels)


def test_nan_agrees_with_nothing():
    same = (np.array([[1.0], [np.nan]]),)
    (row,) = judged(same, same).rows
    assert row.status == "differs" and "output `y0`: it is NaN" in row.reason


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_output_that_is_not_finite_has_no_max_error(value):
    expected = np.linspace(0.0, 1.0, 8).reshape(4, 2)
    (row,) = judged((np.where(expected > 0.9, value, expected),), (expected,)).rows
    assert (row.status, row.max_abs_error, row.error_of_range) == ("differs", None, None)


def test_an_error_and_its_limit_never_look_the_same():
    expected = np.linspace(0.0, 1.0, 8).reshape(4, 2)
    (row,) = judged((expected + 1.0001e-4,), (expected,)).rows
    error, limit = re.search(r"the max error is \S+ (\S+) of the range.*the limit is (\S+)$", row.reason).groups()
    assert row.status == "differs" and error != limit
    (table,) = tables((row,))
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert cells["of range"] != cells["limit"]


def test_an_output_that_hardly_varies_is_held_to_its_rounding():
    reference = 1000.0 + np.linspace(0, 1e-3, 8).reshape(4, 2)
    assert judged((reference + 1e-3,), (reference,)).rows[0].status == "ok"  # 16 units of 1000's last place
    assert judged((reference + 1e-1,), (reference,)).rows[0].status == "differs"


@pytest.mark.parametrize("wrong", [0, 1])
@pytest.mark.parametrize("fault", ["shifted", "NaN"])
def test_a_right_output_does_not_excuse_a_wrong_one(wrong, fault):
    generator = np.random.default_rng(0)
    expected = tuple(generator.normal(size=(20, 3)) for _ in range(2))
    values = [array.copy() for array in expected]
    values[wrong][7, 1] = np.nan if fault == "NaN" else values[wrong][7, 1] + 0.01
    rows = judged(values, expected).rows
    assert [row.status for row in rows] == ["differs" if place == wrong else "ok" for place in range(2)]
    assert ("is not finite" if fault == "NaN" else "the limit is 0.0001") in rows[wrong].reason
    assert f"output `y{wrong}`" in rows[wrong].reason and rows[1 - wrong].reason == ""
    assert all(row.status == "ok" for row in judged(expected, expected).rows)


def test_the_range_is_what_keras_spans_without_zero():
    """Codes for outputs from 10 to 11 reach from 0 to 11, but an error of 0.5 is half of what the output says."""
    expected = np.linspace(10.0, 11.0, 20).reshape(10, 2)
    (row,) = judged((expected + 0.5,), (expected,), INTEGER, scale=11.5 / 127).rows
    assert row.status == "differs" and row.spread == pytest.approx(1.0)
    assert row.error_of_range == pytest.approx(0.5, abs=0.05)


def test_one_value_for_all_samples_is_seen_and_explained():
    expected = 1013.0 + np.random.default_rng(0).uniform(-0.6, 0.6, (200, 1))
    (row,) = judged((expected,), (expected,), INTEGER, scale=8.0).rows
    assert row.status == "differs" and (row.codes, row.codes_of) == (1, 256)
    assert "one code for all samples" in row.reason and "int16x8" in row.reason and "offset" in row.reason


def test_a_coarse_output_is_a_warning():
    expected = np.random.default_rng(0).uniform(90.0, 100.0, (200, 1))
    found = judged((expected,), (expected,), INTEGER, scale=100 / 127)
    assert found.rows[0].status == "ok"
    (warning,) = found.warnings
    assert f"{found.rows[0].codes} of 256 codes" in warning and "int16x8" in warning
    fine = np.random.default_rng(0).uniform(0.0, 100.0, (200, 1))
    assert judged((fine,), (fine,), INTEGER, scale=100 / 127).warnings == ()


def test_a_positive_output_that_becomes_zero_is_a_warning():
    expected = np.exp(np.random.default_rng(0).normal(-1.0, 2.0, (200, 1)))
    found = judged((expected,), (expected,), INTEGER, scale=float(expected.max()) / 127, positive=(True,))
    zeros = int(np.sum(np.round(expected / (expected.max() / 127)) == 0))
    assert zeros > 0 and f"{zeros} of 200" in found.warnings[-1] and "floor" in found.warnings[-1]


def test_probabilities_and_others_may_become_zero():
    logits = np.random.default_rng(0).normal(0.0, 6.0, (100, 4))
    expected = with_head("softmax", logits)
    assert judged((expected,), (expected,), INTEGER, scale=1 / 127).warnings == ()


def test_a_metric_that_collapses_is_not_ok():
    """Errors within the limit of an integer file, which change every answer all the same."""
    generator = np.random.default_rng(0)
    expected = np.where(generator.random((200, 1)) > 0.5, 0.51, 0.49)
    expected[:2] = [[0.0], [1.0]]
    labels = (expected > 0.5).astype(int)
    (row,) = judged((1.0 - expected,), (expected,), 1.1, labels=labels).rows
    assert row.status == "differs" and "accuracy on the labels is 0, Keras's is 1" in row.reason
    assert judged((expected + 0.001,), (expected,), 1.1, labels=labels).rows[0].status == "ok"


def test_labels_that_keras_itself_misses_are_a_warning():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(200, 5))
    found = judged((values,), (values,), labels=generator.integers(0, 2, 200))
    assert any("Keras's own accuracy" in warning and "scale" in warning for warning in found.warnings)


def test_a_dropped_head_is_put_back_for_the_metric_only():
    logits = np.random.default_rng(0).normal(0.0, 2.0, (100, 1))
    labels = (logits > 0).astype(int)
    (row,) = judged((logits,), (logits,), heads=("sigmoid",), labels=labels).rows
    assert row.metric_after == row.metric_before == 1.0 and row.spread == pytest.approx(np.ptp(logits))
    wide = np.random.default_rng(0).normal(0.0, 2.0, (100, 3))
    assert judged((wide,), (wide,), heads=("softmax",)).rows[0].argmax_agreement == 1.0
    assert judged((wide,), (wide,)).rows[0].argmax_agreement is None  # a regression has no class


def test_heads_are_keras_own():
    import keras

    values = np.random.default_rng(0).normal(0.0, 3.0, (50, 4)).astype("float32")
    for name in ("softmax", "log_softmax", "sigmoid"):
        theirs = np.asarray(keras.activations.get(name)(values))
        np.testing.assert_allclose(with_head(name, values.astype(float)), theirs, atol=1e-5)


def test_constant_outputs_say_little():
    same = np.full((20, 1), 3.0)
    found = judged((same,), (same,))
    assert found.rows[0].status == "ok" and "is constant in Keras" in found.warnings[0]


def test_warnings_are_about_the_users_model():
    expected = np.random.default_rng(0).uniform(90.0, 100.0, (200, 1))
    assert judged((expected,), (expected,), INTEGER, scale=100 / 127, against=WRITTEN).warnings == ()


def columns(ours, theirs, scale=None, limit=INTEGER, apart=True):
    codes = ours if scale is None else np.clip(np.round(ours / scale), -128, 127).astype(np.int8)
    values = codes if scale is None else codes * scale
    against = Reference(GIVEN, {"y": theirs}, limit, columns=(apart,))
    return judge("litert", Outputs((values,), (codes,), (scale,)), against)


WIDE = np.random.default_rng(0).uniform(-1, 1, (200, 3)) * [100.0, 0.5, 30.0]
PLACES = WIDE / [100.0, 1.0, 60.0] + [48.0, 11.0, 0.0]


@pytest.mark.parametrize(("theirs", "place"), [(WIDE, 1), (PLACES, 0)])
def test_a_narrow_column_beside_wide_ones_is_judged_by_its_own_range(theirs, place):
    """Ranges that differ, and offsets that differ: the error is a small share of what the output spans in all."""
    off = np.zeros(3)
    off[place] = 0.4
    (row,) = columns(theirs + off, theirs, limit=0.1).rows
    assert row.error_of_range < 0.1 and row.status == "differs" and row.column == place
    assert f"column {place} of 3" in row.reason and row.column_error_of_range == pytest.approx(0.4, rel=0.55)
    assert columns(theirs + off, theirs, limit=0.1, apart=False).rows[0].status == "ok"
    assert columns(theirs, theirs, limit=0.1).rows[0].status == "ok"
    assert columns(theirs + 0.4, theirs, limit=0.1).rows[0].max_abs_error == pytest.approx(0.4)


def test_columns_of_one_scale_and_classes_are_judged_together():
    (row,) = columns(WIDE / [10.0, 0.1, 3.0], WIDE / [10.0, 0.1, 3.0], scale=0.1).rows
    assert row.column is None and row.status == "ok"
    rare = with_head("softmax", np.random.default_rng(0).normal([9.0, 8.0, -9.0], 2.0, (100, 3)))
    assert columns(rare, rare, scale=1 / 127).rows[0].column is None


def test_a_column_that_takes_one_code_says_what_helps():
    (row,) = columns(WIDE, WIDE, scale=1.0).rows
    assert row.status == "differs" and "int16x8" in row.reason and "an output of its own" in row.reason

"""The comparison sees a perturbed file, a missing runtime and a runtime that dies."""

import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from models import dense
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters
from sqp_tflite.run.compare import FLOAT_TOLERANCE, STORED_TOLERANCE, agreement, compare, metric, tolerance_of
from sqp_tflite.run.reference import reference
from sqp_tflite.source.load import load
from sqp_tflite.source.samples import Samples, samples
from written import perceptron, weight_only


@pytest.fixture(scope="module")
def setting():
    model = dense()
    loaded = load(model)
    inputs = samples(None, loaded.inputs)
    return sqp_tflite.export(model).model_bytes, inputs, reference(loaded, inputs)


def test_all_runtimes_agree(setting):
    rows = compare(*setting)
    assert {row.runtime: row.status for row in rows} == {"tflm": "ok", "litert": "ok", "tflite-runtime": "ok"}
    # float32 sums of 8 products: a few rounding errors of 2**-24, over the range of outputs that reach 1000s
    assert all(row.error_of_range < 1e-6 and row.argmax_agreement == 1.0 for row in rows)


def test_a_perturbed_output_is_seen(setting):
    content, inputs, expected = setting
    shifted = (expected[0] + 0.001 * np.ptp(expected[0]),)
    assert {row.status for row in compare(content, inputs, shifted)} == {"differs"}


def test_perturbed_weights_are_seen(setting):
    content, inputs, expected = setting
    weights = dense().layers[1].get_weights()[0].T.astype("<f4").tobytes()
    assert content.count(weights) == 1
    changed = content.replace(weights, (np.frombuffer(weights, "<f4") * 1.01).astype("<f4").tobytes())
    assert {row.status for row in compare(changed, inputs, expected)} == {"differs"}


def test_a_nan_is_seen(setting):
    content, inputs, expected = setting
    holed = expected[0].copy()
    holed[3, 1] = np.nan
    assert {row.status for row in compare(content, inputs, (holed,))} == {"differs"}


def test_a_missing_runtime_is_named_as_not_checked(setting, monkeypatch):
    monkeypatch.setitem(interpreters._MODULES, "tflite-runtime", "a_module_that_is_not_there")
    row = next(row for row in compare(*setting) if row.runtime == "tflite-runtime")
    assert row.status == "not checked" and "pip install" in row.reason


def test_the_target_runtime_must_be_there(monkeypatch):
    monkeypatch.setitem(interpreters._MODULES, "tflm", "a_module_that_is_not_there")
    with pytest.raises(sqp_tflite.ExportError, match="not installed.*tflite-micro.*x86-64.*--target litert") as caught:
        sqp_tflite.export(dense())
    assert caught.value.exit_code == 2
    assert sqp_tflite.export(dense(), target="litert").report.verdict == "ok"


def test_a_file_that_a_runtime_refuses_says_its_words(setting):
    _, inputs, _ = setting
    with pytest.raises(interpreters.RuntimeFailedError, match="(?i)dimension|size|shape"):
        interpreters.run("litert", setting[0], (inputs.inputs[0][:, :2],))


def test_a_verdict_needs_the_target_runtime_to_agree(monkeypatch):
    real = interpreters.run

    def wrong_on_tflm(runtime, content, inputs):
        outputs = real(runtime, content, inputs)
        if runtime != "tflm":
            return outputs
        return interpreters.Outputs(tuple(v + 1.0 for v in outputs.values), outputs.codes, outputs.scales)

    monkeypatch.setattr(interpreters, "run", wrong_on_tflm)
    with pytest.raises(sqp_tflite.ParityError, match="Micro") as caught:
        sqp_tflite.export(dense())
    assert caught.value.report.verdict == "parity_failed"


@pytest.mark.parametrize(
    ("outputs", "labels", "expected"),
    [
        ([[0, 1, 2], [2, 1, 0]], [2, 1], 0.5),
        ([[0, 1, 2], [2, 1, 0]], [[2], [0]], 1.0),
        ([[0, 1], [2, 1]], [[0, 1], [0, 1]], 0.5),
        ([[0.9], [0.2]], [1, 1], 0.5),
        ([[0.5], [2.0]], [0.25, 1.0], 0.625),
        # Errors of both signs do not make up for each other.
        ([[0.5], [2.0]], [1.5, 1.0], 1.0),
    ],
)
def test_metric(outputs, labels, expected):
    assert metric(np.array(outputs, float), np.array(labels)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full(4, 7), "class numbers from 0 to 2. Received: int64 from 7 to 7"),
        (np.array([0.0, 1.5, 2.0, 1.0]), "class numbers from 0 to 2. Received: float64 from 0.0 to 2.0"),
        (np.zeros((4, 2)), r"one row per sample, of the shape .*\(4, 3\). Received: \(4, 2\)"),
    ],
)
def test_labels_that_do_not_fit_the_outputs_are_refused(labels, words):
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        metric(np.zeros((4, 3)), labels)


def test_nan_agrees_with_nothing():
    same = (np.array([[1.0], [np.nan]]),)
    row = agreement("litert", interpreters.Outputs(same, same, (None,)), same, None, 1e-4)
    assert row.status == "differs" and "output 0 is NaN" in row.reason


def test_a_file_of_another_model_is_refused_in_words(setting):
    with pytest.raises(sqp_tflite.BadInputError, match="outputs must be the model's"):
        sqp_tflite.check(dense(units=(8, 2)), setting[0])


def test_a_file_of_the_stock_converter_is_checked():
    model = dense(activation="relu")
    content = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    assert {row.status for row in sqp_tflite.check(model, content)} == {"ok"}


def test_samples_hold_their_length():
    assert len(Samples((np.zeros((3, 2)),), None, True)) == 3


def test_an_output_that_hardly_varies_is_held_to_its_rounding():
    reference = (1000.0 + np.linspace(0, 1e-3, 8, dtype=np.float64).reshape(4, 2),)
    near = interpreters.Outputs((reference[0] + 1e-3,), (), (None,))
    far = interpreters.Outputs((reference[0] + 1e-1,), (), (None,))
    assert agreement("litert", near, reference, None, 1e-4).status == "ok"  # 1e-3 is 16 units of 1000's last place
    assert agreement("litert", far, reference, None, 1e-4).status == "differs"


def test_a_float_file_with_stored_integers_is_held_to_what_their_rounding_costs():
    assert tolerance_of(read(perceptron())) == FLOAT_TOLERANCE
    assert tolerance_of(read(weight_only())) == STORED_TOLERANCE < 0.1


@pytest.mark.parametrize("wrong", [0, 1])
@pytest.mark.parametrize("fault", ["shifted", "NaN"])
def test_a_right_output_does_not_excuse_a_wrong_one(wrong, fault):
    generator = np.random.default_rng(0)
    expected = tuple(generator.normal(size=(20, 3)) for _ in range(2))
    values = [array.copy() for array in expected]
    values[wrong][7, 1] = np.nan if fault == "NaN" else values[wrong][7, 1] + 0.01
    outputs = interpreters.Outputs(tuple(values), tuple(values), (None, None))
    row = agreement("litert", outputs, expected, None, 1e-4)
    assert row.status == "differs"
    assert (f"output {wrong} is not finite" if fault == "NaN" else "of the range, the limit is 0.0001") in row.reason
    right = interpreters.Outputs(expected, expected, (None, None))
    assert agreement("litert", right, expected, None, 1e-4).status == "ok"


def test_the_range_of_codes_reaches_to_zero():
    """Codes for outputs from 10 to 11 reach from 0 to 11; float outputs are judged by what they span."""
    expected = (np.linspace(10.0, 11.0, 20).reshape(10, 2),)
    coarse = interpreters.Outputs((expected[0] + 0.5,), (expected[0],), (11 / 255,))
    integer = agreement("tflm", coarse, expected, None, 0.25)
    assert integer.status == "ok" and integer.error_of_range == pytest.approx(0.5 / 11)
    exact = interpreters.Outputs((expected[0] + 5e-4,), (expected[0],), (None,))
    assert agreement("tflm", exact, expected, None, 1e-4).error_of_range == pytest.approx(5e-4)

"""The comparison sees a perturbed file, a missing runtime and a runtime that dies."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

import sqp_tflite
from models import dense
from sqp_tflite.agreement import Agreement
from sqp_tflite.cli.text import show_check, show_report
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.policy import RUNTIMES
from sqp_tflite.run import interpreters
from sqp_tflite.run.compare import FLOAT_TOLERANCE, STORED_TOLERANCE, compare, tolerance_of
from sqp_tflite.run.judge import Reference
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


def rows_of(content, inputs, outputs):
    return compare(content, inputs, Reference("given", outputs, FLOAT_TOLERANCE)).rows


def differing(rows) -> set[str]:
    """The interpreters that differ on any set of inputs."""
    return {row.runtime for row in rows if row.status == "differs"}


def test_all_runtimes_agree(setting):
    rows = rows_of(*setting)
    assert {row.runtime for row in rows} == set(RUNTIMES) and {row.status for row in rows} == {"ok"}
    # float32 sums of 8 products: a few rounding errors of 2**-24, over the range of outputs that reach 1000s
    assert all(row.error_of_range < 1e-6 and row.argmax_agreement is None for row in rows)


def test_a_perturbed_output_is_seen(setting):
    content, inputs, expected = setting
    shifted = {name: values + 0.001 * np.ptp(values) for name, values in expected.items()}
    assert differing(rows_of(content, inputs, shifted)) == set(RUNTIMES)


def test_perturbed_weights_are_seen(setting):
    content, inputs, expected = setting
    weights = dense().layers[1].get_weights()[0].T.astype("<f4").tobytes()
    assert content.count(weights) == 1
    changed = content.replace(weights, (np.frombuffer(weights, "<f4") * 1.01).astype("<f4").tobytes())
    assert {row.status for row in rows_of(changed, inputs, expected)} == {"differs"}


def test_a_nan_is_seen(setting):
    content, inputs, expected = setting
    ((name, values),) = expected.items()
    holed = values.copy()
    holed[3, 1] = np.nan
    assert differing(rows_of(content, inputs, {name: holed})) == set(RUNTIMES)


def test_a_missing_runtime_is_named_as_not_checked(setting, monkeypatch):
    monkeypatch.setitem(interpreters._MODULES, "tflite-runtime", "a_module_that_is_not_there")
    row = next(row for row in rows_of(*setting) if row.runtime == "tflite-runtime")
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
    ("failing", "way"),
    [
        (("tflm",), ", or use `--target litert` or `--target tflite-runtime`, where it agrees with the model."),
        (("tflm", "litert"), ", or use `--target tflite-runtime`, where it agrees with the model."),
        (("tflm", "litert", "tflite-runtime"), "that it cannot run."),
    ],
)
def test_a_file_that_the_target_does_not_run_is_refused_since_nothing_was_compared(failing, way, monkeypatch, capsys):
    real = interpreters.run

    def fails(runtime, content, inputs):
        if runtime in failing:
            raise interpreters.RuntimeFailedError("it could not be prepared")
        return real(runtime, content, inputs)

    monkeypatch.setattr(interpreters, "run", fails)
    with pytest.raises(
        sqp_tflite.RefusedError, match="Micro does not run the file: it could not be prepared"
    ) as caught:
        sqp_tflite.export(dense())
    assert caught.value.exit_code == 1 and caught.value.findings[0].remedy.endswith(way)
    show_report(Console(width=200), caught.value.report)
    printed = capsys.readouterr().out
    assert "REFUSED" in printed and "PARITY" not in printed


@pytest.mark.parametrize(
    ("statuses", "headline"),
    [
        (("ok", "ok", "failed"), "DOES NOT RUN  f.tflite (tflite-runtime)"),
        (("differs", "ok", "failed"), "DIFFERS  f.tflite (litert; it does not run on tflite-runtime)"),
        (("differs", "ok", "ok"), "DIFFERS  f.tflite (litert)"),
        (("ok", "ok", "ok"), "AGREES  f.tflite (litert, tflm, tflite-runtime)"),
    ],
)
def test_a_check_tells_what_differs_from_what_does_not_run(statuses, headline, capsys):
    rows = tuple(
        Agreement(runtime, one) for runtime, one in zip(("litert", "tflm", "tflite-runtime"), statuses, strict=True)
    )
    show_check(Console(width=200), "f.tflite", rows)
    assert capsys.readouterr().out.splitlines()[0] == headline


def test_an_output_of_another_shape_is_said_not_to_run(monkeypatch):
    """An interpreter may take another shape than a damaged file says."""
    real = interpreters.run

    def cut(runtime, content, inputs):
        outputs = real(runtime, content, inputs)
        return outputs if runtime != "litert" else dataclasses.replace(outputs, values=(outputs.values[0][:, :1],))

    monkeypatch.setattr(interpreters, "run", cut)
    rows = sqp_tflite.export(dense()).report.agreement
    (row,) = (row for row in rows if row.runtime == "litert")
    assert row.status == "failed" and re.search(r"it gives output `\w+` of shape \(1,\), Keras \(\d,\)", row.reason)


def test_a_file_of_another_model_is_refused_in_words(setting):
    with pytest.raises(sqp_tflite.BadInputError, match="outputs must be the model's"):
        sqp_tflite.check(dense(units=(8, 2)), setting[0])


def test_a_file_of_the_stock_converter_is_checked():
    model = dense(activation="relu")
    content = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    assert {row.status for row in sqp_tflite.check(model, content)} == {"ok"}


def test_samples_hold_their_length():
    assert len(Samples((np.zeros((3, 2)),), None, True)) == 3


def test_a_float_file_with_stored_integers_is_held_to_what_their_rounding_costs():
    assert tolerance_of(read(perceptron())) == FLOAT_TOLERANCE
    assert tolerance_of(read(weight_only())) == STORED_TOLERANCE < 0.1

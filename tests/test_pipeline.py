"""The main job as its user does it: from the shell, on the demo's model, reading what is printed."""

import dataclasses
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from models import dense
from sqp_tflite import pipeline
from sqp_tflite.options import ExportOptions
from sqp_tflite.report import Kind
from sqp_tflite.run import interpreters
from sqp_tflite.source.unroll import MOST_STEPS

DESIGN_KEYS = {
    *(
        "schema",
        "verdict",
        "source",
        "output",
        "sha256",
        "size_bytes",
        "target",
        "quantize",
        "lowering",
        "ops",
        "findings",
    ),
    *("replacements", "agreement", "inputs", "outputs", "memory", "versions", "command", "seconds"),
}


def test_demo_prints_every_runtime_beside_keras(demo):
    assert "Keras test accuracy: 0.9" in demo.ran.out
    for word in ("tflm", "litert", "tflite-runtime", "SQRT", "OK"):
        assert word in demo.ran.out


@pytest.fixture(scope="module")
def report(demo, command):
    ran = command("sqp-export", demo.model, "-o", demo.folder / "again.tflite", "--data", demo.data, "--json")
    assert ran.code == 0 and ran.err == ""
    return json.loads(ran.out)  # one object and nothing else


def test_demo_keeps_its_promises(report):
    assert report["verdict"] == "ok"
    assert {row["op"] for row in report["ops"]} == {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "RESHAPE", "MUL", "ADD", "SQRT")
    }
    counts = {row["op"]: row["count"] for row in report["ops"]}
    assert (counts["MUL"], counts["ADD"], counts["SQRT"]) == (3, 6, 3)
    assert {row["runtime"] for row in report["agreement"]} == {"tflm", "litert", "tflite-runtime"}
    for row in report["agreement"]:
        assert row["samples"] == 360 and row["argmax_agreement"] == 1.0
        assert row["metric_before"] >= 0.97 and row["metric_after"] == row["metric_before"]
        assert row["error_of_range"] <= 1e-5


def test_json_follows_the_design(report):
    assert set(report) >= DESIGN_KEYS
    assert report["inputs"] == [
        {"index": 0, "name": "image", "shape": [1, 8, 8, 1], "dtype": "float32", "scale": None, "zero_point": None}
    ]
    assert report["outputs"][0]["name"] == "digit"
    assert report["command"].startswith("sqp-export ")
    assert report["versions"]["keras"] and report["seconds"] > 0


def test_same_model_gives_the_same_bytes(demo, report):
    assert (demo.folder / "again.tflite").read_bytes() == demo.tflite.read_bytes()


def test_inspect_and_check_know_the_file(demo, command):
    ran = command("sqp-inspect", demo.tflite)
    assert ran.code == 0 and "SQRT" in ran.out and ran.err == ""
    ran = command("sqp-check", demo.model, demo.tflite, "--data", demo.data)
    assert ran.code == 0 and "tflite-runtime" in ran.out


@pytest.fixture(scope="module")
def softplus(tmp_path_factory):
    path = tmp_path_factory.mktemp("refused") / "soft.keras"
    dense(activation="softplus").save(path)
    return path


def test_a_refusal_writes_nothing(softplus, command):
    ran = command("sqp-export", softplus)
    assert ran.code == 1 and "hidden" in ran.err and "EXP" in ran.err and "Traceback" not in ran.err
    assert [path.name for path in softplus.parent.iterdir()] == ["soft.keras"]


def test_a_refusal_as_json_is_one_object(softplus, command):
    ran = command("sqp-export", softplus, "--json")
    found = json.loads(ran.out)
    assert ran.code == 1 and found["verdict"] == "refused"
    assert {finding["op"] for finding in found["findings"]} == {"EXP", "LOG"}


def test_dry_run_prints_the_plan_and_writes_nothing(softplus, command):
    ran = command("sqp-export", softplus, "--dry-run")
    assert ran.code == 0 and "hidden" in ran.out and "softplus" in ran.out
    assert [path.name for path in softplus.parent.iterdir()] == ["soft.keras"]


BAD_CALLS = {
    "no such file": (["nowhere.keras"], "does not exist"),
    "no such data": (["MODEL", "--data", "nowhere.npz"], "does not exist"),
    "output is a folder": (["MODEL", "-o", "."], "a folder"),
    "output's folder is missing": (["MODEL", "-o", "missing/x.tflite"], "must exist"),
    "unknown option": (["MODEL", "--qantize", "int8"], "--qantize"),
    "unknown target": (["MODEL", "--target", "avr"], "invalid choice"),
    "bad map": (["MODEL", "--map", "softplus"], "NAME=ACT"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_get_one_clear_line(case, softplus, command, tmp_path):
    arguments, words = BAD_CALLS[case]
    ran = command("sqp-export", *[softplus if word == "MODEL" else word for word in arguments], cwd=tmp_path)
    assert ran.code == 2 and words in ran.err and ran.out == ""
    assert "Traceback" not in ran.err and list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_refused_first(softplus, tmp_path, monkeypatch):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    # root may write everywhere: what the system answers is planted
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder or mode != os.W_OK)
    with pytest.raises(sqp_tflite.BadInputError, match="must be writable"):
        sqp_tflite.export(dense(), folder / "x.tflite")


def test_an_older_file_survives_a_failed_export(softplus, tmp_path):
    (tmp_path / "x.tflite").write_bytes(b"older")
    with pytest.raises(sqp_tflite.RefusedError):
        sqp_tflite.export(dense(activation="gelu"), tmp_path / "x.tflite")
    assert (tmp_path / "x.tflite").read_bytes() == b"older" and len(list(tmp_path.iterdir())) == 1


def test_python_and_shell_are_the_same_thing(demo):
    exported = sqp_tflite.export(demo.model, data=demo.data)
    assert exported.model_bytes == demo.tflite.read_bytes()
    labels = np.load(demo.data)["y"]
    assert exported.report.agreement[0].samples == len(labels)


def recurrent_too_long() -> keras.Model:
    gates = {"activation": "squareplus", "recurrent_activation": "hard_sigmoid"}
    return keras.Sequential([keras.Input((MOST_STEPS + 1, 2), name="x"), keras.layers.GRU(2, **gates)])


def random_numbers() -> keras.Model:
    class Noisy(keras.layers.Layer):
        def call(self, x):
            return x + keras.random.normal((1, 4))

    return keras.Sequential([keras.Input((4,), name="x"), Noisy()])


def no_counterpart() -> keras.Model:
    class ErfInv(keras.layers.Layer):
        def call(self, x):
            return tf.math.erfinv(x)

    return keras.Sequential([keras.Input((4,), name="x"), ErfInv()])


SAMPLES = {"x": np.linspace(-2, 2, 64, dtype=np.float32).reshape(16, 4)}
REFUSALS = {
    "an operator that is not admitted": (lambda: dense(activation="softplus"), {}, Kind.OP),
    "an operator without a counterpart": (no_counterpart, {}, Kind.OP),
    "a type": (
        lambda: dense(activation="leaky_relu"),
        {"quantize": "int16x8", "lowering": "integer", "data": SAMPLES},
        Kind.DTYPE,
    ),
    "a combination": (dense, {"quantize": "dynamic"}, Kind.DTYPE),
    "RAM": (dense, {"ram": 16}, Kind.BUDGET),
    "flash": (dense, {"flash": 16}, Kind.BUDGET),
    "time steps": (recurrent_too_long, {}, Kind.SHAPE),
    "random numbers": (random_numbers, {}, Kind.STATE),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_every_refusal_has_findings_of_its_kind_and_a_report(case):
    build, given, kind = REFUSALS[case]
    with pytest.raises(sqp_tflite.RefusedError) as caught:
        sqp_tflite.export(build(), command="again", **given)
    findings, report = caught.value.findings, caught.value.report
    assert {finding.kind for finding in findings} == {kind}
    assert (report.verdict, report.findings, report.command) == ("refused", findings, "again")
    assert report.versions and report.output is None
    assert bool(report.plan or report.notes) == (case != "a combination")
    # What was known by then: the file's operators and memory once there was a file.
    assert bool(report.ops) == (case in ("an operator that is not admitted", "a type", "RAM", "flash"))
    assert (report.memory.ram_budget, report.memory.flash_budget) == (given.get("ram"), given.get("flash"))


def test_a_file_that_differs_has_a_report_of_what_was_measured(monkeypatch, tmp_path):
    """The planted fault: an interpreter whose outputs are shifted."""
    run = interpreters.run

    def shifted(runtime, *given):
        outputs = run(runtime, *given)
        return dataclasses.replace(outputs, values=tuple(values + (runtime == "litert") for values in outputs.values))

    monkeypatch.setattr(interpreters, "run", shifted)
    with pytest.raises(
        sqp_tflite.ParityError, match="LiteRT: output `out`, on made-up inputs: the max error is"
    ) as caught:
        sqp_tflite.export(dense(), tmp_path / "m.tflite", reports=[tmp_path / "r.json"])
    report = caught.value.report
    assert (report.verdict, report.findings, report.output) == ("parity_failed", (), None)
    assert {row.runtime: row.status for row in report.agreement}["litert"] == "differs"
    # What to do is in the report as well, which is what the command line prints.
    assert caught.value.remedy and caught.value.remedy.splitlines()[-1] in report.notes
    assert report.ops and report.sha256 and report.memory.peak_bytes
    assert list(tmp_path.iterdir()) == []


def test_the_steps_are_told_in_order(tmp_path):
    told = []
    sqp_tflite.export(dense(), tmp_path / "m.tflite", quantize="int8", data=SAMPLES, progress=told.append)
    assert told == ["load", "trace", "convert", "quantize", "measure", "compare", "emit"]
    told.clear()
    sqp_tflite.export(dense(), dry_run=True, progress=told.append)
    assert told == ["load"]


def test_a_dry_run_has_the_plan_and_no_file(tmp_path):
    exported = sqp_tflite.export(dense(activation="softplus"), tmp_path / "m.tflite", dry_run=True)
    assert exported.model_bytes is None and exported.files == {}
    assert exported.report.plan[0].refused == ("EXP", "LOG") and exported.report.output is None
    assert exported.report.verdict == "planned"
    assert list(tmp_path.iterdir()) == []


def test_the_seconds_begin_when_the_user_begins_to_wait():
    began = time.monotonic() - 100.0
    report = pipeline.run(ExportOptions(dense(), dry_run=True), began=began).report
    assert 100.0 < report.seconds < 200.0


def test_a_process_began_before_it_was_asked():
    code = "import time; began = time.monotonic(); from sqp_tflite.cli.clock import process_start; "
    code += "print(began - process_start())"
    waited = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert 0.0 < waited < 60.0

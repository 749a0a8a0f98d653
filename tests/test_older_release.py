"""A file for an older release of TensorFlow Lite Micro: what it may contain, and what is said about its proof."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from models import converted, dense
from sqp_tflite.cli.commands import inspect_main
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.inspection import inspection
from sqp_tflite.ops.audit import audit, release_notes
from sqp_tflite.ops.policy import PROBED, RELEASES, TARGETS, runtime_of
from sqp_tflite.report import Kind
from sqp_tflite.run import interpreters

OLDER = "tflm@2023"
DATA = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")

pytestmark = pytest.mark.skipif(not interpreters.installed("tflm"), reason="a file is proven on tflite-micro")


@pytest.fixture(scope="module")
def model():
    return dense(units=(6, 3))


@pytest.fixture(scope="module")
def older(model):
    return sqp_tflite.export(model, "older.tflite", quantize="int8", data=DATA, target=OLDER, emit="project")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("older")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


@pytest.fixture(scope="module")
def by_unit(model):
    return sqp_tflite.export(model, "by_unit.tflite", quantize="int8", data=DATA)


def scales(content: bytes) -> list[int]:
    main = read(content).main
    ops = [op for op in main.ops if op.name == "FULLY_CONNECTED"]
    return [len(main.tensors[op.inputs[1]].quantization.scales) for op in ops]


def test_every_release_has_an_interpreter_and_a_probed_version():
    assert set(RELEASES) == {target for target in PROBED if runtime_of(target) != target}
    assert all(runtime_of(target) in TARGETS for target in RELEASES)


def test_dense_layers_get_one_scale_and_the_report_says_so(older, by_unit):
    assert scales(older.model_bytes) == [1, 1] and scales(by_unit.model_bytes) == [6, 3]
    assert any("one weight scale each, as with --per-tensor" in note for note in older.report.notes)
    assert any("--target tflm@2023 or --per-tensor" in note for note in by_unit.report.notes)


@pytest.mark.large
@pytest.mark.parametrize("lowering", ["algebraic", "integer"])
def test_one_scale_is_for_int16x8_too(model, lowering):
    made = sqp_tflite.export(model, quantize="int16x8", lowering=lowering, data=DATA, target=OLDER)
    assert scales(made.model_bytes) == [1, 1]


def test_convolutions_keep_a_scale_per_channel():
    import keras

    model = keras.Sequential([keras.Input((6, 6, 2)), keras.layers.Conv2D(3, 3), keras.layers.Flatten()])
    x = np.random.default_rng(0).normal(size=(40, 6, 6, 2)).astype("float32")
    main = read(sqp_tflite.export(model, quantize="int8", data=x, target=OLDER).model_bytes).main
    (op,) = [op for op in main.ops if op.name == "CONV_2D"]
    assert len(main.tensors[op.inputs[1]].quantization.scales) == 3


def test_the_report_says_what_it_was_run_on(older, folder, capfd):
    here = f"TensorFlow Lite Micro {interpreters.version('tflm')}"
    assert older.report.stand_in == here
    assert {row.runtime for row in older.report.agreement} == {"tflm", "litert", "tflite-runtime"}
    said = f"Run and measured on {here}, which is installed, not on TensorFlow Lite Micro of 2023."
    (note,) = [note for note in older.report.notes if note.startswith(said)]
    assert RELEASES[OLDER] in note
    readme = older.files["older/README.md"].decode()
    assert note in readme and "--per-tensor" in readme
    assert f"TensorFlow Lite Micro ({interpreters.version('tflm')})" in older.files["older/older_golden.h"].decode()
    assert inspect_main([str(folder / "older.tflite"), "--target", OLDER]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    assert "TensorFlow Lite Micro of 2023 runs it: not checked" in printed and note in printed


def test_nothing_stands_in_where_the_release_is_installed(folder, older, monkeypatch):
    monkeypatch.setattr(interpreters, "version", lambda runtime: RELEASES[OLDER])
    assert interpreters.stand_in(OLDER) == "" and interpreters.stand_in("tflm") == ""
    _, report = inspection(folder / "older.tflite", OLDER)
    assert (report.runs, report.stand_in) == ("yes", "")
    assert not any("Run and measured" in note for note in report.notes)


def test_inspect_refuses_a_scale_per_unit_and_its_remedies_help(folder, by_unit, older, model, capfd):
    assert inspect_main([str(folder / "by_unit.tflite"), "--target", OLDER, "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    (finding,) = found["findings"]
    assert (found["runs"], found["stand_in"], finding["kind"]) == ("no", "", "version")
    assert finding["rule"].endswith("silently wrong on TensorFlow Lite Micro from before November 2024.")
    assert finding["layer"] == "hidden, out"
    assert "`--target tflm@2023`" in finding["remedy"] and "`--per-tensor`" in finding["remedy"]
    sqp_tflite.export(model, "one.tflite", quantize="int8", data=DATA, per_tensor=True)
    for name in ("older", "one"):
        assert inspection(folder / f"{name}.tflite", OLDER)[1].verdict == "ok"
    assert inspection(folder / "by_unit.tflite", "tflm")[1].verdict == "ok"


def test_the_audit_sees_a_scale_per_unit(by_unit, older):
    findings = audit(read(by_unit.model_bytes), OLDER)
    assert {(one.op, one.kind) for one in findings} == {("FULLY_CONNECTED", Kind.VERSION)} and len(findings) == 2
    assert audit(read(older.model_bytes), OLDER) == () and audit(read(by_unit.model_bytes), "tflm") == ()


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: tf.matmul(x[:, :, None], x[:, None, :]), "BATCH_MATMUL"),
        (lambda x: tf.reduce_min(x, 1), "REDUCE_MIN"),
        (lambda x: tf.cast(x > 0.5, tf.float32), "CAST"),
    ],
)
def test_operators_that_came_later_are_refused(function, op, tmp_path):
    content = converted(function, (1, 4))
    (finding,) = audit(read(content), OLDER)
    assert finding.op == op and re.match("TensorFlow Lite Micro of 2023 (has|is known to run) ", finding.rule)
    assert audit(read(content), "tflm") == ()
    (tmp_path / "m.tflite").write_bytes(content)
    _, report = inspection(tmp_path / "m.tflite", OLDER)
    assert report.runs == "no" and "`--target tflm`" in report.findings[0].remedy
    assert inspection(tmp_path / "m.tflite", "tflm")[1].runs == "yes"  # the remedy, followed


@pytest.mark.parametrize(("function", "runs"), [(tf.nn.gelu, "no"), (tf.sigmoid, "not checked")])
def test_the_table_answers_for_operators_that_are_not_written_here(function, runs, tmp_path):
    (tmp_path / "m.tflite").write_bytes(converted(function, (1, 4)))
    assert inspection(tmp_path / "m.tflite", OLDER, require="runs")[1].runs == runs


def test_float_models_need_no_note_about_scales(model):
    graph = read(sqp_tflite.export(model, target=OLDER).model_bytes)
    assert release_notes(graph, OLDER) == () and audit(graph, OLDER) == ()

"""Two questions about any file: does the target run it, and is it free of exp and log."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from models import converted, dense
from sqp_tflite.cli.commands import inspect_main
from sqp_tflite.flatbuffer.schema import pack, unpack
from sqp_tflite.inspection import inspection
from sqp_tflite.ops.audit import audit
from sqp_tflite.run import interpreters
from written import Written, perceptron

L = keras.layers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of several origins."""
    made = tmp_path_factory.mktemp("inspected")
    x = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
    stock = tf.lite.TFLiteConverter.from_keras_model(dense(activation="sigmoid"))
    deep = keras.Sequential([keras.Input((4,)), *(L.Dense(4, "relu") for _ in range(6))])
    halves = tf.lite.TFLiteConverter.from_keras_model(deep)
    halves.optimizations, halves.target_spec.supported_types = [tf.lite.Optimize.DEFAULT], [tf.float16]
    (made / "own.tflite").write_bytes(sqp_tflite.export(dense(), quantize="int8", data=x).model_bytes)
    (made / "stock.tflite").write_bytes(stock.convert())
    (made / "halves.tflite").write_bytes(halves.convert())
    (made / "floor.tflite").write_bytes(converted(lambda x: tf.floor(x * 2.0), (1, 4)))
    custom = Written()
    value = custom.value(name="x")
    custom.ends([value], [custom.op("ADD", value, custom.constant(1.0))])
    (made / "add.tflite").write_bytes(custom.editor.bytes())
    return made


@pytest.mark.parametrize(
    ("name", "target", "runs", "needs", "codes"),
    [
        ("own", "tflm", "yes", (), {"runs": 0, "free": 0, "both": 0}),
        ("own", "litert", "yes", (), {"runs": 0, "free": 0, "both": 0}),
        ("stock", "tflm", "yes", ("LOGISTIC",), {"runs": 0, "free": 1, "both": 1}),
        ("stock", "tflite-runtime", "yes", ("LOGISTIC",), {"runs": 0, "free": 1, "both": 1}),
        ("halves", "litert", "yes", (), {"runs": 0, "free": 0, "both": 0}),
        ("floor", "tflm", "yes", (), {"runs": 0, "free": 0, "both": 0}),
    ],
)
def test_the_interpreter_answers_the_first_question_and_the_operators_the_second(
    folder, name, target, runs, needs, codes, capfd
):
    path = folder / f"{name}.tflite"
    assert interpreters.installed(target)
    for require, code in codes.items():
        assert inspect_main([str(path), "--target", target, "--require", require, "--json"]) == code
        found = json.loads(capfd.readouterr().out)
        assert (found["runs"], tuple(found["exp_and_log"])) == (runs, needs)
        assert bool(found["findings"]) == bool(code)
    if target == "tflm":
        assert found["memory"]["arena_bytes"] > 0  # measured wherever it runs


def test_both_answers_are_on_the_terminal(folder, capfd):
    assert inspect_main([str(folder / "stock.tflite")]) == 1
    printed = capfd.readouterr().out
    assert "TensorFlow Lite Micro runs it: yes" in printed and "free of exp and log: no (LOGISTIC)" in printed
    assert "--replace accurate" in printed and "--require runs" in printed


def test_findings_of_one_kind_are_one(folder):
    _, report = inspection(folder / "halves.tflite", "tflm")
    assert report.runs == "no" and len(report.findings) == 1
    assert "and 3 more" in report.findings[0].layer and "`--target litert`" in report.findings[0].remedy
    assert inspection(folder / "halves.tflite", "litert")[1].verdict == "ok"  # the remedy, followed


def test_what_an_interpreter_gets_wrong_without_an_error_does_not_run(folder):
    dynamic = sqp_tflite.export(dense(), quantize="dynamic", target="litert").model_bytes
    path = folder / "dynamic.tflite"
    path.write_bytes(dynamic)
    _, report = inspection(path, "tflm")
    assert report.runs == "no"
    assert report.findings and "int8 weights" in report.findings[0].rule


def test_a_damaged_graph_is_a_no_and_not_a_crash(folder, monkeypatch):
    def refuses(*_):
        raise interpreters.RuntimeFailedError("its own words")

    monkeypatch.setattr(interpreters, "try_once", refuses)
    _, report = inspection(folder / "own.tflite", "tflm")
    assert report.runs == "no" and "its own words" in report.findings[0].rule
    assert report.memory.arena_bytes is None and report.memory.peak_bytes


def test_a_target_that_is_not_installed_is_not_checked(folder, monkeypatch):
    monkeypatch.setitem(interpreters._MODULES, "litert", "a_module_that_is_not_there")
    assert inspection(Path(folder / "own.tflite"), "litert")[1].runs == "not checked"


def test_a_shape_that_no_memory_holds_is_refused_before_an_interpreter_tries(tmp_path):
    made = Written()
    value = made.value(1, 2**31 - 1, name="x")
    path = tmp_path / "huge.tflite"
    path.write_bytes(made.ends([value], [made.op("ADD", value, value)]))
    with pytest.raises(sqp_tflite.BadInputError, match=r"declares the tensor .* of 8.0 GiB; the limit is 512.0 MiB"):
        inspection(path, "tflm", max_memory=512 << 20)


def test_a_file_that_computes_nothing_has_notes(tmp_path):
    empty = Written()
    (tmp_path / "empty.tflite").write_bytes(empty.ends([empty.value(name="x")], []))
    _, report = inspection(tmp_path / "empty.tflite", "litert")
    assert any("no operators" in note for note in report.notes) and any("no outputs" in note for note in report.notes)
    assert [finding.kind.value for finding in report.findings] == ["graph"]


def reversed_order(model):
    model.subgraphs[0].operators.reverse()


def later_tensor(model):
    ops = model.subgraphs[0].operators
    ops[0].inputs = [ops[-1].outputs[0], *ops[0].inputs[1:]]


def own_output(model):
    ops = model.subgraphs[0].operators
    ops[0].inputs = [ops[0].outputs[0], *ops[0].inputs[1:]]


BROKEN = {
    "operators in the wrong order": (reversed_order, "which only a later operator writes"),
    "a tensor of a later operator": (later_tensor, "which only a later operator writes"),
    "an operator's own output": (own_output, "which only a later operator writes"),
    "no inputs": (lambda model: setattr(model.subgraphs[0], "inputs", []), "`x`, which nothing writes"),
    "no operators": (lambda model: setattr(model.subgraphs[0], "operators", []), "nothing writes `y`"),
    "no outputs": (lambda model: setattr(model.subgraphs[0], "outputs", []), "must have outputs"),
    "another schema": (lambda model: setattr(model, "version", 99), "schema version 3, this one says 99"),
}


@pytest.mark.parametrize("target", ["tflm", "litert", "tflm@2023"])
@pytest.mark.parametrize("case", BROKEN)
def test_what_computes_from_memory_that_nothing_wrote_is_a_finding(case, target, tmp_path):
    change, words = BROKEN[case]
    model = unpack(perceptron())
    change(model)
    path = tmp_path / "m.tflite"
    path.write_bytes(pack(model))
    graph, report = inspection(path, target)
    found = [finding for finding in report.findings if finding.kind.value == "graph"]
    assert report.verdict == "refused" and report.runs == "no" and words in found[0].rule
    assert [one for one in audit(graph, target) if one.kind.value == "graph"]
    with pytest.raises(sqp_tflite.BadInputError, match="cannot be run. Received: .*"):
        sqp_tflite.check("none.keras", path)

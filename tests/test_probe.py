"""The operator table: what was stored is what the installed interpreters run."""

import copy
import importlib.metadata
import os
import signal
import time
from pathlib import Path

import pytest

from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops import op_table, probe
from sqp_tflite.ops.one_op import build
from sqp_tflite.ops.op_families import FAMILIES, cases
from sqp_tflite.ops.policy import ADMITTED, RELEASES, RUNTIMES, hybrid, kernels, versions

DOCS = Path(__file__).parents[1] / "docs"


def test_every_admitted_operator_is_probed():
    assert not ADMITTED - set(FAMILIES)


@pytest.mark.large
def test_the_stored_table_is_what_the_interpreters_run():
    assert op_table.differences(probe.table(RUNTIMES), op_table.stored()) == ()


@pytest.mark.parametrize("target", RUNTIMES)
def test_the_operators_of_every_squareplus_file_are_stored_as_the_interpreters_run_them(target):
    """The whole table takes minutes of processor time: it is in `make test-large`."""
    ops = (
        "MUL",
        "ADD",
        "SQRT",
        "RSQRT",
        "FULLY_CONNECTED",
        "CONV_2D",
        "CAST",
        "GATHER",
        "QUANTIZE",
        "DEQUANTIZE",
        "EXP",
    )
    found = probe.probe(target, tuple(ops))
    assert found.types == {op: list(types) for op, types in kernels(target).items() if op in ops}
    assert found.versions == {op: version for op, version in versions(target).items() if op in ops}
    assert found.hybrid == [op for op in hybrid(target) if op in ops]


def test_a_target_that_gains_an_operator_shows_up():
    """The planted fault: a newer TFLM that has SQRT for int8, and a lost operator."""
    now = copy.deepcopy(op_table.stored())
    now["targets"]["tflm"]["SQRT"].append("int8")
    del now["targets"]["litert"]["ADD"]
    now["op_versions"]["litert"]["MUL"] += 1
    lines = op_table.differences(now, op_table.stored())
    assert "tflm now has SQRT for int8." in lines
    assert "litert no longer has ADD for float32." in lines
    assert any(line.startswith("litert takes MUL up to version") for line in lines)


@pytest.mark.parametrize(
    ("target", "op", "dtype", "has"),
    [
        ("tflm", "SQRT", "float32", True),
        ("tflm", "SQRT", "int8", False),
        ("tflm", "RSQRT", "int16", True),
        ("tflm", "EXP", "int8", False),
        ("tflm", "GATHER", "int8", True),
        ("tflite-runtime", "SQRT", "int8", False),
        ("tflite-runtime", "RSQRT", "int16", False),
        ("litert", "SQRT", "int8", True),
        ("tflm@2023", "CONV_2D", "int8", True),
        ("tflm@2023", "BATCH_MATMUL", "float32", False),
        ("tflm@2023", "CAST", "int8", True),
        ("tflm@2023", "TRANSPOSE_CONV", "int16", False),  # it crashes without a bias
        ("tflm@2023", "CAST", "bool", False),  # it runs, and leaves its output as it was
    ],
)
def test_known_kernels(target, op, dtype, has):
    assert (dtype in kernels(target).get(op, ())) == has


def test_tflm_reads_integer_weights_of_float_models_in_lookups_only():
    assert hybrid("tflm") == ("EMBEDDING_LOOKUP",)
    assert "FULLY_CONNECTED" in hybrid("litert")


def test_models_hold_the_one_operator_that_they_are_named_after():
    for case in cases(("SQRT", "CONV_2D", "GATHER", "SPLIT")):
        (op,) = read(build(case)).main.ops
        assert (op.name, op.dtype) == (case.op, case.dtype)


def test_an_interpreter_that_dies_costs_one_verdict():
    """The planted fault: the second model kills the process."""
    asked = tuple(cases(("ADD",)))[:3]

    def runner(content, case):
        if case is asked[1]:
            os.kill(os.getpid(), signal.SIGKILL)

    assert probe._run_all(runner, [b""] * 3, asked) == [True, False, True]


def test_the_first_model_has_time_for_importing_the_interpreter(monkeypatch):
    """The planted fault: an interpreter that takes longer to import than one model may take."""
    monkeypatch.setattr(probe, "SECONDS_PER_MODEL", 1)
    asked = tuple(cases(("ADD",)))[:3]

    def runner(content, case):
        if case is asked[0]:
            time.sleep(1.2)

    assert probe._run_all(runner, [b""] * 3, asked) == [True] * 3
    monkeypatch.setattr(probe, "SECONDS_TO_IMPORT", 1)
    assert probe._run_all(runner, [b""] * 3, asked) == [False, True, True]


@pytest.mark.parametrize(("version", "found"), [("0.dev20231010131554", "tflm@2023"), ("0.dev20261023182759", "tflm")])
def test_a_release_is_probed_where_it_is_installed(version, found, monkeypatch, capsys):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    here = {target for target in probe.available() if target.startswith("tflm")}
    assert here == {found}
    (other,) = {"tflm", *RELEASES} - here
    with pytest.raises(SystemExit):
        probe.main(["--target", other])
    assert f"{other} is not installed here" in capsys.readouterr().err


def test_a_table_of_one_target_keeps_the_others():
    before = op_table.stored()
    now = {
        section: {"tflm@2023": entries["tflm@2023"]} for section, entries in before.items() if section != "op_versions"
    }
    now["targets"] = {"tflm@2023": {"ADD": ["float32"]}}
    joined = op_table.merged({**now, "op_versions": {}}, before)
    assert list(joined["targets"]) == list(before["targets"])
    assert joined["targets"].pop("tflm@2023") == {"ADD": ["float32"]}
    assert joined["op_versions"] == before["op_versions"] and joined["hybrid"] == before["hybrid"]
    assert joined["targets"].items() <= before["targets"].items()


def test_the_documentation_is_the_table():
    assert (DOCS / "operators.md").read_text("utf-8") == op_table.markdown(op_table.stored())


def test_the_file_is_written_as_dumps_writes_it():
    path = Path(op_table.__file__).with_name("ops.json")
    assert path.read_text("utf-8") == op_table.dumps(op_table.stored())

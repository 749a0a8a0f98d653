"""The published JSON schema says what reports hold, no more and no less."""

import dataclasses
import importlib.resources
import json
import types
import typing
from pathlib import Path

import jsonschema
import pytest

from sqp_tflite import device, report
from sqp_tflite.agreement import Agreement, Reserve
from sqp_tflite.cli.commands import export_main, inspect_main
from sqp_tflite.emit.rendering import check_names, render
from sqp_tflite.errors import BadInputError
from sqp_tflite.inspection import inspection
from written import Written

DATA = Path(__file__).parent / "data"
SCHEMA = json.loads(importlib.resources.files("sqp_tflite").joinpath("report.schema.json").read_text("utf-8"))
CLASSES = {
    "op": report.OpRow,
    "finding": report.Finding,
    "replacement": report.Replacement,
    "agreement": Agreement,
    "tensor": report.TensorRow,
    "step": device.MemoryStep,
    "memory": device.Memory,
    "npu": device.Npu,
    "npu_row": device.NpuRow,
    "plan": report.PlanRow,
    "activation": report.Activation,
    "layer_error": report.LayerError,
    "reserve": Reserve,
}
AGREED = Agreement(
    "tflm", "ok", "", "written", "y", 3, 0.1, 10.0, 0.01, 0.25, 1.0, 12, 256, 1.0, "accuracy", 0.9, 0.9, "ends"
)
PLANNED = report.PlanRow(
    "a",
    report.Activation("squareplus", (("b", 4.0), ("learn_b", None)), "Squareplus"),
    report.Form.OPS,
    ("MUL", "SQRT"),
    ("SQRT",),
    report.Activation("my_gelu", (("approximate", True),)),
)


def validate(found: dict) -> None:
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)


def full() -> report.Report:
    """A report in which every list has a row and every optional field a value."""
    return report.Report(
        "refused", "m.keras", "tflm", "int8", "table", "m.tflite", "0" * 64, 10,
        ops=(report.OpRow("ADD", "int8", 2, 3, ("a", "b")),),
        findings=(report.Finding("a", "EXP", "int8", "Rule.", "Remedy.", report.Kind.OP),),
        replacements=(report.Replacement("a", "gelu", "algebraic gelu", 4, 1e-3),),
        agreement=(AGREED,),
        inputs=(report.TensorRow(0, "x", (1, 2), "int8", 0.1, -3),),
        outputs=(report.TensorRow(0, "y", (1, 2), "float32"),),
        memory=device.Memory(1, "tflm 1", 1, 1, "t", 1, "a", 5, 5, (device.MemoryStep("ADD", "a", 3),)),
        npu=device.Npu(
            "ethos-u55-128", "ethos-u-vela 1", "S", "M", 5, 1, 2, 3, 4, 5, 6,
            (device.NpuRow("CAST", "int8", "a", False, "Unsupported opType"),),
        ),
        plan=(PLANNED,),
        layer_errors=(report.LayerError("a", "t", 0.1, 0.1),),
        reserves=(Reserve("a", 3.0, 512.0, 170.7),),
        unproven=("Not known.",), warnings=("A warning.",), notes=("A note.",),
        versions=(("keras", "3"),), command="sqp-export m.keras", seconds=1.5,
    )  # fmt: skip


def test_a_full_and_an_empty_report_are_valid():
    validate(full().to_dict())
    validate(report.Report("ok", "m", "litert", "float32", "algebraic").to_dict())


def test_schema_has_exactly_the_fields_of_the_report():
    names = {field.name for field in dataclasses.fields(report.Report)}
    assert set(SCHEMA["properties"]) == names | {"schema"}
    for name, cls in CLASSES.items():
        keys = [field.name for field in dataclasses.fields(cls)]
        if cls is report.PlanRow:
            keys = list(PLANNED.to_dict())
            assert {field.name for field in dataclasses.fields(cls)} <= set(keys)
        assert list(SCHEMA["$defs"][name]["properties"]) == keys, name
    assert SCHEMA["properties"]["schema"]["const"] == report.SCHEMA


def test_schema_has_exactly_the_words_of_the_enums():
    properties = SCHEMA["$defs"]
    assert properties["finding"]["properties"]["kind"]["enum"] == [kind.value for kind in report.Kind]
    assert properties["plan"]["properties"]["form"]["enum"] == [form.value for form in report.Form]


def test_a_row_of_the_plan_has_words_and_the_data_behind_them():
    row = json.loads(json.dumps(full().to_dict()))["plan"][0]
    assert (row["activation"], row["becomes"]) == ("my_gelu -> squareplus (b=4)", "refused: SQRT")
    assert (row["ops"], row["form"], row["refused"]) == (["MUL", "SQRT"], "ops", ["SQRT"])
    assert row["now"] == {"name": "squareplus", "parameters": {"b": 4.0, "learn_b": None}, "spelled": "Squareplus"}
    assert row["was"]["parameters"] == {"approximate": True}


def test_what_may_be_none_may_be_null():
    for name, cls in (*CLASSES.items(), ("", report.Report)):
        properties = SCHEMA["$defs"][name]["properties"] if name else SCHEMA["properties"]
        for field, kind in typing.get_type_hints(cls).items():
            optional = isinstance(kind, types.UnionType) and type(None) in typing.get_args(kind)
            assert optional == ("null" in properties[field].get("type", ())), (name, field)


FAULTS = {
    "a verdict of its own": {"verdict": "fine"},
    "a key too many": {"extra": 1},
    "a size below 0": {"size_bytes": -1},
    "a hash that is none": {"sha256": "abc"},
    "an op that is a string": {"ops": ["ADD"]},
    "a kind of its own": {"findings": [{**full().to_dict()["findings"][0], "kind": "other"}]},
    "an activation without a name": {"plan": [{**PLANNED.to_dict(), "was": {"parameters": {}, "spelled": ""}}]},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_schema_refuses(fault):
    with pytest.raises(jsonschema.ValidationError):
        validate({**full().to_dict(), **FAULTS[fault]})


def test_schema_refuses_a_missing_key():
    found = full().to_dict()
    del found["memory"]
    with pytest.raises(jsonschema.ValidationError, match="'memory' is a required property"):
        validate(found)


@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_report_of_a_real_file_is_valid(kind):
    graph, found = inspection(DATA / f"two_inputs_{kind}.tflite", "tflm", "sqp-inspect")
    validate(json.loads(render(found, graph, b"", ".json")))
    assert found.quantize == kind
    assert len(found.memory.steps) == len(graph.main.ops)


def test_inspect_prints_one_valid_object(capfd):
    assert inspect_main([str(DATA / "two_inputs_int8.tflite"), "--json"]) == 0
    printed = capfd.readouterr()
    validate(json.loads(printed.out))
    assert printed.err == ""


def test_a_report_needs_an_ending_that_says_its_form(capfd, tmp_path):
    with pytest.raises(BadInputError, match=r"must name an \.html or \.json file"):
        check_names(["report.pdf"])
    (tmp_path / "m.keras").write_bytes(b"")
    assert export_main([str(tmp_path / "m.keras"), "--report", "report.pdf"]) == 2
    assert "must name an .html or .json file" in capfd.readouterr().err


def test_what_is_not_finite_is_null_and_the_report_stays_valid():
    nan = float("nan")
    found = dataclasses.replace(
        full(),
        inputs=(report.TensorRow(0, "x", (1, 2), "int8", nan, -3),),
        agreement=(dataclasses.replace(AGREED, max_abs_error=nan, error_of_range=float("inf")),),
        plan=(dataclasses.replace(PLANNED, now=report.Activation("relu", (("max_value", float("inf")), ("at", nan)))),),
    )
    text = report.json_text(found.to_dict())
    held = json.loads(text, parse_constant=pytest.fail)
    validate(held)
    assert held["inputs"][0]["scale"] is held["agreement"][0]["error_of_range"] is None
    assert held["plan"][0]["now"]["parameters"] == {"max_value": None, "at": None}


def test_a_file_whose_scale_is_nan_has_valid_reports(tmp_path, capfd):
    file = Written()
    x = file.value(name="x", scale=float("nan"))
    (tmp_path / "nan.tflite").write_bytes(file.ends([x], [file.op("ABS", x, name="y")]))
    given = [str(tmp_path / "nan.tflite"), "--target", "litert"]
    assert inspect_main([*given, "--json", "--report", str(tmp_path / "r.json")]) == 1
    for text in (capfd.readouterr().out, (tmp_path / "r.json").read_text("utf-8")):
        held = json.loads(text, parse_constant=pytest.fail)
        validate(held)
        assert held["inputs"][0]["scale"] is None and "of its scale" in json.dumps(held["findings"])
    assert inspect_main([*given, "--report", "-"]) == 1
    validate(json.loads(capfd.readouterr().out, parse_constant=pytest.fail))

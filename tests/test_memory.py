"""Memory as the report has it, with and without a measured arena, and the budgets."""

import dataclasses
import importlib.resources
import io
import json

import jsonschema
import pytest
from rich.console import Console

import sqp_tflite
from models import dense
from sqp_tflite.cli.text import show_report
from sqp_tflite.device import Memory
from sqp_tflite.emit.page import html
from sqp_tflite.flatbuffer.graph import Graph, Subgraph, Tensor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.inspection import inspection
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.run import arena, interpreters
from sqp_tflite.run.memory import memory, over_budget


@pytest.fixture(scope="module")
def exported():
    return sqp_tflite.export(dense(), target="litert")


def test_only_tflm_has_an_arena(exported):
    found, measured = memory(exported.model_bytes, read(exported.model_bytes), "litert")
    assert measured is None and found.arena_bytes is None and found.arena_runtime == ""


def test_the_peak_names_its_layer_and_is_the_largest_step(exported):
    graph = read(exported.model_bytes)
    found, _ = memory(exported.model_bytes, graph, "litert", LayerNames(("hidden", "out"), (("out", "out"),)))
    assert [step.op for step in found.steps] == [op.name for op in graph.main.ops]
    assert found.peak_bytes == max(step.live_bytes for step in found.steps)
    assert found.peak_layer == "hidden"


@pytest.mark.skipif(not interpreters.installed("tflm"), reason="the arena is measured on tflite-micro")
def test_the_measured_arena_is_in_the_report(exported):
    found, measured = memory(exported.model_bytes, read(exported.model_bytes), "tflm")
    assert (found.arena_bytes, found.arena_32bit_low, found.arena_32bit_high) == (
        measured.needed,
        measured.low,
        measured.high,
    )
    assert found.arena_32bit_low <= found.arena_32bit_high <= found.arena_bytes


@pytest.fixture
def without_bounds(monkeypatch):
    """The planted change: tflite-micro words its list of allocations in another way."""
    monkeypatch.setattr(arena, "measure", lambda model: arena._described(4096, "Arena: 4 kB", 1))
    monkeypatch.setattr(interpreters, "installed", lambda runtime: True)


@pytest.mark.skipif(not interpreters.installed("tflm"), reason="the arena is measured on tflite-micro")
def test_an_export_without_bounds_goes_on_with_a_note(without_bounds, tmp_path):
    emit = ("project",)
    exported = sqp_tflite.export(dense(), tmp_path / "m.tflite", emit=emit, reports=[tmp_path / "m.html"])
    report = exported.report
    assert report.verdict == "ok" and report.memory.arena_bytes == 4096
    assert report.memory.arena_32bit_low is None and report.memory.arena_32bit_high is None
    assert any("bounds for a 32-bit target are omitted" in note for note in report.notes)
    written = {name: content.decode() for name, content in exported.files.items() if name.endswith((".h", ".md"))}
    assert not any("None" in content for content in written.values())
    assert any("4,096 bytes of arena at most |" in content for content in written.values())
    page = (tmp_path / "m.html").read_text("utf-8")
    assert "None to None" not in page and "upper bound for a 32-bit target" in page


@pytest.mark.skipif(not interpreters.installed("tflm"), reason="the arena is measured on tflite-micro")
def test_text_json_and_inspection_do_without_bounds(without_bounds, exported, tmp_path):
    (tmp_path / "m.tflite").write_bytes(exported.model_bytes)
    _, report = inspection(tmp_path / "m.tflite", "tflm")
    assert any("bounds for a 32-bit target are omitted" in note for note in report.notes)
    shown = io.StringIO()
    show_report(Console(file=shown, width=120), report)
    assert "arena 4,096 bytes" in shown.getvalue() and "32-bit target needs" not in shown.getvalue()
    schema = json.loads(importlib.resources.files("sqp_tflite").joinpath("report.schema.json").read_text("utf-8"))
    found = report.to_dict()
    jsonschema.validate(json.loads(json.dumps(found)), schema, cls=jsonschema.Draft202012Validator)
    assert found["memory"]["arena_32bit_low"] is None


def test_text_and_page_say_that_the_flash_budget_is_for_the_model_only(exported, tmp_path):
    (tmp_path / "m.tflite").write_bytes(exported.model_bytes)
    _, report = inspection(tmp_path / "m.tflite", "litert")
    report = dataclasses.replace(report, memory=dataclasses.replace(report.memory, flash_budget=4096))
    shown = io.StringIO()
    show_report(Console(file=shown, width=120), report)
    for text in (shown.getvalue(), html(report, read(exported.model_bytes))):
        assert "4,096" in text and "the code of the interpreter is not counted" in text


def sized(size, weights=(), dtype="float32"):
    """A graph of a file of so many bytes, with weights of these."""
    tensors = tuple(Tensor(i, "w", (1,), dtype, data=memoryview(bytes(count))) for i, count in enumerate(weights))
    return Graph((Subgraph("main", tensors, (), (), ()),), size, "", 3, "")


@pytest.mark.parametrize(
    ("graph", "ram", "flash", "named"),
    [
        (sized(10_000, (8000,)), None, 5000, True),
        (sized(10_000, (8000,)), None, 4000, False),  # Int8 would not be enough.
        (sized(2000, (100, 800)), None, 1800, False),  # It adds more than it saves.
        (sized(10_000, (8000,), "int8"), None, 5000, False),  # It is int8.
        (sized(500), 1500, None, True),
        (sized(500), 1000, None, False),
    ],
)
def test_int8_is_named_only_where_it_helps(graph, ram, flash, named):
    (finding,) = over_budget(Memory(arena_bytes=2000, peak_bytes=1000, peak_layer="conv"), graph, ram, flash)
    assert ("--quantize int8" in finding.remedy) is named


@pytest.mark.parametrize(
    ("ram", "flash", "found"),
    [
        (None, None, []),
        (2000, 500, []),
        (1999, 500, ["RAM"]),
        (2000, 499, ["flash"]),
        (1, 1, ["RAM", "flash"]),
    ],
)
def test_budgets_are_broken_by_one_byte_too_many(ram, flash, found):
    needs = Memory(arena_bytes=2000, arena_32bit_low=1000, arena_32bit_high=1500, peak_bytes=800, peak_layer="conv")
    rules = [finding.rule for finding in over_budget(needs, sized(500), ram, flash)]
    assert [next(word for word in ("RAM", "flash") if word in rule) for rule in rules] == found


def test_a_broken_budget_says_by_how_much_where_and_what_else_fits():
    needs = Memory(arena_bytes=2000, arena_32bit_low=1000, arena_32bit_high=1500, peak_bytes=800, peak_layer="conv")
    (finding,) = over_budget(needs, sized(500), 1600, None)
    assert "2,000 bytes of RAM, 400 more than the 1,600 of --ram" in finding.rule
    assert "`conv`" in finding.remedy and "1,500 at most, which fits" in finding.remedy
    (tighter,) = over_budget(needs, sized(500), 1400, None)
    assert "which fits" not in tighter.remedy


def test_without_a_measured_arena_the_tensors_decide():
    (finding,) = over_budget(Memory(peak_bytes=800, peak_layer="conv"), sized(500), 700, None)
    assert "800 bytes of RAM, 100 more" in finding.rule

"""Targets with an NPU: what the real Vela says of a file is reported, and what is left to the CPU is not hidden."""

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import jsonschema
import keras
import numpy as np
import pytest

import sqp_tflite
from models import converted, dense
from sqp_tflite.cli.commands import inspect_main
from sqp_tflite.codegen.plan import plan
from sqp_tflite.emit.rendering import render
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.inspection import inspection
from sqp_tflite.npu import vela
from sqp_tflite.npu.judge import judged
from sqp_tflite.npu.tables import COMMAND
from sqp_tflite.ops.one_op import build
from sqp_tflite.ops.policy import ACCELERATOR, ACCELERATORS, NPUS
from sqp_tflite.ops.probe import cases
from sqp_tflite.report import Kind
from sqp_tflite.run import interpreters
from sqp_tflite.validate import require_compiler
from test_report_schema import SCHEMA

pytest.importorskip("ethosu", reason="the extra [ethos-u] is missing: pip install ethos-u-vela")
pytestmark = pytest.mark.skipif(not interpreters.installed("tflm"), reason="a file is proven on tflite-micro")

L = keras.layers
ISLAND = ["DEQUANTIZE", "MUL", "ADD", "SQRT", "ADD", "QUANTIZE"]
"""The operators of squareplus in float."""

DECLARATIONS = Path(__file__).parent / "tflm_declarations"
DATA = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
IMAGES = np.random.default_rng(0).normal(size=(32, 8, 8, 1)).astype("float32")


def convolutions() -> keras.Model:
    """The demo's network, smaller."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            L.Conv2D(8, 3, padding="same", use_bias=False, name="strokes"),
            L.BatchNormalization(name="scaled"),
            L.Activation("squareplus", name="act"),
            L.DepthwiseConv2D(3, padding="same", activation="squareplus", name="spread"),
            L.MaxPooling2D(2, name="pool"),
            L.Flatten(name="flat"),
            L.Dense(10, name="digit"),
        ],
        name="digits",
    )


MODELS = {
    "ethos-u55": (convolutions, IMAGES),
    "ethos-u65": (lambda: dense(units=(6, 3)), DATA),
    "ethos-u85": (lambda: dense("silu", units=(6, 3)), DATA),
}


def made(target, **options):
    build, data = MODELS[target]
    return sqp_tflite.export(build(), target=target, data=data, **options)


@pytest.fixture(scope="module")
def small():
    """A file whose activation is in float, which every NPU leaves to the CPU, with its report."""
    return sqp_tflite.export(dense(units=(6, 3)), target="ethos-u55", lowering="algebraic", data=DATA)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """The folder of an export for a U55 that leaves the activation to the CPU."""
    folder = tmp_path_factory.mktemp("emitted")
    sqp_tflite.export(
        dense(units=(6, 3)), folder / "net.tflite", target="ethos-u55", lowering="algebraic", data=DATA,
        emit="project,resolver,c",
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def file(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("npu") / "island.tflite"
    path.write_bytes(small.model_bytes)
    return path


def one(op: str, dtype: str) -> bytes:
    return build(next(case for case in cases((op,)) if case.dtype == dtype))


@pytest.mark.parametrize("target", NPUS)
def test_the_defaults_of_an_npu_leave_nothing_to_the_cpu(target):
    report = made(target, replace="accurate" if target == "ethos-u85" else None, npu_only=True).report
    npu = report.npu
    assert (report.quantize, report.lowering, npu.accelerator) == ("int8", "table", ACCELERATOR[target])
    assert npu.on_cpu == 0 and npu.on_npu == sum(row.count for row in report.ops)
    assert npu.cycles > 100 and npu.macs > 10 and npu.compiled_bytes > 500 and npu.clock_hz >= 500e6
    assert npu.sram_bytes + npu.dram_bytes > 10 and npu.compiler == f"ethos-u-vela {vela.version()}"
    assert any("estimates of Vela" in note and npu.system in note for note in report.notes)
    assert report.worst("tflm").status == "ok"  # The numbers are proven on the reference kernels.
    jsonschema.validate(report.to_dict(), SCHEMA)


def test_a_planted_operator_on_the_cpu_is_reported_with_its_layer_and_remedy(small):
    npu = small.report.npu
    left = [row for row in npu.operators if not row.on_npu]
    assert [row.op for row in left] == ISLAND and npu.on_npu == len(npu.operators) - len(ISLAND)
    assert {row.layer for row in left} == {"hidden"} and all(row.reason for row in left)
    told = [line for line in small.report.warnings if "Ethos-U55 leaves" in line]
    assert len(told) == len(set(ISLAND)) and not small.report.findings
    assert all("`hidden`: Ethos-U55 leaves" in line and "--lowering table" in line for line in told)


def test_who_asks_for_the_npu_only_gets_a_refusal_and_a_remedy_that_works(small):
    with pytest.raises(sqp_tflite.RefusedError, match="leaves SQRT to the CPU") as caught:
        sqp_tflite.export(dense(), target="ethos-u55", lowering="algebraic", data=DATA, npu_only=True)
    report = caught.value.report
    assert {finding.kind for finding in report.findings} == {Kind.NPU} and report.npu.on_cpu == len(ISLAND)
    assert {finding.remedy for finding in report.findings} == {
        "Export with `--lowering table`: tables become those of the NPU."
    }
    assert not any("leaves" in line for line in report.warnings)
    again = sqp_tflite.export(dense(), target="ethos-u55", lowering="table", data=DATA, npu_only=True)
    assert again.report.verdict == "ok" and again.report.npu.on_cpu == 0


def test_conversions_at_the_ends_are_the_cpus_and_the_remedy_is_to_leave_them_out():
    report = made("ethos-u65", io="float32").report
    assert {row.op for row in report.npu.operators if not row.on_npu} == {"QUANTIZE", "DEQUANTIZE"}
    assert all("Leave out `--io float32`" in line for line in report.warnings)


def test_text_and_page_show_what_the_npu_computes(small, command, file):
    ran = command("sqp-inspect", file, "--target", "ethos-u55")
    assert ran.code == 0 and "TensorFlow Lite Micro runs it: yes" in ran.out
    words = " ".join(ran.out.split())
    assert "ethos-u55-128, by ethos-u-vela" in words and "2 of 8 operators on the NPU, 6 on the CPU" in words
    assert "about" in words and "cycles (" in words and "SRAM" in words and "flash" in words
    page = render(small.report, read(small.model_bytes), small.model_bytes, ".html").decode()
    assert (
        "On ethos-u55-128" in page and "<td>SQRT</td><td>float32</td>" in page and "Estimates of ethos-u-vela" in page
    )


def test_a_finished_file_is_judged_the_same(small, file):
    _, report = inspection(file, "ethos-u55")
    place = [(row.op, row.on_npu) for row in report.npu.operators]
    assert place == [(row.op, row.on_npu) for row in small.report.npu.operators]
    assert report.npu.cycles == small.report.npu.cycles and report.verdict == "ok" and len(report.warnings) == 5
    assert all("sqp-export --target ethos-u55" in line for line in report.warnings)
    wider = inspection(file, "ethos-u55", accelerator="ethos-u55-256")[1].npu
    assert wider.accelerator == "ethos-u55-256" and wider.compiled_bytes > 500
    # The exit code of a warning is 0, of a finding 1.
    assert inspect_main([str(file), "--target", "ethos-u55", "--npu-only", "--quiet"]) == 1


def test_a_compiled_file_is_known_as_one(emitted):
    for target in ("ethos-u55", "tflm"):
        (finding,) = inspection(emitted / "net_vela.tflite", target)[1].findings
        assert finding.kind is Kind.NPU and "Inspect the file that it was compiled from" in finding.remedy
    with pytest.raises(sqp_tflite.RefusedError, match="Pass the file that it was compiled from") as caught:
        plan(read((emitted / "net_vela.tflite").read_bytes()))
    assert len(caught.value.findings) == 1


def test_inspection_names_an_npu_that_has_the_operator(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(one("BATCH_MATMUL", "int16"))
    report = inspection(path, "ethos-u55")[1]
    assert report.npu.on_cpu == 1 and "`--target ethos-u85`, which computes it" in report.warnings[0]
    assert inspection(path, "ethos-u85")[1].npu.on_cpu == 0


def test_operators_on_which_vela_fails_are_named_with_what_to_do(tmp_path):
    """Vela 5.2 ends in an error where a U55 would have to compare."""
    path = tmp_path / "m.tflite"
    path.write_bytes(one("GREATER", "int8"))
    (finding,) = inspection(path, "ethos-u55")[1].findings
    assert (finding.op, finding.kind) == ("GREATER", Kind.NPU) and "could not run on NPU" in finding.rule
    assert "Traceback" not in finding.rule and "--target ethos-u85" in finding.remedy
    assert inspection(path, "ethos-u85")[1].npu.on_cpu == 0


def test_a_float_file_is_on_the_cpu_altogether(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(converted(lambda x: x * x + 2.0, (1, 4)))
    report = inspection(path, "ethos-u85")[1]
    assert report.npu.on_npu == 0 and report.npu.on_cpu == 2 and report.npu.cycles == 0
    (warning,) = report.warnings
    assert "the CPU computes all of the file" in warning and "sqp-export --target ethos-u85 --data" in warning


def test_what_vela_does_not_take_is_a_refusal_in_one_line(small, monkeypatch):
    def crash(content, accelerator):
        raise vela.CompilerFailedError("planted words")

    monkeypatch.setattr(vela, "compiled", crash)
    with pytest.raises(sqp_tflite.RefusedError, match="may not ship") as caught:
        judged(small.model_bytes, read(small.model_bytes), "ethos-u55", "ethos-u55-128")
    (finding,) = caught.value.findings
    assert "must compile the file. It says: planted words." in finding.rule and finding.remedy


def test_a_damaged_file_makes_no_stack_trace():
    with pytest.raises(vela.CompilerFailedError) as caught:
        vela.compiled(b"TFL3" * 20, "ethos-u55-128")
    assert "\n" not in str(caught.value) and str(caught.value)


def test_the_compiled_file_hands_all_to_the_npu():
    export = made("ethos-u65")
    content = export.files["model_vela.tflite"]
    compiled = read(content)
    assert [op.name for op in compiled.main.ops] == [COMMAND] and len(content) == export.report.npu.compiled_bytes
    assert [tensor.shape for tensor in compiled.outputs] == [
        tensor.shape for tensor in read(export.model_bytes).outputs
    ]


def test_the_firmware_has_the_compiled_file_and_the_operators_that_are_left(emitted, small, tmp_path):
    compiled = (emitted / "net_vela.tflite").read_bytes()
    names = [op.name for op in read(compiled).main.ops]
    assert names == [COMMAND, *ISLAND, COMMAND]
    assert (emitted / "net.tflite").read_bytes() == small.model_bytes == (emitted / "net" / "net.tflite").read_bytes()
    for folder in (emitted, emitted / "net"):
        text = (folder / "net_op_resolver.h").read_text()
        assert re.findall(r"resolver\.(\w+)\(\)", text) == [
            "AddEthosU",
            "AddDequantize",
            "AddMul",
            "AddAdd",
            "AddSqrt",
            "AddQuantize",
        ]
        assert f"kCount = {len(set(names))};" in text
        array = re.search(r"\{([^}]*)\};", (folder / "net_data.c").read_text())[1]
        assert bytes(int(code, 16) for code in re.findall("0x(..)", array)) == compiled
        use = "net_ops::Resolver r; bool ok = net_ops::Register(r);"
        (tmp_path / "main.cc").write_text(f'#include "net_op_resolver.h"\n{use}\n')
        flags = ["-std=c++17", "-fsyntax-only", f"-I{DECLARATIONS}", f"-I{folder}"]
        subprocess.run(["g++", *flags, str(tmp_path / "main.cc")], check=True)
    assert "2 of 8" in (emitted / "net_vela.txt").read_text() and "CPU  SQRT" in (emitted / "net_vela.txt").read_text()


def test_the_firmware_says_what_was_not_run(emitted, small):
    readme = " ".join((emitted / "net" / "README.md").read_text().split())
    assert "## The NPU" in readme and "CO_PROCESSOR=ethos_u" in readme and "The compiled file was **not** run" in readme
    arena = (emitted / "net" / "net_arena.h").read_text()
    size = int(re.search(r"ARENA_BYTES (\d+)", arena)[1])
    assert "was calculated, not measured" in arena and "smallest size with which" not in arena
    assert small.report.npu.sram_bytes < size < small.report.npu.sram_bytes + 2 * small.report.memory.arena_bytes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quantize": "float32"}, "computes with integers only.*--quantize int8 --lowering table --target ethos-u55"),
        ({"accelerator": "ethos-u65-256"}, "ethos-u55-32, .*Received: `ethos-u65-256`.*or --target ethos-u65"),
        ({"accelerator": "u55"}, "ethos-u55-32, ethos-u55-64, .*Received: `u55`. Omit it for ethos-u55-128"),
        (
            {"accelerator": "ethos-u55-128", "target": "tflm"},
            "`accelerator` .*target with an NPU: ethos-u55.*--target tflm",
        ),
        ({"npu_only": True, "target": "litert"}, "`npu_only`.*target with an NPU.*Received: --npu-only with --target"),
        ({"emit": "code"}, "--emit code.*does without the NPU.*or use --target tflm"),
        ({"emit": "vela", "target": "tflm"}, "--emit vela .*Received: --target tflm.*--target ethos-u55"),
        ({"ram": "8"}, "The NPU's memory is [\\d,]+ bytes of RAM, .* more than the 8 of --ram"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(options, words):
    with pytest.raises(sqp_tflite.ExportError, match=words):
        sqp_tflite.export(dense(), **{"target": "ethos-u55", "data": DATA, **options})


def test_a_missing_compiler_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(vela, "version", lambda: "")
    with pytest.raises(sqp_tflite.ExportError, match="not installed.*'sqp-keras\\[ethos-u\\]'.*--target tflm"):
        require_compiler("ethos-u55")
    require_compiler("tflm")


def test_the_variants_are_those_of_vela():
    from ethosu.vela.architecture_features import Accelerator

    assert sorted(name for names in ACCELERATORS.values() for name in names) == sorted(Accelerator.member_list())
    assert all(ACCELERATOR[target] in ACCELERATORS[target] for target in NPUS)


def test_the_json_has_every_operator_and_its_place(file, command):
    report = json.loads(command("sqp-inspect", file, "--target", "ethos-u55", "--json").out)
    jsonschema.validate(report, SCHEMA)
    assert [row["op"] for row in report["npu"]["operators"] if not row["on_npu"]] == ISLAND
    assert list(report["npu"]) == [field.name for field in dataclasses.fields(sqp_tflite.device.Npu)]

"""What an export is asked for is one value, and a call that cannot work is refused before any work."""

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from sqp_tflite import pipeline
from sqp_tflite.cli import commands, running
from sqp_tflite.cli.arguments import export_parser
from sqp_tflite.emit import CStyle
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.options import ExportOptions
from sqp_tflite.validate import validate

GIVEN = {
    "io": "int8",
    "data": "d.npz",
    "names": {"mine": "gelu"},
    "imports": ("layers:Own",),
    "trust_code": True,
    "hard_sigmoid": "keras2",
    "replace": "fast",
    "head": "logits",
    "max_error": 0.25,
    "positive": True,
    "dry_run": True,
    "emit": ("c",),
    "c_style": CStyle("net"),
    "ram": 1,
    "flash": 2,
    "reference": "f.tflite",
    "faithful": True,
    "command": "again",
}
WANTED = {"quantize": "int8", "lowering": "table", "target": "litert"}


def asked(monkeypatch) -> list[ExportOptions]:
    """Returns the list to which every export that begins from now on adds what it was asked for."""
    found: list[ExportOptions] = []

    def stop(options, progress=None):
        found.append(options)
        raise BadInputError("Stopped here.")

    monkeypatch.setattr(pipeline, "run", stop)
    return found


def test_export_passes_every_parameter_on(monkeypatch):
    found = asked(monkeypatch)
    with pytest.raises(BadInputError, match="Stopped here"):
        pipeline.export("m.keras", "o.tflite", reports=["r.json"], **WANTED, **GIVEN)
    assert found == [
        ExportOptions("m.keras", Path("o.tflite"), Combination(**WANTED), reports=(Path("r.json"),), **GIVEN)
    ]


def test_every_parameter_of_export_is_an_option_with_the_same_default():
    parameters = inspect.signature(pipeline.export).parameters
    fields = {field.name: field for field in dataclasses.fields(ExportOptions)}
    assert set(parameters) - {"progress"} == set(fields) - {"wanted", "finished"} | set(WANTED)
    # Every option is set to something else than its default, or a dropped parameter would not show.
    assert all(fields[name].default != value for name, value in GIVEN.items())
    for name, parameter in parameters.items():
        if name == "lowering":
            assert parameter.default is None  # Which depends on the numbers and the target.
        elif name in WANTED:  # None for what suits the target.
            assert parameter.default in (None, getattr(Combination(), name))
        elif name not in ("model", "progress"):
            assert parameter.default == fields[name].default, name


def test_export_documents_every_parameter():
    text = inspect.getdoc(pipeline.export)
    assert [name for name in inspect.signature(pipeline.export).parameters if f"    {name}: " not in text] == []


SHELL = {
    "nothing": ([], {}),
    "numbers": (
        ["--quantize", "int8", "--lowering", "table", "--target", "litert", "--io", "float32"],
        {"wanted": Combination("int8", "table", "litert"), "io": "float32"},
    ),
    "an NPU": (
        ["--target", "ethos-u55", "--accelerator", "ethos-u55-256", "--npu-only"],
        {"wanted": Combination("int8", "table", "ethos-u55"), "accelerator": "ethos-u55-256", "npu_only": True},
    ),
    "model": (
        ["--data", "d.npz", "--map", "mine=gelu", "--import", "a", "--import", "b.c:D", "--trust-code"],
        {"data": "d.npz", "names": {"mine": "gelu"}, "imports": ("a", "b.c:D"), "trust_code": True},
    ),
    "an old model": (
        ["--hard-sigmoid", "keras2"],
        {"hard_sigmoid": "keras2"},
    ),
    "activations": (
        ["--replace", "silu=fast", "--head", "logits", "--max-error", "0.25", "--positive"],
        {"replace": {"silu": "fast"}, "head": "logits", "max_error": 0.25, "positive": True},
    ),
    "files": (
        ["-o", "x.tflite", "--emit", "c,golden", "--c-prefix", "net", "--c-section", ".rodata", "--report", "r.html"],
        {
            "output": Path("x.tflite"),
            "emit": ("c", "golden"),
            "c_style": CStyle("net", ".rodata"),
            "reports": (Path("r.html"),),
        },
    ),
    "a finished file": (
        ["--reference", "f.tflite", "--faithful"],
        {"reference": "f.tflite", "faithful": True},
    ),
    "budgets": (["--ram", "2k", "--flash", "3"], {"ram": 2048, "flash": 3}),
    "a dry run": (["--dry-run"], {"dry_run": True, "output": None}),
}


@pytest.mark.parametrize("case", SHELL)
def test_the_shell_asks_for_the_same(case):
    given, expected = SHELL[case]
    call = running.Call(export_parser().parse_args(["m.keras", *given]), sys.stdout, sys.stderr, "again")
    plain = {"output": Path("m.tflite"), "c_style": CStyle("m"), "names": {}, "emit": (), "command": "again"}
    assert commands._options(call) == ExportOptions(Path("m.keras"), **{**plain, **expected})


BAD = {
    "head": ({"head": "tail"}, r"`head` \(--head\) must be one of keep, logits"),
    "target": ({"wanted": Combination(target="avr")}, "`target` must be one of"),
    "io": ({"io": "int8"}, "can be float32"),
    "no such data": ({"data": "nowhere.npz"}, "does not exist"),
    "artefact": ({"emit": ("pdf",)}, "must list one or more of"),
    "an artefact for another target": ({"emit": ("resolver",), "wanted": Combination(target="litert")}, "TensorFlow"),
    "report": ({"reports": (Path("r.pdf"),)}, "must name an .html or .json file"),
    "output": ({"output": Path("nowhere/o.tflite")}, "folder must exist"),
    "a report over the output": ({"output": Path("o.json"), "reports": (Path("o.json"),)}, "a separate file"),
    "output over the model": ({"output": "MODEL"}, "may not replace what is read"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_call_that_cannot_work_is_refused_before_any_work(case, tmp_path, monkeypatch):
    given, words = BAD[case]
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "m.keras"
    model.write_bytes(b"never opened")
    chosen = {name: model if value == "MODEL" else value for name, value in given.items()}
    with pytest.raises(BadInputError, match=words):
        pipeline.run(ExportOptions(model, **chosen))


def test_a_good_call_passes(tmp_path):
    (tmp_path / "m.keras").write_bytes(b"never opened")
    validate(ExportOptions(tmp_path / "m.keras", tmp_path / "m.tflite", reports=(tmp_path / "r.json",)))


def test_a_combination_that_cannot_work_is_refused_with_a_report(tmp_path):
    (tmp_path / "m.keras").write_bytes(b"never opened")
    options = ExportOptions(tmp_path / "m.keras", wanted=Combination("dynamic"), command="again")
    with pytest.raises(RefusedError, match="nearest that works") as refusal:
        validate(options)
    report = refusal.value.report
    assert (report.verdict, report.source, report.quantize) == ("refused", str(tmp_path / "m.keras"), "dynamic")
    assert report.findings == refusal.value.findings and report.command == "again"


def test_validating_imports_no_tensorflow():
    code = "import sys, sqp_tflite.validate; print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


BOUNDS = ["nan", "0", "-1", "inf", "1"]


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_shell_and_python_say_the_same_about_a_bound(bound, tmp_path, capsys):
    (tmp_path / "m.keras").write_bytes(b"never opened")
    with pytest.raises(SystemExit):
        commands.export_main([str(tmp_path / "m.keras"), "--replace", "accurate", f"--max-error={bound}"])
    printed = capsys.readouterr().err
    with pytest.raises(BadInputError) as caught:
        pipeline.export(tmp_path / "m.keras", replace="accurate", max_error=float(bound))
    rule = "must be above 0 and below 1. Received: "
    assert rule in printed and rule in str(caught.value)


@pytest.mark.parametrize("tolerance", ["nan", "-1", "inf"])
def test_the_shell_and_python_say_the_same_about_a_tolerance(tolerance, capsys):
    from sqp_tflite.parity import check

    with pytest.raises(SystemExit):
        commands.check_main(["m.keras", "m.tflite", f"--tolerance={tolerance}"])
    printed = capsys.readouterr().err
    with pytest.raises(BadInputError) as caught:
        check("m.keras", "m.tflite", tolerance=float(tolerance))
    rule = "must be a finite number of 0 or more. Received: "
    assert rule in printed and rule in str(caught.value)


@pytest.mark.parametrize(
    ("quantize", "way"), [("float16", "--quantize float32 --lowering"), ("dynamic", "--quantize int8 --lowering")]
)
def test_a_type_that_tflm_lacks_is_refused_before_tensorflow_is_imported(quantize, way, tmp_path):
    (tmp_path / "m.keras").write_bytes(b"never opened")
    code = (
        "import sys; from sqp_tflite.cli.commands import export_main as main; code = main();"
        "print([m for m in ('tensorflow', 'keras') if m in sys.modules]); sys.exit(code)"
    )
    given = [sys.executable, "-c", code, str(tmp_path / "m.keras"), "--quantize", quantize]
    done = subprocess.run(given, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert "nearest that works" in done.stderr and way in done.stderr and "--target tflm" in done.stderr
    # What the user waited, from the start of Python: more than the refusal itself takes.
    assert float(done.stderr.splitlines()[-2].removesuffix(" s")) > 0.0


def test_a_refused_combination_ends_with_the_users_command(tmp_path):
    model = tmp_path / "m.keras"
    model.write_bytes(b"PK")
    command = "sqp-export m.keras --quantize int16x8 --lowering=table --ram 64k"
    options = ExportOptions(model, wanted=Combination("int16x8", "table"), data={"x": [0.0]}, command=command)
    with pytest.raises(RefusedError) as caught:
        validate(options)
    expected = "sqp-export m.keras --quantize int16x8 --ram 64k --lowering algebraic"
    assert caught.value.report.solution == expected
    assert str(caught.value).endswith(f"\nThe nearest call that can work (not tried): {expected}")
    assert not caught.value.report.solution_tried
    validate(dataclasses.replace(options, wanted=Combination("int16x8", "algebraic")))


def test_a_combination_that_wants_more_names_no_command(tmp_path):
    """int8 is the nearest, and needs data, which the call has none of."""
    (tmp_path / "m.keras").write_bytes(b"PK")
    for data, ends in ((None, False), ({"x": [0.0]}, True)):
        with pytest.raises(RefusedError) as caught:
            validate(ExportOptions(tmp_path / "m.keras", wanted=Combination("dynamic"), data=data))
        assert (caught.value.report.solution == 'quantize="int8"') is ends
        assert ("The nearest call that can work" in str(caught.value)) is ends

"""What a call names is looked at before TensorFlow is imported: what it is, and what it should have been."""

import dataclasses
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import sqp_tflite
from sqp_tflite import accept
from sqp_tflite.cli import commands, piped, running
from sqp_tflite.cli.arguments import export_parser
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.options import ExportOptions
from sqp_tflite.report import Finding, Kind, Report

DATA = Path(__file__).parent / "data"
TFLITE = (DATA / "two_inputs_int8.tflite").read_bytes()
MAINS = {"export": commands.export_main, "inspect": commands.inspect_main, "check": commands.check_main}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with one file of each kind; no model is ever opened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sqp_tflite.pipeline.run", lambda *_: pytest.fail("the export began"))
    monkeypatch.setattr("sqp_tflite.parity.load", lambda *_, **__: pytest.fail("the check began"))
    Path("m.keras").write_bytes(b"never opened")
    Path("m_int8.tflite").write_bytes(TFLITE)
    np.savez("d.npz", x=np.ones(3))
    np.save("x.npy", np.ones(3))
    for part in ("sm/saved_model.pb", "sm/variables/variables.index", "sm/assets/words.txt", "plain/words.txt"):
        Path(part).parent.mkdir(parents=True, exist_ok=True)
        Path(part).write_bytes(b"never opened")
    os.symlink("nodir/x.tflite", "o.tflite")
    return tmp_path


WRONG = {
    "a TFLite file with options about Keras": (
        "export m_int8.tflite --trust-code",
        "a TFLite file, which names nothing",
    ),
    "a finished file in other numbers": ("export m_int8.tflite --quantize float16", "keeps its numbers"),
    "a reference for a Keras model": ("export m.keras --reference m_int8.tflite", "is about a finished TFLite file"),
    "arrays as the model": ("export d.npz", r"must be a Keras model. Received: arrays \(.npz\).*samples with --data"),
    "an array as the model": ("export x.npy", r"must be a Keras model. Received: an array \(.npy\)"),
    "the graph of a SavedModel": ("export sm/saved_model.pb", "a part of a SavedModel. Pass its folder, `sm`"),
    "the variables of a SavedModel": ("export sm/variables/variables.index", "Pass its folder, `sm`"),
    "a folder without a model": ("export plain", "Received: a folder without saved_model.pb. Pass the path of"),
    "the root folder": ("export /", "Received: a folder without saved_model.pb"),
    "the current folder": ("export .", "Received: a folder without saved_model.pb"),
    "no file to check": ("check m.keras no.tflite", "`no.tflite` does not exist"),
    "no data to check": ("check m.keras m_int8.tflite --data no.npz", "`no.npz` does not exist"),
    "arrays to inspect": ("inspect d.npz", r"is not a TFLite file.*holds arrays \(.npz\).*take as --data"),
    "an array to inspect": ("inspect x.npy", r"is not a TFLite file.*holds an array \(.npy\)"),
    "a link into no folder": ("export m.keras -o o.tflite", "Create `[^`]*nodir` first"),
    "an output below a file": ("export m.keras -o m.keras/o.tflite", "where `m.keras` is a file. Choose another place"),
    "an output far below a file": ("export m.keras -o m.keras/a/o.tflite", "where `m.keras` is a file"),
    "a report below a file": ("export m.keras --report d.npz/r.json", "`d.npz` is a file.*with --report"),
    "a rule with two equals signs": ("export m.keras --replace x=y=z", "--replace must be accurate, fast or a list"),
    "a meaning with two equals signs": ("export m.keras --map x=y=z", "--map must be NAME=ACTIVATION"),
    "the default output in the model's folder": ("export sm/assets/.. -o sm/o.tflite", "may not replace what is read"),
    "a prefix of nothing": ("export m.keras --c-prefix=", "must be a C identifier"),
    "an output of nothing": ("export m.keras --output=", "--output: must be a path. Received: ''"),
    "a model of nothing": ("export ''", "MODEL: must be a path. Received: ''"),
    "data of nothing": ("export m.keras --data=", "--data: must be a path"),
    "a report of nothing": ("export m.keras --report=", "--report: must be a path"),
    "a file of nothing": ("inspect ''", "FILE.tflite: must be a path"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_before_any_work(case, folder, capfd):
    call, words = WRONG[case]
    name, *given = [part.strip("'") for part in call.split()]
    try:
        code = MAINS[name](given)
    except SystemExit as ended:
        code = ended.code
    printed = capfd.readouterr()
    assert code == 2 and printed.out == "" and printed.err.count("\n") == 1 and len(printed.err) < 500
    assert re.search(words, printed.err)


UNFITTING = (
    "m.keras --quantize float16 --per-tensor",
    "m.keras --quantize float16 --no-conversions",
    "m.keras --max-error 0.1",
    "m.keras --faithful",
    "m.keras --reference m_int8.tflite",
    "m.keras --step --state none",
    "m_int8.tflite --step",
    "m_int8.tflite --faithful",
    "m_int8.tflite --per-tensor",
    "m_int8.tflite --replace accurate",
    "m_int8.tflite --map a=relu",
    "m_float.tflite --faithful",
)
PARAMETERS = {field.name for field in dataclasses.fields(ExportOptions)}


@pytest.mark.parametrize("call", UNFITTING)
def test_a_message_names_each_parameter_with_its_option(call, folder, capfd):
    Path("m_float.tflite").write_bytes((DATA / "two_inputs_float32.tflite").read_bytes())
    assert commands.export_main(call.split()) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert not PARAMETERS.intersection(re.findall(r"`(\w+)`(?! \(--)", said)), said
    assert re.search(r"Received: .*--[a-z]", said), said


BESIDE = {
    "m.keras": "m.tflite",
    "sm": "sm.tflite",
    "sm/": "sm.tflite",
    "sm/assets/..": "sm.tflite",
    "v1.2": "v1.2.tflite",
    "a/m.h5": "a/m.tflite",
}


@pytest.mark.parametrize("model", BESIDE)
def test_the_default_output_is_beside_the_model(model, folder):
    Path("v1.2").mkdir()
    assert options_of(model).output.resolve() == (folder / BESIDE[model]).resolve()


def options_of(*given: str):
    return commands._options(running.Call(export_parser().parse_args(given), None, None, "again"))


def test_a_model_may_be_the_current_folder(folder, monkeypatch):
    monkeypatch.chdir(folder / "sm")
    options = options_of(".")
    assert options.output == folder / "sm.tflite" and options.c_style.prefix == "sm"


def test_standard_output_is_not_what_is_read_or_written(folder):
    def check(name: str, *given: str) -> None:
        with open(name, "ab") as file, os.fdopen(os.dup(file.fileno()), "w") as out:
            piped.check(export_parser().parse_args(given), out, closed=False)

    for name, *given in (
        ("m.keras", "m.keras", "-o", "-"),
        ("m.keras", "m.keras"),
        ("d.npz", "m.keras", "--data", "d.npz", "--report", "-"),
        ("sm/variables/variables.index", "sm", "-o", "-"),
    ):
        before = Path(name).read_bytes()
        with pytest.raises(BadInputError, match="Received: standard output, which leads into.*after the > or >>"):
            check(name, *given)
        assert Path(name).read_bytes() == before
    check("log.txt", "m.keras", "-o", "-")
    check("sm/log.txt", "sm")


@pytest.mark.parametrize(
    ("into", "command", "given"),
    [
        ("m.tflite", "export", ["m.keras"]),
        ("z.tflite", "export", ["m.keras", "-o", "z.tflite", "--json"]),
        ("r.json", "export", ["m.keras", "-o", "-", "--report", "r.json"]),
        ("z.tflite", "export", ["m.keras", "-o", "z.tflite", "--report", "-"]),
        ("r.html", "inspect", ["m_int8.tflite", "--report", "r.html"]),
    ],
)
def test_text_for_standard_output_is_not_lost_in_a_file_that_is_written(into, command, given, folder, capfd):
    before = os.dup(1)
    try:
        with open(into, "w") as file:
            os.dup2(file.fileno(), 1)
        assert MAINS[command](given) == 2
    finally:
        os.dup2(before, 1)
        os.close(before)
    assert re.search(f"standard output and `{into}`, the same file.* after the >", capfd.readouterr().err)
    assert not Path(into).read_bytes()


@pytest.mark.parametrize("given", [["--report", "-"], ["--json"]])
def test_a_refusal_has_its_report_on_standard_output(given, folder, capfd, monkeypatch):
    def refuse(*_):
        finding = Finding("l", "EXP", "float32", "no EXP", "take another", Kind.OP)
        raise RefusedError(
            "no", (finding,), Report("refused", "m", "tflm", "float32", "algebraic", findings=(finding,))
        )

    monkeypatch.setattr("sqp_tflite.pipeline.run", refuse)
    assert commands.export_main(["m.keras", *given]) == 1
    printed = capfd.readouterr()
    assert json.loads(printed.out)["verdict"] == "refused"
    assert ("take another" in printed.err) == (given != ["--json"])


@pytest.mark.parametrize("value", [1.5, "1.5", "0.5k", "٦٤k", "64 q", 10**40])
def test_a_size_is_a_whole_number_in_plain_digits(value):
    if value == "0.5k":
        assert accept.size("`ram`", value) == 512
        return
    with pytest.raises(BadInputError, match="must be a whole number of bytes"):
        accept.size("`ram`", value)


@pytest.mark.parametrize("value", ["٠.٥", "0_1", "1e999"])
def test_a_share_is_written_in_plain_digits(value):
    with pytest.raises(BadInputError, match="Received: "):
        accept.positive("`max_change`", value)


def test_the_style_of_c_code_is_public():
    assert sqp_tflite.CStyle("net").macro == "NET"

"""A dash in a file's place means standard output, which then holds nothing but what was asked for."""

import contextlib
import hashlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import keras
import pytest

from models import dense
from sqp_tflite.cli import commands
from sqp_tflite.cli.piped import Piped, deliver
from sqp_tflite.errors import EnvironmentMissingError
from sqp_tflite.pipeline import Export
from sqp_tflite.places import Place
from sqp_tflite.report import Report
from sqp_tflite.validate import places

FILE = str(Path(__file__).parent / "data" / "two_inputs_int8.tflite")
REPORT = Report("ok", "m", "tflm", "float32", "algebraic")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("piped")
    dense().save(folder / "net.keras")
    return folder / "net.keras"


def test_the_file_goes_to_standard_output_and_the_text_to_standard_error(model, tmp_path, capfdbinary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert commands.export_main([str(model), "-o", "-", "--report", "r.json"]) == 0
    printed = capfdbinary.readouterr()
    assert printed.err.startswith(b"OK  ") and b"standard output, " in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]
    assert hashlib.sha256(printed.out).hexdigest() == json.loads(Path("r.json").read_text())["sha256"]


def test_a_file_called_dash_can_be_named(model, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch, b"model")
    assert commands.export_main([str(model), "-o", "./-", "--report", "-"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["verdict"] == "ok" and printed.err.startswith("OK  ")
    assert Path("-").read_bytes() == b"model"


def test_a_report_and_a_plan_go_to_standard_output(model, capfd):
    assert commands.inspect_main([FILE, "--report", "-"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["sha256"] and printed.err.startswith("OK  ")
    assert commands.export_main([str(model), "--report", "-", "--dry-run", "--quiet"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["plan"] and printed.err == ""


def test_a_dry_run_gives_no_file_to_standard_output(model, capfd, tmp_path):
    assert commands.export_main([str(model), "-o", "-", "--dry-run"]) == 0
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err.startswith("PLAN")
    assert commands.export_main([str(model), "--report", str(tmp_path / "r.json"), "--dry-run"]) == 2
    assert "Use --json or --report - for the plan" in capfd.readouterr().err


def test_what_tensorflow_prints_does_not_get_between_the_bytes(model, capfdbinary, monkeypatch):
    stand_in(monkeypatch, b"model", chatty=True)
    assert commands.export_main([str(model), "-o", "-", "--debug", "--quiet"]) == 0
    printed = capfdbinary.readouterr()
    assert printed.out == b"model" and b"from C" in printed.err and b"from Python" in printed.err
    print("again")
    assert capfdbinary.readouterr().out == b"again\n"


def test_a_folder_of_code_does_not_go_to_standard_output(capfd):
    assert commands.cc_main([FILE, "-o", "-"]) == 2
    assert "C code is a folder of files. Received: -o -" in capfd.readouterr().err


BAD = {
    "a reference from standard input": (["m.tflite", "--reference", "-"], "An input must be a file.*standard input"),
    "a model from standard input": (["-"], "An input must be a file.*standard input.*./-"),
    "data from standard input": (["MODEL", "--data", "-"], "An input must be a file.*standard input"),
    "file and report": (["MODEL", "-o", "-", "--report", "-"], "must hold one thing.*--report.*-o -.*Name a file"),
    "file and JSON": (["MODEL", "-o", "-", "--json"], "must hold one thing.*--json.*-o -"),
    "the report twice": (["MODEL", "--report", "-", "--report", "-"], "must hold one thing"),
    "report and JSON": (["MODEL", "--report", "-", "--json"], "must hold one thing"),
    "artefacts": (["MODEL", "-o", "-", "--emit", "c,golden"], "--emit c,golden with -o -. Pass e.g. -o model.tflite"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_dash_that_cannot_work_is_refused_before_any_work(case, model, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sqp_tflite.pipeline.run", lambda *_: pytest.fail("the export began"))
    given, words = BAD[case]
    assert commands.export_main([str(model) if part == "MODEL" else part for part in given]) == 2
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and len(printed.err) < 400
    assert re.search(words, printed.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("main", [commands.inspect_main, commands.check_main])
def test_the_other_commands_read_no_standard_input_either(main, capfd):
    assert main(["-"] if main is commands.inspect_main else ["m.keras", "-"]) == 2
    assert "An input must be a file" in capfd.readouterr().err


def process(*given, **streams) -> subprocess.Popen:
    code = "import sys; from sqp_tflite.cli.commands import export_main as main; sys.exit(main())"
    return subprocess.Popen([sys.executable, "-c", code, *given], stderr=subprocess.PIPE, text=True, **streams)


def test_bytes_do_not_go_to_a_terminal_or_to_a_closed_stream(model):
    keeper, terminal = pty.openpty()
    shown = process(str(model), "-o", "-", stdout=terminal)
    closed = process(str(model), "-o", "-", preexec_fn=lambda: os.close(1))
    assert "a terminal cannot show. Received: a terminal. Add > model.tflite" in shown.communicate(timeout=100)[1]
    assert "Received: a closed one. Name a file" in closed.communicate(timeout=100)[1]
    assert (shown.returncode, closed.returncode) == (2, 2)
    os.close(keeper)
    os.close(terminal)


@contextlib.contextmanager
def blocked(kind):
    """Yields a stream that takes nothing: its reader is gone, or it is not open for writing, like a full disk."""
    if kind == "broken":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(FILE, os.O_RDONLY)
    with open(writer, "w") as stream:
        yield stream


@pytest.mark.parametrize("kind", ["broken", "unwritable"])
@pytest.mark.parametrize("what", [Piped.MODEL, Piped.REPORT])
def test_what_is_not_taken_is_an_error_and_nothing_is_on_the_disk(kind, what, tmp_path):
    words = r"must take all .* bytes of the .*No file was written"
    with blocked(kind) as stream, pytest.raises(EnvironmentMissingError, match=words):
        deliver(stream, what, b"model", REPORT, {Place(tmp_path / "r.html"): b"page"})
    assert list(tmp_path.iterdir()) == []


def stand_in(monkeypatch, content, chatty=False):
    """Puts an export of no work in the place of the real one."""

    def run(options, tell, put, began):
        if chatty:
            os.write(1, b"from C\n")
            print("from Python")
        put(content, REPORT, {place: content if place.option == "-o" else b"page" for place in places(options)})
        return Export(content, REPORT)

    monkeypatch.setattr("sqp_tflite.pipeline.run", run)


@pytest.mark.parametrize("kind", ["broken", "unwritable"])
def test_the_exit_code_says_that_the_bytes_were_not_taken(kind, model, tmp_path, capfd, monkeypatch):
    stand_in(monkeypatch, b"model" * 100)
    kept = os.dup(1)
    with blocked(kind) as stream:
        os.dup2(stream.fileno(), 1)
        try:
            code = commands.export_main([str(model), "-o", "-", "--report", str(tmp_path / "r.html")])
        finally:
            os.dup2(kept, 1)
            os.close(kept)
    printed = capfd.readouterr().err
    assert code == 2 and printed.count("\n") == 1
    assert printed.startswith("sqp-export: SQP-E041: Standard output must take all 500 bytes of the file")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_takes_little_at_a_time_gets_all(tmp_path):
    content = os.urandom(1 << 20)
    reader, writer = os.pipe()
    with subprocess.Popen(["cat"], stdin=reader, stdout=subprocess.PIPE) as cat:
        os.close(reader)
        taken = []
        thread = threading.Thread(target=lambda: taken.append(cat.stdout.read()))
        thread.start()
        with open(writer, "w") as stream:
            deliver(stream, Piped.MODEL, content, REPORT, {Place(tmp_path / "r"): b"page"})
        thread.join(60)
    assert taken == [content] and (tmp_path / "r").read_bytes() == b"page"

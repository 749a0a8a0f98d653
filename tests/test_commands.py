"""How the commands behave: quick help, one place for errors, nothing half-written, colour and progress for people."""

import gc
import importlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import keras
import numpy as np
import pytest

from sqp_tflite import files, options, worker
from sqp_tflite.cli import arguments, commands, imports, progress, readers
from sqp_tflite.emit import KINDS

DATA = Path(__file__).parent / "data"
FILE = str(DATA / "two_inputs_int8.tflite")
COMMANDS = {"sqp-export": "export_main", "sqp-inspect": "inspect_main", "sqp-check": "check_main", "sqp-cc": "cc_main"}
SLOW = ("tensorflow", "keras", "numpy", "rich", "jinja2", "ai_edge_litert")


def program(name: str) -> list[str]:
    """The command as its entry point runs it; `.venv/bin` need not be on the path."""
    code = f"import sys; from sqp_tflite.cli.commands import {COMMANDS[name]} as main; "
    code += f"sys.argv[0] = {name!r}; sys.exit(main())"
    return [sys.executable, "-c", code]


def run(name: str, *given: str, **keywords) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*program(name), *given], capture_output=True, text=True, check=False, timeout=300, **keywords
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model file and its folder."""
    folder = tmp_path_factory.mktemp("model")
    keras.utils.set_random_seed(3)
    layers = keras.layers
    net = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(6, 3, activation="squareplus", name="conv"),
            layers.Flatten(name="flat"),
            layers.Dense(4, name="scores"),
        ]
    )
    net.save(folder / "net.keras")
    np.savez(folder / "data.npz", image=np.random.default_rng(0).normal(size=(12, 8, 8, 1)), y=np.arange(12) % 4)
    return folder


@pytest.fixture(scope="module")
def exported(model, command):
    """One export with everything asked for: its exit code and what it printed."""
    out = model / "out"
    out.mkdir()
    given = [str(model / "net.keras"), "-o", str(out / "net.tflite"), "--data", str(model / "data.npz")]
    given += ["--emit", "c,resolver,golden,project", "--c-prefix", "gesture", "--ram", "64k", "--flash", "1M"]
    return command("sqp-export", *given, "--report", str(out / "net.html"), "--report", str(out / "net.json"))


@pytest.mark.parametrize("given", ["--help", "--help-all", "--version", "--no-such-option", "--completion=bash"])
def test_nothing_slow_is_imported_for(given):
    code = (
        "import sys\nfrom sqp_tflite.cli import commands\n"
        f"for main in (commands.export_main, commands.inspect_main, commands.check_main):\n"
        f"    try: main([{given!r}])\n    except SystemExit: pass\n"
        f"print([name for name in {SLOW} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_keras_is_imported_without_what_no_command_uses(monkeypatch):
    for name in ("keras", *imports.UNUSED):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with imports.quick_imports():
        assert not gc.isenabled()
        for name in imports.UNUSED:
            with pytest.raises(ImportError):
                importlib.import_module(name)
    assert gc.isenabled() and not {*imports.UNUSED} & set(sys.modules)


def test_a_process_that_has_keras_keeps_all_it_has():
    with imports.quick_imports():
        assert gc.isenabled() and importlib.import_module("matplotlib")


def helped(name: str, option: str, capsys) -> str:
    """Returns what a command prints for --help or --help-all."""
    with pytest.raises(SystemExit) as ended:
        getattr(commands, COMMANDS[name])([option])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_exit_codes_and_a_word_on_every_option(name, capsys):
    parser = arguments.PARSERS[name]()
    text = helped(name, "--help-all" if name == "sqp-export" else "--help", capsys)
    assert "examples:" in text and "exit codes:" in text
    assert all(action.help for action in parser._actions)
    for option in (option for action in parser._actions for option in action.option_strings):
        assert option in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_short_help_has_the_options_that_most_people_need(capsys):
    short, full = (helped("sqp-export", option, capsys) for option in ("--help", "--help-all"))
    listed = set(re.findall(r"^  (?:-\w(?: \S+)?, )?(--[a-z-]+)", short, re.MULTILINE))
    assert {"--quantize", "--data", "--target", "--replace", "--help-all"} <= listed
    assert listed < set(re.findall(r"--[a-z-]+", full)) and len(listed) <= 17
    assert "--c-section" in full and "--c-section" not in short
    assert short.rstrip().endswith("sqp-export --help-all")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_without_arguments_is_shown_the_most_common_calls(name, capfd):
    with pytest.raises(SystemExit) as ended:
        getattr(commands, COMMANDS[name])([])
    said = capfd.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"{name}: what should be done?") and f"\n  {name} " in said
    if name == "sqp-export":
        assert said.count("\n  sqp-export ") == 3 and "--quantize int8" in said and "--replace accurate" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_an_example_exists(name):
    parser = arguments.PARSERS[name]()
    known = {option for action in parser._actions for option in action.option_strings}
    lines = [line for line in parser.format_help(every=True).splitlines() if line.startswith(f"  {name} ")]
    assert lines
    for line in lines:
        assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", line)) <= known, line


def test_version_names_all_that_matters(capsys):
    with pytest.raises(SystemExit) as ended:
        commands.export_main(["--version"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"sqp-export \d+\.\d+\.\d+", lines[0])
    for name in ("tensorflow", "keras", "numpy", "ai-edge-litert", "litert-quantizer", "tflite-micro", "python"):
        assert any(line.strip().startswith(f"{name} ") for line in lines)


HERE = __file__  # Stands for a model that is never opened.
BAD_CALLS = {
    "no model": (["--quiet"], "the following arguments are required: MODEL"),
    "an unknown option": (["m.keras", "--fast"], "unrecognized arguments: --fast"),
    "an option cut short": (
        ["m.keras", "--targ", "tflm"],
        "unrecognized arguments: --targ tflm. Did you mean --target?",
    ),
    "a misspelt option": (["m.keras", "--quantise=int8"], "Did you mean --quantize? All options: sqp-export --help"),
    "an unknown target": (["m.keras", "--target", "tpu"], "invalid choice: 'tpu'"),
    "an unknown artefact": (["m.keras", "--emit", "c,rust"], "must list one or more of c, resolver, golden, project"),
    "no artefact": (["m.keras", "--emit", ","], "must list one or more of"),
    "a budget in words": (["m.keras", "--ram", "much"], "must be a whole number of bytes above 0"),
    "a budget of nothing": (["m.keras", "--flash", "0"], "must be a whole number of bytes above 0"),
    "a file that is not there": (["m.keras"], "`m.keras` does not exist"),
    "a folder of data": ([HERE, "-o", "out.tflite", "--data", str(DATA)], "is a folder. Pass an .npz file"),
    "an output in no folder": ([HERE, "-o", "no/such/out.tflite"], "Create `no/such` first"),
    "a report in no folder": ([HERE, "-o", "out.tflite", "--report", "no/such/r.html"], "Create `no/such` first"),
    "an output that is a folder": ([HERE, "-o", str(DATA)], "a folder. Nothing was written. Pass the name of a file"),
    "a report of no form": ([HERE, "--report", "r.pdf"], "must name an .html or .json file"),
    "a prefix with a blank": ([HERE, "-o", "out.tflite", "--c-prefix", "my net"], "must be a C identifier"),
    "a mapping without =": ([HERE, "-o", "out.tflite", "--map", "softplus"], "must be NAME=ACTIVATION"),
    "a resolver for litert": (
        [HERE, "-o", "o.tflite", "--emit", "resolver", "--target", "litert"],
        "for TensorFlow Lite Micro",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_call_says_so_on_standard_error_and_exits_with_2(case, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, message = BAD_CALLS[case]
    try:
        code = commands.export_main(given)
    except SystemExit as ended:
        code = ended.code
    printed = capfd.readouterr()
    assert code == 2
    assert message in printed.err
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert list(tmp_path.iterdir()) == []


def test_an_option_of_the_command_line_exists_for_every_artefact():
    assert options.ARTEFACTS == KINDS


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("200k", 204800), ("1.5K", 1536), ("2M", 2 << 20), ("64 kB", 65536), ("1MiB", 1 << 20)]
)
def test_budgets_take_units(text, size):
    assert readers.size(text) == size


def test_export_writes_everything_it_was_asked_for(exported, model):
    assert exported.code == 0, exported.err
    assert exported.err == ""
    out = model / "out"
    written = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert {
        "net.tflite",
        "net.html",
        "net.json",
        "gesture_data.c",
        "gesture_op_resolver.h",
        "gesture_golden.npz",
    } <= written
    assert {
        "gesture/self_test/main.cc",
        "gesture/README.md",
        "gesture/CMakeLists.txt",
        "gesture/gesture_runner.cc",
    } <= written
    assert not [name for name in written if Path(name).name.startswith(".")]
    assert (out / "gesture" / "gesture.tflite").read_bytes() == (out / "net.tflite").read_bytes()


def test_text_says_the_verdict_first_then_changes_ops_parity_memory_and_io(exported):
    lines = exported.out.splitlines()
    assert lines[0].startswith("OK  ")
    heads = ["activations", "operators", "agreement with Keras", "memory", "inputs and outputs"]
    places = [lines.index(head) for head in heads]
    assert places == sorted(places)
    assert any("gesture/" in line for line in lines)
    assert "\x1b" not in exported.out


def test_written_json_is_valid_and_tells_how_to_make_it_again(exported, model):
    found = json.loads((model / "out" / "net.json").read_text())
    schema = json.loads((Path(files.__file__).parent / "report.schema.json").read_text())
    jsonschema.validate(found, schema)
    assert found["command"].startswith("sqp-export ") and "--emit c,resolver,golden,project" in found["command"]
    assert found["memory"]["ram_budget"] == 65536
    assert found["memory"]["arena_32bit_high"] <= found["memory"]["arena_bytes"] <= 65536
    assert found["output"].endswith("net.tflite")


def test_readme_of_the_project_answers_what_a_firmware_engineer_asks(exported, model):
    text = (model / "out" / "gesture" / "README.md").read_text()
    found = json.loads((model / "out" / "net.json").read_text())
    for row in found["ops"]:
        assert f"{row['op']} ({row['dtype']})" in text
    assert f"{found['size_bytes']:,} bytes" in text and f"{found['memory']['arena_bytes']:,} bytes" in text
    for words in (
        "gesture_prepare()",
        "gesture_run()",
        "gesture_input_image()",
        "gesture_output_scores()",
        "PASS",
        "not**",
    ):
        assert words in text
    assert "{{" not in text and "{%" not in text


@pytest.mark.parametrize(("option", "word"), [("--ram", "RAM"), ("--flash", "flash")])
def test_budget_refuses_with_by_how_much_and_writes_nothing(model, option, word, tmp_path, capfd):
    code = commands.export_main(
        [str(model / "net.keras"), "-o", str(tmp_path / "o.tflite"), option, "1k", "--emit", "c"]
    )
    printed = capfd.readouterr()
    assert code == 1
    assert printed.out == ""
    assert printed.err.startswith("REFUSED")
    needed, over = (
        int(number.replace(",", ""))
        for number in re.search(rf"([\d,]+) bytes of {word}, ([\d,]+) more", printed.err).groups()
    )
    assert needed - over == 1024
    assert list(tmp_path.iterdir()) == []


def test_check_compares_on_the_data_at_the_ends_and_beyond(model, exported, capfd):
    given = [str(model / "net.keras"), str(model / "out" / "net.tflite"), "--data", str(model / "data.npz"), "--json"]
    assert commands.check_main(given) == 0
    found = json.loads(capfd.readouterr().out)
    schema = json.loads((Path(files.__file__).parent / "report.schema.json").read_text())
    jsonschema.validate(found, {**schema["$defs"]["check"], "$defs": schema["$defs"]})
    ran = [row for row in found["agreement"] if row["status"] != "not checked"]
    assert {row["on"] for row in ran} == {"data", "ends", "beyond"}
    assert all(row["status"] == "ok" and row["error_of_range"] < 1e-5 for row in ran)


def test_check_sees_a_file_of_another_model(model, tmp_path, capfd):
    keras.utils.set_random_seed(9)
    other = keras.Sequential(
        [keras.Input((8, 8, 1), name="image"), keras.layers.Flatten(), keras.layers.Dense(4, name="scores")]
    )
    other.save(tmp_path / "other.keras")
    assert commands.check_main([str(tmp_path / "other.keras"), str(model / "out" / "net.tflite")]) == 3
    assert capfd.readouterr().out.startswith("DIFFERS")


def test_quiet_prints_nothing_when_all_is_well(capfd):
    assert commands.inspect_main([FILE, "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


def on_terminal(name: str, *given: str, until: str = "", **environment: str) -> tuple[int, str]:
    """Runs a command on a pseudo-terminal; interrupts it as soon as it has printed `until`."""
    keeper, terminal = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [*program(name), *given],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**kept, "TERM": "xterm-256color", **environment},
        # A shell's background job passes on an ignored SIGINT, which no terminal's program would have.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(terminal)
    seen, deadline, asked = b"", time.monotonic() + 240, False
    while time.monotonic() < deadline:
        ready, _, _ = select.select([keeper], [], [], 0.2)
        if ready:
            try:
                part = os.read(keeper, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        if until and not asked and until.encode() in seen:
            process.send_signal(signal.SIGINT)
            asked = True
        if not ready and process.poll() is not None:
            break
    code = process.wait(timeout=60)
    os.close(keeper)
    return code, seen.decode("utf-8", "replace")


def test_colour_appears_on_a_terminal_and_not_under_no_color():
    assert "\x1b[" in on_terminal("sqp-inspect", FILE)[1]
    assert "\x1b[" not in on_terminal("sqp-inspect", FILE, NO_COLOR="1")[1]


def test_an_interrupted_conversion_writes_nothing_and_ends_its_worker(model, tmp_path, monkeypatch, capfd):
    """On a terminal, in a process of its own: in `make test-large`."""
    monkeypatch.setattr("sqp_tflite.pipeline._worker", lambda options: worker.lent("interrupted", ()))
    called = []

    def call(lent, *given, **named):
        called.append(lent)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(worker.Worker, "call", call)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background job ignores it.
    try:
        code = commands.export_main([str(model / "net.keras"), "-o", str(tmp_path / "out.tflite")])
    finally:
        signal.signal(signal.SIGINT, before)
    printed = capfd.readouterr()
    assert (code, printed.out) == (130, "") and printed.err.endswith("interrupted, nothing was written\n")
    assert list(tmp_path.iterdir()) == [] and not any(lent.alive for lent in called)
    assert called[-1]._process.wait() == -signal.SIGKILL


@pytest.mark.large
def test_ctrl_c_during_the_conversion_leaves_nothing_behind(model, tmp_path):
    before = children()
    given = [str(model / "net.keras"), "-o", str(tmp_path / "out.tflite"), "--emit", "project"]
    for _ in range(5):
        code, seen = on_terminal("sqp-export", *given, until=progress.STEPS["convert"], TMPDIR=str(tmp_path))
        if code != 0:
            break
        shutil.rmtree(tmp_path)  # On a busy machine the export may be done before the signal is sent.
        tmp_path.mkdir()
    assert progress.STEPS["load"] in seen
    assert code == 130
    assert "interrupted, nothing was written" in seen
    assert "Traceback" not in seen and "WARNING" not in seen and "cudart" not in seen
    assert list(tmp_path.iterdir()) == []
    assert children() - before == set()


def children() -> set[str]:
    """The running child processes that convert or run models, by process number."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"sqp_tflite.worker" in entry.read_bytes() and "net.keras" in (entry.parent / "cwd").as_posix():
                found.add(entry.parent.name)
        except OSError:
            continue
    return found


def test_sigterm_leaves_through_the_clean_up(monkeypatch, tmp_path, capfd):
    def ended(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr("sqp_tflite.inspection.inspection", ended)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as left:
        commands.inspect_main([FILE])
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_progress_is_silent_where_nobody_watches(capsys):
    with progress.progress(sys.stderr, shown=True) as tell:
        tell("convert")
    assert capsys.readouterr().err == ""


def test_every_step_of_the_pipeline_has_a_sentence():
    text = "".join((Path(files.__file__).parent / name).read_text() for name in ("pipeline.py", "cli/commands.py"))
    assert set(re.findall(r'\btell\("(\w+)"\)', text)) <= set(progress.STEPS)


def test_a_reader_that_has_seen_enough_is_no_error():
    command = " ".join(map(repr, [*program("sqp-inspect"), FILE])) + " | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("OK")
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("option", ["--target", "--map", "--max-memory"])
def test_two_dashes_are_no_value(option, capsys):
    with pytest.raises(SystemExit) as ended:
        commands.export_main(["m.keras", f"{option}=--"])
    assert ended.value.code == 2 and f"argument {option}: expected one argument" in capsys.readouterr().err

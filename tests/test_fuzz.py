"""The fuzzer: each promise is seen broken by a planted command, and the real ones keep all of them on fixed cases."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tools.fuzz import __main__ as fuzz
from tools.fuzz import case, corpus, engine, oracle
from tools.fuzz.records import INSIDE, Case, Ran, create_special, snapshot, stored
from written import perceptron

ROOT = Path(__file__).parent.parent


LIMITS = engine.Limits(seconds=20)


@pytest.fixture(scope="session")
def inputs(once):
    """A small corpus, whose TFLite file is written operator by operator."""

    def make(folder):
        (folder / "tflite").mkdir()
        (folder / "tflite" / "net.tflite").write_bytes(perceptron())
        corpus.make(folder, large=False)

    return corpus.read(once("fuzz-corpus", make))


def planted(folder, name, *arguments, limits=LIMITS, **fields):
    """Returns what a command of `planted` did, and the kinds of faults that are seen."""
    work = folder / INSIDE
    work.mkdir(parents=True)
    (work / "net.keras").write_text("a model")
    made = Case("1-1", "sqp-export", ("net.keras", *arguments), **fields)
    with engine.adopting():
        ran = engine.run(made, folder, limits, {"sqp-export": f"planted:{name}"})
    return ran, [fault.kind for fault in oracle.faults(made, ran)]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("good", []),
        ("refuses", []),
        ("raises", ["traceback"]),
        ("asks_for_a_report", ["unforeseen"]),
        ("says_nothing", ["silent"]),
        ("has_another_code", ["exit code"]),
        ("dies", ["exit code"]),
        ("talks_too_long", ["long line"]),
        ("colours", ["control character"]),
        ("writes_another_file", ["file"]),
        ("writes_above", ["file"]),
        ("writes_and_refuses", ["file"]),
        ("changes_an_input", ["file"]),
        ("removes_an_input", ["file"]),
        ("writes_nothing", ["no file"]),
        ("runs_the_payload", ["ran"]),
        ("leaves_a_temporary_file", ["temporary"]),
        ("leaves_a_process", ["process"]),
    ],
)
def test_a_planted_fault_is_seen(name, kinds, tmp_path):
    ran, found = planted(tmp_path, name)
    assert found == kinds, ran


@pytest.mark.parametrize("name", ["prints_no_json", "contradicts_itself"])
def test_output_that_is_not_the_promised_json_is_seen(name, tmp_path):
    assert planted(tmp_path, name, "--json")[1] == ["json"]


def test_a_command_that_hangs_is_ended(tmp_path):
    ran, found = planted(tmp_path, "sleeps", limits=engine.Limits(seconds=0.3))
    assert ran.timed_out and found == ["hang"]


def test_time_and_memory_are_bounded(tmp_path, monkeypatch):
    plain, _ = planted(tmp_path / "plain", "good")
    monkeypatch.setattr(oracle, "MOST_MEMORY", plain.peak + (100 << 20))
    monkeypatch.setattr(oracle, "MOST_CPU", plain.cpu + 0.2)
    assert planted(tmp_path / "eats", "eats")[1][-1] == "memory"
    assert planted(tmp_path / "computes", "computes")[1] == ["time"]
    few = engine.Limits(seconds=20, address=1 << 20)
    assert "traceback" in planted(tmp_path / "little", "eats", limits=few)[1]


@pytest.mark.parametrize("state", ["full", "broken"])
def test_a_stream_that_takes_nothing_is_that_to_the_command(state, tmp_path):
    ran, found = planted(tmp_path, "good", streams={1: state})
    assert (ran.code, ran.out, found[0]) == (120, "", "exit code")


def test_a_closed_stream_is_closed(tmp_path):
    ran, found = planted(tmp_path, "refuses", streams={2: "closed"})
    assert (ran.code, ran.err, found) == (2, "", [])


@pytest.mark.parametrize("kind", case.KINDS)
def test_the_same_name_makes_the_same_case(kind, inputs, tmp_path):
    made = [case.make("7-3", inputs, tmp_path / str(n), kind) for n in range(2)]
    assert made[0] == made[1] == Case.from_json(made[0].to_json())
    assert snapshot(tmp_path / "0") == snapshot(tmp_path / "1") != {}


def test_cases_differ(inputs, tmp_path):
    made = [case.make(f"8-{number}", inputs, tmp_path / str(number)) for number in range(30)]
    assert len({(held.program, held.arguments, held.what) for held in made}) > 25


def test_a_find_is_kept_with_the_command_that_shows_it_again(tmp_path, capsys):
    (tmp_path / "kept").mkdir()
    made = Case("7-3", "sqp-export", ("a\nb", "\udcff"), ("\x1b",), streams={1: "full"})
    fuzz.keep(tmp_path / "find", made, Ran(1, "", "\udcff"), [oracle.Fault("hang", "long")], tmp_path / "kept")
    assert f"--again {tmp_path / 'find'}" in capsys.readouterr().out
    assert stored(tmp_path / "find") == made


def test_a_find_that_is_mended_is_found_no_more(tmp_path):
    (tmp_path / INSIDE).mkdir(parents=True)
    made = Case("7-3", "sqp-inspect", ("no_such.tflite",))
    (tmp_path / "case.json").write_text(made.to_json())
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--again", str(tmp_path)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "Exit code 2" in done.stdout and "no_such.tflite" in done.stderr


def here(made, folder, command):
    """Returns the faults of a case that is run inside this process, without limits."""
    work = folder / INSIDE
    create_special(made, work)
    before = snapshot(folder)
    ran = command(made.program, *made.arguments, cwd=work)
    after = snapshot(folder)
    return oracle.faults(made, Ran(ran.code, ran.out, ran.err, before=before, after=after))


FIXED = [(kind, number) for kind in ("keras", "h5", "saved", "npz", "tflite", "hidden", "calls") for number in range(6)]


@pytest.mark.parametrize(("kind", "number"), FIXED)
def test_fixed_cases_meet_no_fault(kind, number, inputs, tmp_path, command):
    made = case.make(f"fixed-{number}", inputs, tmp_path, kind)
    # A whole export takes seconds, and most damage shows before it.
    arguments = ("--dry-run", *made.arguments) if made.program == "sqp-export" else made.arguments
    made = dataclasses.replace(made, arguments=arguments, streams={}, installed=False, environment={})
    assert here(made, tmp_path, command) == [], (made.arguments, made.what)


@pytest.mark.large
def test_a_session_finds_nothing(tmp_path):
    given = ["--seconds", "600", "--seed", "large", "--finds", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "tools.fuzz", *given], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]

"""What tests lean on: commands run in this process, and what is made once for all workers."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import pytest

from conftest import made_once, run_here

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("worker", ["gw0", None])
def test_what_is_made_once_is_made_by_the_first_that_asks(tmp_path, monkeypatch, worker):
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    else:
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        sleep(0.1)
        (folder / "whole").touch()

    def ask(number: int) -> bool:
        base = tmp_path / (f"popen-gw{number}" if worker else "")
        base.mkdir(exist_ok=True)
        return (made_once(SimpleNamespace(getbasetemp=lambda: base), "thing", make) / "whole").exists()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
    assert made == [tmp_path / "once-thing"]


def test_what_could_not_be_made_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    factory = SimpleNamespace(getbasetemp=lambda: tmp_path)
    with pytest.raises(ZeroDivisionError):
        made_once(factory, "thing", lambda folder: 1 / 0)
    assert made_once(factory, "thing", lambda folder: (folder / "whole").touch()).joinpath("whole").exists()


def test_a_command_run_here_gives_its_text_and_exit_code(tmp_path):
    streams, folder = (sys.stdout, sys.stderr), Path.cwd()
    ran = run_here("sqp-inspect", DATA / "two_inputs_int8.tflite")
    assert ran.code == 0 and ran.out.startswith("OK") and ran.err == ""
    ran = run_here("sqp-inspect", "nowhere.tflite", cwd=tmp_path)
    assert ran.code == 2 and ran.out == "" and "nowhere.tflite" in ran.err
    ran = run_here("sqp-inspect", "file.tflite", "--no-such-option")
    assert ran.code == 2 and "--no-such-option" in ran.err
    assert (sys.stdout, sys.stderr) == streams and Path.cwd() == folder


def test_noise_of_native_code_is_caught_as_in_a_process(tmp_path):
    script = tmp_path / "loud.py"
    lines = ["import os, sys", "os.write(1, b'native')", "os.write(2, b'noise')", "print(sys.argv[1:])", "sys.exit(3)"]
    script.write_text("\n".join(lines))
    ran = run_here(script, "--given")
    assert ran.code == 3 and ran.err == "noise"
    assert "native" in ran.out and "['--given']" in ran.out

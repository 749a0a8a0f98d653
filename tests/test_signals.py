"""Whenever a command is interrupted, it ends with 130 and one line, and leaves nothing behind."""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sqp_tflite.cli import commands, running
from sqp_tflite.cli.running import Outcome, run_command

PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting:
    "Sends a signal twice when a certain module is imported."
    def find_spec(name, path=None, target=None):
        if name == {where!r}:
            for wait in (0, 0.05):
                if os.fork() == 0:
                    time.sleep(wait)
                    os.kill(os.getppid(), signal.{name})
                    os._exit(0)
            time.sleep(2)
sys.meta_path.insert(0, Interrupting)
sys.argv = [{program!r}, "net.keras"]
from sqp_tflite.cli.main import {main}
sys.exit({main}())
"""


@pytest.mark.parametrize(
    ("program", "where"),
    [
        ("sqp-export", "sqp_tflite.cli.commands"),
        ("sqp-check", "sqp_tflite.report"),
        ("sqp-inspect", "argparse"),
        ("sqp-export", "keras"),
        ("sqp-inspect", "sqp_tflite.inspection"),
        ("sqp-check", "sqp_tflite.parity"),
    ],
)
def test_an_interruption_of_an_import_is_one_line(program, where, tmp_path):
    (tmp_path / "net.keras").write_bytes(b"PK\x03\x04")
    main = f"{program.removeprefix('sqp-')}_main"
    code = PROGRAM.format(where=where, program=program, main=main, name="SIGINT")
    if program == "sqp-check":
        code = code.replace('"net.keras"]', '"net.keras", "net.keras"]')
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == f"{program}: interrupted, nothing was written\n"


def test_sigterm_is_taken_from_the_first_import_on(tmp_path):
    code = PROGRAM.format(where="sqp_tflite.cli.commands", program="sqp-export", main="export_main", name="SIGTERM")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")


@pytest.fixture(autouse=True)
def not_ignored():
    """A job that a shell starts in the background ignores SIGINT, and its children do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(action, capfd):
    """Returns a command's exit code and what it printed on standard error."""
    parser = argparse.ArgumentParser("sqp-any")
    parser.set_defaults(debug=False, json=False, quiet=False, output=None, report=())
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    code = run_command(parser, [], action)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    return code, capfd.readouterr().err


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_a_second_interruption_does_not_disturb_the_clean_up(capfd):
    cleaned = []

    def action(call):
        try:
            interrupt()
        finally:
            interrupt()
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append(True)

    assert interrupted(action, capfd) == (130, "sqp-any: interrupted, nothing was written\n") and cleaned


def test_an_interruption_that_a_library_makes_another_error_of_is_one(capfd):
    def action(call):
        try:
            interrupt()
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    assert interrupted(action, capfd) == (130, "sqp-any: interrupted, nothing was written\n")


class Losing:
    """Drops what a signal's handler raises, as native code does that calls Python."""

    def __init__(self, number: signal.Signals):
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("at", ["step", "delivery", "end"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_whose_exception_gets_lost_ends_the_command_at_its_next_step(number, code, at, capfd):
    went_on = []

    def action(call):
        with running.progress_of(call) as tell:
            Losing(number)
            if at == "step":
                tell("convert")
                went_on.append(True)
        if at == "delivery":
            commands._deliver(call, b"", None, {})
            went_on.append(True)
        return Outcome(0, lambda: went_on.append(True))

    if code == 143:
        with pytest.raises(SystemExit) as ended:
            interrupted(action, capfd)
        assert ended.value.code == code
    else:
        assert interrupted(action, capfd)[0] == code
    assert not went_on


def test_an_interruption_of_the_last_words_does_not_deny_the_file(capfd):
    written = Outcome(0, interrupt, " `out.tflite` was written and may ship.")
    assert interrupted(lambda call: written, capfd) == (0, f"sqp-any: interrupted.{written.written}\n")
    assert interrupted(lambda call: Outcome(0, interrupt), capfd)[0] == 130


def test_a_thread_leaves_signals_to_their_owner(capfd):
    codes = []
    thread = threading.Thread(target=lambda: codes.append(interrupted(lambda call: Outcome(0, lambda: None), capfd)))
    thread.start()
    thread.join()
    assert codes == [(0, "")]

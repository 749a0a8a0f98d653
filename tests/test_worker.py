"""Work in another process: its exceptions, its death and its delay all reach the caller."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sqp_tflite import worker
from sqp_tflite.errors import BadInputError, CrashedError


def gone(number: int) -> bool:
    """Returns whether no process has this number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_child_that_dies_becomes_a_message_with_its_last_words(number):
    with pytest.raises(CrashedError, match=f"`chores:die` ended with signal {number.name}.\n  last words"):
        worker.run("chores:die", number)


def test_a_child_that_leaves_becomes_a_message():
    with pytest.raises(CrashedError, match="`chores:leave` ended with exit code 7"):
        worker.run("chores:leave", 7)


def test_a_child_that_hangs_is_ended():
    with pytest.raises(CrashedError, match=r"signal SIGKILL \(out of memory, or more than 1 s\)"):
        worker.run("time:sleep", 60, timeout=1)


def test_exceptions_of_a_child_come_through_and_it_goes_on():
    with worker.Worker() as child:
        with pytest.raises(worker.ChildError, match="ZeroDivisionError: division by zero"):
            child.call("chores:divide", 1, 0)
        with pytest.raises(worker.ChildError, match="ModuleNotFoundError"):
            child.call("no_such_module:run")
        with pytest.raises(BadInputError, match="as it was said"):
            child.call("chores:refuse", "as it was said")
        assert child.call("chores:divide", 6, 3) == 2


@pytest.mark.parametrize("number", [1, 2])
def test_what_native_code_prints_is_in_the_log_of_its_call(number):
    with worker.Worker() as child:
        child.call("chores:say", "first", number)
        assert child.log() == "first\n"
        child.call("chores:say", "second", number)
        assert child.log() == "second\n"


@pytest.mark.parametrize("safe", ["", "1"])
def test_nothing_in_the_current_folder_runs_in_a_child(safe, tmp_path, monkeypatch):
    for name in ("random", "json", "numpy", "struct", "runpy", "pickle", "ctypes", "sqp_tflite", "chores"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", safe)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with worker.Worker(("json", "numpy")) as child:
        assert 0 <= child.call("random:random") < 1
        assert child.call("chores:divide", 4, 2) == 2
    assert not (tmp_path / "ran").exists()


def test_a_closed_worker_leaves_no_process():
    with worker.Worker() as child:
        number = child.call("os:getpid")
        assert number != os.getpid() and not gone(number)
    assert gone(number) and not child.alive
    child.close()


_PARENT = """
import sys
from sqp_tflite import worker
one = worker.Worker(fork=sys.argv[1] == "forked")
print(one.call("os:getpid"), flush=True)
one.call("time:sleep", 60.0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
@pytest.mark.parametrize("how", ["spawned", "forked"])
def test_a_busy_child_ends_with_a_parent_that_was_killed(how):
    with subprocess.Popen([sys.executable, "-c", _PARENT, how], stdout=subprocess.PIPE) as parent:
        number = int(parent.stdout.readline())
        time.sleep(0.2)
        parent.kill()
    until = time.monotonic() + 10
    while not gone(number) and time.monotonic() < until:
        time.sleep(0.05)
    assert gone(number)


def test_a_worker_of_a_thread_outlives_the_thread():
    made = []
    thread = threading.Thread(target=lambda: made.append(worker.Worker()))
    thread.start()
    thread.join()
    with made[0] as one:
        assert one.call("os:getpid") > 0


def test_a_worker_that_died_is_not_lent_again():
    with pytest.raises(CrashedError), worker.lent("test", ()) as kept:
        kept.call("chores:die", signal.SIGABRT)
    with worker.lent("test", ()) as kept:
        assert kept.call("chores:divide", 4, 2) == 2


def test_a_kept_worker_is_lent_again_and_one_in_use_is_not():
    with worker.lent("kept", ()) as first:
        number = first.call("os:getpid")
        with worker.lent("kept", ()) as second:
            assert second.call("os:getpid") != number
    with worker.lent("other", ()) as other:
        assert other is not first
    with worker.lent("kept", ()) as again:
        assert again is first and again.call("os:getpid") == number


def test_a_kept_worker_survives_an_exception_and_ends_with_ctrl_c():
    with pytest.raises(worker.ChildError), worker.lent("interrupted", ()) as kept:
        kept.call("chores:divide", 1, 0)
    with pytest.raises(KeyboardInterrupt), worker.lent("interrupted", ()) as again:
        assert again is kept
        raise KeyboardInterrupt
    with worker.lent("interrupted", ()) as fresh:
        assert fresh is not kept and not kept.alive


def test_a_forked_worker_answers_dies_and_is_ended_like_a_spawned_one():
    other, quotient, log, error, death, hanging, seconds = worker.run("chores:forked")
    assert other and quotient == 2
    assert log == ""  # Of the last call, which printed nothing.
    assert error == "ZeroDivisionError: division by zero"
    assert "`chores:die` ended with signal SIGABRT.\n  last words" in death
    assert "signal SIGKILL" in hanging and seconds < 30


def test_a_process_that_has_computed_may_not_be_forked(monkeypatch):
    import tensorflow as tf

    tf.constant(1.0)
    assert not worker.may_fork()
    monkeypatch.setattr("sys.platform", "darwin")
    assert not worker.may_fork()

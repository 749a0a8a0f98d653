"""Work in another process: its exceptions, its death and its delay all reach the caller."""

import signal

import pytest

from sqp_tflite import worker
from sqp_tflite.errors import CrashedError


def test_a_child_that_dies_becomes_a_message():
    with pytest.raises(CrashedError, match="signal SIGSEGV"):
        worker.run("chores:die", signal.SIGSEGV)


def test_a_child_that_hangs_is_ended():
    with pytest.raises(CrashedError, match="more than 1 s"):
        worker.run("time:sleep", 60, timeout=1)


def test_exceptions_of_a_child_come_through():
    with pytest.raises(worker.ChildError, match="ZeroDivisionError: division by zero"):
        worker.run("chores:divide", 1, 0)
    assert worker.run("chores:divide", 6, 3) == 2


def test_a_worker_that_died_is_not_lent_again():
    with pytest.raises(CrashedError), worker.lent("test", ()) as kept:
        kept.call("chores:die", signal.SIGABRT)
    with worker.lent("test", ()) as kept:
        assert kept.call("chores:divide", 4, 2) == 2
        first = kept
    with worker.lent("test", ()) as kept:
        assert kept is first

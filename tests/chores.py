"""What tests have done in another process. Nothing heavy is imported: a worker imports this module."""

import os
import signal
import time

from sqp_tflite.errors import BadInputError, CrashedError
from sqp_tflite.worker import Worker


def die(number):
    """Ends this process by a signal, as native code does."""
    print("last words", flush=True)
    os.kill(os.getpid(), number)


def leave(code):
    """Ends this process with an exit code, past every `finally`."""
    os._exit(code)


def divide(a, b):
    """Divides."""
    return a / b


def refuse(words):
    """Refuses, as a step of the export does."""
    raise BadInputError(words)


def say(words, number=1):
    """Prints on a file descriptor, past Python's streams, and returns the process's number."""
    os.write(number, f"{words}\n".encode())
    return os.getpid()


def forked():
    """Returns what a forked worker does, asked in a process that has not computed yet."""
    with Worker(fork=True) as child:
        parent, number = os.getpid(), child.call("chores:say", "hello")
        answers = [number != parent, child.call("chores:divide", 6, 3), child.log()]
        try:
            child.call("chores:divide", 1, 0)
        except Exception as error:
            answers.append(str(error))
        try:
            child.call("chores:die", signal.SIGABRT)
        except CrashedError as error:
            answers.append(str(error))
    with Worker(fork=True) as child:
        began = time.monotonic()
        try:
            child.call("time:sleep", 60, timeout=0.2)
        except CrashedError as error:
            answers.append(str(error))
        answers.append(time.monotonic() - began)
    return answers

"""Commands with one fault each, for the tests of the fuzzer: what its oracle must see."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.fuzz.records import PAYLOAD


def good():
    """Writes the file it was asked for."""
    Path("net.tflite").write_bytes(b"TFL3")
    print("fine")
    return 0


def refuses():
    """Says why, and writes nothing."""
    print("sqp-export: no", file=sys.stderr)
    return 2


def raises():
    """Fails in a way that nobody thought of."""
    raise KeyError("x")


def asks_for_a_report():
    """Fails in a way that only the last resort caught."""
    print("sqp-export: unexpected KeyError: x. This is a fault of the program: please report it", file=sys.stderr)
    return 2


def says_nothing():
    return 2


def has_another_code():
    refuses()
    return 9


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def talks_too_long():
    print("x" * 5000, file=sys.stderr)
    return 2


def colours():
    print("sqp-export: \x1b[31mno", file=sys.stderr)
    return 2


def writes_another_file():
    Path("other").touch()
    return good()


def writes_above():
    Path("../other").touch()
    return good()


def writes_and_refuses():
    good()
    return refuses()


def changes_an_input():
    Path("net.keras").write_text("changed")
    return good()


def removes_an_input():
    Path("net.keras").unlink()
    return refuses()


def writes_nothing():
    return 0


def runs_the_payload():
    Path(PAYLOAD).touch()
    return refuses()


def leaves_a_temporary_file():
    tempfile.mkstemp()
    return good()


def leaves_a_process():
    subprocess.Popen(["sleep", "60"], start_new_session=True)
    return good()


def sleeps():
    time.sleep(60)


def computes():
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    return good()


def eats():
    held = bytearray(b"x") * (200 << 20)
    return good() if held else 1


def prints_no_json():
    good()
    print('{"verdict": NaN}')
    return 0


def contradicts_itself():
    Path("net.tflite").write_bytes(b"TFL3")
    print('{"verdict": "refused"}')
    return 0

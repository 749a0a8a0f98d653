"""Where the programs begin. Importing this module means to be the program: it takes SIGINT and SIGTERM
before all else is imported.

An interruption while modules are imported would print a traceback, and each would end the process by the signal. What
happens before, while Python itself starts, is in nobody's hands.
"""

import os
import signal
import sys


def _leave(number: int, _: object) -> None:
    """Ends at once: nothing was begun that would have to be cleaned up."""
    if number == signal.SIGTERM:
        os._exit(143)
    name = os.path.basename(sys.argv[0] or "sqp-export")
    try:
        os.write(2, f"{name}: interrupted, nothing was written\n".encode("utf-8", "replace"))
    finally:
        os._exit(130)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _leave)
if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
    signal.signal(signal.SIGTERM, _leave)


def export_main() -> int:
    """Runs sqp-export and returns its exit code."""
    from sqp_tflite.cli import commands

    return commands.export_main()


def inspect_main() -> int:
    """Runs sqp-inspect and returns its exit code."""
    from sqp_tflite.cli import commands

    return commands.inspect_main()


def cc_main() -> int:
    """Runs sqp-cc and returns its exit code."""
    from sqp_tflite.cli import commands

    return commands.cc_main()


def check_main() -> int:
    """Runs sqp-check and returns its exit code."""
    from sqp_tflite.cli import commands

    return commands.check_main()

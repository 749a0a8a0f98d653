"""When this process began: what a command reports as its seconds is what its user waited, imports included."""

from __future__ import annotations

import os
import time
from pathlib import Path

_START_FIELD = 19
"""Of /proc/self/stat, counted after the program's name: ticks of the clock from the machine's start."""

_LONGEST_START = 60.0
"""Seconds that a busy machine may take to start a process; more means that the two clocks do not fit together."""


def process_start() -> float:
    """Returns when this process began, as `time.monotonic` counts; call it early, before the process has waited."""
    # Until now the process has only computed; on a busy machine it also stood in line, which Linux knows.
    computed = time.monotonic() - time.process_time()
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return computed
    began = time.monotonic() - age
    return began if computed - _LONGEST_START < began < computed else computed

"""Returns what a figure depends on: the machine, the versions of everything that takes part, the date."""

import importlib.metadata
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PACKAGES = (
    "sqp-keras",
    "keras",
    "tensorflow",
    "tensorflow-cpu",
    "jax",
    "numpy",
    "ai-edge-litert",
    "litert-quantizer",
    "tflite-runtime",
    "tflite-micro",
    "matplotlib",
)
TOOLS = (("gcc", "--version"), ("arm-none-eabi-gcc", "--version"), ("qemu-system-arm", "--version"))


def describe() -> dict[str, Any]:
    """Returns processor, cores, memory, system, Python, load and date as text, and {"versions": {name: version}}."""
    versions = {name: found for name in PACKAGES if (found := _package(name))}
    versions |= {command[0]: found for command in TOOLS if (found := _tool(command))}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release().partition('-')[0]} on {platform.machine()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "versions": versions,
    }


def _processor() -> str:
    """Returns the processor's name, from Linux's list where there is one."""
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _tool(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.splitlines()[0] if done.stdout else ""

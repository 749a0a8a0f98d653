"""The versions of everything that affects an export."""

from __future__ import annotations

import functools
import importlib.metadata
import platform

DISTRIBUTIONS = (
    "sqp-keras",
    "tensorflow",
    "keras",
    "numpy",
    "ai-edge-litert",
    "litert-quantizer",
    "tflite-runtime",
    "tflite-micro",
    "ethos-u-vela",
)


@functools.cache
def versions() -> tuple[tuple[str, str], ...]:
    """Returns pairs (distribution, version), "not installed" if it is missing, and Python's own."""
    found = [(name, version(name)) for name in DISTRIBUTIONS]
    return (*found, ("python", platform.python_version()))


def version(name: str) -> str:
    """Returns the installed version of a distribution, "not installed" if it is missing."""
    for candidate in (name, f"{name}-cpu"):
        try:
            return importlib.metadata.version(candidate)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "not installed"

"""Exports Keras models to TFLite files that need no exp and no log, and proves it.

`export(model, output)`, `inspect(path)` and `check(model, tflite, data)` are what the commands sqp-export,
sqp-inspect and sqp-check run. TensorFlow is imported when the first of them needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqp_tflite.errors import BadInputError, ExportError, ParityError, RefusedError
    from sqp_tflite.flatbuffer.read import read as inspect
    from sqp_tflite.pipeline import Export, check, export

__all__ = ["BadInputError", "Export", "ExportError", "ParityError", "RefusedError", "check", "export", "inspect"]

_HOMES = {
    "BadInputError": ("errors", "BadInputError"),
    "Export": ("pipeline", "Export"),
    "ExportError": ("errors", "ExportError"),
    "ParityError": ("errors", "ParityError"),
    "RefusedError": ("errors", "RefusedError"),
    "check": ("pipeline", "check"),
    "export": ("pipeline", "export"),
    "inspect": ("flatbuffer.read", "read"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqp_tflite' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(f"sqp_tflite.{module}"), attribute)

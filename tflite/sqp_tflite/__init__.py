"""Exports Keras models to TFLite files that need no exp and no log, and proves them.

`export(model, output)` and `check(model, tflite, data)` are what the commands sqp-export and sqp-check run;
`inspect(path)` returns the graph that sqp-inspect judges. TensorFlow is imported when the first of them needs it.
`include_dir()` is the folder of `sqp.h`, the C kernels for code without an interpreter.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Not from `typing`, whose import takes longer than all else that a command begins with.
if TYPE_CHECKING:
    from typing import Any

    from sqp_keras import __version__
    from sqp_tflite.codegen.naming import CStyle
    from sqp_tflite.errors import BadInputError, ExportError, ParityError, RefusedError
    from sqp_tflite.flatbuffer.read import read as inspect
    from sqp_tflite.mcu import include_dir
    from sqp_tflite.parity import check
    from sqp_tflite.pipeline import Export, export

__all__ = [
    "BadInputError",
    "CStyle",
    "Export",
    "ExportError",
    "ParityError",
    "RefusedError",
    "__version__",
    "check",
    "export",
    "include_dir",
    "inspect",
]

_HOMES = {
    "BadInputError": ("sqp_tflite.errors", "BadInputError"),
    "CStyle": ("sqp_tflite.codegen.naming", "CStyle"),
    "Export": ("sqp_tflite.pipeline", "Export"),
    "ExportError": ("sqp_tflite.errors", "ExportError"),
    "ParityError": ("sqp_tflite.errors", "ParityError"),
    "RefusedError": ("sqp_tflite.errors", "RefusedError"),
    "__version__": ("sqp_keras", "__version__"),
    "check": ("sqp_tflite.parity", "check"),
    "export": ("sqp_tflite.pipeline", "export"),
    "include_dir": ("sqp_tflite.mcu", "include_dir"),
    "inspect": ("sqp_tflite.flatbuffer.read", "read"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqp_tflite' has no attribute {name!r}")
    import importlib

    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)

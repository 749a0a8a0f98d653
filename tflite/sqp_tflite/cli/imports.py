"""Imports TensorFlow and Keras for a command in half the time."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

from sqp_tflite import collecting

UNUSED = ("matplotlib", "sklearn")
"""Keras imports them where they are installed, for plots and wrappers that no command uses: a quarter of the time."""


@contextlib.contextmanager
def quick_imports() -> Iterator[None]:
    """Leaves out in the block what Keras does not need, and looks for garbage only behind it.

    In a process that has imported Keras there is nothing to win, and nothing changes.
    """
    if "keras" in sys.modules:
        yield
        return
    hidden = [name for name in UNUSED if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # So Python takes it as not installed.
    with collecting.later():
        try:
            yield
        finally:
            for name in hidden:
                if sys.modules.get(name, name) is None:
                    del sys.modules[name]
            gc.freeze()  # What was imported stays.

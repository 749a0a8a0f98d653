"""Python's collector of unused objects, held back while many objects are made that stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def later() -> Iterator[None]:
    """Has nothing collected while the block runs: looking through all that TensorFlow keeps takes longer than it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()

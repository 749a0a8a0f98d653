"""Removes what Keras leaves among the temporary files when it refuses a file."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from sqp_tflite import private
from sqp_tflite.source.hooks import hooked

_MADE: ContextVar[list[str] | None] = ContextVar("sqp_tflite_made", default=None)


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Removes the folders that Keras makes in the block, at its end: it unpacks files there and may raise."""
    found, made = private.find("temporary"), list[str]()
    hook = hooked(found.owner, found.name, _remembered) if found else contextlib.nullcontext()
    token = _MADE.set(made)
    try:
        with hook:
            yield
    finally:
        _MADE.reset(token)
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)


def _remembered(stock: Any) -> Any:
    @functools.wraps(stock)
    def get_temp_dir() -> str:
        folder, made = str(stock()), _MADE.get()
        if made is not None:
            made.append(folder)
        return folder

    return get_temp_dir

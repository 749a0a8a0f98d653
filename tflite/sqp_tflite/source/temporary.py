"""Temporary files: what Keras leaves there when it refuses a file, and what stands for a file of the user's."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sqp_tflite import private
from sqp_tflite.source.hooks import hooked, setting

_MADE: ContextVar[list[str] | None] = ContextVar("sqp_tflite_made", default=None)


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Removes the folders that Keras makes in the block, at its end: it unpacks files there and may raise."""
    found, made = private.find("temporary"), list[str]()
    hook = hooked(found.owner, found.name, _remembered) if found else contextlib.nullcontext()
    try:
        with hook, setting(_MADE, made):
            yield
    finally:
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


def stand_for(path: Path, link: Path) -> Path:
    """Makes a link to a file or folder, or a copy where the system lets not everyone make links; returns it.

    Args:
        path: What it stands for, which is only read.
        link: Where it goes; nothing is there yet.
    """
    try:
        link.symlink_to(path.resolve(), target_is_directory=path.is_dir())
    except OSError:
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, link)
    return link

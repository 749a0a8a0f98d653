"""What the user points at must be there; imports nothing slow, so that the answer comes at once."""

from __future__ import annotations

from pathlib import Path

from sqp_tflite.errors import BadInputError


def check_model(path: Path) -> None:
    """Raises `BadInputError` if there is no model at the path."""
    if not path.exists():
        raise BadInputError(f"`{path}` does not exist. Pass a .keras or .h5 file or a SavedModel folder.")


def check_data(path: Path) -> None:
    """Raises `BadInputError` if there is no data file at the path."""
    if not path.exists():
        raise BadInputError(f"`{path}` does not exist. Pass an .npz file: --data FILE.npz.")
    if path.is_dir():
        raise BadInputError(f"`{path}` is a folder. Pass an .npz file: save one with numpy.savez(path, x=...).")

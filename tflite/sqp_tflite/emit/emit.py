"""The requested artefacts, as file contents; nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqp_tflite.emit.c_array import c_array
from sqp_tflite.emit.golden import golden
from sqp_tflite.emit.material import Material
from sqp_tflite.emit.project import project
from sqp_tflite.emit.resolver import resolver
from sqp_tflite.errors import BadInputError

_WRITERS: Mapping[str, Callable[[Material], Mapping[str, str | bytes]]] = {
    "c": c_array,
    "resolver": resolver,
    "golden": golden,
    "project": lambda material: {f"{material.style.prefix}/{path}": file for path, file in project(material).items()},
}

KINDS = tuple(_WRITERS)


def check_known(kinds: Iterable[str]) -> None:
    """Raises `BadInputError` if one of the kinds is not in `KINDS`."""
    unknown = [kind for kind in kinds if kind not in _WRITERS]
    if unknown:
        raise BadInputError(
            f"--emit must list one or more of {', '.join(KINDS)}, separated by commas. "
            f"Received: {', '.join(map(repr, unknown))}."
        )


def emit(kinds: Iterable[str], material: Material) -> dict[str, bytes]:
    """Returns {relative path: content} of the artefacts; those of `project` are in a folder named after the prefix.

    Args:
        kinds: Some of `KINDS`.
        material: What they are made from.

    Raises:
        BadInputError: A kind is unknown, or something that it needs is missing.
    """
    wanted = list(dict.fromkeys(kinds))
    check_known(wanted)
    files: dict[str, bytes] = {}
    for kind in wanted:
        for path, content in _WRITERS[kind](material).items():
            files[path] = content.encode("utf-8") if isinstance(content, str) else content
    return files

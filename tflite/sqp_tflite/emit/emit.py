"""The requested artefacts, as file contents; nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqp_tflite import accept
from sqp_tflite.codegen.package import FILES
from sqp_tflite.emit.c_array import c_array
from sqp_tflite.emit.code import code
from sqp_tflite.emit.compiled import compiled
from sqp_tflite.emit.golden import golden
from sqp_tflite.emit.material import Material
from sqp_tflite.emit.project import project
from sqp_tflite.emit.resolver import resolver
from sqp_tflite.errors import OptionError

_WRITERS: Mapping[str, Callable[[Material], Mapping[str, str | bytes]]] = {
    "c": c_array,
    "resolver": resolver,
    "golden": golden,
    "project": lambda material: {f"{material.style.prefix}/{path}": file for path, file in project(material).items()},
    "code": code,
    "vela": compiled,
}

KINDS = tuple(_WRITERS)

MADE_BY = "Made by sqp-export."
"""A line of comment near the top of every artefact that is text: what has it may be written again."""

_HEADER_BYTES = 4096

_ALONE: Mapping[str, Mapping[str, str]] = {
    "c": {"{p}_data.h": "", "{p}_data.c": ""},
    "resolver": {"{p}_op_resolver.h": ""},
    "golden": {"{p}_golden.h": "", "{p}_golden.c": "", "{p}_golden.npz": "{p}_golden.h"},
}
_OF_CODE = {f"{{p}}_code/{path}": header and f"{{p}}_code/{header}" for path, header in FILES.items()}
_OF_PROJECT = dict.fromkeys(
    "README.md CMakeLists.txt arm-none-eabi.cmake self_test/main.cc {p}_runner.h {p}_runner.cc {p}_self_test.cc "
    "{p}_arena.h library.properties idf_component.yml zephyr/module.yml zephyr/CMakeLists.txt "
    "examples/{p}_self_test/{p}_self_test.ino".split(),
    "",
)
_PATHS: Mapping[str, Mapping[str, str]] = {
    **_ALONE,
    "code": _OF_CODE,
    "vela": {"{p}_vela.tflite": "{p}_vela.txt", "{p}_vela.txt": ""},
    "project": {
        f"{{p}}/{path}": header and f"{{p}}/{header}"
        for path, header in {
            **_OF_PROJECT,
            **{path: header for files in _ALONE.values() for path, header in files.items()},
            "{p}.tflite": "CMakeLists.txt",
            "library.json": "CMakeLists.txt",
        }.items()
    },
}
"""The files of each kind, each with the one whose header also speaks for it: bytes have no place for a comment."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file that will be written.

    Attributes:
        path: Its path, relative to the folder of the output.
        header: The file whose header says who made both.
    """

    path: str
    header: str

    @property
    def folders(self) -> int:
        """Returns how many folders of its own it lies in."""
        return self.path.count("/")


def artefacts(kinds: Iterable[str], prefix: str) -> tuple[Artefact, ...]:
    """Returns the files that `emit` will make, before there is anything to make them from.

    Args:
        kinds: Some of `KINDS`.
        prefix: The C prefix.
    """
    listed = {path: header or path for kind in dict.fromkeys(kinds) for path, header in _PATHS[kind].items()}
    return tuple(Artefact(path.format(p=prefix), header.format(p=prefix)) for path, header in listed.items())


def check_own(folder: Path, files: Iterable[Artefact]) -> None:
    """Raises `OptionError` if one of the files exists and is not an artefact of this program.

    Args:
        folder: The folder of the output.
        files: What will be written.
    """
    for file in files:
        if (folder / file.path).is_file() and not _ours(folder / file.header):
            raise OptionError(
                f"Only files that this program has made are replaced. Received: {accept.quoted(folder / file.path)}, "
                f'which exists and has no header "{MADE_BY}". Rename or remove it, or choose another place or '
                "--c-prefix."
            )


def _ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MADE_BY.encode("ascii") in file.read(_HEADER_BYTES)
    except OSError:
        return False


def check_known(kinds: Iterable[str]) -> None:
    """Raises `OptionError` if one of the kinds is not in `KINDS`."""
    unknown = [kind for kind in kinds if kind not in _WRITERS]
    if unknown:
        raise OptionError(
            f"--emit must list one or more of {', '.join(KINDS)}, separated by commas. "
            f"Received: {', '.join(map(repr, unknown))}."
        )


def emit(kinds: Iterable[str], material: Material) -> dict[str, bytes]:
    """Returns {relative path: content} of the artefacts; those of `project` are in a folder named after the prefix.

    Args:
        kinds: Some of `KINDS`.
        material: What they are made from.

    Raises:
        OptionError: A kind is unknown, or something that it needs is missing.
    """
    wanted = list(dict.fromkeys(kinds))
    check_known(wanted)
    files: dict[str, bytes] = {}
    for kind in wanted:
        for path, content in _WRITERS[kind](material).items():
            files[path] = content.encode("utf-8") if isinstance(content, str) else content
    return files

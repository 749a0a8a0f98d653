"""What sqp-cc does: a file to a folder of C, with a self-test where the interpreter is installed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqp_tflite.accept import quoted
from sqp_tflite.codegen.naming import CStyle
from sqp_tflite.codegen.package import FILES, package
from sqp_tflite.codegen.plan import plan
from sqp_tflite.codegen.vectors import made_up
from sqp_tflite.emit.emit import Artefact, check_own
from sqp_tflite.errors import RefusedError, TFLiteFileError
from sqp_tflite.files import check_input, write_all
from sqp_tflite.flatbuffer.read import bytes_of, opened
from sqp_tflite.layer_names import THE_MODEL
from sqp_tflite.limits import limit
from sqp_tflite.places import Place, check_places
from sqp_tflite.report import Finding, Kind
from sqp_tflite.run.interpreters import RuntimeFailedError, require_room
from sqp_tflite.wording import harmless, said


@dataclass(frozen=True, slots=True)
class Coding:
    """Generated code, ready to be written.

    Attributes:
        source: The TFLite file.
        folder: Where it goes.
        files: Contents by relative path.
        found: What `--json` prints.
        tested: Whether there is a self-test.
    """

    source: Path
    folder: Path
    files: Mapping[str, str]
    found: dict[str, Any]
    tested: bool

    def write(self) -> None:
        """Writes all files, or none."""
        write_all({_place(self.folder, path): text.encode() for path, text in self.files.items()}, (self.source,))

    def show(self, console: Any) -> None:
        """Prints what was written.

        Args:
            console: A rich console.
        """
        found = self.found
        constants = sum(found["constant_bytes"].values())
        lines = [
            f"OK  {harmless(str(self.source))} is now C, bit for bit TensorFlow Lite Micro",
            f"    {harmless(str(self.folder))}: {len(self.files)} files",
            f"    arena {found['arena_bytes']:,} bytes ({found['arena_lower_bound']:,} live at the same time)",
            f"    constants {constants:,} bytes, {found['functions']} steps, {found['macs']:,} multiplications",
        ]
        if not self.tested:
            lines.append("note: no self-test, since the interpreter tflite-micro is not installed")
        for line in lines:
            console.print(line, markup=False, highlight=False)


def _place(folder: Path, path: str) -> Place:
    return Place(folder / path, "-o", "-o", own_folders=1)


def coded(
    source: Path, folder: Path | None, *, prefix: str | None, section: str, qualifier: str, max_memory: Any
) -> Coding:
    """Returns a file as C.

    Args:
        source: The TFLite file.
        folder: Where the code goes; None for a folder beside the file.
        prefix: Of the C symbols; None for the file's name.
        section: Linker section of the constants.
        qualifier: Of the constants' type.
        max_memory: Bytes that the file may declare; None for an eighth of the free memory.

    Raises:
        RefusedError: Something in the file has no C form.
        BadInputError: Not a TFLite file, or the folder cannot be written.
    """
    check_input(source, "Pass a .tflite file.")
    style = CStyle(CStyle.named(source.stem).prefix if prefix is None else prefix, section, qualifier)
    target = folder or source.with_name(f"{style.prefix}_code")
    listed = [_artefact(style.prefix, path, header) for path, header in FILES.items()]
    check_places([_place(target, file.path) for file in listed], (source,))
    check_own(target, listed)
    allowed = limit(max_memory)
    content, what = bytes_of(str(source), allowed=allowed)
    _, graph = opened(content, what)
    require_room(graph, quoted(source), allowed)
    with _coherent(source):
        plan(graph)  # Refuses before the interpreter runs.
    try:
        vectors = made_up(graph, content)
    except RuntimeFailedError as error:
        rule = f"TensorFlow Lite Micro, whose outputs are in the self-test, does not run the file: {error}."
        finding = Finding(THE_MODEL, "", "", rule, "See what it lacks with sqp-inspect.", Kind.OP)
        raise RefusedError(f"The file cannot become C code:\n- {finding}", (finding,)) from error
    with _coherent(source):
        _, files = package(graph, style, source.name, vectors)
    manifest = json.loads(files[f"{style.prefix}_manifest.json"])
    return Coding(source, target, files, {**manifest, "folder": str(target)}, vectors is not None)


@contextlib.contextmanager
def _coherent(source: Path) -> Iterator[None]:
    """Makes a message of what numbers and places raise that no writer means: any byte of a file may be damaged."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TFLiteFileError(
            f"What a file declares must fit together to become C code. Received: {quoted(source)}, where it does not "
            f"({type(error).__name__}: {said(error)}). Fetch or make the file again. If TensorFlow Lite Micro runs it, "
            "please report it, with the file."
        ) from error


def _artefact(prefix: str, path: str, header: str) -> Artefact:
    return Artefact(path.format(p=prefix), (header or path).format(p=prefix))

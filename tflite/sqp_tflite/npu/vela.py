"""Vela, Arm's compiler for Ethos-U NPUs, run in a child process."""

from __future__ import annotations

import csv
import importlib.metadata
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqp_tflite.errors import CrashedError
from sqp_tflite.wording import said
from sqp_tflite.worker import ChildError, lent

DISTRIBUTION = "ethos-u-vela"
"""The package that has it."""

INSTALL = "pip install 'sqp-keras[ethos-u]'"

_SECONDS = 600.0
"""What a compilation may take; the networks of `tools/zoo.py` take less than ten."""

_REASON = re.compile(r"operator: \S+, ofm: '([^'\n]*)'\s*\n\s*Reason: (.+)")
"""How Vela says on its standard output why the operator that makes a tensor cannot be on the NPU."""

_KIBI = 1024


@dataclass(frozen=True, slots=True)
class Compiled:
    """What Vela made.

    Attributes:
        content: The compiled file: what the NPU computes is in operators `ethos-u`, the rest as it was.
        summary: The columns of Vela's own summary, as text; columns of another release may be missing.
        reasons: {tensor: why the operator that makes it is left to the CPU}, as far as Vela says it.
    """

    content: bytes
    summary: Mapping[str, str]
    reasons: Mapping[str, str]

    def number(self, column: str) -> float:
        """Returns a column of the summary as a number, 0 where there is none."""
        try:
            return float(self.summary.get(column, 0))
        except ValueError:
            return 0.0

    def bytes_in(self, memory: str) -> int:
        """Returns what is used in a memory, such as "sram", in bytes; Vela counts in KiB."""
        return round(self.number(f"{memory}_memory_used") * _KIBI)


class CompilerFailedError(Exception):
    """Vela refused a file or crashed on it; the message is its own, on one line."""


def version() -> str:
    """Returns Vela's installed version, "" if it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return ""


def compiled(content: bytes, accelerator: str) -> Compiled:
    """Returns what Vela makes of a file, with its own default system and memories for the accelerator.

    Args:
        content: The TFLite file.
        accelerator: One of `policy.ACCELERATORS`.

    Raises:
        CompilerFailedError: It refused the file, crashed, or took longer than ten minutes.
    """
    with tempfile.TemporaryDirectory() as folder, lent("vela", ("ethosu.vela.vela",)) as worker:
        source = Path(folder, "model.tflite")
        source.write_bytes(content)
        try:
            worker.call("sqp_tflite.npu.vela:compile_here", str(source), accelerator, timeout=_SECONDS)
            made = source.with_name("model_vela.tflite").read_bytes()
            tables = [
                list(csv.DictReader(path.open(encoding="utf-8", newline="")))
                for path in Path(folder).glob("model_summary_*.csv")
            ]
        except (ChildError, CrashedError, OSError) as error:
            raise CompilerFailedError(said(error)) from error
        summary = tables[0][0] if tables and tables[0] else {}
        return Compiled(made, summary, dict(_REASON.findall(worker.log())))


def compile_here(source: str, accelerator: str) -> None:
    """Does the work of `compiled` in this process, which native code may crash: writes Vela's files beside the source.

    Args:
        source: Path of the TFLite file.
        accelerator: One of `policy.ACCELERATORS`.
    """
    from ethosu.vela import vela

    arguments = [source, "--accelerator-config", accelerator, "--output-dir", str(Path(source).parent)]
    try:
        code = vela.main(arguments)
    except SystemExit as ended:  # How it refuses a call.
        code = ended.code
    finally:
        sys.stdout.flush()
    if code:
        raise RuntimeError(f"Vela ended with exit code {code}.")

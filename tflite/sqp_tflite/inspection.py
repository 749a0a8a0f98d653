"""Reports on any TFLite file: what it contains, what it needs, whether a target can run it."""

from __future__ import annotations

from pathlib import Path

from sqp_tflite.errors import BadInputError, CrashedError
from sqp_tflite.flatbuffer.graph import Graph, numbers
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.audit import audit, op_rows, tensor_rows
from sqp_tflite.report import Memory, Report
from sqp_tflite.run.memory import memory
from sqp_tflite.versions import versions


def inspection(source: Path, target: str, command: str = "") -> tuple[Graph, Report]:
    """Returns the file's graph and a report about it.

    Args:
        source: Path of the file.
        target: The target whose operators decide.
        command: The command line, for the report.

    Raises:
        BadInputError: The file is not a TFLite file.
    """
    graph = read(source)
    findings = audit(graph, target)
    found, notes = Memory(), list[str]()
    try:
        # A file that the audit refuses may crash the interpreter: its memory is calculated, not measured.
        found, arena = memory(source.read_bytes(), graph, "" if findings else target)
        notes += arena.notes if arena else ()
    except (BadInputError, CrashedError) as error:
        notes.append(f"The memory could not be measured: {error}")
    report = Report(
        verdict="refused" if findings else "ok",
        source=str(source),
        target=target,
        quantize=numbers(graph),
        lowering="",
        sha256=graph.sha256,
        size_bytes=graph.size_bytes,
        ops=op_rows(graph),
        findings=findings,
        inputs=tensor_rows(graph, graph.main.inputs),
        outputs=tensor_rows(graph, graph.main.outputs),
        memory=found,
        notes=tuple(notes),
        versions=versions(),
        command=command,
    )
    return graph, report

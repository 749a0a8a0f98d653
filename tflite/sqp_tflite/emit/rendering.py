"""A report as the content of a file, by the file name's ending."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqp_tflite.accept import quoted
from sqp_tflite.errors import OptionError
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.report import Report, json_text

ENDINGS = (".html", ".json")


def check_names(paths: Iterable[str | Path]) -> None:
    """Raises `OptionError` if a report's name ends in neither .html nor .json."""
    for path in paths:
        if Path(path).suffix.lower() not in ENDINGS:
            raise OptionError(
                f"--report must name an .html or .json file. Received: {quoted(path)}. For example report.html."
            )


def render(report: Report, graph: Graph, content: bytes, ending: str) -> bytes:
    """Returns the file's content.

    Args:
        report: The report of the export.
        graph: The file that the report is about.
        content: The same file as bytes.
        ending: One of `ENDINGS`.
    """
    if ending.lower() == ".json":
        return (json_text(report.to_dict()) + "\n").encode("utf-8")
    from sqp_tflite.emit.page import html

    return html(report, graph, content).encode("utf-8")

"""The report as one self-contained HTML page: no script, no font, no link."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from sqp_tflite.agreement import RESERVE_COLUMNS, RESERVES, fault, heading, tables
from sqp_tflite.emit.curves import Curve, curves
from sqp_tflite.emit.drawing import FAMILIES, curve_drawing, family, graph_drawing, memory_drawing
from sqp_tflite.emit.templates import template
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.ops.policy import NAMES, RUNTIMES, runtime_of
from sqp_tflite.report import Report
from sqp_tflite.wording import harmless_lines

_VERDICTS = {
    "ok": ("OK", "may ship to"),
    "refused": ("Refused", "may not ship to"),
    "parity_failed": ("Parity failed", "does not compute the same on"),
}


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top of the page."""

    label: str
    value: str
    about: str


def html(report: Report, graph: Graph, content: bytes | None = None) -> str:
    """Returns the page.

    Args:
        report: The report of the export.
        graph: The file that the report is about.
        content: The same file as bytes, for the curves of its tables.
    """
    word, verb = _VERDICTS[report.verdict]
    verb = fault(report.agreement) if report.verdict == "parity_failed" else verb
    drawn = curves(report, content) if report.plan or report.replacements else ()
    used = {family(op, report.target) for _, op in graph.all_ops()}
    page = template("report.html").render(
        report=report,
        graph=graph,
        word=word,
        verb=verb,
        target=NAMES[report.target] + (f", run on {report.stand_in}" if report.stand_in else ""),
        tiles=_tiles(report, graph),
        families=[(name, meaning) for name, meaning, _ in FAMILIES if name in used],
        refused="refused" in used,
        islands=graph.float_islands(),
        graph_svg=Markup(graph_drawing(graph, report)),
        memory_svg=Markup(memory_drawing(report)),
        curves=[(curve, Markup(curve_drawing(curve)), _worst(curve)) for curve in drawn],
        agreement=tables(report.agreement),
        heading=heading(report.agreement),
        reserves=RESERVES,
        reserve_columns=RESERVE_COLUMNS,
        worst_layer=max((row.error_of_range for row in report.layer_errors), default=0.0) or 1.0,
    )
    return harmless_lines(page)  # The drawings hold names, too.


def _worst(curve: Curve) -> str:
    return f"{abs(curve.error).max():.2g}"


def _tiles(report: Report, graph: Graph) -> list[Tile]:
    memory = report.memory
    tiles = [Tile("File", f"{report.size_bytes:,} B", f"{len(graph.main.ops)} operators of {len(report.ops)} kinds")]
    if memory.arena_bytes is not None:
        low, high = memory.arena_32bit_low, memory.arena_32bit_high
        bounds = "" if low is None or high is None else f"32-bit target: {low:,} to {high:,} B"
        tiles.append(Tile("Max arena", f"{memory.arena_bytes:,} B", bounds))
    elif memory.peak_bytes is not None:
        tiles.append(Tile("Max tensors", f"{memory.peak_bytes:,} B", f"in {memory.peak_layer}"))
    runtime = runtime_of(report.target)
    row = report.worst(runtime)
    if row and row.max_abs_error is not None:
        about = f"{row.samples} samples on {NAMES[row.runtime]}"
        tiles.append(Tile("Max error", f"{row.error_of_range or 0:.2g} of range", about))
    first = next((one for one in report.agreement if one.runtime == runtime and one.metric), None)
    if first and first.metric_before is not None and first.metric_after is not None:
        label = f"{first.metric[0].upper()}{first.metric[1:]} on your labels"
        tiles.append(Tile(label, f"{first.metric_after:.4g}", f"Keras: {first.metric_before:.4g}"))
    elif row and row.argmax_agreement is not None:
        tiles.append(Tile("Same class", f"{row.argmax_agreement:.1%}", "same largest output as Keras"))
    else:
        tiles += _interpreters(report)
    return tiles


def _interpreters(report: Report) -> list[Tile]:
    """How many of the installed interpreters agree with Keras: it says something about every kind of model."""
    rows = [row for row in map(report.worst, RUNTIMES) if row and row.status != "not checked"]
    agree = sum(row.status == "ok" for row in rows)
    return [Tile("Interpreters", f"{agree} of {len(rows)}", "agree with Keras")] if rows else []

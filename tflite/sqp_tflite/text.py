"""The report as text: verdict first, then what changed, operators, parity, inputs and outputs."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sqp_tflite.audit import op_rows, tensor_rows
from sqp_tflite.graph import Graph
from sqp_tflite.policy import NAMES
from sqp_tflite.report import Agreement, Finding, Report, TensorRow

_VERDICTS = {
    "ok": ("OK", "bold green", "may ship to"),
    "refused": ("REFUSED", "bold red", "may not ship to"),
    "parity_failed": ("PARITY FAILED", "bold red", "does not compute the same on"),
}


def show_report(console: Console, report: Report) -> None:
    """Prints a finished or refused export."""
    word, style, verb = _VERDICTS[report.verdict]
    head = Text.assemble((word, style), f"  {report.source} {verb} {NAMES[report.target]} ({report.quantize})")
    console.print(head)
    if report.output:
        console.print(f"    {report.output}, {report.size_bytes:,} bytes, sha256 {report.sha256[:16]}")
    show_findings(console, report.findings)
    if report.ops:
        _ops(console, report.ops)
    if report.agreement:
        show_agreement(console, report.agreement)
    if report.inputs:
        _tensors(console, report.inputs, report.outputs)
    for note in report.notes:
        console.print(f"note: {note}", style="dim", highlight=False)
    console.print(f"{report.seconds:.1f} s", style="dim", highlight=False)


def show_plan(console: Console, report: Report) -> None:
    """Prints what an export would do."""
    console.print(Text.assemble(("PLAN", "bold"), f"  {report.source} for {NAMES[report.target]} ({report.quantize})"))
    table = _table("layer", "activation", "becomes", "ops")
    for row in report.plan:
        table.add_row(row.layer, row.activation, row.becomes, str(len(row.ops)))
    console.print(table)
    for note in report.notes:
        console.print(f"note: {note}", style="dim", highlight=False)


def show_graph(console: Console, graph: Graph, source: str, target: str, findings: tuple[Finding, ...]) -> None:
    """Prints what a TFLite file holds and whether the target can run it."""
    verdict = ("REFUSED", "bold red") if findings else ("OK", "bold green")
    console.print(Text.assemble(verdict, f"  {source} for {NAMES[target]}"))
    console.print(f"    {graph.size_bytes:,} bytes, sha256 {graph.sha256[:16]}, written by: {graph.description or '?'}")
    show_findings(console, findings)
    _ops(console, op_rows(graph))
    main = graph.main
    _tensors(console, tensor_rows(graph, main.inputs), tensor_rows(graph, main.outputs))
    for island in graph.float_islands():
        where = graph.main.tensors[island[0].outputs[0]].name if island[0].outputs else "?"
        console.print(f"float island: {' '.join(op.name for op in island)} at {where}", highlight=False)


def show_findings(console: Console, findings: tuple[Finding, ...]) -> None:
    """Prints every finding with its rule and remedy."""
    for finding in findings:
        console.print(Text.assemble(("  x ", "red"), (finding.layer, "bold"), f": {finding.rule}"))
        console.print(f"      received: {finding.op}, {finding.dtype}", style="dim", highlight=False)
        console.print(f"      {finding.remedy}", highlight=False)


def show_agreement(console: Console, rows: tuple[Agreement, ...]) -> None:
    """Prints how each runtime agrees with Keras."""
    labelled = any(row.metric_before is not None for row in rows)
    head = ("runtime", "status", "samples", "max error", "of range", "argmax")
    table = _table(*head, *(("Keras", "file") if labelled else ()))
    for row in rows:
        cells = [NAMES[row.runtime], row.status, str(row.samples or "")]
        cells += [_number(row.max_abs_error), _number(row.error_of_range), _share(row.argmax_agreement)]
        cells += [_metric(row.metric_before), _metric(row.metric_after)] if labelled else []
        table.add_row(*cells, style="" if row.status == "ok" else "yellow")
    console.print(table)
    for row in rows:
        if row.reason:
            console.print(f"{NAMES[row.runtime]}: {row.reason}", highlight=False)


def _ops(console: Console, rows: tuple) -> None:
    table = _table("op", "type", "version", "count", "layers")
    for row in rows:
        shown = ", ".join(row.layers[:4]) + (f" and {len(row.layers) - 4} more" if len(row.layers) > 4 else "")
        table.add_row(row.op, row.dtype, str(row.version), str(row.count), shown)
    console.print(table)


def _tensors(console: Console, inputs: tuple[TensorRow, ...], outputs: tuple[TensorRow, ...]) -> None:
    table = _table("", "index", "name", "shape", "type", "scale", "zero point")
    for kind, rows in (("input", inputs), ("output", outputs)):
        for row in rows:
            scale, point = _number(row.scale), "" if row.zero_point is None else str(row.zero_point)
            table.add_row(kind, str(row.index), row.name, str(row.shape), row.dtype, scale, point)
    console.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def _metric(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"

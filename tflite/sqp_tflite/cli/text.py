"""The report as text: verdict first, then what changed, operators, parity, memory, inputs and outputs."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import TypeVar, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sqp_tflite.agreement import (
    MADE_UP,
    ORDINARY,
    RESERVE_COLUMNS,
    RESERVES,
    Agreement,
    Reserve,
    fault,
    heading,
    tables,
    verdict,
)
from sqp_tflite.device import Memory, Npu
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.ops.policy import NAMES, kernels_of
from sqp_tflite.report import Finding, OpRow, Report, TensorRow
from sqp_tflite.troubleshooting import FINDINGS
from sqp_tflite.wording import harmless, joined, shortened

_VERDICTS = {
    "ok": ("OK", "bold green", "may ship to"),
    "refused": ("REFUSED", "bold red", "may not ship to"),
    "parity_failed": ("PARITY FAILED", "bold red", "does not compute the same on"),
}
_CHECKED = {
    "ok": ("AGREES", "bold green"),
    "parity_failed": ("DIFFERS", "bold red"),
    "not_proven": ("NOT PROVEN", "bold yellow"),
}
_MOST_LAYERS = 4
_WORST = 5
_MOST_FINDINGS = 50
_MOST_ROWS = 200
_LONGEST_CELL = 160

_Shown = TypeVar("_Shown")


def show_report(console: Console, report: Report) -> None:
    """Prints a finished or refused export."""
    solution = report.solution  # In one piece, however long: it is to be pasted.
    report = _safe(report)
    word, style, verb = _VERDICTS[report.verdict]
    verb = fault(report.agreement) if report.verdict == "parity_failed" else verb
    if report.verdict == "ok" and report.unproven:
        word, style = "OK, NOT PROVEN", "bold yellow"
    where = f", run on {report.stand_in}" if report.stand_in else ""
    name = f"{NAMES[report.target]} ({report.quantize}){where}"
    basis = f"; {report.basis}" if report.basis else ""
    console.print(Text.assemble((word, style), f"  {report.source} {verb} {name}", (basis, "yellow")))
    for line in report.unproven:
        console.print(Text.assemble(("  not proven: ", "yellow"), line))
    for line in report.warnings:
        console.print(Text.assemble(("  warning: ", "bold yellow"), line))
    if report.output:
        console.print(_plain(f"    {report.output}, {report.size_bytes:,} bytes, sha256 {report.sha256[:16]}"))
    show_findings(console, report.findings)
    if solution:
        console.print(Text.assemble((f"  {report.leads_to} ", "bold"), harmless(solution)), soft_wrap=True)
    _changes(console, report)
    _operators(console, report.ops)
    if report.agreement:
        _head(console, heading(report.agreement))
        show_agreement(console, report.agreement)
    _reserves(console, report.reserves)
    _memory(console, report.memory)
    _npu(console, report.npu)
    _tensors(console, report.inputs, report.outputs)
    _states(console, report)
    _layer_errors(console, report)
    _notes(console, report.notes)
    console.print(f"{report.seconds:.1f} s", style="dim", highlight=False)


def show_plan(console: Console, report: Report) -> None:
    """Prints what an export would do."""
    report = _safe(report)
    console.print(Text.assemble(("PLAN", "bold"), f"  {report.source} for {NAMES[report.target]} ({report.quantize})"))
    _changes(console, report)
    _notes(console, report.notes)


def show_graph(console: Console, graph: Graph, report: Report) -> None:
    """Prints what a TFLite file contains and whether the target can run it."""
    report = _safe(report)
    word, style, _ = _VERDICTS[report.verdict]
    console.print(Text.assemble((word, style), f"  {report.source} for {NAMES[report.target]} ({report.quantize})"))
    needs = ", ".join(report.exp_and_log)
    console.print(_plain(f"    {NAMES[kernels_of(report.target)]} runs it: {report.runs}"))
    console.print(_plain(f"    free of exp and log: {f'no ({needs})' if needs else 'yes'}"))
    written = _safe(graph.description) or "unknown"
    console.print(_plain(f"    {graph.size_bytes:,} bytes, sha256 {graph.sha256[:16]}, written by: {written}"))
    for line in report.warnings:
        console.print(Text.assemble(("  warning: ", "bold yellow"), line))
    show_findings(console, report.findings)
    _operators(console, report.ops)
    islands = graph.float_islands()
    if islands:
        _head(console, "float islands")
        for island in islands[:_MOST_ROWS]:
            where = graph.main.tensors[island[0].outputs[0]].name if island[0].outputs else "?"
            console.print(_plain(_safe(f"  {' '.join(op.name for op in island)} at {where}")))
        _more(console, len(islands) - _MOST_ROWS)
    _memory(console, report.memory)
    _npu(console, report.npu)
    _tensors(console, report.inputs, report.outputs)
    _notes(console, report.notes)


def show_check(console: Console, file: str, rows: tuple[Agreement, ...]) -> None:
    """Prints how well a file agrees with its model, verdict first."""
    file, rows = _safe(file), _safe(rows)
    word, style = _CHECKED[verdict(rows)]
    differ, failed = ({row.by_what: None for row in rows if row.status == one} for one in ("differs", "failed"))
    ran = [row for row in rows if row.status != "not checked"]
    where = ", ".join(differ or failed or dict.fromkeys(row.by_what for row in ran)) or "no interpreter is installed"
    if failed and differ:
        where += f"; it does not run on {', '.join(failed)}"
    elif failed:
        word = "DOES NOT RUN"
    basis = f"; {MADE_UP}" if any(row.on == ORDINARY for row in ran) else ""
    console.print(Text.assemble((word, style), f"  {file} ({where})", (basis, "yellow")))
    show_agreement(console, rows)


def show_files(console: Console, folder: Path, files: tuple[str, ...], reports: tuple[Path, ...] = ()) -> None:
    """Prints the files that were written besides the model, a folder on one line."""
    _head(console, _safe(f"also written to {folder}"))
    counts: dict[str, int] = {}
    for file in files:
        top, slash, _ = file.partition("/")
        counts[top + slash] = counts.get(top + slash, 0) + 1
    for name, count in counts.items():
        console.print(_plain(f"  {name}" + (f" ({count} files, see its README.md)" if name.endswith("/") else "")))
    for path in reports:
        console.print(_plain(_safe(f"  {path}")))


def show_findings(console: Console, findings: tuple[Finding, ...]) -> None:
    """Prints each finding with its rule and remedy; of thousands only the first, JSON and HTML have them all."""
    for finding in findings[:_MOST_FINDINGS]:
        code = FINDINGS[finding.kind.value]
        console.print(Text.assemble(("  x ", "red"), (finding.layer, "bold"), f": {finding.rule}", (f" {code}", "dim")))
        if finding.received:
            console.print(f"      received: {finding.received}", style="dim", highlight=False, markup=False)
        console.print(_plain(f"      {finding.remedy}"))
    _more(console, len(findings) - _MOST_FINDINGS)


def show_agreement(console: Console, rows: tuple[Agreement, ...]) -> None:
    """Prints how well each runtime agrees with Keras: one table for each model that the file was compared with."""
    for found in tables(rows):
        if found.title:
            console.print(_plain(f"  {found.title}"))
        table = _table(*found.columns)
        for status, cells in zip(found.statuses, found.rows, strict=True):
            table.add_row(*_cells(*cells), style="" if status == "ok" else "yellow")
        console.print(table)
    for row in rows:
        if row.reason:
            console.print(_plain(f"  {row.by_what}: {row.reason}"))


def _changes(console: Console, report: Report) -> None:
    if report.replacements:
        _head(console, "replaced activations")
        table = _table("layer", "was", "now", "terms", "max change")
        for change in report.replacements[:_MOST_ROWS]:
            terms = str(change.terms or "")
            table.add_row(*_cells(change.layer, change.was, change.now, terms, _number(change.max_change)))
        console.print(table)
        _more(console, len(report.replacements) - _MOST_ROWS)
    if report.plan:
        _head(console, "activations")
        table = _table("layer", "activation", "becomes", "ops")
        for row in report.plan[:_MOST_ROWS]:
            table.add_row(*_cells(row.layer, row.activation, row.becomes, str(len(row.ops) or "")))
        console.print(table)
        _more(console, len(report.plan) - _MOST_ROWS)


def _operators(console: Console, rows: tuple[OpRow, ...]) -> None:
    if not rows:
        return
    _head(console, "operators")
    table = _table("op", "type", "version", "count", "layers")
    for row in rows[:_MOST_ROWS]:
        shown = joined((shortened(layer, _LONGEST_CELL // 2) for layer in row.layers), _MOST_LAYERS)
        table.add_row(*_cells(row.op, row.dtype, str(row.version), str(row.count)), Text(shown))
    console.print(table)
    _more(console, len(rows) - _MOST_ROWS)


def _reserves(console: Console, rows: tuple[Reserve, ...]) -> None:
    if not rows:
        return
    _head(console, RESERVES)
    table = _table(*RESERVE_COLUMNS)
    for row in rows[:_MOST_ROWS]:
        table.add_row(*_cells(*row.cells))
    console.print(table)
    _more(console, len(rows) - _MOST_ROWS)


def _memory(console: Console, memory: Memory) -> None:
    if memory.peak_bytes is None:
        return
    _head(console, "memory")
    if memory.arena_bytes is not None:
        console.print(_plain(f"  arena {memory.arena_bytes:,} bytes, measured on {memory.arena_runtime}"))
        low, high = memory.arena_32bit_low, memory.arena_32bit_high
        if low is not None and high is not None:
            console.print(_plain(f"  a 32-bit target needs {low:,} to {high:,} with reference kernels"))
    console.print(_plain(f"  tensors {memory.peak_bytes:,} bytes at most, in `{memory.peak_layer}`"))
    if memory.ram_budget is not None:
        console.print(_plain(f"  RAM budget {memory.ram_budget:,}"))
    if memory.flash_budget is not None:
        console.print(
            _plain(f"  flash budget {memory.flash_budget:,} for the model; the code of the interpreter is not counted")
        )


def _npu(console: Console, npu: Npu | None) -> None:
    """What the compiler says of the file; what the CPU computes is in warnings or findings."""
    if npu is None:
        return
    _head(console, f"{npu.accelerator}, by {npu.compiler}")
    where = f"all {npu.on_npu} operators" if not npu.on_cpu else f"{npu.on_npu} of {len(npu.operators)} operators"
    console.print(_plain(f"  {where} on the NPU" + (f", {npu.on_cpu} on the CPU" if npu.on_cpu else "")))
    clock = f" ({npu.milliseconds:.3g} ms at {npu.clock_hz / 1e6:,.0f} MHz)" if npu.clock_hz else ""
    console.print(_plain(f"  about {npu.cycles:,} cycles{clock}, {npu.macs:,} MACs"))
    used = (("SRAM", npu.sram_bytes), ("DRAM", npu.dram_bytes), ("flash", npu.flash_bytes))
    shown = ", ".join(f"{name} {size:,} bytes" for name, size in used if size)
    console.print(_plain(f"  {shown or 'no memory'}; compiled file {npu.compiled_bytes:,} bytes"))


def _tensors(console: Console, inputs: tuple[TensorRow, ...], outputs: tuple[TensorRow, ...]) -> None:
    if not inputs and not outputs:
        return
    _head(console, "inputs and outputs")
    table = _table("", "index", "name", "shape", "type", "scale", "zero point")
    for kind, rows in (("input", inputs), ("output", outputs)):
        for row in rows[:_MOST_ROWS]:
            scale, point = _number(row.scale, 6), "" if row.zero_point is None else str(row.zero_point)
            table.add_row(*_cells(kind, str(row.index), row.name, str(row.shape), row.dtype, scale, point))
    console.print(table)
    _more(console, max(len(inputs), len(outputs)) - _MOST_ROWS)


def _states(console: Console, report: Report) -> None:
    for pair in report.states[:_MOST_ROWS]:
        console.print(_plain(f"  state: {pair}"))
    _more(console, len(report.states) - _MOST_ROWS)


def _layer_errors(console: Console, report: Report) -> None:
    if not report.layer_errors:
        return
    _head(console, "error per layer, worst first")
    table = _table("layer", "max error", "of range")
    for row in report.layer_errors[:_WORST]:
        table.add_row(*_cells(row.layer, _number(row.max_abs_error), _number(row.error_of_range)))
    console.print(table)


def _notes(console: Console, notes: tuple[str, ...]) -> None:
    for note in notes[:_MOST_ROWS]:
        console.print(f"note: {note}", style="dim", highlight=False, markup=False)


def _more(console: Console, count: int) -> None:
    if count > 0:
        console.print(f"  ... and {count:,} more: --json has all", style="dim", highlight=False, markup=False)


def _safe(value: _Shown) -> _Shown:
    """Returns a value whose texts, at any depth, are fit for a terminal: names come from files."""
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return cast(_Shown, shortened(harmless(value)))
    if isinstance(value, tuple):
        return cast(_Shown, tuple(_safe(item) for item in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _safe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    return value


def _cells(*texts: str) -> tuple[Text, ...]:
    return tuple(Text(shortened(text, _LONGEST_CELL)) for text in texts)


def _head(console: Console, title: str) -> None:
    console.print()
    console.print(title, style="bold", highlight=False, markup=False)


def _plain(text: str) -> Text:
    """A layer may be called `[red]`: names from users are never parsed as markup."""
    return Text(text)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}g}"

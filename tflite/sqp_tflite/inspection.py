"""Reports on any TFLite file: what it contains and needs, whether a target runs it, whether it needs exp or log."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sqp_tflite.device import Memory
from sqp_tflite.errors import BadInputError, CrashedError, RefusedError
from sqp_tflite.flatbuffer.graph import Graph, numbers, stored_weights
from sqp_tflite.flatbuffer.read import bytes_of, opened
from sqp_tflite.limits import limit
from sqp_tflite.npu.judge import Judged, judged
from sqp_tflite.npu.tables import of_compiled
from sqp_tflite.ops import ways
from sqp_tflite.ops.audit import audit, exp_and_log, op_rows, release_notes, silent, tensor_rows
from sqp_tflite.ops.policy import ACCELERATOR, ADMITTED, NAMES, NPUS, RUNTIMES, kernels, kernels_of, runtime_of
from sqp_tflite.report import Finding, Kind, OpRow, Report
from sqp_tflite.run import interpreters
from sqp_tflite.run.memory import memory
from sqp_tflite.versions import versions
from sqp_tflite.wording import joined

_MOST_NAMED = 3
_BEFORE_COMPILING = "Inspect the file that it was compiled from, with --target ethos-u55, ethos-u65 or ethos-u85."


def inspection(
    source: Path,
    target: str,
    command: str = "",
    require: str = "both",
    max_memory: int | None = None,
    *,
    accelerator: str | None = None,
    npu_only: bool = False,
) -> tuple[Graph, Report]:
    """Returns the file's graph and a report about it.

    Args:
        source: Path of the file.
        target: The target whose interpreter decides.
        command: The command line, for the report.
        require: One of `options.REQUIREMENTS`: what the verdict is about. Findings about the rest are left out.
        max_memory: Bytes that the file may have; None for an eighth of the free memory.
        accelerator: The variant of the target's NPU; None for its default.
        npu_only: Whether an operator that the NPU leaves to the CPU is a reason to refuse the file.

    Raises:
        BadInputError: The file is not a TFLite file.
    """
    allowed = limit(max_memory)
    content, what = bytes_of(source, allowed=allowed)
    graph = opened(content, what)[1]
    interpreters.require_room(graph, what, allowed)
    runs, lacking = _runs(content, graph, target)
    needs = exp_and_log(graph)
    compiled = of_compiled(graph, _BEFORE_COMPILING)
    findings = compiled or (_grouped(lacking) if require != "free" else ()) + (
        _not_free(graph, needs) if require != "runs" else ()
    )
    stand_in = interpreters.stand_in(target) if runs == "not checked" else ""
    placed, wrong = (None, ()) if compiled else _placed(content, graph, target, accelerator)
    findings += wrong + (placed.findings if placed and npu_only else ())
    found, notes = Memory(), _emptiness(graph)
    notes += release_notes(graph, target, stand_in) if runs != "no" else ()
    try:
        # Where the interpreter fails, the memory is calculated, not measured.
        found, arena = memory(content, graph, target if runs != "no" else "")
        notes += arena.notes if arena else ()
    except (BadInputError, CrashedError) as error:
        notes.append(f"The memory could not be measured: {str(error).splitlines()[0]}")
    notes += placed.notes if placed else ()
    report = Report(
        verdict="refused" if findings else "ok",
        source=str(source),
        target=target,
        quantize=numbers(graph),
        lowering="",
        sha256=graph.sha256,
        size_bytes=graph.size_bytes,
        runs=runs,
        stand_in=stand_in,
        exp_and_log=needs,
        ops=op_rows(graph),
        findings=findings,
        inputs=tensor_rows(graph, graph.main.inputs),
        outputs=tensor_rows(graph, graph.main.outputs),
        memory=found,
        npu=placed.npu if placed else None,
        warnings=placed.warnings if placed and not npu_only else (),
        notes=tuple(notes),
        versions=versions(),
        command=command,
    )
    return graph, report


def _placed(
    content: bytes, graph: Graph, target: str, accelerator: str | None
) -> tuple[Judged | None, tuple[Finding, ...]]:
    """What the compiler for the target's NPU makes of the file, or why it does not take it."""
    if target not in NPUS:
        return None, ()
    try:
        return judged(content, graph, target, accelerator or ACCELERATOR[target]), ()
    except RefusedError as error:
        return None, error.findings


def _emptiness(graph: Graph) -> list[str]:
    """What a file may lack and still be one that an interpreter runs."""
    notes = [] if graph.main.ops else ["The file has no operators: it computes nothing."]
    return notes + ([] if graph.main.outputs else ["The file has no outputs: nothing that it computes can be read."])


def _runs(content: bytes, graph: Graph, target: str) -> tuple[str, tuple[Finding, ...]]:
    """Whether the target runs the file, by its interpreter where that is installed, and why not."""
    if interpreters.stand_in(target):
        # A newer release runs more, and computes right what the older one does not: the table comes first.
        wrong = silent(graph, target)
        lacking = _remedied(_lacking(graph, target) + _kernels(graph, target), graph, target)
        found = wrong + tuple(one for one in lacking if one.rule not in {other.rule for other in wrong})
        if found:
            return "no", found
    runtime = runtime_of(target)
    if not interpreters.installed(runtime):
        return "not checked", _remedied(_lacking(graph, target), graph, target)
    try:
        interpreters.try_once(runtime, content)
    except interpreters.RuntimeFailedError as error:
        rule = f"{NAMES[kernels_of(target)]} does not run the file: {error}"
        lacking = _lacking(graph, target) or (Finding("the file", "", "", rule, "", Kind.OP),)
        return "no", _remedied(lacking, graph, target)
    wrong = silent(graph, target)
    return ("no", wrong) if wrong else ("not checked" if interpreters.stand_in(target) else "yes", ())


def _remedied(lacking: tuple[Finding, ...], graph: Graph, target: str) -> tuple[Finding, ...]:
    """The other targets are judged only where one of them may be the remedy."""
    remedy = _elsewhere(graph, target) if lacking else ""
    return tuple(dataclasses.replace(one, remedy=remedy) for one in lacking)


def _lacking(graph: Graph, target: str) -> tuple[Finding, ...]:
    """What the target lacks, by the table of its kernels."""
    return tuple(one for one in audit(graph, target) if not _about_policy(one))


def _kernels(graph: Graph, target: str) -> tuple[Finding, ...]:
    """What the target lacks among the operators that were probed and that this project does not write."""
    return tuple(
        Finding(
            joined(row.layers, _MOST_NAMED),
            row.op,
            row.dtype,
            f"{NAMES[kernels_of(target)]} has no {row.op} for {row.dtype}.",
            "",
            Kind.OP,
        )
        for row in op_rows(graph)
        if row.op not in ADMITTED
        and any(row.op in kernels(other) for other in RUNTIMES)
        and row.dtype not in kernels(target).get(row.op, ())
    )


def _about_policy(finding: Finding) -> bool:
    """Whether a finding is about what this project writes itself, not about what the target has."""
    return finding.kind is Kind.OP and finding.op not in ADMITTED


def _elsewhere(graph: Graph, target: str) -> str:
    """What someone can do who has only the file."""
    others = [
        other
        for other in RUNTIMES
        if other != kernels_of(target) and all(_about_policy(one) for one in audit(graph, other))
    ]
    listed = " or ".join(f"`--target {other}`" for other in others)
    ways = [f"Look whether another interpreter runs it ({listed})"] if others else []
    mended = _mended(graph)
    ways += [f"write it in another form with {mended}"] if mended else []
    ways += ["ask whoever has the model to export it for this target with sqp-export"]
    text = ", or ".join(ways)
    return f"{text[0].upper()}{text[1:]}."


def _not_free(graph: Graph, needs: tuple[str, ...]) -> tuple[Finding, ...]:
    """One finding per operator and type: a model has hundreds of one kind."""
    found = []
    for row in (row for row in op_rows(graph) if row.op in needs):
        custom = row.op.startswith("CUSTOM:")
        rule = "A custom operator may need exp or log: the file does not say what it computes." if custom else ""
        rule = rule or f"{row.op} needs exp or log."
        found.append(Finding(_named(row), row.op, row.dtype, rule, _free_remedy(graph, row), Kind.OP))
    return tuple(found)


def _free_remedy(graph: Graph, row: OpRow) -> str:
    """Which option of sqp-export mends the file itself."""
    option = ways.away_from(row.op, graph)
    whole = "Otherwise check with --require runs."
    if not option:
        return f"A device without a math library needs a file that is made without it. {whole}"
    return f"A device without a math library needs the file without it: sqp-export FILE.tflite {option}. {whole}"


def _mended(graph: Graph) -> str:
    """The call that may make a file which the target runs, "" where none is known to help."""
    kind = numbers(graph)
    narrow = kind in ("float16", "dynamic") or bool(stored_weights(graph))
    if not narrow and not any(op.name == "DENSIFY" for _, op in graph.all_ops()) and not exp_and_log(graph):
        return ""
    option = ways.for_activations(graph) if exp_and_log(graph) else ""
    return f"sqp-export FILE.tflite {option}".strip()


def _grouped(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """One finding per rule: a file of half precision breaks the same one in each of its weights."""
    groups: dict[Finding, list[str]] = {}
    for finding in findings:
        groups.setdefault(dataclasses.replace(finding, layer=""), []).append(finding.layer)
    return tuple(dataclasses.replace(one, layer=joined(layers, _MOST_NAMED)) for one, layers in groups.items())


def _named(row: OpRow) -> str:
    return joined(row.layers, _MOST_NAMED)

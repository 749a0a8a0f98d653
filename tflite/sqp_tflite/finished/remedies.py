"""What helps against a finding about a finished file: the options that exist for it."""

from __future__ import annotations

import dataclasses

from sqp_tflite.flatbuffer.functions import activations
from sqp_tflite.flatbuffer.graph import Graph, Op
from sqp_tflite.flatbuffer.heads import ends_in
from sqp_tflite.flatbuffer.lookups import functions
from sqp_tflite.ops.combinations import INTEGER_IO
from sqp_tflite.ops.policy import ADMITTED, kernels
from sqp_tflite.options import ExportOptions
from sqp_tflite.report import Finding, Kind
from sqp_tflite.source.remedies import Changes

TABLE = "Add `--lowering table`, which makes it part of a table."
SUM = "Add `--replace accurate`, which writes it as a sum of square roots."
LOGITS = "Add `--head logits`, which drops it: the largest value stays the answer."
OTHER = "No option writes it in another way: convert its source without it."
FIXED = "Convert its source again with inputs of full size."


def remedied(
    found: tuple[Finding, ...], graph: Graph, options: ExportOptions
) -> tuple[tuple[Finding, ...], Changes | None]:
    """Returns the findings with what helps, and the options that should solve all of them; None if none do.

    A softmax of integers at the end of a file of integers is no finding where the target has it.

    Args:
        found: What the audit found.
        graph: The file.
        options: What was asked for.
    """
    integer = options.finished in INTEGER_IO
    heads, lookups, sums = _parts(graph, integer)
    findings, changes, solved = list[Finding](), dict[str, str](), True
    allowed = integer and any(op.name == "SOFTMAX" and _native(op, options) for op in heads)
    for finding in found:
        if allowed and finding.op == "SOFTMAX":
            continue
        remedy, change = OTHER, dict[str, str]()
        if finding.op in {op.name for op in heads} and options.head == "keep":
            remedy, change = LOGITS, {"head": "logits"}
        elif finding.op in lookups and options.wanted.lowering != "table":
            remedy, change = TABLE, {"lowering": "table"}
        elif finding.op in sums and options.replace is None and not integer:
            remedy, change = SUM, {"replace": "accurate"}
        elif finding.kind is Kind.SHAPE and not finding.op:
            remedy = FIXED
        elif finding.kind not in (Kind.OP, Kind.DTYPE):
            remedy = finding.remedy
        solved = solved and bool(change)
        changes |= change
        findings.append(dataclasses.replace(finding, remedy=remedy))
    return tuple(findings), changes if findings and solved else None


def _parts(graph: Graph, integer: bool) -> tuple[list[Op], set[str], set[str]]:
    """The heads; the operators that tables can hold; those that sums can replace."""
    main = graph.main
    heads = [head for head in ends_in(main) if head is not None]
    if integer:
        return heads, {main.ops[place].name for chain in functions(main) for place in chain.ops}, set()
    found = activations(main, lambda op: op.name not in ADMITTED)
    return heads, set(), {main.ops[place].name for one in found for place in one.chain.ops} | {"SOFTMAX"}


def _native(op: Op, options: ExportOptions) -> bool:
    return op.dtype in kernels(options.wanted.target).get(op.name, ())


def kept(graph: Graph, options: ExportOptions) -> tuple[str, ...]:
    """Returns a note on a softmax that stays at the end of a file of integers."""
    names = [op.name for op in ends_in(graph.main) if op is not None and op.name == "SOFTMAX"]
    if options.finished not in INTEGER_IO or not names:
        return ()
    return (
        "The SOFTMAX at the end stays: on integers it is a table of exp in the interpreter. `--head logits` drops it.",
    )

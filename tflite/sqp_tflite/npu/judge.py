"""Judges a file for a target with an NPU: what the NPU computes, what is left to the CPU, and what helps."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from sqp_tflite.device import Npu, NpuRow
from sqp_tflite.errors import RefusedError
from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES, Graph, Subgraph
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.npu import vela
from sqp_tflite.npu.tables import COMMAND, with_tables
from sqp_tflite.npu.vela import Compiled, CompilerFailedError
from sqp_tflite.ops.audit import layer_of
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import ACCELERATOR, CHANGING_TYPE, NAMES, NPUS
from sqp_tflite.report import Finding, Kind
from sqp_tflite.wording import joined, said

_MOST_NAMED = 3
_NAMED = re.compile(r" \((.*)\)\s*$")
_FRAGILE = frozenset("EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL SELECT SELECT_V2".split())
_FRAGILE_ON = ("ethos-u55", "ethos-u65")
"""Operators on which Vela 5.2 ends in an error, and where, as files of each alone were seen to do."""

_TABLE = frozenset(("CAST", "GATHER"))
_ENDS = "Leave out `--io float32`: the application converts, or the CPU does in front of and behind the NPU."
_BY_TABLE = "Export with `--lowering table`: tables become those of the NPU."
_INTEGER = "Export with `--lowering integer`, which computes activations in 16-bit integers."
_AGAIN = "Export it with sqp-export --target {target}, which writes activations as tables of the NPU."


@dataclass(frozen=True, slots=True)
class Judged:
    """What the compiler makes of a file.

    Attributes:
        npu: As the report shows it.
        content: The compiled file.
        findings: One per kind of operator that is left to the CPU, with the layers and what helps.
        notes: What the figures are, and what they are not.
    """

    npu: Npu
    content: bytes
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Returns the findings as sentences, for a file that may ship with them."""
        return tuple(map(str, self.findings))


def judged(
    content: bytes,
    graph: Graph,
    target: str,
    accelerator: str,
    layers: LayerNames | None = None,
    wanted: Combination | None = None,
) -> Judged:
    """Returns where the compiler for the target's NPU puts each operator of a file.

    Args:
        content: The file.
        graph: The same, read.
        target: One of `policy.NPUS`.
        accelerator: Its variant.
        layers: Names the Keras layers; without it tensors are named.
        wanted: How the file was exported: its tables become those of the NPU, and remedies are options. None for a
            file of somebody else, which is judged as it is.

    Raises:
        RefusedError: The compiler does not take the file; the finding has its words.
    """
    try:
        made = _compiled(content, graph, accelerator, wanted is not None)
    except CompilerFailedError as error:
        raise RefusedError("The file may not ship.", _failed(graph, target, layers or LayerNames(), error)) from error
    rows = _rows(graph, made, layers or LayerNames())
    if wanted is None and not any(row.on_npu for row in rows) and any(row.dtype in FLOAT_DTYPES for row in rows):
        findings = [_all_in_float(target)]  # One reason, not one for each operator.
    else:
        findings = _findings(rows, target, wanted, lambda other: _left(content, graph, other))
    npu = _npu(made, accelerator, rows)
    inside = [row for row in rows if row.op == "GATHER" and row.on_npu] if wanted else []
    return Judged(npu, made.content, tuple(findings), _notes(npu, len(inside)))


def _findings(
    rows: tuple[NpuRow, ...],
    target: str,
    wanted: Combination | None,
    left: Callable[[str], frozenset[tuple[str, str]]],
) -> list[Finding]:
    """One per kind of operator on the CPU; `left` says what another NPU leaves to it."""
    elsewhere = functools.cache(left)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in (row for row in rows if not row.on_npu):
        groups.setdefault((row.op, row.dtype, row.reason), []).append(row.layer)
    islands = any(row.dtype in FLOAT_DTYPES and row.op not in CHANGING_TYPE for row in rows)
    findings = []
    for (op, dtype, reason), found in groups.items():
        why = f" Vela says: {reason}." if reason else ""
        rule = f"{NAMES[target]} leaves {op} to the CPU, and waits for it.{why}"
        remedy = _remedy((op, dtype), target, wanted, islands)
        if not remedy:
            others = [other for other in NPUS if other != target and (op, dtype) not in elsewhere(other)]
            remedy = f"Write the layer with other operators{_taken(others)}."
        findings.append(Finding(joined(dict.fromkeys(found), _MOST_NAMED), op, dtype, rule, remedy, Kind.NPU))
    return findings


def _all_in_float(target: str) -> Finding:
    rule = f"{NAMES[target]} computes with integers only: the CPU computes all of the file."
    remedy = f"Make it int8: sqp-export --target {target} --data FILE.npz."
    return Finding("the whole file", "", "float32", rule, remedy, Kind.NPU)


def _compiled(content: bytes, graph: Graph, accelerator: str, tables: bool) -> Compiled:
    """What the compiler makes of a file, with the file's tables in the NPU if that can be proven."""
    made: list[Compiled] = []

    def compiler(changed: bytes) -> bytes:
        made.append(vela.compiled(changed, accelerator))
        return made[-1].content

    found = with_tables(content, graph, compiler) if tables else None
    return dataclasses.replace(made[0], content=found) if found else vela.compiled(content, accelerator)


def _failed(graph: Graph, target: str, layers: LayerNames, error: CompilerFailedError) -> tuple[Finding, ...]:
    """Why there is no compiled file: the operators on which the compiler is known to fail, or its words."""
    who = f"Vela {vela.version()}, the compiler for {NAMES[target]},"
    named: dict[tuple[str, str], list[str]] = {}
    for subgraph, op in graph.all_ops():
        if op.name in _FRAGILE and target in _FRAGILE_ON:
            named.setdefault((op.name, op.dtype), []).append(layer_of(subgraph, op, layers))
    if not named:
        rule = f"{who} must compile the file. It says: {error}."
        remedy = "Look which layer it names, and write that in another way, or leave it out of the model."
        return (Finding("the whole model", "", "", rule, remedy, Kind.NPU),)
    rule = f"{who} ends in an error where a file compares or selects: {error}."
    remedy = "Write the layer without it, or choose `--target ethos-u85`, which computes it."
    return tuple(
        Finding(joined(dict.fromkeys(found), _MOST_NAMED), op, dtype, rule, remedy, Kind.NPU)
        for (op, dtype), found in named.items()
    )


def _rows(graph: Graph, made: Compiled, layers: LayerNames) -> tuple[NpuRow, ...]:
    """What the compiled file still computes with an operator of its own is left to the CPU, under its tensor's name."""
    left = {
        (op.name, subgraph.tensors[op.outputs[0]].name)
        for subgraph, op in read(made.content).all_ops()
        if op.name != COMMAND and op.outputs
    }
    rows, found = [], set()
    for subgraph, op in graph.all_ops():
        name = subgraph.tensors[op.outputs[0]].name if op.outputs else ""
        on_cpu = (op.name, name) in left or not op.outputs
        found.add((op.name, name))
        reason = _without_names(made.reasons.get(name, ""), subgraph) if on_cpu else ""
        rows.append(NpuRow(op.name, op.dtype, layer_of(subgraph, op, layers), not on_cpu, reason))
    added = sorted(left - found)  # Operators that the compiler itself has written, for the CPU.
    return (*rows, *(NpuRow(op, "", layers.of(name, op), False) for op, name in added))


def _without_names(reason: str, subgraph: Subgraph) -> str:
    """A reason without the tensor that it names at its end: the layer says where, and many have the same reason."""
    named = _NAMED.search(reason)
    names = {tensor.name for tensor in subgraph.tensors}
    return said(reason[: named.start()] if named and named[1] in names else reason)


def _left(content: bytes, graph: Graph, target: str) -> frozenset[tuple[str, str]]:
    """The operators, with their types, that another NPU leaves to the CPU; all where it does not compile the file."""
    try:
        made = vela.compiled(content, ACCELERATOR[target])
    except CompilerFailedError:
        return frozenset((op.name, op.dtype) for _, op in graph.all_ops())
    rows = _rows(graph, made, LayerNames())
    return frozenset((row.op, row.dtype) for row in rows if not row.on_npu)


def _taken(others: list[str]) -> str:
    return f", or choose {' or '.join(f'`--target {other}`' for other in others)}, which computes it" if others else ""


def _remedy(row: tuple[str, str], target: str, wanted: Combination | None, islands: bool) -> str:
    """What helps by options, "" where none do; `islands` says whether something computes in float."""
    op, dtype = row
    floating = dtype in FLOAT_DTYPES or op in CHANGING_TYPE
    if wanted is None:
        return _AGAIN.format(target=target) if floating or op in _TABLE else ""
    if op in CHANGING_TYPE and not islands:
        return _ENDS
    if wanted.lowering == "integer" or not (floating or op in _TABLE):
        return ""
    return _BY_TABLE if (wanted.quantize, wanted.lowering) == ("int8", "algebraic") else _INTEGER


def _npu(made: Compiled, accelerator: str, rows: tuple[NpuRow, ...]) -> Npu:
    return Npu(
        accelerator=accelerator,
        compiler=f"{vela.DISTRIBUTION} {vela.version()}",
        system=made.summary.get("system_config", ""),
        memory_mode=made.summary.get("memory_mode", ""),
        clock_hz=round(made.number("core_clock")),
        cycles=round(made.number("cycles_total")),
        sram_bytes=made.bytes_in("sram"),
        dram_bytes=made.bytes_in("dram"),
        flash_bytes=made.bytes_in("on_chip_flash") + made.bytes_in("off_chip_flash"),
        macs=round(made.number("nn_macs")),
        compiled_bytes=len(made.content),
        operators=rows,
    )


def _notes(npu: Npu, tables: int) -> tuple[str, ...]:
    system = f"{npu.system}, {npu.memory_mode}" if npu.system else "its default system"
    inside = (
        f"{tables} table(s) are the NPU's own in the compiled file (NAME_vela.tflite): Vela by itself leaves CAST and "
        "GATHER to the CPU. All but the tables is what Vela made of LEAKY_RELU in their place.",
    )
    return (
        *(inside if tables else ()),
        f"Cycles and memory of {npu.accelerator} are estimates of Vela for {system}, not measured; operators on the "
        "CPU are not in them.",
        "Numbers and arena are those of the file before Vela, on TensorFlow Lite Micro's reference kernels. The NPU is "
        "meant to compute the same; the compiled file was not run here.",
    )

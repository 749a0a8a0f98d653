"""The plan of an export after its file was made: what each activation has become there."""

from __future__ import annotations

import dataclasses
from collections import Counter

from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph
from sqp_tflite.layer_names import FUSING, INNER, LayerNames
from sqp_tflite.report import Finding, Form, PlanRow
from sqp_tflite.source.plan import Plan

_MOVING = frozenset(
    "RESHAPE TRANSPOSE PAD PADV2 EXPAND_DIMS SQUEEZE SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND CONCATENATION SLICE "
    "STRIDED_SLICE SPLIT PACK UNPACK".split()
)
"""What a layer does with its numbers before and after its activation."""

_TABLE = frozenset(("CAST", "ADD", "GATHER"))


def held(plan: Plan, graph: Graph, layers: LayerNames, findings: tuple[Finding, ...]) -> Plan:
    """Returns the plan with the operators that the file holds, and with those of them that are refused.

    The converter folds a factor or an offset into the layer in front or behind, and fuses clips; a quantiser writes
    conversions and tables. What an activation becomes depends on its neighbours, so the file is the one that knows.
    Rows of layers with several activations, which share one name there, stay as they were planned.

    Args:
        plan: What was planned.
        graph: The file.
        layers: Whose names its tensors bear.
        findings: What is wrong with it.
    """
    rows = Counter(row.layer.partition(".")[0] for row in plan.rows)
    found = _by_layer(graph, layers, tuple(rows))
    refused: dict[str, list[str]] = {}
    for finding in findings:
        refused.setdefault(finding.layer, []).append(finding.op)
    made = tuple(
        _row(row, found[row.layer], refused.get(row.layer, []))
        if rows[row.layer] == 1 and found.get(row.layer)
        else row
        for row in plan.rows
    )
    return dataclasses.replace(plan, rows=made)


def _by_layer(graph: Graph, layers: LayerNames, paths: tuple[str, ...]) -> dict[str, list[str]]:
    """Operators by layer, in the file's order; a clip that is fused into the operator in front counts as one."""
    found: dict[str, list[str]] = {}
    for subgraph in graph.subgraphs:
        owners = _owners(subgraph, layers)
        for op, owner in zip(subgraph.ops, owners, strict=True):
            if op.name not in FUSING | _MOVING:
                found.setdefault(owner, []).append(op.name)
            if op.fused:
                # Of the layers in a fused operator's name, the last one clips.
                name = subgraph.tensors[op.outputs[0]].name.removesuffix(INNER)
                clipped = [part for part in map(layers.of, name.split(";")) if part in paths and part != owner]
                found.setdefault(clipped[-1] if clipped else owner, []).append(op.fused)
    return found


def _owners(subgraph: Subgraph, layers: LayerNames) -> list[str]:
    """The layer of each operator. What only brings numbers into another form belongs to the layer that reads them."""
    readers, owner = subgraph.readers(), dict[int, str]()
    for op in reversed(subgraph.ops):
        if not op.outputs:  # A loop that hands nothing on.
            owner[id(op)] = layers.of("", op.name)
            continue
        output = subgraph.tensors[op.outputs[0]]
        reading = [owner[id(reader)] for reader in readers.get(op.outputs[0], ()) if id(reader) in owner]
        owner[id(op)] = reading[0] if reading and _prepares(subgraph, op) else layers.of(output.name, op.name)
    return [owner[id(op)] for op in subgraph.ops]


def _prepares(subgraph: Subgraph, op: Op) -> bool:
    """Whether an operator is a conversion in front of an activation, or begins a table."""
    if not op.inputs:
        return False
    written, read = subgraph.tensors[op.outputs[0]].dtype, subgraph.tensors[op.inputs[0]].dtype
    if op.name == "ADD":
        return written == "int32"
    return op.name in ("CAST", "DEQUANTIZE") or (op.name, read) == ("QUANTIZE", "int8")


def _row(row: PlanRow, ops: list[str], refused: list[str]) -> PlanRow:
    form = row.form if row.form is Form.OWN_CODE else _form(row.form, set(ops))
    return dataclasses.replace(row, ops=tuple(ops), form=form, refused=tuple(dict.fromkeys(filter(None, refused))))


def _form(planned: Form, ops: set[str]) -> Form:
    if ops == _TABLE:
        return Form.TABLE
    if planned is Form.INT16 and "GATHER" not in ops:
        return Form.INT16
    return Form.ISLAND if {"DEQUANTIZE", "QUANTIZE"} <= ops else Form.OPS

"""Decides which operators of a float file stay in float, move to int16 or become tables when the file is quantised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqp_tflite.flatbuffer import edit
from sqp_tflite.flatbuffer.chains import channels_of, shape_of
from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE
from sqp_tflite.layer_names import in_scope
from sqp_tflite.ops.policy import ADMITTED

_CLIPS = frozenset(("RELU", "RELU6"))
"""What a table would not make more exact, nor cheaper than the kernels do it in place."""


@dataclass(frozen=True, slots=True)
class Islands:
    """Tensors whose makers get a treatment of their own, by name.

    Attributes:
        activations: Of the operators that write an activation.
        tables: Of the operators that become tables.
    """

    activations: frozenset[str]
    tables: frozenset[str]


def islands(model: Any, lowering: str, native: Callable[[str], bool], forms: tuple[str, ...] = ()) -> Islands:
    """Returns the islands of a float model that is about to get int8 activations.

    Args:
        model: The `ModelT` of a float file whose tensors have names of their own.
        lowering: "algebraic", "table" or "integer".
        native: Says of an operator whether quantiser and target have it for the activations' type.
        forms: Outputs of the model that an activation's form makes.
    """
    groups = _groups(model)
    activations = _activations(model, groups, forms)
    tables: set[str] = set()
    for members in groups.values():
        rest = {name: op for name, op in members.items() if lowering == "table" or name not in activations}
        odd = [name for name, op in rest.items() if name in activations or op not in ADMITTED or not native(op)]
        if lowering == "table":
            tables |= set(rest) if not _CLIPS.issuperset(rest.values()) or odd else set()
        elif odd and all(op in ADMITTED for op in rest.values()):
            tables |= set(odd)
    return Islands(frozenset(activations), frozenset(tables))


def _groups(model: Any) -> dict[int, dict[str, str]]:
    """Elementwise operators by the one tensor that they are functions of: {source: {tensor's name: operator}}."""
    graph = model.subgraphs[0]
    source: dict[int, int] = {}
    groups: dict[int, dict[str, str]] = {}
    for operator in graph.operators:
        op = edit.op_name(model, operator)
        root = _root(model, operator, op, source)
        if root is not None:
            source[operator.outputs[0]] = root
            groups.setdefault(root, {})[edit.name_of(graph.tensors[operator.outputs[0]])] = op
    return groups


def _root(model: Any, operator: Any, op: str, source: dict[int, int]) -> int | None:
    graph = model.subgraphs[0]
    if op not in ELEMENTWISE or len(operator.outputs) != 1:
        return None
    result = graph.tensors[operator.outputs[0]]
    roots: set[int] = set()
    for index in operator.inputs:
        constant = edit.values(model, graph.tensors[index])
        if constant is None:
            roots.add(source.get(index, index))
            continue
        channels = channels_of(constant, shape_of(result))
        # A table per channel is worth its bytes where the activation itself has a constant per channel.
        if channels is None or (channels > 1 and op != "PRELU" and not in_scope(edit.name_of(result))):
            return None
    if len(roots) != 1:
        return None
    root = roots.pop()
    return root if shape_of(graph.tensors[root]) == shape_of(result) else None


def _activations(model: Any, groups: dict[int, dict[str, str]], forms: tuple[str, ...]) -> set[str]:
    graph = model.subgraphs[0]
    written = [
        (edit.name_of(graph.tensors[operator.outputs[0]]), edit.op_name(model, operator))
        for operator in graph.operators
        if operator.outputs is not None and len(operator.outputs)
    ]
    scoped = {name for name, op in written if op in ELEMENTWISE and (in_scope(name) or name in forms)}
    if scoped:
        return scoped
    # A finished graph says nothing of its activations: what holds a root and is a function of one tensor is one.
    rooted = (members for members in groups.values() if "SQRT" in members.values())
    return {name for members in rooted if set(members.values()) <= ADMITTED for name in members}

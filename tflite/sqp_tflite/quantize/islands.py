"""Decides which operators of a float file stay in float, move to int16 or become tables when the file is quantised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqp_tflite.flatbuffer.chains import channels_of
from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE
from sqp_tflite.flatbuffer.graph import Op, Subgraph
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


def islands(graph: Subgraph, lowering: str, native: Callable[[str], bool], forms: tuple[str, ...] = ()) -> Islands:
    """Returns the islands of a float graph that is about to get int8 activations.

    Args:
        graph: The main graph of a float file whose tensors have names of their own.
        lowering: "algebraic", "table" or "integer".
        native: Says of an operator whether quantiser and target have it for the activations' type.
        forms: Outputs of the model that an activation's form makes.
    """
    groups = _groups(graph)
    activations = _activations(graph, groups, forms)
    tables: set[str] = set()
    for members in groups.values():
        rest = {name: op for name, op in members.items() if lowering == "table" or name not in activations}
        odd = [name for name, op in rest.items() if name in activations or op not in ADMITTED or not native(op)]
        if lowering == "table":
            tables |= set(rest) if not _CLIPS.issuperset(rest.values()) or odd else set()
        elif odd and all(op in ADMITTED for op in rest.values()):
            tables |= set(odd)
    return Islands(frozenset(activations), frozenset(tables))


def _groups(graph: Subgraph) -> dict[int, dict[str, str]]:
    """Elementwise operators by the one tensor that they are functions of: {source: {tensor's name: operator}}."""
    source: dict[int, int] = {}
    groups: dict[int, dict[str, str]] = {}
    for op in graph.ops:
        root = _root(graph, op, source)
        if root is not None:
            source[op.outputs[0]] = root
            groups.setdefault(root, {})[graph.tensors[op.outputs[0]].name] = op.name
    return groups


def _root(graph: Subgraph, op: Op, source: dict[int, int]) -> int | None:
    if op.name not in ELEMENTWISE or len(op.outputs) != 1:
        return None
    result = graph.tensors[op.outputs[0]]
    roots: set[int] = set()
    for operand in graph.operands(op):
        constant = operand.values
        if constant is None:
            roots.add(source.get(operand.index, operand.index))
            continue
        channels = channels_of(constant, result.shape)
        # A table per channel is worth its bytes where the activation itself has a constant per channel.
        if channels is None or (channels > 1 and op.name != "PRELU" and not in_scope(result.name)):
            return None
    if len(roots) != 1:
        return None
    root = roots.pop()
    return root if graph.tensors[root].shape == result.shape else None


def _activations(graph: Subgraph, groups: dict[int, dict[str, str]], forms: tuple[str, ...]) -> set[str]:
    written = [(graph.tensors[op.outputs[0]].name, op.name) for op in graph.ops if op.outputs]
    scoped = {name for name, op in written if op in ELEMENTWISE and (in_scope(name) or name in forms)}
    if scoped:
        return scoped
    # A finished graph does not say which operators are an activation: a function of one tensor with a root is one.
    rooted = (members for members in groups.values() if "SQRT" in members.values())
    return {name for members in rooted if set(members.values()) <= ADMITTED for name in members}

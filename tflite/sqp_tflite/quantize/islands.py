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
"""A table would make these neither more exact nor cheaper."""


@dataclass(frozen=True, slots=True)
class Islands:
    """Names of tensors whose operators get special treatment.

    Attributes:
        activations: Outputs of the operators that an activation consists of.
        tables: Outputs of the operators that become tables.
    """

    activations: frozenset[str]
    tables: frozenset[str]

    def without(self, names: frozenset[str]) -> Islands:
        """Returns the islands without some tensors."""
        return Islands(self.activations - names, self.tables - names)

    def becomes_tables(self, names: frozenset[str]) -> bool:
        """Returns whether a chain becomes a table whose operators write tensors of these names."""
        return not self.tables.isdisjoint(names)


def islands(graph: Subgraph, lowering: str, native: Callable[[str], bool], forms: tuple[str, ...] = ()) -> Islands:
    """Returns the islands of a float graph that will get int8 activations.

    Args:
        graph: The main graph of a float file with unique tensor names.
        lowering: "algebraic", "table" or "integer".
        native: Whether quantiser and target have an operator for the activations' type.
        forms: Outputs of the model that come directly from an activation.
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
    """Elementwise operators by the one tensor that they depend on: {source: {tensor's name: operator}}."""
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
        # A table per channel is only worth its bytes if the activation itself has a constant per channel.
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
    # A finished graph does not mark activations: a function of one tensor with a square root counts as one.
    rooted = (members for members in groups.values() if "SQRT" in members.values())
    return {name for members in rooted if set(members.values()) <= ADMITTED for name in members}

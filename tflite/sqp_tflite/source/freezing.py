"""Writes a traced function's weights into its graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from sqp_tflite import private


@dataclass(frozen=True, slots=True)
class FrozenGraph:
    """A graph without variables.

    Attributes:
        definition: Its GraphDef, which the caller may change.
        inputs: Its placeholders, as tensors of a graph with all static shapes.
        outputs: Its outputs, tensors of the same graph.
    """

    definition: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


def frozen(concrete: Any) -> FrozenGraph:
    """Returns the graph of a traced function with constants in the place of its variables.

    TensorFlow makes a function of the result, which takes longer than the rest for a recurrent layer that is written
    out; that is left out where the parts that do the rest are there.

    Args:
        concrete: A concrete function.

    Raises:
        EnvironmentMissingError: This TensorFlow cannot write weights into a graph in the known way.
    """
    freeze, parts = private.require("freeze"), [private.find(use) for use in ("freezing", "constants")]
    if None in parts:
        made = freeze(concrete)
        return FrozenGraph(made.graph.as_graph_def(), tuple(made.inputs), tuple(made.outputs))
    read, write = (getattr(part.owner, part.name) for part in parts if part)
    definition, places = write(read(func=concrete, lower_control_flow=True, aggressive_inlining=False))
    weights = {id(concrete.graph.internal_captures[place]) for place in places}
    inputs = [tensor for tensor in concrete.inputs if id(tensor) not in weights]
    names = [tensor.op.name for tensor in (*inputs, *concrete.outputs)]
    _keep(definition, names)
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    ends = [[graph.get_tensor_by_name(tensor.name) for tensor in end] for end in (inputs, concrete.outputs)]
    for ours, theirs in zip(ends[0], inputs, strict=True):
        ours.set_shape(theirs.shape)
    return FrozenGraph(definition, tuple(ends[0]), tuple(ends[1]))


def _keep(definition: Any, names: Iterable[str]) -> None:
    """Leaves only the nodes that some nodes depend on, and these themselves."""
    nodes, needed, left = {node.name: node for node in definition.node}, set[str](), list(names)
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += [read.removeprefix("^").partition(":")[0] for read in nodes[name].input]
    kept = [node for node in definition.node if node.name in needed]
    if len(kept) < len(nodes):
        del definition.node[:]
        definition.node.extend(kept)

"""Writes activations with operators that the interpreters compute in integers: sqrt(v) as v*rsqrt(v)."""

from __future__ import annotations

from typing import Any

from sqp_tflite.layer_names import in_scope


def with_rsqrt(graph_def: bytes) -> bytes:
    """Returns the frozen graph with sqrt(v) = v * rsqrt(v) and min(a, b) = a - relu(a - b) in every activation's form.

    There v is at least b/4 > 0. Other square roots stay: v may be 0 there, and 0*rsqrt(0) is NaN.

    Args:
        graph_def: A serialized GraphDef.
    """
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(graph_def)
    for node in list(definition.node):
        if node.op not in ("Sqrt", "Minimum") or not in_scope(node.name):
            continue
        if node.op == "Sqrt":
            node.input.append(_added(definition, node, "Rsqrt", list(node.input)))
            node.op = "Mul"
        else:
            beyond = _added(definition, node, "Sub", list(node.input))
            node.input[1] = _added(definition, node, "Relu", [beyond])
            node.op = "Sub"
    return definition.SerializeToString(deterministic=True)


def _added(definition: Any, node: Any, op: str, inputs: list[str]) -> str:
    """Returns the name of a new node beside another one, of the same type."""
    new = definition.node.add(op=op, name=f"{node.name}/{op}", input=inputs)
    new.attr["T"].CopyFrom(node.attr["T"])
    return new.name

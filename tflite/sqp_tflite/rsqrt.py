"""Writes the square roots of activations as v*rsqrt(v), which the interpreters compute in integers."""

from __future__ import annotations

from sqp_tflite.islands import in_scope


def with_rsqrt(graph_def: bytes) -> bytes:
    """Returns the frozen graph with sqrt(v) = v * rsqrt(v) in every activation's form.

    There v is at least b/4 > 0. Other square roots stay: theirs may be of zero, where the product is no number.

    Args:
        graph_def: A serialized GraphDef.
    """
    from tensorflow.core.framework import graph_pb2

    definition = graph_pb2.GraphDef.FromString(graph_def)
    for node in list(definition.node):
        if node.op != "Sqrt" or not in_scope(node.name):
            continue
        inverse = definition.node.add(op="Rsqrt", name=f"{node.name}/Rsqrt", input=list(node.input))
        inverse.attr["T"].CopyFrom(node.attr["T"])
        node.op = "Mul"
        node.input.append(inverse.name)
    return definition.SerializeToString(deterministic=True)

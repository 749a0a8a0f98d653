"""The last steps of a softmax, from the powers to their share of the sum: 16 bits in a file of int8.

Of 8 bits, the mean of the powers and its reciprocal would each add an error as large as the rounding of the result.
"""

from __future__ import annotations

from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE
from sqp_tflite.flatbuffer.graph import Subgraph
from sqp_tflite.layer_names import SHARE_SCOPE, in_scope
from sqp_tflite.ops.policy import kernels
from sqp_tflite.quantize.states import widens

_NEEDS = "MEAN MUL RSQRT ADD QUANTIZE".split()


def shares(graph: Subgraph, target: str) -> frozenset[str]:
    """Returns the names of the tensors that these steps write; none where the target lacks an operator for them.

    Args:
        graph: The float graph.
        target: One of `policy.TARGETS`.
    """
    has = kernels(target)
    if not widens(target) or not all("int16" in has.get(op, ()) for op in _NEEDS):
        return frozenset()
    means: dict[int, int] = {}
    ends: set[int] = set()
    for op in graph.ops:
        operands = [operand.index for operand in graph.operands(op) if not operand.constant]
        known = {means[index] for index in operands if index in means}
        if op.name == "MEAN" and in_scope(graph.tensors[op.outputs[0]].name, SHARE_SCOPE):
            means[op.outputs[0]] = op.inputs[0]
        elif op.name in ELEMENTWISE and len(known) == 1:
            (powers,) = known
            if means.keys() >= set(operands):
                means[op.outputs[0]] = powers
            elif means.keys() | {powers} >= set(operands):
                ends.add(op.outputs[0])
    return frozenset(graph.tensors[index].name for index in ends.union(means))

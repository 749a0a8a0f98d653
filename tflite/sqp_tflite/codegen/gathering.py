"""GATHER whose indices are computed: blocks of a tensor, chosen while the model runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqp_tflite.codegen.moving import typed
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import Source
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor


@dataclass(frozen=True, slots=True)
class Gathered:
    """Blocks of a tensor. An index outside of it takes the nearest block.

    Attributes:
        source: What is read.
        indices: Which blocks, int32.
        target: The output.
        axis: The axis of the blocks.
    """

    source: Tensor
    indices: Tensor
    target: Tensor
    axis: int

    @property
    def reads(self) -> tuple[int, ...]:
        """Returns the computed tensors that it reads."""
        return tuple(tensor.index for tensor in (self.source, self.indices) if not tensor.constant)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Returns the tensors that it makes."""
        return (self.target.index,)

    def body(self, source: Source, names: Mapping[int, str]) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        given = source.pointer(self.source, names)
        outer, size = math.prod(self.source.shape[: self.axis]), self.source.shape[self.axis]
        block, count = math.prod(self.source.shape[self.axis + 1 :]), self.indices.elements
        made = names[self.target.index]
        index = f"{source.call('clip')}({names[self.indices.index]}[i], 0, {size - 1})"
        copied = f"{made}[(o * {count} + i) * {block} + k] = {given}[(o * {size} + at) * {block} + k];"
        return [
            "int32_t o, i, k;",
            f"for (o = 0; o < {outer}; o++) {{",
            f"for (i = 0; i < {count}; i++) {{",
            f"const int32_t at = {index};",
            f"for (k = 0; k < {block}; k++) {copied}",
            *("}", "}"),
        ]


def gathered(op: Op, graph: Subgraph) -> Gathered:
    """Returns a GATHER with computed indices."""
    source, indices, target = (graph.tensors[index] for index in (*op.inputs[:2], op.outputs[0]))
    typed(op, source, target)
    if indices.dtype != "int32" or int(op.options.get("batchDims", 0) or 0):
        refuse(op, "needs indices of int32 and no batch dimensions here", indices.dtype)
    return Gathered(source, indices, target, int(op.options.get("axis", 0)) % max(len(source.shape), 1))

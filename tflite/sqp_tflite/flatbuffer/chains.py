"""Finds functions of one tensor: chains of elementwise operators that a table can replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE, FUSABLE, WIDE, apply
from sqp_tflite.flatbuffer.graph import TYPE_CHANGES, Op, Subgraph, Tensor


@dataclass(frozen=True, slots=True)
class Chain:
    """A tensor that depends on one other tensor, element by element.

    Attributes:
        source: Index of the tensor that it depends on; where that was dequantised, of the tensor of codes.
        result: Index of the tensor.
        ops: Places of the operators between them, in execution order, without the DEQUANTIZE.
        channels: 1, or the size of the last axis where a constant differs along it.
    """

    source: int
    result: int
    ops: tuple[int, ...]
    channels: int


class Walker:
    """Looks backwards from tensors of a graph.

    Args:
        graph: The main graph of a file.
    """

    def __init__(self, graph: Subgraph):
        self._graph = graph
        self._makers = graph.makers()

    def chain(self, result: int) -> Chain | None:
        """Returns the chain that ends in a tensor; None where it has no or several sources, or mixes elements."""
        ops: set[int] = set()
        sources: set[int] = set()
        channels = 1
        waiting = [result]
        shape = self._graph.tensors[result].shape
        while waiting:
            index = waiting.pop()
            op = self._makers.get(index)
            if op is None or not self._elementwise(op):
                sources.add(self._codes(index))
                continue
            if op.index in ops:
                continue
            ops.add(op.index)
            for operand in self._graph.operands(op):
                constant = operand.values
                if constant is None:
                    waiting.append(operand.index)
                    continue
                varies = channels_of(constant, shape)
                if varies is None:  # It varies along another axis, or along none of the result's.
                    return None
                channels = max(channels, varies)
        if len(sources) != 1 or not ops:
            return None
        source = sources.pop()
        return Chain(source, result, tuple(sorted(ops)), channels) if self._same_shape(source, ops) else None

    def evaluate(self, chain: Chain, numbers: NDArray[Any], number: type[Any] = WIDE) -> NDArray[Any]:
        """Returns the chain's result for numbers at its source, computed in float64 or wider, or in another type.

        What only changes the type of numbers changes none: a chain of codes is computed as the function that it means.

        Args:
            chain: What `chain` returned, or `functions.between`.
            numbers: Shape (count, 1); constants with several channels broadcast along the last axis.
            number: The type, such as `np.float16`.
        """
        held = {chain.source: numbers}
        for place in chain.ops:
            op = self._graph.ops[place]
            operands = [self._operand(i, held) for i in op.inputs if i >= 0]
            held[op.outputs[0]] = (
                operands[0] if op.name in TYPE_CHANGES else apply(op.name, operands, op.options, number)
            )
        return held[chain.result]

    def _operand(self, index: int, held: dict[int, NDArray[Any]]) -> NDArray[Any]:
        if index in held:
            return held[index]
        if self._codes(index) in held:
            return held[self._codes(index)]
        constant = real_values(self._graph.tensors[index])
        if constant is None:
            raise ValueError(f"Tensor {index} must be a constant of the chain. Received: a computed tensor.")
        flat = constant.reshape(1, -1)
        return flat[:, :1] if np.all(flat == flat[0, 0]) else flat

    def _codes(self, index: int) -> int:
        """Returns the quantised tensor of which a tensor is the real numbers, or the tensor itself."""
        op = self._makers.get(index)
        return index if op is None or op.name != "DEQUANTIZE" else op.inputs[0]

    def _elementwise(self, op: Op) -> bool:
        if op.name not in ELEMENTWISE or len(op.outputs) != 1 or op.fused not in FUSABLE:
            return False
        touched = (*self._graph.operands(op), self._graph.tensors[op.outputs[0]])
        return not any(tensor.quantization for tensor in touched)

    def _same_shape(self, source: int, ops: set[int]) -> bool:
        wanted = self._graph.tensors[source].shape
        outputs = [self._graph.ops[place].outputs[0] for place in ops]
        return all(self._graph.tensors[index].shape == wanted for index in outputs)


def real_values(tensor: Tensor) -> NDArray[Any] | None:
    """Returns the numbers that a constant stands for, with one scale or none; None for other tensors."""
    values, held = tensor.values, tensor.quantization
    if values is None or held is None:
        return values
    if len(held.scales) != 1:
        return None
    return np.asarray((values.astype(np.float64) - held.zero_points[0]) * held.scales[0])


def channels_of(constant: NDArray[Any], shape: tuple[int, ...]) -> int | None:
    """Returns how many constants there are along the last axis; None where they differ along another.

    Args:
        constant: The constant operand.
        shape: Of the operator's output.
    """
    if not constant.size:
        return None
    if np.all(constant == constant.reshape(-1)[0]):
        return 1
    if shape and constant.size == shape[-1] == constant.shape[-1]:
        return int(constant.size)
    return None

"""Finds what is a function of one tensor alone: chains of elementwise operators that a table can stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer import edit
from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE, apply


@dataclass(frozen=True, slots=True)
class Chain:
    """A tensor that depends on one other tensor, element by element.

    Attributes:
        source: Index of the tensor that it depends on; where that was dequantised, of the tensor of codes.
        result: Index of the tensor.
        ops: Places of the operators between them, in execution order, the DEQUANTIZE not among them.
        channels: 1, or the size of the last axis where a constant differs along it.
    """

    source: int
    result: int
    ops: tuple[int, ...]
    channels: int


class Walker:
    """Looks backwards from tensors of a model's main graph.

    Args:
        model: The schema's `ModelT`; it is only read.
    """

    def __init__(self, model: Any):
        self._model = model
        self._graph = model.subgraphs[0]
        self._maker = {
            output: place for place, operator in enumerate(self._graph.operators) for output in operator.outputs
        }

    def chain(self, result: int) -> Chain | None:
        """Returns the chain that ends in a tensor; None where it has no or several sources, or mixes elements."""
        ops: set[int] = set()
        sources: set[int] = set()
        channels = 1
        waiting = [result]
        while waiting:
            index = waiting.pop()
            place = self._maker.get(index)
            if place is None or not self._elementwise(place):
                sources.add(self._codes(index))
                continue
            if place in ops:
                continue
            ops.add(place)
            for operand in self._graph.operators[place].inputs:
                constant = edit.values(self._model, self._graph.tensors[operand])
                if constant is None:
                    waiting.append(operand)
                    continue
                varies = channels_of(constant, shape_of(self._graph.tensors[result]))
                if varies is None or (varies > 1 and channels not in (1, varies)):
                    return None
                channels = max(channels, varies)
        if len(sources) != 1 or not ops:
            return None
        source = sources.pop()
        return Chain(source, result, tuple(sorted(ops)), channels) if self._same_shape(source, ops) else None

    def evaluate(self, chain: Chain, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns the chain's result for numbers at its source, in float64 or wider.

        Args:
            chain: What `chain` returned.
            numbers: Shape (count, 1); constants with several channels broadcast along the last axis.
        """
        held = {chain.source: numbers}
        for place in chain.ops:
            operator = self._graph.operators[place]
            operands = [self._operand(i, held) for i in operator.inputs]
            name = edit.op_name(self._model, operator)
            held[operator.outputs[0]] = apply(name, operands, operator.builtinOptions)
        return held[chain.result]

    def _operand(self, index: int, held: dict[int, NDArray[Any]]) -> NDArray[Any]:
        if index in held:
            return held[index]
        if self._codes(index) in held:
            return held[self._codes(index)]
        constant = edit.values(self._model, self._graph.tensors[index])
        if constant is None:
            raise ValueError(f"Tensor {index} must be a constant of the chain. Received: a computed tensor.")
        flat = constant.reshape(1, -1)
        return flat[:, :1] if np.all(flat == flat[0, 0]) else flat

    def _codes(self, index: int) -> int:
        """Returns the quantised tensor of which a tensor is the real numbers, or the tensor itself."""
        place = self._maker.get(index)
        if place is None or edit.op_name(self._model, self._graph.operators[place]) != "DEQUANTIZE":
            return index
        return int(self._graph.operators[place].inputs[0])

    def _elementwise(self, place: int) -> bool:
        operator = self._graph.operators[place]
        if edit.op_name(self._model, operator) not in ELEMENTWISE or len(operator.outputs) != 1:
            return False
        touched = [int(i) for i in [*operator.inputs, *operator.outputs] if i >= 0]
        return not any(quantized(self._graph.tensors[i]) for i in touched)

    def _same_shape(self, source: int, ops: set[int]) -> bool:
        wanted = shape_of(self._graph.tensors[source])
        outputs = [self._graph.operators[place].outputs[0] for place in ops]
        return all(shape_of(self._graph.tensors[index]) == wanted for index in outputs)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Returns a tensor's shape."""
    return () if tensor.shape is None else tuple(int(size) for size in tensor.shape)


def quantized(tensor: Any) -> bool:
    """Returns whether a tensor holds codes with a scale."""
    held = tensor.quantization
    return held is not None and held.scale is not None and len(held.scale) > 0


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

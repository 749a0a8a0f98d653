"""Inputs at the ends of a file's input range, and beyond."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.agreement import BEYOND, ENDS
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.source.load import InputSpec
from sqp_tflite.source.made_up import Scale
from sqp_tflite.source.samples import Samples

DEVIATIONS = 3.0
"""How many standard deviations of ordinary inputs the codes of an input are taken to reach on each side."""

_COUNT = 8
_SEED = 20210102


def extremes(tensors: Sequence[Tensor], given: Samples) -> dict[str, Samples]:
    """Returns two sets of samples: at the ends of each input's range, and twice as far from its middle.

    The range of a quantised input is the range of its codes; the range of a float input is that of the given samples.
    In each set one sample has all elements at the lower end, one at the upper end, and the rest are seeded mixtures.

    Args:
        tensors: What `codes_of` returned for the file's inputs, in the order of the samples.
        given: The user's samples, or made-up ones.
    """
    generator = np.random.default_rng(_SEED)
    sets: dict[str, list[NDArray[Any]]] = {ENDS: [], BEYOND: []}
    for tensor, values in zip(tensors, given.inputs, strict=True):
        low, high = ends_of(tensor) or (float(values.min()), float(values.max()))
        if np.issubdtype(values.dtype, np.integer) or values.dtype == np.bool_:
            # The elements are indices: there is nothing beyond them.
            low, high, reach = float(values.min()), float(values.max()), 0.0
        else:
            reach = (high - low) / 2 or max(abs(high), 1.0)
        pattern = generator.integers(0, 2, (_COUNT, *values.shape[1:])).astype(bool)
        pattern[0], pattern[1] = False, True
        sets[ENDS].append(np.where(pattern, high, low).astype(values.dtype))
        sets[BEYOND].append(np.where(pattern, high + reach, low - reach).astype(values.dtype))
    return {name: Samples(tuple(arrays), None, given=False) for name, arrays in sets.items()}


def codes_of(graph: Graph, place: int) -> Tensor:
    """Returns the tensor that holds an input's codes: the input, or what the QUANTIZE makes that alone reads it."""
    tensor = graph.inputs[place]
    readers = [op for op in graph.main.ops if tensor.index in op.inputs]
    if len(readers) == 1 and readers[0].name == "QUANTIZE":
        return graph.main.tensors[readers[0].outputs[0]]
    return tensor


def ends_of(tensor: Tensor) -> tuple[float, float] | None:
    """Returns the smallest and the largest number that a tensor's codes stand for; None if it has no codes."""
    dtype = np.dtype(tensor.dtype)
    if tensor.quantization is None or not np.issubdtype(dtype, np.integer):
        return None
    limits, scale, zero = np.iinfo(dtype), tensor.quantization.scales[0], tensor.quantization.zero_points[0]
    return float((limits.min - zero) * scale), float((limits.max - zero) * scale)


def bounded(specs: Sequence[InputSpec], tensors: Sequence[Tensor], scales: Mapping[str, Scale]) -> dict[str, Scale]:
    """Returns what made-up numbers a file's inputs take: those of the model, and none that the codes do not hold.

    Args:
        specs: The model's inputs.
        tensors: What `codes_of` returned for each.
        scales: What numbers the model's inputs take, by name.
    """
    found = dict(scales)
    for spec, tensor in zip(specs, tensors, strict=True):
        ends = ends_of(tensor)
        if ends is not None and np.issubdtype(np.dtype(spec.dtype), np.floating):
            middle, reach = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
            scale = found.get(spec.name, Scale(middle, reach / DEVIATIONS))
            found[spec.name] = dataclasses.replace(scale, ends=ends)
    return found

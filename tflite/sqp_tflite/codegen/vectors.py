"""Golden vectors for a file without data: made-up inputs, and what TensorFlow Lite Micro computes for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.naming import Golden
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.ops.policy import NAMES
from sqp_tflite.run import interpreters

COUNT = 8
_LARGEST_BYTES = 32768


def made_up(graph: Graph, content: bytes) -> Golden | None:
    """Returns vectors: inputs at the ends of their range, at 0, and random. None where the interpreter
    is missing, and where no output is finite.

    Args:
        graph: The file.
        content: The same, in bytes.

    Raises:
        RuntimeFailedError: The interpreter does not run the file.
    """
    if not interpreters.installed("tflm"):
        return None
    sizes = sum(tensor.elements * np.dtype(tensor.dtype).itemsize for tensor in (*graph.inputs, *graph.outputs))
    count = max(1, min(COUNT, _LARGEST_BYTES // max(sizes, 1)))
    generator = np.random.default_rng(0)
    codes = tuple(_codes(tensor, count, generator) for tensor in graph.inputs)
    for inputs in (codes, tuple(np.abs(values) if values.dtype.kind == "f" else values for values in codes)):
        given = tuple(interpreters.decode(values, tensor) for values, tensor in zip(inputs, graph.inputs, strict=True))
        outputs = interpreters.run("tflm", content, given).codes
        finite = [all(np.isfinite(one[place]).all() for one in outputs) for place in range(count)]
        if any(finite):
            made = (tuple(one[finite] for one in inputs), tuple(one[finite] for one in outputs))
            return Golden(*made, f"{NAMES['tflm']} ({interpreters.version('tflm')})")
    return None


def _codes(tensor: Tensor, count: int, generator: np.random.Generator) -> NDArray[Any]:
    shape = (count, *tensor.shape)
    if np.issubdtype(np.dtype(tensor.dtype), np.floating):
        values = generator.normal(size=shape).astype(tensor.dtype)
        values[-1] = 0.0
        return values
    if tensor.quantization is None:
        return np.zeros(shape, tensor.dtype)  # An index: only 0 is always one.
    limits = np.iinfo(tensor.dtype)
    values = generator.integers(limits.min, limits.max, shape, endpoint=True).astype(tensor.dtype)
    for place, code in enumerate((limits.min, limits.max, tensor.quantization.zero_points[0])[: count - 1], start=1):
        values[place] = code
    return values

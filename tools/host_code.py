"""Runs generated C on this machine: compiled by the host's compiler, loaded, and compared with the interpreter.

The arena lies between bytes of a known value, which no run may change.
"""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.generate import Code, generate
from sqp_tflite.codegen.naming import CStyle
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters

STRICT = "-Wall -Wextra -Werror -Wpedantic -Wconversion -Wsign-conversion -Wshadow".split()
C99 = ("gcc", "-std=c99", "-O2", "-ffp-contract=off")
CANARY, GUARD = 0x5A, 64

Arrays = tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A file and its C code.

    Attributes:
        prefix: Of the C symbols.
        content: The file.
        graph: The same, read.
        code: Its C code.
    """

    prefix: str
    content: bytes
    graph: Graph
    code: Code


def coded(prefix: str, content: bytes) -> Model:
    """Returns a file with its C code."""
    graph = read(content)
    return Model(prefix, content, graph, generate(graph, CStyle(prefix), f"{prefix}.tflite"))


def compiled(models: list[Model], folder: Path, compiler: tuple[str, ...] = C99, *flags: str) -> ctypes.CDLL:
    """Returns a library of all models; a warning is an error."""
    sources = []
    for model in models:
        (folder / f"{model.prefix}.h").write_text(model.code.header)
        sources.append(folder / f"{model.prefix}.c")
        sources[-1].write_text(model.code.source)
    library = folder / "models.so"
    command = [*compiler, *STRICT, *flags, "-shared", "-fPIC", *map(str, sources), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("\n".join(done.stderr.splitlines()[:12]))
    return ctypes.CDLL(str(library))


def run(library: ctypes.CDLL, model: Model, inputs: Arrays) -> Arrays:
    """Returns the outputs for each sample.

    Args:
        library: What `compiled` returned.
        model: Which of its models.
        inputs: In the file's types, shape (samples, *shape).

    Raises:
        RuntimeError: A byte beside the arena changed.
    """
    size = model.code.memory.size
    room = np.full(size + 2 * GUARD + 8, CANARY, np.uint8)
    begin = GUARD + -(room.ctypes.data + GUARD) % 8
    count = len(inputs[0])
    outputs = tuple(np.zeros((count, *tensor.shape), tensor.dtype) for tensor in model.graph.outputs)
    function = getattr(library, f"{model.prefix}_run")
    function.restype = None
    for sample in range(count):
        given = [np.ascontiguousarray(array[sample]) for array in inputs]
        pointers = [room.ctypes.data + begin, *(array.ctypes.data for array in given)]
        pointers += [array[sample : sample + 1].ctypes.data for array in outputs]
        function(*map(ctypes.c_void_p, pointers))
    if (room[:begin] != CANARY).any() or (room[begin + size :] != CANARY).any():
        raise RuntimeError(f"{model.prefix} writes beside its arena of {size} bytes.")
    return outputs


def samples(graph: Graph, count: int, seed: int = 0) -> Arrays:
    """Returns seeded inputs: the smallest, the largest and the zero code first, then all over the range."""
    generator = np.random.default_rng(seed)
    found = []
    for tensor in graph.inputs:
        shape = (count, *tensor.shape)
        if tensor.dtype == "float32":
            sizes = generator.choice([0.1, 1.0, 10.0, 300.0], (count,) + (1,) * len(tensor.shape))
            values = (generator.normal(size=shape) * sizes).astype(np.float32)
            values[0] = 0.0
        elif tensor.quantization is None:
            values = generator.integers(0, 3, shape).astype(tensor.dtype)
        else:
            limits = np.iinfo(tensor.dtype)
            values = generator.integers(limits.min, limits.max, shape, endpoint=True).astype(tensor.dtype)
            zero = tensor.quantization.zero_points[0]
            for place, code in enumerate((limits.min, limits.max, zero)):
                values[place : place + 1] = code
            if any(op.name == "RSQRT" and tensor.index in op.inputs for op in graph.main.ops):
                values = np.maximum(values, zero)  # The interpreter refuses numbers below 0.
        found.append(values)
    return tuple(found)


def expected(model: Model, inputs: Arrays) -> Arrays:
    """Returns the outputs of TensorFlow Lite Micro, in the file's types."""
    given = tuple(interpreters.decode(array, tensor) for array, tensor in zip(inputs, model.graph.inputs, strict=True))
    return interpreters.run("tflm", model.content, given).codes


def different(made: Arrays, wanted: Arrays) -> int:
    """Returns how many numbers differ in a bit; all NaN are equal."""
    count = 0
    for one, other in zip(made, wanted, strict=True):
        here, there = one.reshape(-1), np.asarray(other).reshape(-1)
        if one.dtype.kind == "f":
            same = (here.view(np.uint32) == there.view(np.uint32)) | (np.isnan(here) & np.isnan(there))
            count += int(np.sum(~same))
        else:
            count += int(np.sum(here != there))
    return count

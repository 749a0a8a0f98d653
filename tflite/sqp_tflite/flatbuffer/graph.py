"""A TFLite file as immutable data: what `inspect` returns and what everything that reads a file works on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import TFLiteFileError

FLOAT_DTYPES = ("float16", "float32", "float64", "bfloat16")
INTEGER_DTYPES = ("int4", "int8", "uint8", "int16")
TYPE_CHANGES = ("QUANTIZE", "DEQUANTIZE")
"""Operators that change the type of numbers and compute nothing."""

_SMALL_WEIGHTS = ("int4", "int8", "uint8")
_PACKED_BITS = MappingProxyType({"int2": 2, "int4": 4, "uint4": 4})
_BITS = MappingProxyType(
    dict.fromkeys(("bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 8)
    | dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 16)
    | dict.fromkeys(("int32", "uint32", "float32"), 32)
    | dict.fromkeys(("int64", "uint64", "float64", "complex64"), 64)
    | {"complex128": 128}
)
_WITHOUT_NUMPY = frozenset(("string", "resource", "variant", "bfloat16", "float8_e4m3fn", "float8_e5m2"))


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantisation, real = scale * (code - zero_point).

    Attributes:
        scales: One per tensor, or one per slice along `axis`.
        zero_points: As many as scales.
        axis: The axis of the slices; 0 where there is one scale.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a subgraph.

    Attributes:
        index: Its place in the subgraph.
        name: As the file has it; tensors that come from Keras carry the layer's name.
        shape: Dimensions that an interpreter allocates.
        dtype: numpy's name ("float32", "int8"), or the schema's in lower case where numpy has none ("resource").
        quantization: None for a tensor of plain numbers.
        data: The constant's bytes in the file, not copied; None for a tensor computed at run time.
        open: Places of the dimensions that may be resized; () in a file of fixed shapes.
        variable: Whether it keeps its value from one run to the next.
        sparse: Whether `data` leaves out zeros.
        ranked: Whether the file says how many dimensions there are; where it does not, `shape` is ().
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None
    data: memoryview | None = field(default=None, repr=False, hash=False)
    open: tuple[int, ...] = ()
    variable: bool = False
    sparse: bool = False
    ranked: bool = True

    @property
    def constant(self) -> bool:
        """Returns whether the file holds the value."""
        return self.data is not None

    @property
    def constant_bytes(self) -> int:
        """Returns the size of the data in the file, 0 for a tensor computed at run time."""
        return 0 if self.data is None else self.data.nbytes

    @property
    def declared_bytes(self) -> int | None:
        """Returns the size that shape and type declare; None where they do not tell: text, a sparse constant."""
        bits = _BITS.get(self.dtype) or _PACKED_BITS.get(self.dtype)
        return None if self.sparse or bits is None else (math.prod(self.shape) * bits + 7) // 8

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Returns the shape of one sample: some files have no batch dimension."""
        return self.shape[1:] if self.shape[:1] == (1,) else self.shape

    @property
    def elements(self) -> int:
        """Returns the number of elements, unknown dimensions counted as 1."""
        count = 1
        for size in self.shape:
            count *= max(size, 1)
        return count

    @property
    def values(self) -> NDArray[Any] | None:
        """Returns a constant's numbers, read-only, in its own type and shape; packed types as int8 or uint8.

        None for a tensor computed at run time, a sparse one, and a type that numpy lacks (text, bfloat16).

        Raises:
            TFLiteFileError: The data is not as long as the shape says.
        """
        if self.data is None or self.sparse or self.dtype in _WITHOUT_NUMPY:
            return None
        try:
            if self.dtype in _PACKED_BITS:
                return _unpacked(self.data, self.dtype, self.shape)
            return np.frombuffer(self.data, self.dtype).reshape(self.shape)
        except ValueError as error:
            raise TFLiteFileError(
                f"Constant `{self.name}` must hold the elements of its shape. Received: {self.constant_bytes} bytes "
                f"for {self.dtype} {self.shape}. The file is damaged: export it again."
            ) from error


@dataclass(frozen=True, slots=True)
class Op:
    """One operator in execution order.

    Attributes:
        index: Its place in the subgraph.
        name: As the schema spells it (`FULLY_CONNECTED`); a custom op as `CUSTOM:its_code`.
        version: The version of the operator that the file asks for.
        inputs: Tensor indices, -1 for an omitted input.
        outputs: Tensor indices.
        dtype: The type that decides whether a kernel exists: that of the first computed input.
        weights: The type of its first constant operand with more than one dimension, "" where there is none.
        options: By the schema's field names, with names in place of an enum's numbers ("SAME", "RELU", "INT8").
        custom_options: The options of a custom op, as its author packed them.
        intermediates: Indices of the tensors that hold the scales inside a fused recurrent operator.
    """

    index: int
    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: str
    weights: str = ""
    options: Mapping[str, Any] = field(default_factory=_empty, hash=False)
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()

    @property
    def fused(self) -> str:
        """Returns the activation fused into it ("RELU"), "" for none."""
        activation = str(self.options.get("fusedActivationFunction", "NONE"))
        return "" if activation == "NONE" else activation


@dataclass(frozen=True, slots=True)
class Subgraph:
    """One graph of operators: the main one, or the body of a loop or a branch."""

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def makers(self) -> dict[int, Op]:
        """Returns the operator that writes each computed tensor, by the tensor's index."""
        return {index: op for op in self.ops for index in op.outputs}

    def readers(self) -> dict[int, tuple[Op, ...]]:
        """Returns the operators that read each tensor, by its index; tensors that none reads are left out."""
        found: dict[int, list[Op]] = {}
        for op in self.ops:
            for index in dict.fromkeys(op.inputs):
                if index >= 0:
                    found.setdefault(index, []).append(op)
        return {index: tuple(ops) for index, ops in found.items()}

    def by_name(self) -> dict[str, Tensor]:
        """Returns the tensors by name, the last one of those that share a name."""
        return {tensor.name: tensor for tensor in self.tensors}

    def operands(self, op: Op) -> tuple[Tensor, ...]:
        """Returns the inputs of an operator without the omitted ones."""
        return tuple(self.tensors[index] for index in op.inputs if index >= 0)


@dataclass(frozen=True, slots=True)
class Signature:
    """A named way to call a file: what each input and output is called, and its tensor's index.

    Attributes:
        key: Its name, "serving_default" for most.
        inputs: Tensor indices by name.
        outputs: Tensor indices by name.
        subgraph: Place of the graph that it calls.
    """

    key: str
    inputs: Mapping[str, int] = field(hash=False)
    outputs: Mapping[str, int] = field(hash=False)
    subgraph: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole file.

    Attributes:
        subgraphs: The main graph first.
        size_bytes: Size of the file.
        sha256: Hash of the file, in hex.
        schema_version: 3 for every file of today.
        description: What the writer says of itself.
        signatures: In the file's order.
        metadata: What the writer added, by name.
    """

    subgraphs: tuple[Subgraph, ...]
    size_bytes: int
    sha256: str
    schema_version: int
    description: str
    signatures: tuple[Signature, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=_empty, hash=False)

    @property
    def main(self) -> Subgraph:
        """Returns the graph that an interpreter runs."""
        return self.subgraphs[0]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Returns the model's inputs, in order."""
        return tuple(self.main.tensors[i] for i in self.main.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Returns the model's outputs, in order."""
        return tuple(self.main.tensors[i] for i in self.main.outputs)

    def all_ops(self) -> Iterator[tuple[Subgraph, Op]]:
        """Yields every operator with the subgraph that holds it."""
        for subgraph in self.subgraphs:
            for op in subgraph.ops:
                yield subgraph, op

    @property
    def integer(self) -> bool:
        """Returns whether the file computes with quantised numbers anywhere but in its weights."""
        return numbers(self) in ("int8", "int16x8")

    def float_islands(self) -> tuple[tuple[Op, ...], ...]:
        """Returns runs of float operators inside a quantised file, in execution order; () for a float file."""
        if not self.integer:
            return ()
        islands: list[list[Op]] = []
        for subgraph in self.subgraphs:
            previous_float = False
            for op in subgraph.ops:
                is_float = op.dtype in FLOAT_DTYPES and op.name not in TYPE_CHANGES
                if is_float and not previous_float:
                    islands.append([])
                if is_float:
                    islands[-1].append(op)
                previous_float = is_float
        return tuple(tuple(island) for island in islands)


def numbers(graph: Graph) -> str:
    """Returns what a file computes with, in the words of `--quantize`.

    What is quantised while the file runs decides. Integer weights that are only stored, and become float before any
    operator computes with them, make no integer file; float16 weights stored like this are named, since no other
    word of `--quantize` says so.
    """
    codes = _codes(graph)
    if codes:
        ends = {tensor.dtype for tensor in (*graph.inputs, *graph.outputs)}
        return "int16x8" if "int16" in ends or codes == {"int16"} else "int8"
    hybrid = (op for _, op in graph.all_ops() if op.dtype in FLOAT_DTYPES and op.name not in TYPE_CHANGES)
    if any(op.weights in _SMALL_WEIGHTS for op in hybrid):
        return "dynamic"
    halves = (tensor for subgraph in graph.subgraphs for tensor in subgraph.tensors if tensor.dtype == "float16")
    return "float16" if any(halves) else "float32"


def stored_weights(graph: Graph) -> str:
    """Returns the integer type of weights that DEQUANTIZE turns into floats before use, "" where there are none."""
    for subgraph, op in graph.all_ops():
        for tensor in subgraph.operands(op):
            if op.name == "DEQUANTIZE" and tensor.constant and tensor.dtype in _SMALL_WEIGHTS:
                return tensor.dtype
    return ""


def _codes(graph: Graph) -> set[str]:
    """The types of quantised numbers that are computed or computed with, or go into the file or come out of it."""
    found = {t.dtype for t in (*graph.inputs, *graph.outputs) if _quantized(t)}
    for subgraph, op in graph.all_ops():
        computed = [tensor for tensor in subgraph.operands(op) if not tensor.constant]
        if op.name == "QUANTIZE" and computed:
            found |= {subgraph.tensors[index].dtype for index in op.outputs}
        elif op.name not in TYPE_CHANGES:
            found |= {tensor.dtype for tensor in computed if _quantized(tensor)}
    return found


def _quantized(tensor: Tensor) -> bool:
    return tensor.quantization is not None and tensor.dtype in INTEGER_DTYPES


def _unpacked(data: memoryview, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Several elements share a byte, the first in its lowest bits."""
    bits = _PACKED_BITS[dtype]
    rows = np.frombuffer(data, np.uint8)[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)
    codes = (rows & (2**bits - 1)).reshape(-1)[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
    half = 2 ** (bits - 1)
    values = codes if dtype.startswith("u") else ((codes ^ half).astype(np.int8) - np.int8(half))
    values.flags.writeable = False
    return values

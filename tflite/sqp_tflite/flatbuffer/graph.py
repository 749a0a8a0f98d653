"""A TFLite file as immutable data: what `inspect` returns and what the audit judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FLOAT_DTYPES = ("float16", "float32", "float64", "bfloat16")
INTEGER_DTYPES = ("int4", "int8", "uint8", "int16")


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
        constant_bytes: Size of the data in the file, 0 for a tensor computed at run time.
        open: Places of the dimensions that may be resized; () in a file of fixed shapes.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None
    constant_bytes: int = 0
    open: tuple[int, ...] = ()

    @property
    def constant(self) -> bool:
        """Returns whether the value stands in the file."""
        return self.constant_bytes > 0

    @property
    def elements(self) -> int:
        """Returns the number of elements, unknown dimensions counted as 1."""
        count = 1
        for size in self.shape:
            count *= max(size, 1)
        return count


@dataclass(frozen=True, slots=True)
class Op:
    """One operator in execution order.

    Attributes:
        index: Its place in the subgraph.
        name: As the schema spells it (`FULLY_CONNECTED`); a custom op as `CUSTOM:its_code`.
        version: The version of the operator that the file asks for.
        inputs: Tensor indices, -1 for an input left out.
        outputs: Tensor indices.
        dtype: The type that decides whether a kernel exists: that of the first computed input.
        weights: The type of its first constant operand with more than one dimension, "" where there is none.
        fused: The activation fused into it ("RELU"), "" for none.
    """

    index: int
    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: str
    weights: str = ""
    fused: str = ""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """One graph of operators: the main one, or the body of a loop or a branch."""

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole file.

    Attributes:
        subgraphs: The main graph first.
        size_bytes: Size of the file.
        sha256: Hash of the file, in hex.
        schema_version: 3 for every file of today.
        description: What the writer says of itself.
    """

    subgraphs: tuple[Subgraph, ...]
    size_bytes: int
    sha256: str
    schema_version: int
    description: str

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
        """Yields every operator with the subgraph that it stands in."""
        for subgraph in self.subgraphs:
            for op in subgraph.ops:
                yield subgraph, op

    @property
    def integer(self) -> bool:
        """Returns whether the file computes with quantised numbers anywhere but in its weights."""
        return any(op.dtype in INTEGER_DTYPES for _, op in self.all_ops())

    def float_islands(self) -> tuple[tuple[Op, ...], ...]:
        """Returns runs of float operators inside a quantised file, in execution order; () for a float file."""
        if not self.integer:
            return ()
        islands: list[list[Op]] = []
        for subgraph in self.subgraphs:
            previous_float = False
            for op in subgraph.ops:
                is_float = op.dtype in FLOAT_DTYPES and op.name not in ("QUANTIZE", "DEQUANTIZE")
                if is_float and not previous_float:
                    islands.append([])
                if is_float:
                    islands[-1].append(op)
                previous_float = is_float
        return tuple(tuple(island) for island in islands)

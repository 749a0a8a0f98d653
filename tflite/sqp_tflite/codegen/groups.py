"""Elementwise operators gathered around the loop that makes their operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen import expressions as ex
from sqp_tflite.codegen.elementwise import elementwise
from sqp_tflite.codegen.expressions import FLOAT, INT, Expr
from sqp_tflite.codegen.fused import LAST, MADE, SAME, SCALAR, Operand, type_of
from sqp_tflite.codegen.kernels import Kernel
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor

CODES = np.arange(-128, 128)


@dataclass(slots=True)
class Group:
    """One loop over a shape, and what it computes.

    Attributes:
        elements: Of the shape.
        channels: Of its inner loop.
        kernel: Makes the first value; None where all are operands.
        ops: The operators, in order.
        operands: What is read element by element, by the leaf's name.
        values: Every value of the loop, by its tensor.
        functions: For values that depend on one int8 tensor only: that tensor, and the value for each of its codes.
        largest: A value, and the tensor of its maxima over windows, which then is the only result.
    """

    elements: int
    channels: int
    kernel: Kernel | None = None
    ops: list[Op] = field(default_factory=list)
    operands: dict[str, Operand] = field(default_factory=dict)
    values: dict[int, Expr] = field(default_factory=dict)
    functions: dict[int, tuple[int, NDArray[Any]]] = field(default_factory=dict)
    largest: tuple[int, int] | None = None

    def begin(self, tensor: Tensor, op: Op) -> None:
        """Makes the kernel's output the first value."""
        self.ops.append(op)
        self.values[tensor.index] = ex.leaf(MADE, type_of(tensor))
        self._root(tensor)

    def reading(self, tensor: Tensor, output: Tensor) -> str:
        """Returns how a tensor would be read in this loop, "" if it can't be.

        Args:
            tensor: An operand of an operator.
            output: The operator's output.
        """
        if tensor.index in self.values:
            return SAME
        return reading(tensor, output, self.elements, self.channels)

    def add(self, op: Op, graph: Subgraph, roots: Sequence[Tensor]) -> None:
        """Adds an operator all of whose operands can be read in this loop.

        Args:
            op: The operator.
            graph: The graph that holds it.
            roots: Its operands, in place of aliases the tensors that they are aliases of.
        """
        output = graph.tensors[op.outputs[0]]
        self.ops.append(op)
        args = [self._argument(tensor, output) for tensor in roots]
        self.values[output.index] = elementwise(op, graph, args)
        self._function(op, graph, roots, output)

    def _argument(self, tensor: Tensor, output: Tensor) -> Expr:
        if tensor.index in self.values:
            return self.values[tensor.index]
        fixed = constant(tensor)
        if fixed is not None:
            return fixed
        if tensor.constant and len(tensor.shape) == 1 and output.index not in self.values and tensor.elements > 1:
            how = reading(tensor, output, self.elements, self.channels)
        else:
            how = self.reading(tensor, output)
        name = f"t{tensor.index}{how}"
        self.operands[name] = Operand(tensor.index, how)
        made = ex.leaf(name, type_of(tensor))
        if how == SAME:
            self.values[tensor.index] = made
            self._root(tensor)
        return made

    def _root(self, tensor: Tensor) -> None:
        if tensor.dtype == "int8":
            self.functions[tensor.index] = (tensor.index, CODES)

    def _function(self, op: Op, graph: Subgraph, roots: Sequence[Tensor], output: Tensor) -> None:
        """Makes a table of a value that depends on one int8 tensor only."""
        computed = [tensor for tensor in roots if constant(tensor) is None and not _is_table(op, tensor)]
        known = [self.functions.get(tensor.index) for tensor in computed]
        sources = {one[0] for one in known if one is not None}
        if not known or None in known or len(sources) != 1:
            self._root(output)
            return
        source = sources.pop()
        given, args = {}, []
        for place, tensor in enumerate(roots):
            fixed = constant(tensor)
            args.append(fixed if fixed is not None else ex.leaf(f"x{place}", type_of(tensor)))
            if fixed is None and tensor.index in self.functions:
                given[f"x{place}"] = self.functions[tensor.index][1]
        made = ex.evaluate(elementwise(op, graph, args), given)
        made = np.broadcast_to(made, CODES.shape)
        self.functions[output.index] = (source, made)
        if output.dtype in ("int8", "uint8", "int16"):
            self.values[output.index] = _table(self.values[source], made.astype(output.dtype), output.dtype)


def _is_table(op: Op, tensor: Tensor) -> bool:
    return op.name == "GATHER" and tensor.constant


def _table(source: Expr, entries: NDArray[Any], dtype: str) -> Expr:
    """A lookup, or what is shorter: the code itself, or a clip of it."""
    low, high = int(entries.min()), int(entries.max())
    if np.array_equal(entries, np.clip(CODES, low, high)):
        return source if (low, high) == (-128, 127) else ex.clip(source, low, high)
    return ex.lookup(source, entries, -128)


def constant(tensor: Tensor) -> Expr | None:
    """Returns a constant of one value as an expression, None for any other tensor."""
    values = tensor.values if tensor.constant else None
    if values is None or not values.size or not (values == values.reshape(-1)[0]).all() or values.dtype.kind == "b":
        return None
    if values.size > 1 and not np.array_equal(
        np.signbit(values), np.broadcast_to(np.signbit(values.flat[0]), values.shape)
    ):
        return None
    first = values.reshape(-1)[0]
    if type_of(tensor) == FLOAT:
        return ex.real(float(first)) if np.isfinite(first) else None
    return Expr("const", INT, (), (int(first),))


def reading(tensor: Tensor, output: Tensor, elements: int, channels: int) -> str:
    """Returns how a tensor is read in a loop over an output: "same", "last", "scalar", or "" if it can't be.

    Args:
        tensor: An operand.
        output: What is computed.
        elements: How many elements the loop makes.
        channels: How many elements its inner loop makes.
    """
    if constant(tensor) is not None or tensor.elements == 1:
        return SCALAR
    if tensor.elements == elements:
        return SAME
    size = tensor.shape[-1] if tensor.shape else 1
    if size == tensor.elements == channels and output.shape and output.shape[-1] == size:
        return LAST
    return ""


def loop(channels: int, output: Tensor) -> int:
    """Returns how many elements the inner loop of a group without a kernel makes: the last dimension."""
    return output.shape[-1] if output.shape else channels


def size(shape: Sequence[int]) -> int:
    """Returns the number of elements of a shape."""
    return math.prod(max(one, 1) for one in shape)

"""Which module writes each operator that has loops of its own; one line per operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqp_tflite.codegen import expressions as ex
from sqp_tflite.codegen.arithmetic import RANGES
from sqp_tflite.codegen.dense import conv_2d, fully_connected
from sqp_tflite.codegen.depthwise import depthwise_conv_2d
from sqp_tflite.codegen.elementwise import elementwise
from sqp_tflite.codegen.fused import Sink, type_of
from sqp_tflite.codegen.groups import constant
from sqp_tflite.codegen.kernels import Kernel
from sqp_tflite.codegen.matrices import batch_matmul, transpose_conv
from sqp_tflite.codegen.moving import strides
from sqp_tflite.codegen.pooling import pool_2d, reduction
from sqp_tflite.codegen.printing import Printer, Range
from sqp_tflite.codegen.rearranging import MOVERS
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import Source
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor

KERNELS: Mapping[str, Callable[[Op, Subgraph], Kernel]] = {
    "AVERAGE_POOL_2D": pool_2d,
    "BATCH_MATMUL": batch_matmul,
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "FULLY_CONNECTED": fully_connected,
    "MAX_POOL_2D": pool_2d,
    "MEAN": reduction,
    "REDUCE_MAX": reduction,
    "SUM": reduction,
    "TRANSPOSE_CONV": transpose_conv,
}

__all__ = ["KERNELS", "MOVERS", "Broadcast", "broadcast"]


@dataclass(frozen=True, slots=True)
class Broadcast(Kernel):
    """An elementwise operator whose operands are repeated along axes.

    Attributes:
        op: The operator.
        graph: The graph that holds it.
        target: Its output.
    """

    op: Op
    graph: Subgraph
    target: Tensor

    @property
    def reads(self) -> tuple[int, ...]:
        """Returns the computed tensors that it reads."""
        return tuple(dict.fromkeys(t.index for t in self.graph.operands(self.op) if not t.constant))

    @property
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""
        return RANGES.get(self.target.dtype)

    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        shape = self.target.shape
        letters = [*(f"i{axis}" for axis in range(len(shape) - 1)), "c"]
        lines = [f"int32_t {', '.join(letters)}, o = 0;"]
        lines += [
            f"for ({letter} = 0; {letter} < {size}; {letter}++) {{" for letter, size in zip(letters, shape, strict=True)
        ]
        args: list[ex.Expr] = []
        given: dict[str, str] = {}
        ranges: dict[str, Range] = {}
        for place, tensor in enumerate(self.graph.operands(self.op)):
            fixed = constant(tensor)
            args.append(fixed if fixed is not None else ex.leaf(f"x{place}", type_of(tensor)))
            if fixed is not None:
                continue
            pointer = source.pointer(tensor, names)
            kind = "float" if type_of(tensor) == ex.FLOAT else "int32_t"
            lines.append(f"const {kind} b{place} = {pointer}[{self._at(tensor, letters)}];")
            given[f"x{place}"] = f"b{place}"
            ranges |= {f"x{place}": RANGES[tensor.dtype]} if tensor.dtype in RANGES else {}
        printer = Printer(source.call, source.constant, given, ranges, letter="u")
        text = printer.text(elementwise(self.op, self.graph, args))
        kind = "float" if type_of(self.target) == ex.FLOAT else "int32_t"
        lines += [*printer.lines, f"const {kind} z = {text};", "{", *sink.store("o", "c", "z"), "}", "}"]
        return [*lines, f"o += {shape[-1]};" if len(shape) > 1 else "", *["}"] * (len(shape) - 1)]

    def _at(self, tensor: Tensor, letters: list[str]) -> str:
        held = (1,) * (len(letters) - len(tensor.shape)) + tensor.shape
        steps = strides(held)
        terms = [f"{letter} * {step}" for letter, size, step in zip(letters, held, steps, strict=True) if size > 1]
        return " + ".join(terms) or "0"


def broadcast(op: Op, graph: Subgraph) -> Broadcast:
    """Returns an elementwise operator with loops over every axis."""
    output = graph.tensors[op.outputs[0]]
    if not output.shape or any(len(tensor.shape) > len(output.shape) for tensor in graph.operands(op)):
        refuse(op, "repeats operands along the axes of its output", [t.shape for t in graph.operands(op)])
    return Broadcast(op, graph, output)

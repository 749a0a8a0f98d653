"""BATCH_MATMUL and TRANSPOSE_CONV: products whose places depend on both operands, written without unrolling."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import RANGES, multiplier, scale, zero_point
from sqp_tflite.codegen.dense import ITEM
from sqp_tflite.codegen.fused import Sink
from sqp_tflite.codegen.kernels import Kernel, OneInput
from sqp_tflite.codegen.moving import strides
from sqp_tflite.codegen.printing import Printer, Range, int_literal, wide_text
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import C_TYPES, Source
from sqp_tflite.codegen.sums import Sums, clipped, sums
from sqp_tflite.codegen.windows import bias_of, values_of
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor


@dataclass(frozen=True, slots=True)
class Matrices(Kernel):
    """Products of matrices, (..., rows, taps) times (..., taps, columns).

    Attributes:
        left: The first operand.
        right: The second.
        target: The output.
        turned: Whether each operand is stored with its last two axes exchanged.
    """

    left: Tensor
    right: Tensor
    target: Tensor
    turned: tuple[bool, bool]

    @property
    def reads(self) -> tuple[int, ...]:
        """Returns the computed tensors that it reads."""
        return tuple(dict.fromkeys(tensor.index for tensor in (self.left, self.right) if not tensor.constant))

    @property
    def taps(self) -> int:
        """Returns how many products each sum has."""
        return self.left.shape[-2 if self.turned[0] else -1]

    @property
    def macs(self) -> int:
        """Returns its multiplications with an addition."""
        return self.target.elements * self.taps

    @property
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""
        return RANGES.get(self.target.dtype)

    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        type_ = C_TYPES[self.left.dtype]
        floating, wide = type_ == "float", type_ == "int16_t"
        letters = [f"i{axis}" for axis in range(len(self.target.shape) - 1)]
        lines = [f"int32_t {', '.join(letters)}, c, k, o = 0;"]
        lines += [f"for ({i} = 0; {i} < {size}; {i}++) {{" for i, size in zip(letters, self.target.shape, strict=False)]
        lines.append(f"for (c = 0; c < {self.channels}; c++) {{")
        steps = []
        for name, tensor, turned, last in (("l", self.left, self.turned[0], 0), ("r", self.right, self.turned[1], 1)):
            pointer = source.pointer(tensor, names)
            place, step = self._place(tensor, turned, letters, last)
            lines.append(f"const {type_} *{name} = {pointer} + {place};")
            steps.append(f"{name} += {step};")
        held = "float" if floating else "int64_t" if wide else "int32_t"
        lines.append(f"{held} t = {'0.0f' if floating else '0'};")
        factors = [_centred(name, tensor, held) for name, tensor in (("*l", self.left), ("*r", self.right))]
        lines += [f"for (k = 0; k < {self.taps}; k++) {{", f"t += {' * '.join(factors)};", *steps, "}", "{"]
        lines.append(f"const {'float' if floating else 'int32_t'} z = {self._end(source, floating, wide)};")
        return [*lines, *sink.store("o", "c", "z"), "}", "}", f"o += {self.channels};", *["}"] * len(letters)]

    def _place(self, tensor: Tensor, turned: bool, letters: list[str], last: int) -> tuple[str, int]:
        """C text of where a sum begins in an operand, and how far its next factor is."""
        rank = len(letters) + 1
        shape = (1,) * (rank - len(tensor.shape)) + tensor.shape
        held = strides(shape)
        terms = [f"{letters[axis]} * {held[axis]}" for axis in range(rank - 2) if shape[axis] > 1]
        row, column = (held[-1], held[-2]) if turned else (held[-2], held[-1])
        terms.append(f"c * {column}" if last else f"{letters[-1]} * {row}")
        return " + ".join(terms), row if last else column

    def _end(self, source: Source, floating: bool, wide: bool) -> str:
        if floating:
            return "t"
        product = float(np.float32(scale(self.left)) * np.float32(scale(self.right)))
        by = multiplier(product / scale(self.target))
        low, high = RANGES[self.target.dtype]
        size = self.taps * 255 * 255
        printer = Printer(source.call, source.constant, {}, {})
        text = wide_text("t", by) if wide else printer.requantized("t", (-size, size), by)
        zero = zero_point(self.target)
        return clipped(source, f"{text} + {int_literal(zero)}" if zero else text, (low, high))


def _centred(name: str, tensor: Tensor, held: str) -> str:
    if held == "float":
        return name
    zero = zero_point(tensor)
    return f"(({held}){name} - {int_literal(zero)})" if zero else f"({held}){name}"


def batch_matmul(op: Op, graph: Subgraph) -> Matrices:
    """Returns a product of matrices."""
    left, right, target = (graph.tensors[index] for index in (*op.inputs[:2], op.outputs[0]))
    if left.dtype not in ITEM or not left.dtype == right.dtype == target.dtype:
        refuse(op, "takes float32, int8 or int16, both of one type, here", f"{left.dtype} and {right.dtype}")
    if min(len(left.shape), len(right.shape)) < 2 or len(target.shape) < max(len(left.shape), len(right.shape)):
        refuse(op, "needs two dimensions or more", f"{left.shape} and {right.shape}")
    turned = (bool(op.options.get("adjX", False)), bool(op.options.get("adjY", False)))
    return Matrices(left, right, target, turned)


@dataclass(frozen=True, slots=True)
class Transposed(OneInput):
    """A transposed convolution: each output gathers the inputs whose windows reach it.

    Attributes:
        source: Its input.
        target: Its output.
        taps: The weights, shape (output channels, y, x, input channels).
        bias: Of floats, shape (output channels,).
        sums: The ends of integer sums; None for floats.
        stride: Along y and x.
        before: How far the first window begins before the output, along y and x.
    """

    source: Tensor
    target: Tensor
    taps: NDArray[Any]
    bias: NDArray[Any]
    sums: Sums | None
    stride: tuple[int, int]
    before: tuple[int, int]

    @property
    def macs(self) -> int:
        """Returns its multiplications with an addition."""
        return int(np.prod(self.source.shape[:3])) * int(self.taps.size)

    @property
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""
        return self.sums.range if self.sums else None

    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        type_, integer = C_TYPES[self.source.dtype], self.sums
        batch, height, width, depth = self.source.shape
        _, high, wide, channels = self.target.shape
        held = "float" if integer is None else integer.type
        weights = source.constant(self.taps, "weights")
        lines = ["int32_t n, y, x, c, i, j, k, o = 0;", f"for (n = 0; n < {batch}; n++) {{"]
        lines += [f"for (y = 0; y < {high}; y++) {{", *_reach("y", 0, self, height)]
        lines += [f"for (x = 0; x < {wide}; x++) {{", *_reach("x", 1, self, width)]
        if integer is not None:
            wider = "int64_t" if integer.type == "int64_t" else "int32_t"
            lines.append(f"const {wider} *q = {integer.parameters(source)};")
        lines += [f"for (c = 0; c < {channels}; c++) {{", f"{held} t = {'0.0f' if integer is None else 'q[0]'};"]
        lines += ["for (i = y0; i < y1; i++) {", "for (j = x0; j < x1; j++) {"]
        lines.append(f"const {type_} *f = {names[self.source.index]} + ((n * {height} + i) * {width} + j) * {depth};")
        row = f"(c * {self.taps.shape[1]} + yb - i * {self.stride[0]}) * {self.taps.shape[2]}"
        kind = "float" if integer is None else "int8_t"
        lines.append(f"const {kind} *w = {weights} + ({row} + xb - j * {self.stride[1]}) * {depth};")
        factor = "f[k]" if integer is None else _centred("f[k]", self.source, held)
        lines += [f"for (k = 0; k < {depth}; k++) t += {factor} * w[k];", "}", "}", "{", self._end(source)]
        lines += [*sink.store("o", "c", "z"), "}"]
        lines += [f"q += {integer.stride};"] if integer is not None else []
        return [*lines, "}", f"o += {channels};", "}", "}", "}"]

    def _end(self, source: Source) -> str:
        if self.sums is None:
            biased = f"t + {source.constant(self.bias, 'weights')}[c]" if self.bias.any() else "t"
            return f"const float z = {biased};"
        return f"const int32_t z = {clipped(source, self.sums.code(source, 't', 'q'), self.sums.limits)};"


def _reach(letter: str, axis: int, conv: Transposed, size: int) -> list[str]:
    """The inputs whose windows reach an output along an axis: from y0 up to y1."""
    stride, before, taps = conv.stride[axis], conv.before[axis], conv.taps.shape[1 + axis]
    past = taps - stride
    return [
        f"const int32_t {letter}b = {letter} + {before};",
        f"const int32_t {letter}0 = {letter}b < {taps} ? 0 : ({letter}b - {past}) / {stride};"
        if past >= 0
        else f"const int32_t {letter}0 = {letter}b < {taps} ? 0 : ({letter}b + {-past}) / {stride};",
        f"const int32_t {letter}1 = {letter}b / {stride} + 1 < {size} ? {letter}b / {stride} + 1 : {size};",
    ]


def transpose_conv(op: Op, graph: Subgraph) -> Transposed:
    """Returns a transposed convolution."""
    weights, source, target = graph.tensors[op.inputs[1]], graph.tensors[op.inputs[2]], graph.tensors[op.outputs[0]]
    if source.dtype not in ITEM or target.dtype != source.dtype or op.fused:
        refuse(op, "takes and makes float32, int8 or int16, without an activation, here", f"{source.dtype} {op.fused}")
    floating = source.dtype == "float32"
    taps = values_of(op, weights, "float32" if floating else "int8")
    stride = (int(op.options["strideH"]), int(op.options["strideW"]))
    before = []
    for axis in (0, 1):
        size, out = source.shape[1 + axis], target.shape[1 + axis]
        missing = max((size - 1) * stride[axis] + taps.shape[1 + axis] - out, 0)
        before.append(missing // 2 if op.options.get("padding") == "SAME" else 0)
    shifted = dataclasses.replace(op, inputs=(op.inputs[2], op.inputs[1], *op.inputs[3:4]))
    kind = "float32" if floating else "int64" if source.dtype == "int16" else "int32"
    bias = bias_of(shifted, graph, len(taps), kind)
    ends = None
    if not floating:
        ends = sums(op, source, weights, target, taps.reshape(len(taps), -1), bias)
        ends = dataclasses.replace(ends, bias=bias.astype(np.int64))
    return Transposed(source, target, taps, bias, ends, stride, (before[0], before[1]))

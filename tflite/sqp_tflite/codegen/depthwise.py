"""DEPTHWISE_CONV_2D: a window of its own for each channel, over rows of the input that carry their border with them.

Where windows reach over the border, the rows that one row of outputs needs are copied side by side with their border,
so that every window lies inside. The input is not read again then, and the output may overwrite it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import zero_point
from sqp_tflite.codegen.dense import ITEM
from sqp_tflite.codegen.fused import Sink
from sqp_tflite.codegen.kernels import OneInput
from sqp_tflite.codegen.printing import Range, int_literal
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import C_TYPES, Source
from sqp_tflite.codegen.sums import Sums, clipped, float_end, sums
from sqp_tflite.codegen.windows import Window, bias_of, values_of, window
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor

_MOST_UNROLLED = 32


@dataclass(frozen=True, slots=True)
class Depthwise(OneInput):
    """A depthwise convolution.

    Attributes:
        op: The operator.
        source: Its input.
        target: Its output.
        taps: The weights, shape (output channels, taps along y, taps along x).
        bias: Of floats, shape (output channels,).
        sums: The ends of integer sums; None for floats.
        window: How the window moves.
    """

    op: Op
    source: Tensor
    target: Tensor
    taps: NDArray[Any]
    bias: NDArray[Any]
    sums: Sums | None
    window: Window

    @property
    def channels(self) -> int:
        """Returns how many elements its inner loop makes."""
        return self.window.out_channels

    @property
    def _row(self) -> int:
        """Elements of a row with its border."""
        w = self.window
        return (w.x.size + w.x.before + max(w.x.after, 0)) * w.channels if w.padded else w.x.size * w.channels

    @property
    def scratch(self) -> int:
        """Returns the bytes that it needs while it runs."""
        return -(-self.window.y.reach * self._row * ITEM[self.source.dtype] // 8) * 8 if self.window.padded else 0

    @property
    def macs(self) -> int:
        """Returns its multiplications with an addition."""
        w = self.window
        return w.batch * w.y.out * w.x.out * int(self.taps.size)

    @property
    def in_place(self) -> bool:
        """Returns whether its output may lie where its input does."""
        w = self.window
        row, made = w.x.size * w.channels, w.x.out * w.out_channels
        behind = all((y + 1) * made <= (y * w.y.stride - w.y.before + w.y.reach) * row for y in range(w.y.out))
        return w.padded and behind and w.batch == 1

    @property
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""
        return self.sums.range if self.sums else None

    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        w, type_ = self.window, C_TYPES[self.source.dtype]
        given = names[self.source.index]
        lines, closing = ["int32_t c, x, y, o = 0;"], ["}", "}"]
        if w.batch > 1:
            lines += ["int32_t n;", f"for (n = 0; n < {w.batch}; n++) {{"]
            closing.append("}")
            given = f"({given} + n * {w.y.size * w.x.size * w.channels})"
        if w.padded:
            lines += [f"{type_} *const s = ({type_} *){scratch};", "int32_t next = 0;"]
            lines += [f"for (y = 0; y < {w.y.out}; y++) {{", *self._fill(type_, given)]
        else:
            lines += [f"for (y = 0; y < {w.y.out}; y++) {{"]
        for tap in range(w.y.kernel) if self._unrolled else ():
            lines.append(f"const {type_} *r{tap} = {self._row_at(given, str(tap * w.y.dilation))};")
        lines.append(f"for (x = 0; x < {w.x.out}; x++) {{")
        lines += self._channels(source, given, type_, sink)
        step = w.x.stride * w.channels
        if self._unrolled:
            left = step - w.channels
            lines += [f"r{tap} += {left};" for tap in range(w.y.kernel) if left]
        return [*lines, f"o += {w.out_channels};", *closing]

    @property
    def _unrolled(self) -> bool:
        return self.window.y.kernel * self.window.x.kernel <= _MOST_UNROLLED

    def _row_at(self, given: str, tap: str) -> str:
        """C text of the beginning of the row that a tap along y reads."""
        w = self.window
        begin = f"y * {w.y.stride} + {tap}" if tap != "0" else f"y * {w.y.stride}"
        return f"s + ({begin}) % {w.y.reach} * {self._row}" if w.padded else f"{given} + ({begin}) * {self._row}"

    def _fill(self, type_: str, given: str) -> list[str]:
        """Copies the rows that this row of outputs needs and that are not there yet, numbered from the border on."""
        w = self.window
        zero = "0.0f" if self.sums is None else int_literal(zero_point(self.source))
        left, width = w.x.before * w.channels, w.x.size * w.channels
        lines = [f"for (; next < y * {w.y.stride} + {w.y.reach}; next++) {{", "int32_t i;"]
        lines += [f"{type_} *const d = s + next % {w.y.reach} * {self._row};"]
        lines += [f"if (next < {w.y.before} || next >= {w.y.before + w.y.size}) {{"]
        lines += [f"for (i = 0; i < {self._row}; i++) d[i] = {zero};", "}", "else {"]
        lines += [f"const {type_} *const f = {given} + (next - {w.y.before}) * {width};"]
        lines += [f"for (i = 0; i < {left}; i++) d[i] = {zero};"] if left else []
        to = f"d[i + {left}]" if left else "d[i]"
        lines += [f"for (i = 0; i < {width}; i++) {to} = f[i];"]
        right = self._row - left - width
        lines += [f"for (i = {left + width}; i < {self._row}; i++) d[i] = {zero};"] if right else []
        return [*lines, "}", "}"]

    def _channels(self, source: Source, given: str, type_: str, sink: Sink) -> list[str]:
        w, integer = self.window, self.sums
        factor = w.out_channels // w.channels
        lines = [f"const {'float' if integer is None else 'int8_t'} *w = {source.constant(self.taps, 'weights')};"]
        if integer is not None:
            held = "int64_t" if integer.type == "int64_t" else "int32_t"
            lines.append(f"const {held} *q = {integer.parameters(source)};")
        lines.append(f"for (c = 0; c < {w.out_channels}; c++) {{")
        sum_type = "float" if integer is None else integer.type
        lines.append(f"{sum_type} t = {'0.0f' if integer is None else 'q[0]'};")
        lines += self._products(given, type_, sum_type, factor)
        lines += [*self._end(source), *sink.store("o", "c", "z")]
        if self._unrolled:
            moves = " ".join(f"r{tap}++;" for tap in range(w.y.kernel))
            lines.append(moves if factor == 1 else f"if (c % {factor} == {factor - 1}) {{ {moves} }}")
            lines.append(f"w += {w.y.kernel * w.x.kernel};")
        if integer is not None:
            lines.append(f"q += {integer.stride};")
        return [*lines, "}"]

    def _products(self, given: str, type_: str, sum_type: str, factor: int) -> list[str]:
        w = self.window
        cast = "" if sum_type == "float" else f"({sum_type})"
        if self._unrolled:
            places = [(i, j) for i in range(w.y.kernel) for j in range(w.x.kernel)]
            step = w.x.dilation * w.channels
            terms = [f"{cast}r{i}[{j * step}] * w[{i * w.x.kernel + j}]" for i, j in places]
            if sum_type == "float":
                return [f"t += {term};" for term in terms]
            return [f"t += {' + '.join(terms[at : at + 4])};" for at in range(0, len(terms), 4)]
        channel = "c" if factor == 1 else f"c / {factor}"
        begin = self._row_at(given, f"i * {w.y.dilation}")
        lines = ["int32_t i, j;", f"for (i = 0; i < {w.y.kernel}; i++) {{"]
        lines += [f"const {type_} *r = {begin} + x * {w.x.stride * w.channels} + {channel};"]
        lines += [f"for (j = 0; j < {w.x.kernel}; j++) {{", f"t += {cast}*r * *w++;"]
        lines += [f"r += {w.x.dilation * w.channels};", "}", "}"]
        return lines

    def _end(self, source: Source) -> list[str]:
        if self.sums is None:
            biased = "t"
            if self.bias.any() or np.signbit(self.bias).any():
                biased = f"t + {source.constant(self.bias, 'weights')}[c]"
            clips = float_end(self.op, "z")
            return [f"{'float' if clips else 'const float'} z = {biased};", *clips]
        text = self.sums.code(source, "t", "q")
        return [f"const int32_t z = {clipped(source, text, self.sums.limits)};"]


def depthwise_conv_2d(op: Op, graph: Subgraph) -> Depthwise:
    """Returns a depthwise convolution."""
    source, weights = graph.tensors[op.inputs[0]], graph.tensors[op.inputs[1]]
    output = graph.tensors[op.outputs[0]]
    if source.dtype not in ITEM or output.dtype != source.dtype:
        refuse(op, "takes and makes float32, int8 or int16 here", f"{source.dtype} to {output.dtype}")
    values = values_of(op, weights, "float32" if source.dtype == "float32" else "int8")
    if values.ndim != 4 or values.shape[0] != 1 or values.shape[3] % source.shape[-1]:
        refuse(op, "needs weights of (1, y, x, a multiple of the channels)", values.shape)
    taps = np.ascontiguousarray(values[0].transpose(2, 0, 1))
    geometry = window(op, source, output, (values.shape[1], values.shape[2]))
    if source.dtype == "float32":
        return Depthwise(op, source, output, taps, bias_of(op, graph, len(taps), "float32"), None, geometry)
    bias = bias_of(op, graph, len(taps), "int64" if source.dtype == "int16" else "int32")
    ends = sums(op, source, weights, output, taps.reshape(len(taps), -1), bias)
    return Depthwise(op, source, output, taps, bias, ends, geometry)

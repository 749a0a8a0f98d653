"""AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM and REDUCE_MAX: one number of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sqp_tflite.codegen.arithmetic import RANGES, Multiplier, code_limits, multiplier, scale, zero_point
from sqp_tflite.codegen.fused import Sink
from sqp_tflite.codegen.kernels import OneInput
from sqp_tflite.codegen.printing import Printer, Range, int_literal, wide_text
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import C_TYPES, Source
from sqp_tflite.codegen.sums import clipped, float_end
from sqp_tflite.codegen.windows import Window, window
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor

_TYPES = ("float32", "int8", "int16")


@dataclass(frozen=True, slots=True)
class Pool(OneInput):
    """The mean or the maximum of each window.

    Attributes:
        op: The operator.
        source: Its input.
        target: Its output.
        window: How the window moves.
    """

    op: Op
    source: Tensor
    target: Tensor
    window: Window

    @property
    def channels(self) -> int:
        """Returns how many elements its inner loop makes."""
        return self.window.channels

    @property
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""
        return None if self.source.dtype == "float32" else code_limits(self.op.fused, self.target)

    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        w, type_ = self.window, C_TYPES[self.source.dtype]
        given, closing = names[self.source.index], ["}", "}"]
        lines = ["int32_t c, x, y, i, j, o = 0;"]
        if w.batch > 1:
            lines += ["int32_t n;", f"for (n = 0; n < {w.batch}; n++) {{"]
            closing.append("}")
            given = f"({given} + n * {w.y.size * w.x.size * w.channels})"
        for letter, axis in (("y", w.y), ("x", w.x)):
            begin = f"{letter} * {axis.stride} - {axis.before}" if axis.before else f"{letter} * {axis.stride}"
            lines.append(f"for ({letter} = 0; {letter} < {axis.out}; {letter}++) {{")
            lines.append(f"const int32_t {letter}b = {begin};")
            low = f"{letter}b < 0 ? 0 : {letter}b" if axis.before else f"{letter}b"
            lines.append(f"const int32_t {letter}0 = {low};")
            end = f"{letter}b + {axis.kernel}"
            high = f"{end} > {axis.size} ? {axis.size} : {end}" if axis.after > 0 else end
            lines.append(f"const int32_t {letter}1 = {high};")
        lines.append(f"for (c = 0; c < {w.channels}; c++) {{")
        lines.append(f"const {type_} *const f = {given} + c;")
        step = f"f[(i * {w.x.size} + j) * {w.channels}]"
        largest = self.op.name == "MAX_POOL_2D"
        floating = self.source.dtype == "float32"
        begin = f"f[(y0 * {w.x.size} + x0) * {w.channels}]" if largest else "0.0f" if floating else "0"
        lines.append(f"{'float' if floating else 'int32_t'} t = {begin};")
        lines += ["for (i = y0; i < y1; i++) {", "for (j = x0; j < x1; j++) {"]
        lines += [f"if ({step} > t) t = {step};" if largest else f"t += {step};", "}", "}", "{"]
        lines += [*self._end(source, largest, floating), *sink.store("o", "c", "z"), "}", "}"]
        return [*lines, f"o += {w.channels};", *closing]

    def _end(self, source: Source, largest: bool, floating: bool) -> list[str]:
        full = not self.window.padded
        count = str(self.window.y.kernel * self.window.x.kernel) if full else "m"
        lines = [] if full or largest else ["const int32_t m = (y1 - y0) * (x1 - x0);"]
        if floating:
            clips = float_end(self.op, "z")
            value = "t" if largest else f"t / (float){count}"
            return [*lines, f"{'float' if clips else 'const float'} z = {value};", *clips]
        value = "t" if largest else f"(t > 0 ? t + {count} / 2 : t - {count} / 2) / {count}"
        whole = self.made == RANGES[self.source.dtype]
        text = value if whole and largest else clipped(source, value, code_limits(self.op.fused, self.target))
        return [*lines, f"const int32_t z = {text};"]


def pool_2d(op: Op, graph: Subgraph) -> Pool:
    """Returns a pool."""
    source, output = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    if source.dtype not in _TYPES or output.dtype != source.dtype:
        refuse(op, "takes and makes float32, int8 or int16 here", f"{source.dtype} to {output.dtype}")
    if source.dtype == "int16" and op.name == "AVERAGE_POOL_2D":
        pass
    kernel = (int(op.options["filterHeight"]), int(op.options["filterWidth"]))
    return Pool(op, source, output, window(op, source, output, kernel))


@dataclass(frozen=True, slots=True)
class Reduction(OneInput):
    """The mean, the sum or the maximum over some axes that follow one another.

    Attributes:
        op: The operator.
        source: Its input.
        target: Its output.
        outer: Elements in front of the axes.
        inner: Elements over the axes.
        after: Elements behind them.
        by: The multiplier of integer sums; None for floats and for a maximum.
    """

    op: Op
    source: Tensor
    target: Tensor
    outer: int
    inner: int
    after: int
    by: Multiplier | None

    @property
    def channels(self) -> int:
        """Returns how many elements its inner loop makes."""
        return self.after

    @property
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""
        return None if self.source.dtype == "float32" else RANGES[self.source.dtype]

    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        floating, largest = self.source.dtype == "float32", self.op.name == "REDUCE_MAX"
        type_, given = C_TYPES[self.source.dtype], names[self.source.index]
        lines = ["int32_t c, i, o;", f"for (o = 0; o < {self.outer * self.after}; o += {self.after}) {{"]
        lines += [f"for (c = 0; c < {self.after}; c++) {{"]
        lines.append(f"const {type_} *f = {given} + o * {self.inner} + c;")
        lines.append(f"{'float' if floating else 'int32_t'} t = {'*f' if largest else '0.0f' if floating else '0'};")
        lines.append(f"for (i = 0; i < {self.inner}; i++) {{")
        lines += ["if (*f > t) t = *f;" if largest else "t += *f;", f"f += {self.after};", "}", "{"]
        kind = "float" if floating else "int32_t"
        lines.append(f"const {kind} z = {self._end(source, floating, largest)};")
        return [*lines, *sink.store("o", "c", "z"), "}", "}", "}"]

    def _end(self, source: Source, floating: bool, largest: bool) -> str:
        if floating or largest or self.by is None:
            return f"t / {float(self.inner)}f" if self.op.name == "MEAN" and floating else "t"
        low, high = RANGES[self.source.dtype]
        zero = zero_point(self.source)
        centred = f"(t - {int_literal(zero * self.inner)})" if zero else "t"
        size = max(abs(low - zero), abs(high - zero)) * self.inner
        printer = Printer(source.call, source.constant, {}, {})
        wide = self.source.dtype == "int16" and False
        text = wide_text(centred, self.by) if wide else printer.requantized(centred, (-size, size), self.by)
        target = zero_point(self.target)
        return clipped(source, f"{text} + {int_literal(target)}" if target else text, (low, high))


def reduction(op: Op, graph: Subgraph) -> Reduction:
    """Returns a mean, a sum or a maximum over axes."""
    source, output = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    axes = graph.tensors[op.inputs[1]].values
    if source.dtype not in _TYPES or output.dtype != source.dtype or axes is None:
        refuse(op, "takes float32, int8 or int16 and constant axes here", f"{source.dtype} to {output.dtype}")
    rank = len(source.shape)
    kept = sorted({int(axis) % rank for axis in np.asarray(axes).reshape(-1)})
    while kept and kept[0] > 0 and source.shape[kept[0] - 1] == 1 and kept[0] - 1 not in kept:
        kept.insert(0, kept[0] - 1)  # An axis of 1 may count as reduced.
    if kept != list(range(kept[0], kept[0] + len(kept))):
        refuse(op, "reduces axes that follow one another here", kept)
    outer = int(np.prod(source.shape[: kept[0]], dtype=np.int64))
    inner = int(np.prod(source.shape[kept[0] : kept[-1] + 1], dtype=np.int64))
    after = int(np.prod(source.shape[kept[-1] + 1 :], dtype=np.int64))
    by = None
    if source.dtype != "float32" and op.name != "REDUCE_MAX":
        by = multiplier(scale(source) / scale(output))
        by = _shared(by, inner) if op.name == "MEAN" else by
    return Reduction(op, source, output, outer, inner, after, by)


def _shared(by: Multiplier, count: int) -> Multiplier:
    """A multiplier over a count, in integers as TFLM divides it."""
    shift = min(count.bit_length() - 1, 32, 31 + by.shift)
    return Multiplier((by.value << shift) // count, by.shift - shift)

"""FULLY_CONNECTED and CONV_2D: rows of weights times a piece of the input, for each place of the output."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.arithmetic import zero_point
from sqp_tflite.codegen.fused import Sink
from sqp_tflite.codegen.kernels import OneInput
from sqp_tflite.codegen.printing import Range, int_literal
from sqp_tflite.codegen.products import Products, products
from sqp_tflite.codegen.refusal import refuse
from sqp_tflite.codegen.source import C_TYPES, Source
from sqp_tflite.codegen.sums import Sums, clipped, float_end, sums
from sqp_tflite.codegen.windows import Window, bias_of, values_of, window
from sqp_tflite.flatbuffer.graph import Op, Subgraph, Tensor

ITEM = {"int8": 1, "int16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Dense(OneInput):
    """A layer of products.

    Attributes:
        op: The operator.
        source: Its input.
        target: Its output.
        rows: The weights, shape (output channels, taps); of a group of channels after the other.
        bias: Of floats, shape (output channels,).
        sums: The ends of integer sums; None for floats.
        window: How the piece of input moves; None for a dense layer.
        places: How many pieces there are, for a dense layer.
        pool: Window of a maximum of the results, (1, 1) for none.
    """

    op: Op
    source: Tensor
    target: Tensor
    rows: NDArray[Any]
    bias: NDArray[Any]
    sums: Sums | None
    window: Window | None
    places: int
    pool: tuple[int, int] = (1, 1)

    @property
    def groups(self) -> int:
        """Returns how many groups of input channels have outputs of their own."""
        return 1 if self.window is None else self.window.channels // self._depth

    @property
    def _depth(self) -> int:
        taps = 1 if self.window is None else self.window.y.kernel * self.window.x.kernel
        return int(self.rows.shape[1]) // taps

    @property
    def channels(self) -> int:
        """Returns how many elements its inner loop makes."""
        return int(self.rows.shape[0])

    @property
    def _direct(self) -> bool:
        """Whether a piece of the input lies in memory as it is needed."""
        w = self.window
        if w is None:
            return True
        whole = w.x.kernel == w.x.size or w.y.kernel == 1
        apart = w.x.dilation > 1 or (w.y.dilation > 1 and w.y.kernel > 1)
        return not w.padded and whole and not apart and self.groups == 1

    @property
    def _patch_bytes(self) -> int:
        return 0 if self._direct else -(-self.rows.shape[1] * ITEM[self.source.dtype] // 8) * 8

    @property
    def scratch(self) -> int:
        """Returns the bytes that it needs while it runs."""
        return self._patch_bytes

    @property
    def macs(self) -> int:
        """Returns its multiplications with an addition."""
        places = self.places if self.window is None else self.window.batch * self.window.y.out * self.window.x.out
        return places * int(self.rows.size)

    @property
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""
        return self.sums.range if self.sums else None

    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements; as `Kernel.body`."""
        type_ = C_TYPES[self.source.dtype]
        packed = products(self.rows.reshape(self.groups, -1, self.rows.shape[1])[0], 4)
        packed = Products(self.rows, packed.block)
        given = names[self.source.index]
        lines = ["int32_t c, k, o = 0;", "(void)k;"]
        pointers, block = self._block(source, packed, sink)
        if self.window is None:
            loops, closing = ([f"for (o = 0; o < {self.places * self.channels}; o += {self.channels}) {{"], ["}"])
            if self.places == 1:
                loops, closing = ["{"], ["}"]
            piece = given if self.places == 1 else f"{given} + o / {self.channels} * {self.rows.shape[1]}"
            ends = [*pointers, *self._blocks(packed, block), *closing]
            return [*lines, *loops, f"const {type_} *const p = {piece};", *ends]
        return [*lines, *self._image(self.window, type_, given, scratch, (packed, pointers, block))]

    def _image(
        self, w: Window, type_: str, given: str, scratch: str, parts: tuple[Products, list[str], list[str]]
    ) -> list[str]:
        packed, pointers, block = parts
        lines, closing = ["int32_t x, y;"], ["}", "}"]
        if w.batch > 1:
            lines += ["int32_t n;", f"for (n = 0; n < {w.batch}; n++) {{"]
            closing.append("}")
        first = f"{given} + n * {w.y.size * w.x.size * w.channels}" if w.batch > 1 else given
        if self.pool == (1, 1):
            lines += [f"for (y = 0; y < {w.y.out}; y++) {{", f"for (x = 0; x < {w.x.out}; x++) {{"]
            closing = [f"o += {self.channels};", *closing]
        else:
            lines += self._pooled(w)
            last = f"i == {self.pool[0] * self.pool[1] - 1}"
            closing = [f"if ({last}) o += {self.channels};", *closing, "}"]
        if self._direct:
            row = w.x.size * w.channels
            lines.append(f"const {type_} *const p = {first} + y * {w.y.stride * row} + x * {w.x.stride * w.channels};")
            return [*lines, *pointers, *self._blocks(packed, block), *closing]
        lines.append(f"{type_} *const s = ({type_} *){scratch};")
        lines.append(f"const {type_} *const p = s;")
        if self.groups == 1:
            return [*lines, *self._gather(w, type_, first), *pointers, *self._blocks(packed, block), *closing]
        # The weights go on from group to group; each has a piece of its own.
        own = self.channels // self.groups
        return [
            *lines,
            "int32_t part;",
            *pointers,
            f"for (part = 0; part < {self.groups}; part++) {{",
            *self._gather(w, type_, f"{first} + part * {self._depth}"),
            *self._blocks(packed, block, f"part * {own}", f"(part + 1) * {own}"),
            "}",
            *closing,
        ]

    def _blocks(self, packed: Products, block: list[str], begin: str = "0", end: str = "") -> list[str]:
        """Returns the loop over the blocks of some channels, of all by default."""
        return [f"for (c = {begin}; c < {end or self.channels}; c += {packed.block}) {{", *block, "}"]

    def _pooled(self, w: Window) -> list[str]:
        """Loops over the windows of the maximum, and in them over their places, of which `i` is the number."""
        high, wide = self.pool
        return [
            "int32_t i, yp, xp;",
            f"for (yp = 0; yp < {w.y.out // high}; yp++) {{",
            f"for (xp = 0; xp < {w.x.out // wide}; xp++) {{",
            f"for (i = 0; i < {high * wide}; i++) {{",
            f"y = yp * {high} + i / {wide};",
            f"x = xp * {wide} + i % {wide};",
        ]

    def _gather(self, w: Window, type_: str, first: str) -> list[str]:
        """Copies a piece of the input, with zeros where it reaches over the border."""
        zero = "0.0f" if self.sums is None else int_literal(zero_point(self.source))
        depth = self._depth
        lines = ["{", f"{type_} *d = s;", "int32_t a, b;"]
        lines += [
            f"for (a = 0; a < {w.y.kernel}; a++) {{",
            f"const int32_t v = y * {w.y.stride} - {w.y.before} + a * {w.y.dilation};",
        ]
        lines += [
            f"for (b = 0; b < {w.x.kernel}; b++) {{",
            f"const int32_t u = x * {w.x.stride} - {w.x.before} + b * {w.x.dilation};",
        ]
        copied = [f"const {type_} *const f = {first} + (v * {w.x.size} + u) * {w.channels};"]
        copied += [f"for (k = 0; k < {depth}; k++) d[k] = f[k];"] if depth > 1 else ["d[0] = f[0];"]
        if w.padded:
            inside = f"v >= 0 && v < {w.y.size} && u >= 0 && u < {w.x.size}"
            fill = [f"for (k = 0; k < {depth}; k++) d[k] = {zero};"] if depth > 1 else [f"d[0] = {zero};"]
            lines += [f"if ({inside}) {{", *copied, "}", "else {", *fill, "}"]
        else:
            lines += copied
        return [*lines, f"d += {depth};", "}", "}", "}"]

    def _block(self, source: Source, packed: Products, sink: Sink) -> tuple[list[str], list[str]]:
        """Returns the pointers for a piece of input, and what is done for a block of channels: sums, then codes."""
        block, weight = packed.block, packed.weights(source)
        kind = "float" if self.sums is None else C_TYPES["int8"]
        pointers = [f"const {kind} *w = {weight};"]
        integer = self.sums
        if integer is not None:
            held = "int64_t" if integer.type == "int64_t" else "int32_t"
            pointers.append(f"const {held} *q = {integer.parameters(source)};")
        type_ = "float" if integer is None else integer.type
        begins = ["0.0f" if integer is None else f"q[{row * integer.stride}]" for row in range(block)]
        lines = [f"{type_} s{row} = {begin};" for row, begin in enumerate(begins)]
        lines += packed.lines(source, C_TYPES[self.source.dtype], type_)
        for row in range(block):
            channel = f"c + {row}" if row else "c"
            lines += ["{", *self._end(source, row, channel), *sink.store("o", channel, "z"), "}"]
        if integer is not None:
            lines.append(f"q += {block * integer.stride};")
        return pointers, lines

    def _end(self, source: Source, row: int, channel: str) -> list[str]:
        if self.sums is None:
            biased = f"s{row}"
            if self.bias.any() or np.signbit(self.bias).any():
                biased = f"s{row} + {source.constant(self.bias, 'weights')}[{channel}]"
            clips = float_end(self.op, "z")
            return [f"{'float' if clips else 'const float'} z = {biased};", *clips]
        at = f"(q + {row * self.sums.stride})" if row else "q"
        text = self.sums.code(source, f"s{row}", at)
        return [f"const int32_t z = {clipped(source, text, self.sums.limits)};"]


def pooled(layer: Dense, size: tuple[int, int]) -> Dense | None:
    """Returns a convolution with a maximum over windows of its results, None where their windows do not fit.

    Args:
        layer: A convolution.
        size: Of the windows along y and x, which is also how far they are apart.
    """
    w = layer.window
    if w is None or layer.pool != (1, 1) or w.y.out < size[0] or w.x.out < size[1]:
        return None
    return dataclasses.replace(layer, pool=size)


def fully_connected(op: Op, graph: Subgraph) -> Dense:
    """Returns a dense layer."""
    source, weights = graph.tensors[op.inputs[0]], graph.tensors[op.inputs[1]]
    if op.options.get("weightsFormat", "DEFAULT") != "DEFAULT":
        refuse(op, "needs plain weights", op.options["weightsFormat"])
    rows = _rows(op, source, weights)
    rows = rows.reshape(rows.shape[0], -1)
    output = graph.tensors[op.outputs[0]]
    places = math.prod(output.shape) // rows.shape[0] if output.shape else 1
    if source.elements != places * rows.shape[1]:
        refuse(op, f"needs inputs of {places} times {rows.shape[1]}", source.shape)
    return _dense(op, graph, source, weights, output, rows, None, places)


def conv_2d(op: Op, graph: Subgraph) -> Dense:
    """Returns a convolution."""
    source, weights = graph.tensors[op.inputs[0]], graph.tensors[op.inputs[1]]
    rows, output = _rows(op, source, weights), graph.tensors[op.outputs[0]]
    if rows.ndim != 4:
        refuse(op, "needs weights of four dimensions", rows.shape)
    geometry = window(op, source, output, (rows.shape[1], rows.shape[2]))
    groups = geometry.channels // rows.shape[3]
    if groups * rows.shape[3] != geometry.channels or rows.shape[0] % groups:
        refuse(op, "needs groups of the same size", f"{geometry.channels} channels, weights for {rows.shape[3]}")
    return _dense(op, graph, source, weights, output, rows.reshape(rows.shape[0], -1), geometry, 0)


def _rows(op: Op, source: Tensor, weights: Tensor) -> NDArray[Any]:
    if source.dtype not in ITEM:
        refuse(op, "takes float32, int8 or int16 here", source.dtype)
    return values_of(op, weights, "float32" if source.dtype == "float32" else "int8")


def _dense(
    op: Op,
    graph: Subgraph,
    source: Tensor,
    weights: Tensor,
    output: Tensor,
    rows: NDArray[Any],
    geometry: Window | None,
    places: int,
) -> Dense:
    if output.dtype != source.dtype:
        refuse(op, "needs an output of the input's type", output.dtype)
    if source.dtype == "float32":
        bias = bias_of(op, graph, rows.shape[0], "float32")
        return Dense(op, source, output, rows, bias, None, geometry, places)
    bias = bias_of(op, graph, rows.shape[0], "int64" if source.dtype == "int16" else "int32")
    ends = sums(op, source, weights, output, rows, bias)
    return Dense(op, source, output, rows, bias, ends, geometry, places)

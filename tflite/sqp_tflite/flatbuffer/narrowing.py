"""Gives tables ends of int8 where the numbers are int16: beside a state that is a sum, in front of a softmax's mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.chains import Chain, Walker
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.graph import Tensor
from sqp_tflite.flatbuffer.integer_ends import affine
from sqp_tflite.flatbuffer.tables import scale_of

_POINTS = 2001
_BOUNDS = 2.0 ** -np.arange(0, 8, 0.25)
"""What the codes may reach to, over what the source does."""


_HALF = 127
"""How many codes half a step of the coarse table has in the fine one."""


def narrow(editor: Editor, wanted: Callable[[frozenset[str]], bool], finer: frozenset[str] = frozenset()) -> bool:
    """Puts conversions around float chains at int16 tensors, so that both ends are int8; returns whether there are any.

    Codes are spent where the function varies: tanh of a sum that reaches to 20 needs none beyond 4. What is clipped
    moves the result by half a step of its own at most.

    Args:
        editor: Of a quantised file that was not changed since it was opened.
        wanted: As in `tables.lower`.
        finer: Names of tensors that are computed from the whole 16 bits: the chain in front of them becomes the sum of
            two tables, of which the second holds what the first one rounds off.
    """
    main = editor.graph.main
    walker, makers, readers = Walker(main), main.makers(), main.readers()
    replaced: dict[int, list[NewOp]] = {}
    for op in main.ops:
        chain = walker.chain(op.inputs[0]) if op.name == "QUANTIZE" else None
        if chain is None or not wanted(frozenset(main.tensors[main.ops[i].outputs[0]].name for i in chain.ops)):
            continue
        source, result = main.tensors[chain.source], main.tensors[op.outputs[0]]
        if source.quantization is None or result.quantization is None:
            continue
        step = float(scale_of(result)[0])
        if result.dtype == "int16":
            step, point = _of_results(walker, chain, source)
            twin = editor.add_tensor(f"{result.name}/narrow", "int8", result.shape, step, point)
            names = {main.tensors[i].name for reader in readers.get(result.index, ()) for i in reader.outputs}
            replaced[op.index] = (
                _two_tables(editor, op.inputs[0], twin, result, step)
                if not names.isdisjoint(finer)
                else [_quantize(op.inputs[0], twin), _quantize(twin, result.index)]
            )
        if source.dtype == "int16":
            bound = _bound(walker, chain, source, step)
            for index in {i for place in chain.ops for i in main.ops[place].inputs if i in makers}:
                maker = makers[index]
                if maker.name == "DEQUANTIZE" and maker.inputs[0] == chain.source and maker.index not in replaced:
                    twin = editor.add_tensor(f"{source.name}/narrow", "int8", source.shape, bound / 127.0)
                    back = NewOp("DEQUANTIZE", (twin,), (index,), "DequantizeOptions")
                    replaced[maker.index] = [_quantize(chain.source, twin), back]
    if replaced:
        editor.replace_ops(replaced)
    return bool(replaced)


def widen_by_float(editor: Editor) -> None:
    """Puts DEQUANTIZE and QUANTIZE in the place of each QUANTIZE from int8 to int16, which some interpreters lack.

    Every int8 number is a float32 number, so that the same codes come out.

    Args:
        editor: Of a quantised file.
    """
    main, replaced = editor.main(), dict[int, list[NewOp]]()
    for op in main.ops:
        source, result = (main.tensors[ends[0]] for ends in (op.inputs, op.outputs))
        if op.name == "QUANTIZE" and (source.dtype, result.dtype) == ("int8", "int16"):
            real = editor.add_tensor(f"{result.name}/real", "float32", result.shape)
            back = NewOp("DEQUANTIZE", (source.index,), (real,), "DequantizeOptions")
            replaced[op.index] = [back, _quantize(real, result.index)]
    if replaced:
        editor.replace_ops(replaced)


def _two_tables(editor: Editor, source: int, coarse: int, result: Tensor, step: float) -> list[NewOp]:
    """Returns what writes a float tensor into one of int16 as the sum of two of int8: whole steps, and the rest."""

    def value(kind: str, dtype: str = "float32", scale: float | None = None) -> int:
        return editor.add_tensor(f"{result.name}/{kind}", dtype, result.shape, scale)

    steps, whole, rounded, rest = (value(kind) for kind in ("steps", "whole", "rounded", "rest"))
    many, size = (
        editor.add_constant(f"{result.name}/{kind}", np.array([number], np.float32))
        for kind, number in (("per", 1.0 / step), ("step", step))
    )
    fine = value("fine", "int8", step / (2 * _HALF))
    terms = [value("coarse16", "int16", step / 128), value("fine16", "int16", step / (2 * _HALF * 128))]
    return [
        NewOp("MUL", (source, many), (steps,), "MulOptions"),
        NewOp("ROUND", (steps,), (whole,)),
        NewOp("MUL", (whole, size), (rounded,), "MulOptions"),
        _quantize(rounded, coarse),
        NewOp("SUB", (source, rounded), (rest,), "SubOptions"),
        _quantize(rest, fine),
        _quantize(coarse, terms[0]),
        _quantize(fine, terms[1]),
        NewOp("ADD", tuple(terms), (result.index,), "AddOptions", {"potScaleInt16": False}),
    ]


def _quantize(source: int, result: int) -> NewOp:
    return NewOp("QUANTIZE", (source,), (result,), "QuantizeOptions")


def _points(source: Tensor) -> NDArray[np.float64]:
    """Numbers over all that a source can hold."""
    limits = np.iinfo(source.dtype)
    scale, point = scale_of(source)
    return np.linspace((limits.min - point) * scale, (limits.max - point) * scale, _POINTS)


def _of_results(walker: Walker, chain: Chain, source: Tensor) -> tuple[float, int]:
    """The scale and zero point of all that a chain gives for what its source can hold."""
    values = walker.evaluate(chain, _points(source)[:, None])
    return affine("int8", float(values.min()), float(values.max()))


def _bound(walker: Walker, chain: Chain, source: Tensor, step: float) -> float:
    """The largest number that the int8 source must hold: beyond it the result changes by half a step at most."""
    reach = 32767.0 * float(scale_of(source)[0])
    points = _points(source)
    values = walker.evaluate(chain, points[:, None])[:, 0]
    bound = reach
    for share in _BOUNDS:
        clipped = walker.evaluate(chain, np.clip(points, -share * reach, share * reach)[:, None])[:, 0]
        if np.abs(clipped - values).max() > 0.5 * step:
            break
        bound = share * reach
    return float(bound)

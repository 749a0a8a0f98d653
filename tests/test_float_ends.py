"""Float inputs and outputs around an integer file: same names, same numbers."""

from pathlib import Path

import numpy as np

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.float_ends import add_float_ends
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run.interpreters import decode, run_here

DATA = Path(__file__).parent / "data"
INTEGER = (DATA / "two_inputs_int8.tflite").read_bytes()


def with_float_ends(content):
    editor = Editor(content)
    add_float_ends(editor)
    return editor.bytes()


def test_ends_are_float_and_keep_names_shapes_and_order():
    before, after = read(INTEGER), read(with_float_ends(INTEGER))
    assert {tensor.dtype for tensor in after.inputs + after.outputs} == {"float32"}
    for old, new in zip(before.inputs + before.outputs, after.inputs + after.outputs, strict=True):
        assert (old.name, old.shape, new.quantization) == (new.name, new.shape, None)


def test_only_quantize_and_dequantize_are_added():
    before, after = read(INTEGER).main, read(with_float_ends(INTEGER)).main
    names = [op.name for op in after.ops]
    first, last = len(before.inputs), len(before.outputs)
    assert names[:first] == ["QUANTIZE"] * first and names[-last:] == ["DEQUANTIZE"] * last
    assert names[first:-last] == [op.name for op in before.ops]


def test_the_numbers_are_those_of_the_integer_file():
    graph, generator = read(INTEGER), np.random.default_rng(0)
    codes = [generator.integers(-128, 128, (6, *tensor.shape[1:])).astype(np.int8) for tensor in graph.inputs]
    real = tuple(decode(values, tensor) for values, tensor in zip(codes, graph.inputs, strict=True))
    plain, ended = (run_here("litert", file, real).values for file in (INTEGER, with_float_ends(INTEGER)))
    for one, other in zip(plain, ended, strict=True):
        # The same codes: DEQUANTIZE multiplies in float32, the other numbers come from float64.
        assert np.allclose(one, other, rtol=2**-22, atol=0)


def test_float_ends_are_left_as_they_are():
    content = (DATA / "two_inputs_float32.tflite").read_bytes()
    assert [op.name for op in read(with_float_ends(content)).main.ops] == [op.name for op in read(content).main.ops]

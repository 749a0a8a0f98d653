"""Each output has a tensor of its own, whatever the converter merged."""

import numpy as np
import pytest

from sqp_tflite.flatbuffer.ends import separate
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters
from written import Written


def shared() -> bytes:
    """A file whose outputs are a sum twice, and its own input."""
    model = Written()
    x = model.value(name="x")
    y = model.op("ADD", x, model.constant(3.0), name="y")
    model.ends([x], [y, y, x])
    return model.editor.bytes()


def test_each_output_gets_its_name_and_keeps_its_values():
    content = separate(shared(), ("first", "second", "third"))
    graph = read(content)
    assert len(set(graph.main.outputs)) == 3
    assert [tensor.name for tensor in graph.outputs][1:] == ["second", "third"]
    x = np.linspace(-1, 1, graph.inputs[0].elements, dtype=np.float32).reshape(1, *graph.inputs[0].shape[1:])
    for runtime in ("litert", "tflm"):
        values = interpreters.run(runtime, content, (x,)).values
        np.testing.assert_array_equal(values[0], x + 3)
        np.testing.assert_array_equal(values[1], x + 3)
        np.testing.assert_array_equal(values[2], x)


def test_a_file_whose_outputs_are_apart_is_returned_as_it_was():
    content = shared()
    apart = separate(content, ("a", "b", "c"))
    assert separate(apart, ("a", "b", "c")) == apart
    with pytest.raises(ValueError, match="zip"):
        separate(content, ("a",))

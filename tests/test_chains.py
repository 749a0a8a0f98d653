"""Chains: from a tensor back to the one tensor that it is a function of."""

import numpy as np
import pytest

from sqp_tflite.flatbuffer.chains import Walker, channels_of
from sqp_tflite.flatbuffer.edit import NewOp
from written import Written


def test_a_chain_names_its_source_and_its_operators_in_order():
    model = Written()
    x = model.value()
    half = model.op("MUL", x, model.constant(0.5))
    root = model.op("SQRT", model.op("ADD", model.op("MUL", half, half), model.constant(1.0)))
    y = model.op("ADD", half, root)
    chain = Walker(model.main()).chain(y)
    assert (chain.source, chain.result, chain.ops, chain.channels) == (x, y, (0, 1, 2, 3, 4), 1)


def test_a_chain_computes_what_its_operators_say():
    model = Written()
    x = model.value()
    y = model.op("SUB", model.constant(1.0), x, table="SubOptions", fusedActivationFunction="RELU")
    walker = Walker(model.main())
    numbers = np.array([[-2.0], [0.0], [3.0]])
    assert np.array_equal(walker.evaluate(walker.chain(y), numbers), [[3.0], [1.0], [0.0]])


def test_a_constant_per_channel_gives_a_column_per_channel():
    model = Written()
    x = model.value()
    y = model.op("MUL", x, model.constant([1, 2, 3, 4]))
    walker = Walker(model.main())
    chain = walker.chain(y)
    assert chain.channels == 4
    assert np.array_equal(walker.evaluate(chain, np.array([[2.0]])), [[2, 4, 6, 8]])


def test_the_source_of_dequantised_numbers_is_the_tensor_of_codes():
    model = Written()
    codes = model.value(1, 4, scale=0.5)
    y = model.op("EXP", model.op("DEQUANTIZE", codes))
    chain = Walker(model.main()).chain(y)
    assert (chain.source, chain.ops) == (codes, (1,))


def test_two_sources_are_no_chain():
    model = Written()
    y = model.op("ADD", model.value(), model.value())
    assert Walker(model.main()).chain(y) is None


def test_an_input_is_no_chain():
    model = Written()
    x = model.value()
    assert Walker(model.main()).chain(x) is None


def test_operators_that_mix_elements_end_a_chain():
    model = Written()
    mixed = model.op("SOFTMAX", model.value(), table="SoftmaxOptions", beta=1.0)
    y = model.op("EXP", mixed)
    chain = Walker(model.main()).chain(y)
    assert (chain.source, chain.ops) == (mixed, (1,))


def test_integer_operators_end_a_chain():
    model = Written()
    left = model.value(1, 4, scale=0.5)
    y = model.value(1, 4, scale=0.25)
    model.editor.add_op(NewOp("RELU", (left,), (y,)))
    assert Walker(model.main()).chain(y) is None


def test_a_source_that_is_broadcast_is_no_chain():
    model = Written()
    y = model.op("MUL", model.value(1, 1), model.constant([1, 2, 3, 4]))
    assert Walker(model.main()).chain(y) is None


@pytest.mark.parametrize(
    ("constant", "shape", "channels"),
    [
        (np.ones(()), (1, 4), 1),
        (np.full((1, 4), 3.0), (1, 4), 1),
        (np.arange(4.0), (1, 4), 4),
        (np.arange(4.0).reshape(4, 1), (4, 4), None),
        (np.arange(3.0), (1, 4), None),
        (np.ones((0,)), (1, 4), None),
    ],
)
def test_constants_differ_along_the_last_axis_only(constant, shape, channels):
    assert channels_of(constant, shape) == channels

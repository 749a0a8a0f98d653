"""Which operators of a float file are an activation, and which of them become tables."""

import numpy as np

from sqp_tflite.flatbuffer.read import read
from sqp_tflite.quantize.islands import Islands, islands
from written import Written, perceptron

SCOPE = "hidden/sqp.act"
FORM = frozenset(f"{SCOPE}/{name}" for name in ("Mul", "Add", "Sqrt", "Add_1"))


def every(op):
    return True


def test_the_operators_in_the_scope_are_the_activation():
    main = read(perceptron()).main
    assert islands(main, "algebraic", every) == Islands(FORM, frozenset())
    assert islands(main, "integer", every) == Islands(FORM, frozenset())


def test_the_table_lowering_makes_a_table_of_the_activation():
    assert islands(read(perceptron()).main, "table", every) == Islands(FORM, FORM)


def test_a_root_tells_the_activation_of_a_file_without_scopes():
    main = read(perceptron(activation="layer")).main
    assert islands(main, "algebraic", every).activations == {f"layer/{n}" for n in ("Mul", "Add", "Sqrt", "Add_1")}


def test_an_output_that_a_form_makes_belongs_to_the_activation():
    model = Written()
    x = model.value(name="x")
    main = read(model.ends([x], [model.op("RELU", x, name="y")])).main
    assert islands(main, "algebraic", every, forms=("y",)).activations == {"y"}
    assert islands(main, "algebraic", every).activations == frozenset()


def clipped(op, constant=None):
    model = Written()
    x = model.value(name="x")
    inputs = (x,) if constant is None else (x, model.constant(constant))
    return read(model.ends([x], [model.op(op, *inputs, name="y")])).main


def test_clips_keep_their_kernels_under_the_table_lowering():
    assert islands(clipped("RELU"), "table", every).tables == frozenset()
    assert islands(clipped("EXP"), "table", every).tables == {"y"}


def test_an_admitted_operator_without_a_kernel_becomes_a_table():
    assert islands(clipped("LEAKY_RELU"), "algebraic", lambda op: op != "LEAKY_RELU").tables == {"y"}
    assert islands(clipped("LEAKY_RELU"), "algebraic", every).tables == frozenset()


def test_a_forbidden_operator_becomes_a_table_only_where_tables_were_asked_for():
    assert islands(clipped("EXP"), "algebraic", lambda op: False).tables == frozenset()
    assert islands(clipped("EXP"), "table", lambda op: False).tables == {"y"}


def test_constants_per_channel_get_tables_only_where_the_activation_has_them():
    assert islands(clipped("MUL", [1, 2, 3, 4]), "table", every).tables == frozenset()
    assert islands(clipped("PRELU", [1, 2, 3, 4]), "table", every).tables == {"y"}
    assert islands(clipped("MUL", np.full(4, 2.0)), "table", every).tables == {"y"}


def test_a_function_of_two_tensors_is_no_island():
    model = Written()
    x, z = model.value(name="x"), model.value(name="z")
    main = read(model.ends([x, z], [model.op("MUL", x, z, name="y")])).main
    assert islands(main, "table", every) == Islands(frozenset(), frozenset())

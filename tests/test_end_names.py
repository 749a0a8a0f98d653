"""Names of a file's inputs and outputs are found in every spelling of the converters, and never guessed."""

import pytest

from sqp_tflite.run.end_names import by_name, by_number

NAMED = {
    "the same": (["a", "b"], ["b", "a"], {0: 1, 1: 0}),
    "TensorFlow's inputs": (["a", "b"], ["serving_default_b:0", "serving_default_a:0"], {0: 1, 1: 0}),
    "a quantiser's": (["a", "b"], ["b_int8", "serving_default_a:0_int8"], {0: 1, 1: 0}),
    "other characters": (["left hand", "Right/1"], ["Right_1", "left_hand"], {0: 1, 1: 0}),
    "small letters": (["Left", "RIGHT"], ["right", "left"], {0: 1, 1: 0}),
    "capitals that matter": (["a", "A"], ["A", "a"], {0: 1, 1: 0}),
    "a number for a taken name": (["x", "y"], ["y_out2", "x_out"], {0: 1, 1: 0}),
    "scopes": (["a", "b"], ["net/b/BiasAdd", "net/a/MatMul;net/a/BiasAdd"], {0: 1, 1: 0}),
    "two of one scope": (["a", "b"], ["a/Add", "a/Mul"], {}),
    "a scope of two": (["a", "b"], ["a/b/Add", "b/Add"], {1: 1}),
    "two that look the same": (["a b", "c"], ["a_b", "a.b"], {}),
    "the same name twice": (["a", "b"], ["a", "a"], {}),
    "other names": (["dense", "dense_1"], ["dense_1", "dense_2"], {1: 0}),
    "no names": (["a", "b"], ["", ""], {}),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_name_is_found_in_any_spelling(case):
    wanted, held, places = NAMED[case]
    assert by_name(wanted, held) == places


NUMBERED = {
    "Keras's outputs": (["output_1", "output_0"], {0: 1, 1: 0}),
    "more than ten": ([f"output_{i}" for i in (10, *range(10))], {10: 0, **{i: i + 1 for i in range(10)}}),
    "results of a call": (["StatefulPartitionedCall_1:1", "StatefulPartitionedCall_1:0"], {0: 1, 1: 0}),
    "of one without state": (["PartitionedCall:0", "PartitionedCall:1_int8"], {0: 0, 1: 1}),
    "more than ten results, in the order of text": ([f"PartitionedCall:{i}" for i in range(11)], {}),
    "two calls": (["PartitionedCall:0", "PartitionedCall_1:1"], {}),
    "identities": (["Identity_1", "Identity", "Identity_2_int8"], {0: 1, 1: 0, 2: 2}),
    "arguments": (["serving_default_args_0_1:0", "serving_default_args_0:0"], {0: 1, 1: 0}),
    "numbered arguments": (["args_1", "args_0"], {0: 1, 1: 0}),
    "inputs": (["inputs", "inputs_1"], {0: 0, 1: 1}),
    "a count from 1": (["input_1", "input_2"], {}),
    "a gap": (["output_0", "output_2"], {}),
    "one twice": (["Identity", "Identity_0"], {}),
    "a number without end": (["Identity", "Identity_" + "1" * 9999], {}),
    "layers": (["dense", "dense_1"], {}),
    "no names": (["", ""], {}),
}


@pytest.mark.parametrize("case", NUMBERED)
def test_numbers_count_where_they_are_all_that_the_names_say(case):
    held, places = NUMBERED[case]
    assert by_number(held) == places

"""Code in a file is found where it can stand, and nothing else is taken for it."""

import base64
import marshal
from pathlib import Path

import keras
import pytest

from sqp_tflite.errors import BadInputError
from sqp_tflite.source.file_code import refuse_code

CODE = base64.encodebytes(marshal.dumps((lambda x: x + 1).__code__)).decode()
RAW = marshal.dumps((lambda x: x + 1).__code__).decode("latin-1")
SPOILT = "_" + CODE[:4] + "!" + CODE[4:]
"""Python's decoder skips what is not base64."""


def named(**config):
    return {"class_name": "Dense", "config": {"name": "odd", **config}}


HELD = {
    "an activation as Keras 3 writes it": named(activation={"value": [CODE, None, None]}),
    "with other characters between": named(activation={"value": [SPOILT, None, None]}),
    "without base64": named(activation={"value": [RAW, None, None]}),
    "a lambda of Keras 3": named(activation={"class_name": "__lambda__", "config": {"code": CODE}}),
    "a layer of Keras 3": {
        "class_name": "Lambda",
        "config": {"name": "odd", "function": {"class_name": "__lambda__", "config": {"code": CODE}}},
    },
    "a layer of Keras 2": {"class_name": "Lambda", "config": {"name": "odd", "function": [CODE, None, None]}},
    "a layer with an unknown function": {
        "class_name": "Lambda",
        "config": {"name": "odd", "function": {"class_name": "function", "config": "get_file"}},
    },
    "in the arguments of a call": {
        **named(),
        "inbound_nodes": [{"args": [], "kwargs": {"f": {"class_name": "__lambda__", "config": {"code": CODE}}}}],
    },
}


@pytest.mark.parametrize("case", HELD)
def test_code_is_found(case):
    with pytest.raises(BadInputError, match="not code. Received: a lambda.*`odd`.*--trust-code"):
        refuse_code({"layers": [HELD[case]]}, Path("m.keras"), {})


FREE = {
    "a call of Keras 2 with value=": [[["x", 0, 0, {"value": ["input_2", 0, 0]}]]],
    "a tensor whose name is like base64": [[["x", 0, 0, {"value": [CODE[:24], 0, 0]}]]],
    "a call of Keras 3": [{"args": [], "kwargs": {"value": {"class_name": "__keras_tensor__", "config": {}}}}],
}


@pytest.mark.parametrize("case", FREE)
def test_a_tensor_is_not_code(case):
    layer = {"class_name": "MultiHeadAttention", "config": {"name": "att"}, "inbound_nodes": FREE[case]}
    refuse_code({"layers": [layer]}, Path("m.h5"), {})


def test_a_list_of_three_in_a_configuration_is_not_code():
    refuse_code({"layers": [named(value=["conv_1", 0, 0])]}, Path("m.h5"), {})
    refuse_code({"layers": [{"class_name": "Own", "config": {"name": "own", "value": ["abc", 1, 2]}}]}, Path("m"), {})


def test_a_lambda_layer_of_an_imported_function_is_not_code():
    def own(x):
        return x

    layer = {"class_name": "Lambda", "config": {"name": "l", "function": {"class_name": "function", "config": "own"}}}
    refuse_code({"layers": [layer]}, Path("m.keras"), {"own": own})
    layer["config"]["output_shape"] = {"class_name": "__lambda__", "config": {"code": CODE}}
    with pytest.raises(BadInputError, match="not code"):
        refuse_code({"layers": [layer]}, Path("m.keras"), {"own": own})


def test_what_keras_writes_is_found(tmp_path):
    from sqp_tflite.source.load import load

    layers = [keras.Input((3,)), keras.layers.Dense(2, activation=lambda x: x + 1, name="odd")]
    keras.Sequential(layers).save(tmp_path / "m.keras")
    with pytest.raises(BadInputError, match="not code.*`odd`"):
        load(tmp_path / "m.keras")

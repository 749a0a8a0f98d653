"""Outputs are called as in Keras's structure, each by a name of its own."""

import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.source.load import load

L = keras.layers


def parts():
    x = keras.Input((5, 3), name="x")
    sequence, h, c = L.LSTM(4, return_state=True, activation="relu6", recurrent_activation="hard_sigmoid", name="lstm")(
        x
    )
    return x, L.Dense(2, name="d")(sequence), sequence, h, c


STRUCTURES = {
    "two uses of one output": (lambda d, y, h, c: [d, y, d], ["d", "lstm", "d_1"]),
    "states of a layer": (lambda d, y, h, c: [y, h, c], ["lstm", "lstm_h", "lstm_c"]),
    "a dict": (lambda d, y, h, c: {"b": d, "a": y}, ["a", "b"]),
    "a list in a dict": (lambda d, y, h, c: {"params": [d, y], "state": h}, ["params_0", "params_1", "state"]),
    "a dict in a dict": (lambda d, y, h, c: {"a": d, "b": {"h": h, "c": c}}, ["a", "b_c", "b_h"]),
    "a dict in a tuple": (lambda d, y, h, c: (d, {"q": y}), ["d", "q"]),
    "a key that looks like a copy": (lambda d, y, h, c: {"a": d, "a_1": [y]}, ["a", "a_1_0"]),
    "one": (lambda d, y, h, c: d, ["d"]),
}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_names_are_those_of_keras_structure_and_unique(structure):
    x, *made = parts()
    outputs, names = STRUCTURES[structure]
    model = keras.Model(x, outputs(*made))
    values = load(model).call([np.zeros((1, 5, 3), "float32")])
    assert list(values) == names
    flat = keras.tree.flatten(model(np.zeros((1, 5, 3), "float32")))
    assert [tuple(value.shape) for value in values.values()] == [tuple(value.shape) for value in flat]


def test_both_directions_name_their_states():
    x = keras.Input((5, 3), name="x")
    outputs = list(L.Bidirectional(L.GRU(4, return_state=True), name="both")(x))
    names = list(load(keras.Model(x, outputs)).call([np.zeros((1, 5, 3), "float32")]))
    assert names == ["both", "both_forward_h", "both_backward_h"]


def test_names_reach_the_file_and_the_report():
    x, _, sequence, h, c = parts()
    report = sqp_tflite.export(keras.Model(x, [sequence, h, c])).report
    assert [row.name for row in report.outputs] == ["lstm", "lstm_h", "lstm_c"]

"""Remedies that work where an activation is computed in a layer's own code."""

import re

import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.source import own_code

L = keras.layers


class Gate(L.Layer):
    """A layer of the user's that calls tanh by itself."""

    def call(self, x):
        return keras.ops.tanh(x)


def attention(layer: L.Layer) -> keras.Model:
    x = keras.Input((3, 4), name="x")
    return keras.Model(x, layer([x, x]))


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("TANH", 'sqp_keras.Algebraic("tanh")'),
        ("SOFTMAX", "sqp_keras.AlgebraicSoftmax()"),
        ("LOGISTIC", 'sqp_keras.Algebraic("sigmoid")'),
    ],
)
def test_a_layer_of_the_users_own_is_told_what_to_hold_instead(op, call):
    found = own_code.call_instead(Gate(), op)
    assert found.startswith("Gate computes it in its own code") and f"call {call}" in found


@pytest.mark.parametrize(("layer", "op"), [(L.Dense(2), "TANH"), (Gate(), "WHILE"), (None, "TANH")])
def test_other_findings_have_another_remedy(layer, op):
    assert own_code.call_instead(layer, op) == ""


def test_without_a_model_there_are_no_notes():
    assert own_code.notes(None) == ()


@pytest.mark.parametrize(
    ("layer", "way"),
    [
        (L.Attention(name="att"), r"keras.layers.Dot\(axes=2\).*sqp_keras.AlgebraicSoftmax"),
        (L.Attention(score_mode="concat", name="att"), r"query \+ key.*tanh.*softmax"),
        (L.AdditiveAttention(name="att"), r"query \+ key.*tanh.*softmax"),
    ],
)
def test_attention_is_noted_and_has_a_way_out(layer, way):
    model = attention(layer)
    (note,) = own_code.notes(model)
    assert note.startswith("`att` (") and "computes softmax in its own code" in note
    assert re.search(way, own_code.attention(layer))


def test_multi_head_attention_needs_no_note():
    x = keras.Input((3, 4), name="x")
    assert own_code.notes(keras.Model(x, L.MultiHeadAttention(2, 2, name="mha")(x, x))) == ()


def test_an_embedding_is_a_plain_gather():
    layers = [keras.layers.Embedding(5, 3, name="table"), keras.layers.Flatten(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((4,), dtype="int32"), *layers])
    report = sqp_tflite.export(model).report
    assert {row.op for row in report.ops if row.layers == ("table",)} == {"GATHER"}
    rows = np.random.default_rng(0).integers(0, 5, (40, 4)).astype(np.int32)
    report = sqp_tflite.export(model, quantize="int8", data={"x": rows}).report
    assert {row.dtype for row in report.ops if row.op == "GATHER"} == {"int8"}
    with pytest.raises(sqp_tflite.ParityError, match="GATHER"):  # Negative numbers have no row on a device.
        sqp_tflite.export(model, data={"x": -1 - rows})

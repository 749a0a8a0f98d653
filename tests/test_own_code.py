"""Remedies that work where an activation is computed in a layer's own code."""

import keras
import numpy as np
import pytest

import sqp_keras
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


class Looking(L.Attention):
    """Made by a user from Keras's attention."""


class LookingWithoutExp(sqp_keras.AlgebraicDotAttention):
    """The same, as the remedy says."""


def test_a_class_made_from_attention_is_noted_and_has_a_way_out():
    model = attention(Looking(name="att"))
    (note,) = own_code.notes(model)
    assert note.startswith("`att` (Looking) computes softmax in its own code")
    with pytest.raises(
        sqp_tflite.RefusedError, match=r"Derive Looking from sqp_keras.AlgebraicDotAttention in place of"
    ):
        sqp_tflite.export(model, replace="accurate")
    mended = attention(LookingWithoutExp(name="att"))
    assert own_code.notes(mended) == ()
    data = {"x": np.float32(np.random.default_rng(0).normal(size=(16, 3, 4)))}
    assert sqp_tflite.export(mended, data=data).report.verdict == "ok"


@pytest.mark.parametrize("layer", [L.Attention(), L.AdditiveAttention(), L.Attention(score_mode="concat")])
def test_attention_that_is_exchanged_needs_no_note(layer):
    assert own_code.notes(attention(layer)) == ()


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

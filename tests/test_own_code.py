"""Remedies that work where an activation is computed in a layer's own code."""

import re

import keras
import pytest

import sqp_tflite
from sqp_tflite.report import Finding, Kind
from sqp_tflite.source import own_code

L = keras.layers


class Gate(L.Layer):
    """A layer of the user's that calls tanh by itself."""

    def call(self, x):
        return keras.ops.tanh(x)


def attention(layer: L.Layer) -> keras.Model:
    x = keras.Input((3, 4), name="x")
    return keras.Model(x, layer([x, x]))


def finding(layer: str, op: str) -> Finding:
    return Finding(layer, op, "float32", "A rule.", "Run again with `--replace accurate`.", Kind.OP)


def remedy(model: keras.Model | None, layer: str, op: str, left: dict[str, str] | None = None) -> str:
    (found,) = own_code.with_remedies((finding(layer, op),), model, left or {})
    assert (found.layer, found.op, found.rule) == (layer, op, "A rule.")
    return found.remedy


def sequential() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), Gate(name="gate"), L.Dense(2, activation="tanh", name="dense")])


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("TANH", 'sqp_keras.Algebraic("tanh")'),
        ("SOFTMAX", "sqp_keras.AlgebraicSoftmax()"),
        ("LOGISTIC", 'sqp_keras.Algebraic("sigmoid")'),
    ],
)
def test_a_layer_of_the_users_own_is_told_what_to_hold_instead(op, call):
    found = remedy(sequential(), "gate", op)
    assert found.startswith("Gate computes it in its own code") and f"call {call}" in found


@pytest.mark.parametrize(("layer", "op"), [("dense", "TANH"), ("gate", "WHILE"), ("unknown", "TANH")])
def test_other_findings_keep_their_remedy(layer, op):
    assert remedy(sequential(), layer, op) == "Run again with `--replace accurate`."


def test_without_a_model_the_remedy_stays():
    assert remedy(None, "gate", "TANH") == "Run again with `--replace accurate`."
    assert own_code.notes(None) == ()


def test_what_an_exchange_left_comes_first():
    assert remedy(sequential(), "gate", "TANH", {"gate": "Add tanh=accurate."}) == "Add tanh=accurate."


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
    assert re.search(way, remedy(model, "att", "SOFTMAX"))


def test_multi_head_attention_needs_no_note():
    x = keras.Input((3, 4), name="x")
    assert own_code.notes(keras.Model(x, L.MultiHeadAttention(2, 2, name="mha")(x, x))) == ()


def test_an_embedding_on_tflm_is_told_what_helps_and_it_does():
    layers = [keras.layers.Embedding(5, 3, name="table"), keras.layers.Flatten(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((4,), dtype="int32"), *layers])
    with pytest.raises(sqp_tflite.RefusedError) as caught:
        sqp_tflite.export(model)
    (finding,) = caught.value.findings
    assert (finding.layer, finding.op) == ("table", "SELECT")
    assert "--target litert" in finding.remedy and "squareplus" not in finding.remedy
    assert sqp_tflite.export(model, target="litert").report.verdict == "ok"
    behind = keras.Sequential([keras.Input((4, 3)), *layers[1:]])
    assert sqp_tflite.export(behind).report.verdict == "ok"

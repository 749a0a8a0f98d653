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


class Threefold(L.MultiHeadAttention):
    """Keras's attention with another result."""

    def _compute_attention(self, *args, **kwargs):
        output, scores = super()._compute_attention(*args, **kwargs)
        return 3.0 * output, scores


class ThreefoldWithoutExp(sqp_keras.AlgebraicAttention):
    """The same, as the remedy says."""

    def _compute_attention(self, *args, **kwargs):
        output, scores = super()._compute_attention(*args, **kwargs)
        return 3.0 * output, scores


class Bent(L.Activation):
    """Keras's layer with another result."""

    def call(self, x):
        return 3.0 * super().call(x)


class Around(L.Layer):
    """Holds a layer where no clone function sees it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.held = Threefold(2, 2)

    def build(self, shape):
        self.held.build(shape, shape)

    def call(self, x):
        return self.held(x, x)


def own(make) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((3, 4), name="x")
    return keras.Model(x, make(x))


@pytest.mark.parametrize(
    ("make", "exchanged"),
    [
        (lambda x: Threefold(2, 2)(x, x), []),
        (lambda x: Around()(x), []),
        (lambda x: Bent("tanh", name="bent")(x), ["tanh"]),
        (lambda x: L.Dense(4, Bent("tanh"))(x), []),
    ],
    ids=["attention", "attention inside", "activation", "activation of a layer"],
)
def test_what_a_class_of_the_users_overrides_is_kept(make, exchanged):
    """In place of such a class an algebraic one would stand, with other results, and nobody would be told."""
    model, x = own(make), np.float32(np.random.default_rng(0).normal(size=(16, 3, 4)))
    new, report = sqp_keras.replace_activations(model, "accurate")
    assert [row.was for row in report.replacements] == exchanged
    was, now = (np.asarray(one.predict(x, verbose=0)) for one in (model, new))
    np.testing.assert_allclose(now, was, atol=1e-3 * np.ptp(was))  # What "accurate" may change.


def test_a_class_made_from_multi_head_attention_is_refused_with_a_way_out():
    x = {"x": np.float32(np.random.default_rng(0).normal(size=(16, 3, 4)))}
    said = r"Derive Threefold from sqp_keras.AlgebraicAttention in place of keras.layers.MultiHeadAttention"
    with pytest.raises(sqp_tflite.RefusedError, match=said):
        sqp_tflite.export(own(lambda x: Threefold(2, 2, name="mha")(x, x)), replace="accurate", data=x)
    assert sqp_tflite.export(own(lambda x: ThreefoldWithoutExp(2, 2)(x, x)), data=x).report.verdict == "ok"


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
    with pytest.raises(sqp_tflite.RefusedError, match="GATHER"):  # Negative numbers have no row on a device.
        sqp_tflite.export(model, data={"x": -1 - rows})

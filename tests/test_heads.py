"""The last softmax or sigmoid is dropped if it can be, and the report says how to read the output."""

import keras
import numpy as np
import pytest
from keras import layers

import sqp_keras
from replaceable import functional, inputs_of, sequential
from sqp_keras.models.sites import sites

HEADS = {
    "dense": (lambda: sequential(layers.Dense(4, "relu"), layers.Dense(3, "softmax", name="out")), "softmax", "argmax"),
    "layer": (lambda: sequential(layers.Dense(3), layers.Activation("sigmoid", name="out")), "sigmoid", "above 0"),
    "softmax layer": (lambda: sequential(layers.Dense(3), layers.Softmax(name="out")), "softmax", "argmax"),
    "called softmax layer": (
        lambda: functional(lambda i: layers.Softmax(name="out")(layers.Dense(3)(i))),
        "softmax",
        "largest value is the class (argmax)",
    ),
    "operation": (lambda: functional(lambda i: keras.ops.softmax(layers.Dense(3)(i))), "softmax", "argmax"),
    "through a Reshape": (
        lambda: sequential(layers.Dense(6, "sigmoid", name="out"), layers.Dropout(0.1), layers.Reshape((2, 3))),
        "sigmoid",
        "above 0",
    ),
    "through a Flatten": (
        lambda: functional(lambda i: layers.Flatten()(layers.Conv2D(2, 1, activation="sigmoid")(i)), (4, 4, 2)),
        "sigmoid",
        "above 0",
    ),
    "rows that stay": (
        lambda: functional(lambda i: layers.Reshape((16, 3))(layers.Conv2D(3, 1, activation="softmax")(i)), (4, 4, 2)),
        "softmax",
        "largest value in each of 16 cells",
    ),
    "nested": (
        lambda: functional(lambda i: sequential(layers.Dense(3, "sigmoid", name="out"))(i)),
        "sigmoid",
        "above 0",
    ),
}


@pytest.mark.parametrize("case", HEADS)
def test_heads_are_dropped_and_explained(case):
    build, was, words = HEADS[case]
    model = build()
    x = inputs_of(model)
    logits, heads = sqp_keras.drop_head(model)
    assert [head.was for head in heads] == [was]
    assert words in str(heads[0])
    back = getattr(keras.ops, was)(logits(x))
    np.testing.assert_allclose(back, model(x), atol=1e-6)


def test_heads_are_named_by_output():
    i = keras.Input((4,))
    h = layers.Dense(4, "sigmoid")(i)
    outputs = {"kind": layers.Dense(3, "softmax", name="kind")(h), "size": layers.Dense(1, name="size")(h)}
    model = keras.Model(i, outputs)
    logits, heads = sqp_keras.drop_head(model)
    assert [(head.output, head.layer) for head in heads] == [("kind", "kind")]
    assert sites(logits)[0].activation.name == "sigmoid"
    assert set(logits(np.zeros((1, 4), "float32"))) == {"kind", "size"}


def test_a_softmax_per_cell_is_read_per_cell():
    model = functional(lambda i: layers.Softmax()(layers.Conv2D(3, 1)(i)), (4, 5, 2))
    _, heads = sqp_keras.drop_head(model)
    assert "the largest value in each of 4x5 cells is the class (argmax)" in str(heads[0])


@pytest.mark.parametrize(
    "build",
    [
        lambda i: layers.Softmax()(layers.Dense(8)(i), mask=i > 0),
        lambda i: layers.Softmax(axis=1)(layers.Reshape((2, 4))(i)),
        lambda i: layers.Flatten()(layers.Softmax()(layers.Reshape((2, 4))(i))),
        lambda i: [layers.Reshape((1, 3))(p := layers.Dense(3, "sigmoid")(i)), layers.Dense(1)(p)],
        lambda i: layers.Dense(3, "relu")(i),
        lambda i: [(p := layers.Dense(3, "softmax")(i)), layers.Dense(1)(p)],
    ],
    ids=["a mask", "other axis", "joined rows", "used beside a Reshape", "no head", "used again"],
)
def test_other_heads_stay(build):
    model = functional(build)
    same, heads = sqp_keras.drop_head(model)
    assert same is model
    assert heads == ()

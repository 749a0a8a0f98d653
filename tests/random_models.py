"""Random small models of the supported layers, and random options, as hypothesis strategies of plain data."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from hypothesis import strategies as st

L = keras.layers

ACTIVATIONS = "squareplus softplus elu silu gelu sigmoid tanh relu relu6 leaky_relu linear selu mish softsign".split()
HEADS = ("linear", "softmax", "sigmoid", "squareplus", "tanh")
JOINS = {"add": L.Add, "multiply": L.Multiply, "concatenate": L.Concatenate}

activation = st.sampled_from(ACTIVATIONS)
width = st.integers(1, 5)
vector_layer = st.one_of(
    st.tuples(st.just("dense"), width, activation),
    st.tuples(st.just("norm")),
    st.tuples(st.just("dropout")),
    st.tuples(st.just("join"), st.sampled_from(sorted(JOINS)), activation),
)
image_layer = st.one_of(
    st.tuples(
        st.just("conv"), width, st.integers(1, 3), st.integers(1, 2), st.sampled_from(("same", "valid")), activation
    ),
    st.tuples(st.just("depthwise"), st.integers(1, 2), st.integers(1, 3), activation),
    st.tuples(st.just("separable"), width, st.integers(1, 3), activation),
    st.tuples(st.just("max")),
    st.tuples(st.just("average")),
    st.tuples(st.just("norm")),
    st.tuples(st.just("join"), st.sampled_from(sorted(JOINS)), activation),
)
"""One layer: its kind, then its numbers. What does not fit a shape is left out when the model is built."""


@st.composite
def models(draw: Any, recurrent: bool = False) -> dict[str, Any]:
    """Returns the description of a model, from which `build` makes it."""
    kind = draw(st.sampled_from(("vector", "image", "steps", *(("recurrent",) if recurrent else ()))))
    return {
        "kind": kind,
        "shape": {
            "vector": (draw(st.integers(1, 6)),),
            "image": (draw(st.integers(4, 8)), draw(st.integers(4, 8)), draw(st.integers(1, 3))),
            "steps": (draw(st.integers(4, 9)), draw(st.integers(1, 4))),
            "recurrent": (draw(st.integers(2, 4)), draw(st.integers(1, 3))),
        }[kind],
        "body": draw(st.lists(image_layer, max_size=4)) if kind in ("image", "steps") else [],
        "cell": draw(st.sampled_from(("lstm", "gru"))),
        "flat": draw(st.sampled_from(("flatten", "reshape", "average", "max"))),
        "top": draw(st.lists(vector_layer, max_size=3)),
        "units": draw(st.integers(1, 4)),
        "head": draw(st.sampled_from(HEADS)),
        "seed": draw(st.integers(0, 9)),
    }


def build(wanted: dict[str, Any]) -> keras.Model:
    """Returns the model of a description."""
    keras.utils.set_random_seed(wanted["seed"])
    inputs = x = keras.Input(wanted["shape"], name="x")
    for layer in wanted["body"]:
        x = _body(x, layer, len(wanted["shape"]) - 1)
    if wanted["kind"] == "recurrent":
        x = {"lstm": L.LSTM, "gru": L.GRU}[wanted["cell"]](3)(x)
    elif wanted["kind"] != "vector":
        x = _flat(x, wanted["flat"], wanted["kind"])
    for layer in wanted["top"]:
        x = _top(x, layer)
    outputs = L.Dense(wanted["units"], activation=wanted["head"], name="head")(x)
    return _settled(keras.Model(inputs, outputs, name="drawn"))


def _settled(model: keras.Model) -> keras.Model:
    """Gives batch normalisations statistics as after training."""
    generator = np.random.default_rng(1)
    for layer in model.layers:
        if isinstance(layer, L.BatchNormalization):
            gamma, beta, mean, variance = layer.get_weights()
            layer.set_weights([
                generator.uniform(0.5, 1.5, gamma.shape), generator.normal(0, 0.5, beta.shape),
                generator.normal(0, 0.5, mean.shape), generator.uniform(0.5, 2.0, variance.shape),
            ])  # fmt: skip
    return model


def _body(x: Any, layer: tuple[Any, ...], rank: int) -> Any:
    kind, *given = layer
    if kind == "conv":
        units, size, step, padding, act = given
        if padding == "valid" and min(x.shape[1:-1]) < size:
            return x
        return getattr(L, f"Conv{rank}D")(units, size, strides=step, padding=padding, activation=act)(x)
    if kind == "depthwise":
        times, size, act = given
        made = getattr(L, f"DepthwiseConv{rank}D")
        return made(size, depth_multiplier=times, padding="same", activation=act)(x)
    if kind == "separable":
        units, size, act = given
        return getattr(L, f"SeparableConv{rank}D")(units, size, padding="same", activation=act)(x)
    if kind in ("max", "average"):
        pool = {"max": "MaxPooling", "average": "AveragePooling"}[kind]
        return getattr(L, f"{pool}{rank}D")(2, padding="same")(x)
    if kind == "join":
        name, act = given
        other = getattr(L, f"Conv{rank}D")(x.shape[-1], 3, padding="same", activation=act)(x)
        return JOINS[name]()([x, other])
    return L.BatchNormalization()(x)


def _flat(x: Any, how: str, kind: str) -> Any:
    rank = 2 if kind == "image" else 1
    if how == "reshape":
        return L.Reshape((int(np.prod(x.shape[1:])),))(x)
    return {
        "flatten": L.Flatten(),
        "average": getattr(L, f"GlobalAveragePooling{rank}D")(),
        "max": getattr(L, f"GlobalMaxPooling{rank}D")(),
    }[how](x)


def _top(x: Any, layer: tuple[Any, ...]) -> Any:
    kind, *given = layer
    if kind == "dense":
        return L.Dense(given[0], activation=given[1])(x)
    if kind == "join":
        return JOINS[given[0]]()([x, L.Dense(x.shape[-1], activation=given[1])(x)])
    return L.BatchNormalization()(x) if kind == "norm" else L.Dropout(0.3)(x)


options = st.fixed_dictionaries(
    {
        "quantize": st.sampled_from(("float32", "float32", "float16", "dynamic", "int8", "int8", "int16x8")),
        "lowering": st.sampled_from(("algebraic", "table", "integer")),
        "target": st.sampled_from(("tflm", "litert")),
        "replace": st.sampled_from((None, "accurate", "accurate", "fast")),
        "head": st.sampled_from(("keep", "logits")),
    }
)

"""Layers that compute exp or log in their own code, which no exchange of activations reaches, and what to do then."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import keras

from sqp_keras.family.attention import WITH_SCORES, WITH_SOFTMAX, own_code_of
from sqp_keras.models import sites

_CALLS = MappingProxyType(
    {
        "SOFTMAX": "sqp_keras.AlgebraicSoftmax()",
        "EXP": 'sqp_keras.Algebraic("exponential", upper=<largest input>)',
        "LOGISTIC": 'sqp_keras.Algebraic("sigmoid")',
        "TANH": 'sqp_keras.Algebraic("tanh")',
        "ELU": 'sqp_keras.Algebraic("elu")',
        "GELU": 'sqp_keras.Algebraic("gelu")',
    }
)
"""What a user's layer can hold instead of an operator."""

KERAS = ("keras", "sqp_keras")


def notes(model: Any) -> tuple[str, ...]:
    """Returns a sentence for each class made from Keras's attention that has softmax in its own code.

    Args:
        model: The Keras model, or None.
    """
    return tuple(
        f"`{path}` ({type(layer).__name__}) computes softmax in its own code, where `--replace` does not reach."
        for path, layer in _layers(model).items()
        if attention(layer)
    )


def call_instead(layer: Any, op: str) -> str:
    """Returns what a user's own layer can call instead of an operator; "" for Keras's layers and other operators."""
    own = isinstance(layer, keras.layers.Layer) and type(layer).__module__.split(".")[0] not in KERAS
    if op not in _CALLS or not (own or isinstance(layer, keras.layers.Lambda)):
        return ""
    kind = type(layer).__name__
    if not own:
        return f"{kind} computes it in its own code: put the layer {_CALLS[op]} in its place."
    return f"{kind} computes it in its own code, where `--replace` does not reach: let it hold and call {_CALLS[op]}."


def attention(layer: Any) -> str:
    """Returns the way out for a class of the user's made from attention with softmax in its code; "" for others."""
    stock = own_code_of(layer)
    if stock is None:
        return ""
    own, other = type(layer).__name__, {**WITH_SCORES, **WITH_SOFTMAX}[stock].__name__
    return (
        f"Derive {own} from sqp_keras.{other} in place of keras.layers.{stock.__name__}: it has the same arguments and "
        "weights, and the same results within 0.0005."
    )


def _layers(model: Any) -> dict[str, Any]:
    return dict(sites.paths(model)) if model is not None else {}

"""Layers that compute exp or log in their own code, which no exchange of activations reaches, and what to do then."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import keras

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

_ATTENTION = MappingProxyType(
    {
        "GroupQueryAttention": "Use keras.layers.MultiHeadAttention, whose softmax `--replace accurate` exchanges.",
        "GroupedQueryAttention": "Use keras.layers.MultiHeadAttention, whose softmax `--replace accurate` exchanges.",
        "Attention": "Write it as keras.layers.Dot(axes=2)([query, key]), sqp_keras.AlgebraicSoftmax() and "
        "keras.layers.Dot(axes=(2, 1))([scores, value]), which gives the same within 0.0005 (times its scale "
        "if it has one); or use keras.layers.MultiHeadAttention with `--replace accurate`.",
        "AdditiveAttention": "Write it as a layer of your own that calls sqp_keras.algebraic(query + key, "
        '"tanh") and sqp_keras.algebraic(scores, "softmax"); or use keras.layers.MultiHeadAttention with '
        "`--replace accurate`.",
    }
)
"""Keras's layers that call softmax in their own code, and the way out; the most specific class first."""

KERAS = ("keras", "sqp_keras")


def notes(model: Any) -> tuple[str, ...]:
    """Returns a sentence for each Keras layer with a softmax in its own code.

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
    """Returns the way out for Keras's layers that call softmax or tanh in their own code; "" for others."""
    for kind in type(layer).__mro__:
        if kind.__module__.split(".")[0] == "keras" and kind.__name__ in _ATTENTION:
            # The same sum of tanh as AdditiveAttention's.
            concatenates = kind.__name__ == "Attention" and getattr(layer, "score_mode", "") == "concat"
            return _ATTENTION["AdditiveAttention" if concatenates else kind.__name__]
    return ""


def _layers(model: Any) -> dict[str, Any]:
    return dict(sites.paths(model)) if model is not None else {}

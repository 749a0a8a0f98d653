"""Layers that compute exp or log in their own code, which no exchange of activations reaches, and what to do then."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras

from sqp_keras.models import sites
from sqp_tflite.report import Finding

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

_KERAS = ("keras", "sqp_keras")

_SELECTIONS = ("SELECT", "SELECT_V2")
_EMBEDDING = (
    "An Embedding takes a negative number as counted from the end, by a selection: use `--target litert`, or look its "
    "rows up outside of the model and export the layers behind it."
)


def notes(model: Any) -> tuple[str, ...]:
    """Returns a sentence for each Keras layer with a softmax in its own code.

    Args:
        model: The Keras model, or None.
    """
    return tuple(
        f"`{path}` ({type(layer).__name__}) computes softmax in its own code, where `--replace` does not reach."
        for path, layer in _layers(model).items()
        if _attention(layer)
    )


def with_remedies(findings: tuple[Finding, ...], model: Any, left: Mapping[str, str]) -> tuple[Finding, ...]:
    """Returns the findings with remedies that work: not `--replace` where that does not reach or was already tried.

    Args:
        findings: Of the audit.
        model: The Keras model that was exported, or None.
        left: {layer whose activation an exchange left: what to do about it}.
    """
    layers = _layers(model)
    return tuple(_remedied(finding, layers, left) for finding in findings)


def _remedied(finding: Finding, layers: Mapping[str, Any], left: Mapping[str, str]) -> Finding:
    if finding.layer in left:
        return dataclasses.replace(finding, remedy=left[finding.layer])
    layer = layers.get(finding.layer)
    way = _attention(layer)
    if isinstance(layer, keras.layers.Embedding) and finding.op in _SELECTIONS:
        way = _EMBEDDING
    if not way and isinstance(layer, keras.layers.Layer) and type(layer).__module__.split(".")[0] not in _KERAS:
        call = _CALLS.get(finding.op)
        if call:
            way = (
                f"{type(layer).__name__} computes it in its own code, where `--replace` does not reach: "
                f"let it hold and call {call}."
            )
    return dataclasses.replace(finding, remedy=way) if way else finding


def _attention(layer: Any) -> str:
    for kind in type(layer).__mro__:
        if kind.__module__.split(".")[0] == "keras" and kind.__name__ in _ATTENTION:
            # The same sum of tanh as AdditiveAttention's.
            concatenates = kind.__name__ == "Attention" and getattr(layer, "score_mode", "") == "concat"
            return _ATTENTION["AdditiveAttention" if concatenates else kind.__name__]
    return ""


def _layers(model: Any) -> dict[str, Any]:
    return dict(sites.paths(model)) if model is not None else {}

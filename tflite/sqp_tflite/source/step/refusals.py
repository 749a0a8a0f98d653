"""What cannot be done one time step at a time: the layer, the reason and the way out."""

from __future__ import annotations

from typing import Any

import keras

from sqp_tflite.errors import ModelError, RefusedError
from sqp_tflite.report import Finding, Kind

_L = keras.layers

_WHOLE = "or export the whole sequence, without --step"
_POOLED = (
    f"End the model in a recurrent layer with return_sequences=False or a causal convolution in its place, {_WHOLE}."
)
_AHEAD = "needs steps that come later"

_REASONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("Bidirectional",),
        f"runs backwards too, which {_AHEAD}",
        f"Train it with the forward layer only, {_WHOLE}.",
    ),
    (
        ("Attention", "AdditiveAttention", "MultiHeadAttention", "GroupQueryAttention"),
        "compares all steps with each other",
        f"Train it with a recurrent layer or causal convolutions in its place, {_WHOLE}.",
    ),
    (
        tuple(f"{how}{kind}Pooling1D" for how in ("Global", "") for kind in ("Average", "Max")),
        "gathers many steps into one",
        _POOLED,
    ),
    (
        ("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"),
        "has a convolution in its cell, which is not supported here",
        f"Put TimeDistributed convolutions in front of an LSTM, {_WHOLE}.",
    ),
    (
        ("Reshape", "Permute", "RepeatVector", "UpSampling1D", "Conv1DTranspose"),
        "mixes time steps with features, or makes other steps of them",
        f"Let it leave the time dimension (the first one after the batch) as it is, {_WHOLE}.",
    ),
    (
        ("PReLU",),
        "has weights for each time step",
        f"Make it with shared_axes=[1], {_WHOLE}.",
    ),
)
_ANY = (
    "gives another result for a step alone than within its sequence",
    f"Use layers that work on each step alone (TimeDistributed), recurrent layers or causal convolutions, {_WHOLE}.",
)


def refused(path: str, layer: Any, reason: str = "", remedy: str = "") -> RefusedError:
    """Returns the error for a layer that cannot be done one step at a time.

    Args:
        path: Of the layer.
        layer: The layer or operation.
        reason: Ends the sentence "LSTM ..."; "" for what is known of its class.
        remedy: What to do; "" likewise.
    """
    name = type(layer).__name__
    known = next(((why, way) for names, why, way in _REASONS if name in names), _ANY)
    rule = f"With --step a model computes one time step from its inputs and states. Received: {name}, which "
    finding = Finding(path, "", "", f"{rule}{reason or known[0]}.", remedy or known[1], Kind.SHAPE)
    return RefusedError(str(finding), (finding,))


def backwards(path: str, layer: Any) -> RefusedError:
    """Returns the error for a recurrent layer with go_backwards."""
    return refused(path, layer, f"goes backwards: it {_AHEAD}", f"Train it with go_backwards=False, {_WHOLE}.")


def convolution(path: str, layer: Any, what: str) -> RefusedError:
    """Returns the error for a convolution over time that is neither causal nor valid, or that skips steps.

    Args:
        path: Of the layer.
        layer: The convolution.
        what: What is odd about it, as in its configuration.
    """
    reason = f"has {what}"
    return refused(path, layer, reason, f"Train it with padding='causal', strides=1, channels last, {_WHOLE}.")


def uneven(path: str, layer: Any) -> RefusedError:
    """Returns the error for tensors of different times that meet in one layer."""
    reason = "reads steps of different times, or a sequence together with a tensor that has no time dimension"
    remedy = f"Use padding='causal', which keeps all steps, and combine sequences with sequences only, {_WHOLE}."
    return refused(path, layer, reason, remedy)


def early(path: str, layer: Any) -> RefusedError:
    """Returns the error for a layer with a memory behind one that has no value for the first steps."""
    reason = "remembers past steps, behind a convolution with padding='valid' that has no result for the first ones"
    return refused(path, layer, reason, f"Train the convolution with padding='causal', {_WHOLE}.")


def begun(path: str, layer: Any) -> RefusedError:
    """Returns the error for initial states that are computed from the model's inputs."""
    reason = "takes its initial state from a tensor of the model"
    return refused(path, layer, reason, f"Build it without initial_state, or with constants (NumPy arrays), {_WHOLE}.")


def stateless(source: str) -> ModelError:
    """Returns the error for a model without anything to remember."""
    return ModelError(
        "--step takes a model that remembers past steps: recurrent layers, or causal convolutions over time. Received: "
        f"`{source}`, which has neither. Export it without --step."
    )

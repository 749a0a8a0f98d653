"""The same model for sequences of another length, whose states begin anew with each sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from sqp_keras.models import sites
from sqp_keras.models.rebuild import rebuild
from sqp_tflite.errors import ModelError
from sqp_tflite.source.load import Loaded, reload
from sqp_tflite.wording import said

FEWEST = 8
"""A model of fewer steps is tried on `MADE_UP_STEPS`, if there are no data: its states would hardly move."""

MADE_UP_STEPS = 32
"""Time steps of made-up sequences where the model does not say how many."""


def lengths(shapes: Mapping[str, tuple[int, ...]] | None) -> int:
    """Returns how many time steps the user's sequences have, 0 if they do not say one number.

    Args:
        shapes: Of the data by name, without the sample dimension.
    """
    found = {shape[0] for shape in (shapes or {}).values() if shape}
    return found.pop() if len(found) == 1 else 0


def for_sequences(loaded: Loaded, steps: int) -> Loaded:
    """Returns a model for sequences of a length; a copy where the model is for another length or keeps its states.

    Args:
        loaded: The model as it was loaded; it is only read.
        steps: Time steps of the data; 0 without data.

    Raises:
        ModelError: The model is for sequences of its own length only.
    """
    model, own = loaded.model, {spec.shape[0] for spec in loaded.inputs if spec.shape}
    if not (isinstance(model, keras.Sequential) or sites.is_functional(model)) or len(own) != 1:
        return loaded  # It is refused later, with the reason.
    wanted = steps or (own.copy().pop() if max(own) >= FEWEST else MADE_UP_STEPS)
    kept = any(getattr(layer, "stateful", False) for _, layer in sites.paths(model))
    if own == {wanted} and not kept and all(tensor.shape[0] is None for tensor in model.inputs):
        return loaded
    try:
        copy = _copied(model, wanted)
    except (TypeError, ValueError) as error:
        if not steps and not kept:
            return loaded  # As long as the model says.
        raise ModelError(
            f"With --step the samples may have any number of time steps, if the model's layers take it. Received: "
            f"{wanted} steps for `{loaded.source}`, which takes {own.pop()}: {said(error)}. Pass --data with sequences "
            "of the model's length."
        ) from error
    inputs = tuple(dataclasses.replace(spec, shape=(wanted, *spec.shape[1:])) for spec in loaded.inputs)
    return reload(dataclasses.replace(loaded, inputs=inputs), copy)


def _copied(model: Any, steps: int) -> Any:
    """A copy for a number of steps and any number of samples, which begins each sequence with its initial states."""
    copy = rebuild(model, {})
    for _, layer in sites.paths(copy):
        if isinstance(layer, keras.layers.RNN):
            layer.stateful = False
    tensors = [keras.Input((steps, *t.shape[2:]), dtype=t.dtype, name=t.name) for t in model.inputs]
    given = keras.tree.pack_sequence_as(copy.input, tensors) if not isinstance(copy, keras.Sequential) else tensors[0]
    return keras.models.clone_model(copy, input_tensors=given, clone_function=lambda layer: layer)

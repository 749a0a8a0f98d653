"""Names of a model's outputs: those of Keras's structure, each once, states with their own."""

from __future__ import annotations

from typing import Any

import keras

from sqp_keras import private

_STATES = {"LSTM": ("h", "c"), "ConvLSTM1D": ("h", "c"), "ConvLSTM2D": ("h", "c"), "ConvLSTM3D": ("h", "c")}
"""What recurrent layers return after their sequence, for `return_state`; the others return h."""


def output_names(model: Any, outputs: Any) -> tuple[str, ...]:
    """Returns one name per output, in the order in which `keras.tree` flattens them.

    An output in a dict is called by its keys ("params_0" for the first of a list under "params"), any other by the
    layer that makes it. A state of a recurrent layer adds what it is: "lstm_h", "lstm_c". A name that comes again gets
    a number.

    Args:
        model: The Keras model.
        outputs: What its call returned.
    """
    paths = [tuple(path) for path, _ in keras.tree.flatten_with_path(outputs)]
    made_by = _makers(model, len(paths))
    names: list[str] = []
    for place, path in enumerate(paths):
        keyed = path[next((i for i, key in enumerate(path) if isinstance(key, str)), len(path)) :]
        wanted = "_".join(map(str, keyed)) or made_by[place] or f"output_{place}"
        name, number = wanted, 0
        while name in names:
            number += 1
            name = f"{wanted}_{number}"
        names.append(name)
    return tuple(names)


def _makers(model: Any, count: int) -> list[str]:
    if isinstance(model, keras.Sequential):
        return [layer.name for layer in (model.layers or model.inputs)[-1:]] if count == 1 else [""] * count
    listed = list(getattr(model, "output_names", None) or ())
    if len(listed) != count:
        return [""] * count
    tensors = list(getattr(model, "outputs", None) or ())
    if len(tensors) != count:
        return listed
    return [name + _state(tensor) for name, tensor in zip(listed, tensors, strict=True)]


def _state(tensor: Any) -> str:
    """Which state of a recurrent layer a tensor is ("_h", "_c", "_backward_h"); "" for anything else."""
    layer, place = private.maker_of(tensor), private.place_of(tensor)
    sides = ("forward_", "backward_") if isinstance(layer, keras.layers.Bidirectional) else ("",)
    inner = layer.forward_layer if isinstance(layer, keras.layers.Bidirectional) else layer
    if not getattr(inner, "return_state", False) or place == 0:
        return ""
    states = [side + state for side in sides for state in _STATES.get(type(inner).__name__, ("h",))]
    return f"_{states[place - 1]}" if place <= len(states) else ""

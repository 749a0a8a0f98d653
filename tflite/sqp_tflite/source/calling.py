"""Calls a Keras model with one value for each of its inputs, however it takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from sqp_tflite import private
from sqp_tflite.errors import BadInputError
from sqp_tflite.source import hooks
from sqp_tflite.source.keras_errors import running
from sqp_tflite.source.output_names import output_names


def caller(model: Any, source: str) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Returns the function of one value per input, in their order, that gives the model's outputs by name.

    Args:
        model: A built Keras model.
        source: What messages call it.
    """

    def call(tensors: Sequence[Any]) -> dict[str, Any]:
        symbolic = private.inputs_structure(model) is not None
        with in_float32(model), running(source):
            if symbolic or len(tensors) == 1:
                outputs = model(structured(model, tensors), training=False)
            else:
                outputs = _call_recorded(model, tensors)
            names = output_names(model, outputs)
            return dict(zip(names, map(_tensor, keras.tree.flatten(outputs)), strict=True))

    return call


def compiled(model: Any, call: Callable[[Sequence[Any]], dict[str, Any]]) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Returns a call for several batches: as a graph where a recurrent layer would run each of its steps by itself.

    Args:
        model: The Keras model; None for other models.
        call: What `caller` returned for it.
    """
    if model is None or not any(isinstance(layer, keras.layers.RNN) for layer in private.layers(model)):
        return call
    traced = tf.function(call, autograph=False)

    def quick(tensors: Sequence[Any]) -> dict[str, Any]:
        try:
            found: dict[str, Any] = traced([tf.convert_to_tensor(value) for value in tensors])
            return found
        except BadInputError:  # A loop in a graph is stricter, about an initial state of one sample for instance.
            return call(tensors)

    return quick


def structured(model: Any, values: Sequence[Any]) -> Any:
    """Returns one value per input in the structure that the model is called with: one, a list, a dict or a nest."""
    struct = private.inputs_structure(model)
    if struct is not None:
        return keras.tree.pack_sequence_as(struct, list(values))
    return values[0] if len(values) == 1 else list(values)


def in_float32(model: Any) -> AbstractContextManager[None]:
    """Lets a model of mixed precision compute in the type of its weights, which is what a device gets."""
    layers = private.layers(model)
    return hooks.in_float32(frozenset(id(layer) for layer in layers if layer.compute_dtype != "float32"))


def _call_recorded(model: Any, tensors: Sequence[Any]) -> Any:
    """Puts the tensors back into the arguments that a subclassed model was built with."""
    left = list(tensors)
    arguments: dict[str, Any] = {}
    for argument, shape in private.build_shapes(model).items():
        name = argument.removesuffix("_shape")
        if isinstance(shape, dict):
            arguments[name] = {key: left.pop(0) for key in shape}
        elif shape and isinstance(shape[0], (tuple, list)):
            arguments[name] = [left.pop(0) for _ in shape]
        else:
            arguments[name] = left.pop(0)
    if len(arguments) == 1:
        return model(next(iter(arguments.values())), training=False)
    return model(**arguments, training=False)


def _tensor(value: Any) -> Any:
    if not hasattr(value, "shape"):
        raise TypeError(f"it returned {type(value).__name__} where a tensor is expected")
    return value

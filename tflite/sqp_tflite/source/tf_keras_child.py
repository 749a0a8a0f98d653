"""Writes what Keras 3 cannot open as a SavedModel, with tf-keras; it runs in a child process of its own.

There tf-keras does not disturb Keras 3, nor Keras 3 it. This module is imported by `worker`.
"""

from __future__ import annotations

from typing import Any


def write(path: str, folder: str, trust: bool) -> tuple[list[str], list[str]]:
    """Writes a model as a SavedModel; returns the names of its inputs and of its outputs, in their order.

    Args:
        path: The `.keras` or `.h5` file.
        folder: Where the SavedModel goes. Its inputs are `input_0` and so on, its outputs `output_0` and so on.
        trust: Whether code in the file may run.

    Raises:
        ValueError: The model's inputs are not known. tf-keras raises every kind besides.
    """
    import tensorflow as tf
    import tf_keras

    model = tf_keras.models.load_model(path, compile=False, safe_mode=not trust)
    if not getattr(model, "inputs", None):
        raise ValueError("a subclassed model, whose inputs the file does not say")
    tensors = list(model.inputs)
    names = [f"input_{place}" for place in range(len(tensors))]
    specs = {name: tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in zip(names, tensors, strict=True)}

    def serve(**given: Any) -> dict[str, Any]:
        outputs = model(tf.nest.pack_sequence_as(model.input, [given[name] for name in names]), training=False)
        return {f"output_{place}": value for place, value in enumerate(tf.nest.flatten(outputs))}

    held = tf.Module()
    held.model = model
    function = tf.function(serve, autograph=False).get_concrete_function(**specs)
    tf.saved_model.save(held, folder, signatures=function)
    outputs = list(model.output_names)
    if len(outputs) != len(function.structured_outputs) or len(set(outputs)) < len(outputs):
        outputs = sorted(function.structured_outputs, key=lambda name: int(name.rpartition("_")[2]))
    return [str(name) for name in model.input_names], outputs

"""A layer that calls a function of TensorFlow: what Keras 2 made of `tf.concat([x, y], 1)` between two layers.

The functions are those that compute with their arguments and do nothing else. A file names a function; whatever is not
one of these is refused, since TensorFlow has functions that read and write files or run code.
"""

from __future__ import annotations

import re
from typing import Any

import keras

from sqp_tflite.errors import ModelFileError
from sqp_tflite.wording import shortened

_ROOT = frozenset(
    "argsort batch_to_space broadcast_dynamic_shape broadcast_static_shape broadcast_to cast clip_by_norm "
    "clip_by_value complex concat convert_to_tensor constant cumsum einsum ensure_shape expand_dims eye fill gather "
    "gather_nd identity linspace matmul meshgrid norm one_hot ones ones_like pad range rank repeat reshape reverse "
    "reverse_sequence roll searchsorted sequence_mask shape size slice sort space_to_batch split squeeze stack "
    "stop_gradient strided_slice tensordot tile transpose tril unstack where zeros zeros_like".split()
)
_OPERATORS = {
    "__operators__.add": "math.add",
    "__operators__.eq": "math.equal",
    "__operators__.ne": "math.not_equal",
    "__operators__.getitem": "__operators__.getitem",
}
"""Operators of Python; the functions behind them also take a number first."""

_SPACES = ("math", "nn", "linalg", "image", "signal", "bitwise")
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*|__operators__\.[a-z]+")

_ACTIVATIONS = {
    "nn.relu": "relu",
    "nn.relu6": "relu6",
    "nn.elu": "elu",
    "nn.selu": "selu",
    "nn.silu": "silu",
    "nn.swish": "silu",
    "nn.sigmoid": "sigmoid",
    "math.sigmoid": "sigmoid",
    "nn.tanh": "tanh",
    "math.tanh": "tanh",
    "nn.softplus": "softplus",
    "math.softplus": "softplus",
    "nn.softsign": "softsign",
    "math.softsign": "softsign",
    "math.exp": "exponential",
    "nn.gelu": "gelu",
    "nn.softmax": "softmax",
    "nn.log_softmax": "log_softmax",
}
"""Functions that an activation of Keras computes, with the same TensorFlow function, where nothing else is said."""

_SAYING_NOTHING = {"name": None, "axis": -1, "beta": 1.0, "approximate": False}
_PLACE = "tensor_at"


def place(number: int) -> dict[str, int]:
    """Returns what stands for a tensor in the arguments of a function."""
    return {_PLACE: number}


def stock(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration of one of Keras's own layers as a file holds it.

    Args:
        kind: Its class.
        config: Its arguments.
    """
    return {"module": "keras.layers", "class_name": kind, "config": config, "registered_name": None}


def layer(function: str, given: list[Any], named: dict[str, Any], tensors: int, name: str) -> dict[str, Any]:
    """Returns the configuration of a layer that calls a function of TensorFlow.

    Args:
        function: Its name behind `tf.`, as the file has it.
        given: Its arguments, with `place` for each tensor.
        named: Its arguments by name.
        tensors: How many tensors there are.
        name: Of the layer.

    Raises:
        ModelFileError: The function is none of those that only compute.
    """
    activation = _ACTIVATIONS.get(function.removeprefix("compat.v1."))
    idle = all(key in _SAYING_NOTHING and value in (None, _SAYING_NOTHING[key]) for key, value in named.items())
    base: dict[str, Any] = {"name": name, "dtype": "float32"}
    if activation and given == [place(0)] and tensors == 1 and idle:
        return stock("Activation", {**base, "activation": activation})
    require(function, name)
    if not tensors:  # Keras 2 writes only the first of *arguments.
        raise ModelFileError(
            f"A file must hold what each function is called with. Received: `{shortened(name, 80)}`, a call of "
            f"tf.{shortened(function, 80)} without its tensors: Keras 2 does not write them. Save the model as a "
            "SavedModel in the program that makes it, with model.save('folder'), or write that part as a layer there."
        )
    held = {**base, "function": function, "arguments": given, "named": named}
    return {
        "module": TensorFlowFunction.__module__,
        "class_name": TensorFlowFunction.__name__,
        "config": held,
        "registered_name": keras.saving.get_registered_name(TensorFlowFunction),
    }


def require(function: str, layer: str) -> None:
    """Raises unless a function only computes with its arguments.

    Args:
        function: Its name behind `tf.`.
        layer: Names it in the message.

    Raises:
        ModelFileError: It does not, or there is none of that name.
    """
    plain = function.removeprefix("compat.v1.")
    allowed = plain in _ROOT or function in _OPERATORS or (plain.partition(".")[0] in _SPACES and "." in plain)
    if not (_NAME.fullmatch(plain) and allowed and callable(_found(function))):
        raise ModelFileError(
            f"A function between two layers must be one of TensorFlow that only computes. Received: "
            f"`{shortened(function, 80)}` in `{shortened(layer, 80)}`. Export the model without it: compute that part "
            "before or behind the model."
        )


def _found(function: str) -> Any:
    import tensorflow as tf

    found: Any = tf
    for part in _OPERATORS.get(function, function).split("."):
        found = getattr(found, part, None)
    return found


@keras.saving.register_keras_serializable(package="sqp_tflite")
class TensorFlowFunction(keras.layers.Layer):
    """Calls a function of TensorFlow, as a file of Keras 2 says it.

    Args:
        function: Its name behind `tf.`: "concat", "math.reduce_mean", "__operators__.getitem".
        arguments: What it is given: numbers, texts and lists of them, and `place(i)` for the i-th tensor.
        named: The same by name.
        **kwargs: Of `keras.layers.Layer`.
    """

    def __init__(self, function: str, arguments: list[Any], named: dict[str, Any], **kwargs: Any):
        require(function, str(kwargs.get("name")))
        super().__init__(autocast=False, **kwargs)
        self.function, self.arguments, self.named = function, arguments, named

    def call(self, inputs: Any) -> Any:
        """Returns what the function returns for one tensor, or for a list of them.

        Args:
            inputs: The tensors.
        """
        tensors = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        given = _filled(self.arguments, tensors)
        return _found(self.function)(*given, **_filled(self.named, tensors))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, for a copy of the layer."""
        own = {"function": self.function, "arguments": self.arguments, "named": self.named}
        return {**super().get_config(), **own}


def _filled(value: Any, tensors: Any) -> Any:
    """Returns arguments with the tensors in their places, and with what JSON writes as objects as Python has it."""
    if isinstance(value, (list, tuple)):
        return [_filled(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_PLACE}:
        return tensors[value[_PLACE]]
    kind, items = value.get("class_name"), value.get("items")
    if kind == "__ellipsis__":
        return ...
    if kind in ("__tuple__", "TensorShape") and isinstance(items, list):
        return tuple(_filled(part, tensors) for part in items)
    if set(value) == {"start", "stop", "step"}:
        return slice(*(_filled(value[key], tensors) for key in ("start", "stop", "step")))
    return {key: _filled(part, tensors) for key, part in value.items()}

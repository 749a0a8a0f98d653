"""Mends the configuration of a file of Keras 2, so that Keras 3 builds the same model from it.

What has another name or another form in Keras 3 is written in that form, and what Keras 3 does not know is left out
where it has no effect in use. Nothing that could change what a layer computes is guessed: such a key stays, and Keras 3
refuses it. The differences were found by reading the configuration of every layer of Keras 2.15 with Keras 3.15, and
files of Keras 2.12 to 2.15 with `tools/keras2_files.py`.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import keras

from sqp_tflite.source import keras2_graph
from sqp_tflite.source.keras2_changes import Changes, Kind
from sqp_tflite.wording import shortened

_RECURRENT = frozenset("RNN SimpleRNN LSTM GRU ConvLSTM1D ConvLSTM2D ConvLSTM3D".split())
_SEPARABLE = frozenset("SeparableConv1D SeparableConv2D".split())
_UNGROUPED = _SEPARABLE | frozenset(
    "DepthwiseConv1D DepthwiseConv2D Conv1DTranspose Conv2DTranspose Conv3DTranspose".split()
)
_UNTRAINED = frozenset("SpatialDropout1D SpatialDropout2D SpatialDropout3D Discretization".split())
_RANDOM = frozenset(
    "RandomBrightness RandomContrast RandomCrop RandomFlip RandomRotation RandomTranslation RandomZoom".split()
)
_NORMS = frozenset(["BatchNormalization"])
_ANY = object()

_NAMES = {
    "Convolution1D": "Conv1D",
    "Convolution2D": "Conv2D",
    "Convolution3D": "Conv3D",
    "BatchNormalizationV1": "BatchNormalization",
    "SyncBatchNormalization": "BatchNormalization",
    "ThresholdedReLU": "ReLU",
    "Model": "Functional",
    "GroupedQueryAttention": "GroupQueryAttention",
}
"""Names of classes that Keras 3 does not have, and what computes the same there in use."""

_IDLE: tuple[tuple[str, frozenset[str], Any], ...] = (
    ("groups", _UNGROUPED, 1),
    ("kernel_initializer", _SEPARABLE, _ANY),
    ("kernel_regularizer", _SEPARABLE, _ANY),
    ("kernel_constraint", _SEPARABLE, _ANY),
    ("time_major", _RECURRENT, False),
    ("input_length", frozenset(["Embedding"]), _ANY),
    ("query_shape", frozenset(["MultiHeadAttention"]), _ANY),
    ("key_shape", frozenset(["MultiHeadAttention"]), _ANY),
    ("value_shape", frozenset(["MultiHeadAttention"]), _ANY),
    ("renorm", _NORMS, False),
    ("fused", _NORMS, _ANY),
    ("virtual_batch_size", _NORMS, None),
    ("noise_shape", _UNTRAINED, None),
    ("trainable", _UNTRAINED, _ANY),
    ("softmax_robust_masking", frozenset(["MultiHeadAttention"]), False),
    ("rng_type", _RANDOM, _ANY),
    ("dynamic", frozenset(), False),
)
"""(key, classes that have it, its value): keys that change nothing of what a layer computes in use, at that value."""

GONE = frozenset(
    "AbstractRNNCell AddLoss AddMetric ClassMethod CuDNNGRU CuDNNLSTM DenseFeatures InstanceMethod InstanceProperty "
    "KerasTensor LocallyConnected1D LocallyConnected2D RandomFourierFeatures RandomHeight RandomWidth "
    "SequenceFeatures TensorFlowOpLayer WideDeepModel LinearModel".split()
)
"""Classes of Keras 2 that Keras 3 does not have, and for which it has nothing that computes the same."""

_PACKAGES = ("keras", "tf_keras", "tensorflow", "tensorflow_core")


def before_keras3(writer: str) -> bool:
    """Returns whether a version is one of Keras 1 or 2.

    Args:
        writer: As the file says it.
    """
    return writer.partition(".")[0] in ("0", "1", "2")


def mended(config: dict[str, Any]) -> tuple[dict[str, Any], Changes]:
    """Returns the configuration of a Keras 2 model in the form of Keras 3, and what is different.

    Args:
        config: As the file has it; only read.

    Raises:
        BadInputError: It names a function of TensorFlow that does more than compute, or lacks what one was given.
    """
    changes = Changes()
    made = _value(config, "the model", changes)
    return {key: value for key, value in made.items() if key != "compile_config"}, changes


def _value(value: Any, layer: str, changes: Changes) -> Any:
    if isinstance(value, list):
        return [_value(part, layer, changes) for part in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("class_name"), str) and "config" in value:
        return _node(value, layer, changes)
    return {key: _value(part, layer, changes) for key, part in value.items()}


def _node(node: dict[str, Any], layer: str, changes: Changes) -> Any:
    """Returns an object of the configuration, a layer for example, with all that it holds."""
    kind, inner = node["class_name"], node["config"]
    if kind in ("Policy", "PolicyV1") and isinstance(inner, dict):
        changes.add(Kind.OTHER, "policy as a name", layer)
        return inner.get("name")
    if isinstance(inner, list) and kind == "Sequential":
        inner = {"layers": inner}
    if isinstance(inner, dict) and isinstance(inner.get("name"), str):
        layer = inner["name"]
    if not isinstance(inner, dict) or not _stock(node):
        return {key: _value(part, layer, changes) if key == "config" else part for key, part in node.items()}
    made = {key: part for key, part in node.items() if key not in ("build_config", "shared_object_id")}
    inner = dict(inner)
    kind = _renamed(kind, inner, layer, changes)
    was = node.get("module")
    # A layer's configuration has these; operations have the names of layers, too.
    operation = "inbound_nodes" in node and not {"trainable", "dtype", "layers"} & set(inner)
    module = (_operation(kind) if operation and not was else None) or _module(kind, was)
    if was not in (None, "keras", module):
        changes.add(Kind.OTHER, f"module {shortened(str(was), 60)}", layer)
    made |= {"class_name": kind, "registered_name": None, "module": module}
    made["config"] = _mended(kind, {key: _value(part, layer, changes) for key, part in inner.items()}, layer, changes)
    if kind == "Sequential":
        keras2_graph.with_input(made["config"], changes)
    elif kind == "Functional":
        made["registered_name"] = "Functional"
        made["config"] = keras2_graph.connected(made["config"], changes)
    return made


def _stock(node: dict[str, Any]) -> bool:
    """Whether a class is one of Keras's own."""
    kind, module = node["class_name"], node.get("module")
    if module is not None and str(module).partition(".")[0] not in _PACKAGES:
        return False
    return kind == "Functional" or kind in _NAMES or kind in keras2_graph.FUNCTIONS or _module(kind, None) is not None


def _module(kind: str, module: str | None) -> str | None:
    """Returns where Keras 3 has a class."""
    if kind == "Functional":
        return "keras.src.models.functional"
    if kind == "Sequential":
        return "keras"
    spaces = "layers initializers regularizers constraints losses metrics optimizers optimizers.schedules".split()
    for name in spaces:
        space: Any = keras
        for part in name.split("."):
            space = getattr(space, part)
        if hasattr(space, kind):
            return f"keras.{name}"
    return module or _operation(kind)


def _takes(kind: str, key: str) -> bool:
    """Whether a layer of this Keras 3 knows a key."""
    made = getattr(keras.layers, kind, None)
    return made is not None and key in inspect.signature(made.__init__).parameters


def _operation(kind: str) -> str | None:
    """Returns the module of an operation of Keras 3 (keras.ops.relu), which an .h5 file names without it."""
    modules = {function.__module__ for function in vars(keras.ops).values() if inspect.isfunction(function)}
    found = [name for name in sorted(modules) if inspect.isclass(getattr(sys.modules.get(name), kind, None))]
    named = [name for name in found if issubclass(getattr(sys.modules[name], kind), keras.Operation)]
    return named[0] if named else None


def _renamed(kind: str, config: dict[str, Any], layer: str, changes: Changes) -> str:
    if kind not in _NAMES:
        return kind
    if kind != "Model":
        changes.add(Kind.OTHER, f"{kind} as {_NAMES[kind]}", layer)
    if kind == "ThresholdedReLU":  # x where x > theta, else 0: ReLU's threshold is that.
        config["threshold"] = config.pop("theta", 1.0)
    return _NAMES[kind]


def _mended(kind: str, config: dict[str, Any], layer: str, changes: Changes) -> dict[str, Any]:
    """Returns the arguments of a stock layer as Keras 3 takes them."""
    for key, kinds, value in _IDLE:
        idle = key in config and (kind in kinds or not kinds) and (value is _ANY or config[key] == value)
        if idle and not _takes(kind, key):
            del config[key]
            changes.add(Kind.IDLE, key, layer)
    if kind == "InputLayer" and "batch_input_shape" in config:
        config["batch_shape"] = config.pop("batch_input_shape")
    axis = config.get("axis")
    if kind == "BatchNormalization" and isinstance(axis, list) and len(axis) == 1:
        config["axis"] = axis[0]
        changes.add(Kind.OTHER, "axis as a number", layer)
    if kind == "LeakyReLU" and "alpha" in config:
        config["negative_slope"] = config.pop("alpha")
    function = config.get("function")
    if kind == "Lambda" and isinstance(function, list) and config.get("output_shape_type") in (None, "raw"):
        held = dict(zip(("code", "defaults", "closure"), function, strict=False))
        config["function"] = {"class_name": "__lambda__", "config": held}
        for key in ("function_type", "module", "output_shape_type", "output_shape_module"):
            config.pop(key, None)
        changes.add(Kind.OTHER, "its lambda", layer)
    if config.get("activation") == "softmax_v2":
        config["activation"] = "softmax"
    if config.get("dtype") == "_infer":
        config.pop("dtype")
    return config

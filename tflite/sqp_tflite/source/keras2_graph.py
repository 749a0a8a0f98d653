"""The graph of a Keras 2 model in the form of Keras 3: which layer is called with what.

A model's calls count from 1 in Keras 2, since its own inputs were its first call. In Keras 3 they count from 0, but for
functional models that are an output. Keyword arguments that are tensors are written in another way, and
functions of TensorFlow become layers that call them (`tf_calls`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqp_tflite.source import tf_calls
from sqp_tflite.source.keras2_changes import Changes, Kind

FUNCTIONS = frozenset(["TFOpLambda", "SlicingOpLambda"])
"""The layers of Keras 2 that stand for a call of a function of TensorFlow."""

_STATEFUL = frozenset("RNN SimpleRNN LSTM GRU ConvLSTM1D ConvLSTM2D ConvLSTM3D Bidirectional".split())
"""Layers that Keras 2 called with a list [input, state, ...]."""

_CONSTANT = "_CONSTANT_VALUE"


def with_input(config: dict[str, Any], changes: Changes) -> None:
    """Puts an input in front of a Sequential model whose first layer has the shape, as old files have it.

    Args:
        config: Of the model; changed.
        changes: Gets what was done.
    """
    layers = [layer for layer in config.get("layers", []) if isinstance(layer, dict)]
    for place, layer in enumerate(layers):
        inner = layer.get("config")
        if not isinstance(inner, dict) or "batch_input_shape" not in inner:
            continue
        shape = inner.pop("batch_input_shape")
        changes.add(Kind.IDLE, "batch_input_shape", str(inner.get("name")))
        if place == 0 and shape is not None:
            entry = {"batch_shape": shape, "dtype": "float32", "name": f"{inner.get('name')}_input"}
            config["layers"].insert(0, tf_calls.stock("InputLayer", entry))


def connected(config: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Returns the configuration of a functional model with its calls as Keras 3 writes them.

    Args:
        config: Of the model, its layers mended.
        changes: Gets what was done.
    """
    layers = config.get("layers")
    if not isinstance(layers, list) or not all(_is_layer(layer) for layer in layers):
        return config
    if any(isinstance(node, dict) for layer in layers for node in layer["inbound_nodes"]):
        return config  # Written by Keras 3.
    return _Graph(config, changes).written()


def _is_layer(layer: Any) -> bool:
    return (
        isinstance(layer, dict)
        and isinstance(layer.get("name"), str)
        and isinstance(layer.get("config"), dict)
        and isinstance(layer.get("inbound_nodes"), list)
    )


class _Graph:
    """The layers of one functional model and the calls of each."""

    def __init__(self, config: dict[str, Any], changes: Changes):
        self.config, self.changes = config, changes
        self.layers = {layer["name"]: layer for layer in config["layers"]}
        self.names = {name: name.replace("/", "_") for name in self.layers}
        if len(set(self.names.values())) < len(self.names):
            self.names = {name: f"{name.replace('/', '_')}_{place}" for place, name in enumerate(self.layers)}
        self.first = {name: self._first(layer) for name, layer in self.layers.items()}

    def written(self) -> dict[str, Any]:
        made: list[dict[str, Any]] = []
        for layer in self.config["layers"]:
            made += self._functions(layer) if layer["class_name"] in FUNCTIONS else [self._layer(layer)]
        ends = {key: self._ends(self.config.get(key)) for key in ("input_layers", "output_layers")}
        return {**self.config, "layers": made, **ends}

    def _first(self, layer: dict[str, Any]) -> int:
        """The number of a layer's first call in Keras 2."""
        inside = layer["config"].get("layers")
        if layer["class_name"] not in ("Sequential", "Functional") or not isinstance(inside, list) or not inside:
            return 0
        return int(inside[0].get("class_name") == "InputLayer")

    def _ends(self, given: Any) -> Any:
        if _is_reference(given, self.layers):
            name, call, output = self._reference(given)
            return [name, call + (self.layers[given[0]]["class_name"] == "Functional"), output]
        if isinstance(given, dict):
            return {key: self._ends(part) for key, part in given.items()}
        if isinstance(given, list):
            return self._ends(given[0]) if len(given) == 1 else [self._ends(part) for part in given]
        return given

    def _reference(self, given: list[Any]) -> list[Any]:
        """Returns [layer, call, output] as Keras 3 counts."""
        name, call, output = given[:3]
        if self.layers[name]["class_name"] in FUNCTIONS and call:
            return [_numbered(self.names[name], call), 0, output]
        if self.first[name]:
            self.changes.add(Kind.OTHER, "calls counted from 0", name)
        return [self.names[name], call - self.first[name], output]

    def _layer(self, layer: dict[str, Any]) -> dict[str, Any]:
        name = layer["name"]
        inner = {**layer["config"], "name": self.names[name]}
        if name != self.names[name]:
            self.changes.add(Kind.OTHER, "/ in the name as _", name)
        if inner.pop("batch_input_shape", None) is not None:
            self.changes.add(Kind.IDLE, "batch_input_shape", name)
        nodes = [self._called(layer, _calls(node)) for node in layer["inbound_nodes"]]
        return {**layer, "name": self.names[name], "config": inner, "inbound_nodes": nodes}

    def _called(self, layer: dict[str, Any], calls: list[Any]) -> Any:
        """Returns one call of a layer: with what, and by which names."""
        named = calls[0][3] if calls and len(calls[0]) > 3 and isinstance(calls[0][3], dict) else {}
        given = [self._argument(call) for call in calls]
        states = layer["class_name"] in _STATEFUL and len(given) > 1
        if states:
            self.changes.add(Kind.OTHER, "states as initial_state", layer["name"])
            named = {**named, "initial_state": [call[:3] for call in calls[1:]]}
            given = given[:1]
        arguments = {key: self._tensors(value) for key, value in named.items()}
        return {"args": [given[0] if len(given) == 1 else given], "kwargs": arguments}

    def _argument(self, call: Any) -> Any:
        return call[2] if call[0] == _CONSTANT else self._tensor(call)

    def _tensor(self, given: list[Any]) -> dict[str, Any]:
        # Keras reads nothing but where it comes from.
        history = self._reference(given)
        return {
            "class_name": "__keras_tensor__",
            "config": {"shape": [], "dtype": "float32", "keras_history": history},
        }

    def _tensors(self, value: Any) -> Any:
        """Returns an argument, with every reference in it as a tensor."""
        if _is_reference(value, self.layers):
            return self._tensor(value)
        if isinstance(value, dict):
            return {key: self._tensors(part) for key, part in value.items()}
        return [self._tensors(part) for part in value] if isinstance(value, list) else value

    def _functions(self, layer: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields a layer for each call of a function: their arguments differ."""
        function = str(layer["config"].get("function"))
        for place, node in enumerate(layer["inbound_nodes"]):
            name = _numbered(self.names[layer["name"]], place) if place else self.names[layer["name"]]
            tensors: list[dict[str, Any]] = []

            def held(value: Any, tensors: list[dict[str, Any]] = tensors) -> Any:
                if _is_reference(value, self.layers):
                    tensors.append(self._tensor(value))
                    return tf_calls.place(len(tensors) - 1)
                if isinstance(value, dict):
                    return {key: held(part) for key, part in value.items()}
                return [held(part) for part in value] if isinstance(value, list) else value

            calls = _calls(node)
            several = bool(node) and isinstance(node[0], list)  # A list of tensors, as tf.concat takes it.
            first = [call[2] if call[0] == _CONSTANT else held(call[:3]) for call in calls]
            named = held(calls[0][3] if len(calls[0]) > 3 else {})
            made = tf_calls.layer(function, [first] if several else first, named, len(tensors), name)
            self.changes.add(Kind.FUNCTION, function, name)
            yield {
                **made,
                "name": name,
                "inbound_nodes": [{"args": [tensors[0] if len(tensors) == 1 else tensors], "kwargs": {}}],
            }


def _calls(node: Any) -> list[Any]:
    """Returns the tensors of one call, each [layer, call, output, further arguments]."""
    return [node] if node and isinstance(node[0], str) else list(node)


def _is_reference(value: Any, layers: dict[str, Any]) -> bool:
    return isinstance(value, list) and len(value) in (3, 4) and isinstance(value[0], str) and value[0] in layers


def _numbered(name: str, call: int) -> str:
    return f"{name}_call_{call}"

"""Finds every activation in a model, by reading layers and never by running them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras

from sqp_keras import private
from sqp_keras.family import attention
from sqp_keras.family.names import canonical

UNKNOWN = "unknown"
"""The name of an activation that is the user's own code."""

_TRUSTED_MODULES = ("keras", "tensorflow", "jax", "sqp_keras")

_LAYER_CLASSES = ("ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax", "Squareplus", "Algebraic", "AlgebraicSoftmax")

_PARAMETERS = {
    "ReLU": ("max_value", "negative_slope", "threshold"),
    "LeakyReLU": ("negative_slope",),
    "ELU": ("alpha",),
    "Softmax": ("axis",),
    "Squareplus": ("b", "learn_b", "floor"),
    "Algebraic": ("of", "terms", "alpha", "upper"),
    "AlgebraicSoftmax": ("axis",),
}

_OPERATION_PARAMETERS = ("alpha", "negative_slope", "axis", "b", "approximate", "lambd", "threshold")


@dataclass(frozen=True, slots=True)
class Activation:
    """What an activation computes.

    Attributes:
        name: Keras's name for it ("softplus", "silu", "squareplus", ...), "linear" for none, `UNKNOWN` for user code.
        parameters: Pairs (name, value) of what the model sets, e.g. (("alpha", 0.5),).
        spelled: The name in the model: that of the function or class.
    """

    name: str
    parameters: tuple[tuple[str, Any], ...]
    spelled: str


@dataclass(frozen=True, slots=True)
class Site:
    """One activation in one layer. A layer that is used twice is one site.

    Attributes:
        path: Names from the model's child down to the layer, joined by "/".
        attribute: "activation", "recurrent_activation", ... or "" where the layer or operation is the activation.
        owner: The layer or operation that holds it.
        activation: What it computes.
    """

    path: str
    attribute: str
    owner: Any
    activation: Activation

    @property
    def label(self) -> str:
        """Returns the path, with the attribute unless it is the plain `activation`."""
        return self.path if self.attribute in ("", "activation") else f"{self.path}.{self.attribute}"


def is_functional(model: Any) -> bool:
    """Returns whether a model is a graph of layers and operations (a Sequential is not)."""
    return isinstance(model, keras.Model) and hasattr(type(model), "operations")


def identify(activation: Any) -> Activation:
    """Returns what an activation computes: a name, a function, a layer or a Keras operation."""
    if activation is None:
        return Activation("linear", (), "linear")
    if isinstance(activation, str):
        return _named(activation, activation)
    if isinstance(activation, keras.layers.Activation) and _ours_or_keras(activation):
        return identify(activation.activation)
    if isinstance(activation, keras.layers.Layer):
        return _identify_layer(activation)
    if isinstance(activation, keras.Operation):
        return _identify_operation(activation)
    spelled = getattr(activation, "__name__", type(activation).__name__)
    if str(getattr(activation, "__module__", "")).split(".")[0] in _TRUSTED_MODULES:
        return _named(spelled, spelled)
    return Activation(UNKNOWN, (), spelled)


def sites(model: keras.layers.Layer) -> tuple[Site, ...]:
    """Returns the model's activations, in the order in which Keras holds its layers.

    Looks into nested models, wrappers, recurrent cells and user layers that hold layers as attributes, and at the
    operations of a functional model (`keras.ops.softplus(x)`). What a user's `call` computes by itself is not a site,
    nor is the softmax of a class that a user made from Keras's attention.

    Args:
        model: A Keras model or layer; it is only read.
    """
    return tuple(_walk(model, "", set()))


def paths(model: keras.layers.Layer) -> tuple[tuple[str, Any], ...]:
    """Returns (path, layer) of every layer and operation inside a model, parents before children."""
    return tuple(_children(model, "", set()))


def activation_attributes(layer: keras.layers.Layer) -> tuple[str, ...]:
    """Returns the names of the attributes in which a layer keeps an activation."""
    names = [name for name in private.attributes_of(layer) if name.lstrip("_").endswith("activation")]
    return tuple(name for name in names if callable(getattr(layer, name)))


def in_own_code(layer: Any) -> tuple[str, ...]:
    """Returns the attributes that Keras's attention will have once its softmax and tanh can be exchanged."""
    return attention.held_in_code(layer) if type(layer) in attention.WITH_SCORES else ()


def function_at(site: Site) -> Any:
    """Returns the activation at a site that is an attribute: a function or a layer."""
    return getattr(site.owner, site.attribute, None) or attention.STOCK[site.attribute]


def _walk(model: keras.layers.Layer, prefix: str, seen: set[int]) -> Iterator[Site]:
    out_of_reach: set[int] = set()
    for path, child in _children(model, prefix, seen):
        if attention.own_code_of(child):
            # A class of the user's may compute anything with it, or with Keras's fused kernel in its place.
            out_of_reach.add(id(private.attention_softmax(child)))
        if id(child) in out_of_reach:
            continue
        if is_activation(child):
            yield Site(path, "", child, identify(child))
        elif isinstance(child, keras.layers.Layer):
            for name in activation_attributes(child):
                yield Site(path, name, child, identify(getattr(child, name)))
            for name in in_own_code(child):
                yield Site(path, name, child, identify(attention.STOCK[name]))


def _children(parent: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for child in held_by(parent):
        if id(child) in seen or isinstance(child, keras.layers.InputLayer):
            continue
        seen.add(id(child))
        path = f"{prefix}/{child.name}" if prefix else child.name
        yield path, child
        if isinstance(child, keras.layers.Layer) and not is_activation(child):
            yield from _children(child, path, seen)


def held_by(parent: Any) -> tuple[Any, ...]:
    """Returns the layers and operations directly inside one, without those that its activation attributes hold."""
    held = private.layers_of(parent) if isinstance(parent, keras.layers.Layer) else []
    held += [op for op in getattr(parent, "operations", ()) if not any(op is child for child in held)]
    attributes = [getattr(parent, name) for name in activation_attributes(parent)]
    return tuple(child for child in held if not any(child is value for value in attributes))


def is_activation(child: Any) -> bool:
    """Returns whether a layer or an operation is itself an activation."""
    if isinstance(child, keras.layers.Layer):
        stock = isinstance(child, keras.layers.Activation) or type(child).__name__ in _LAYER_CLASSES
        return stock and _ours_or_keras(child)
    return _identify_operation(child).name in _KNOWN


def _ours_or_keras(child: Any) -> bool:
    return type(child).__module__.split(".")[0] in _TRUSTED_MODULES


def _identify_layer(layer: keras.layers.Layer) -> Activation:
    spelled = type(layer).__name__
    if spelled not in _LAYER_CLASSES or not _ours_or_keras(layer):
        return Activation(UNKNOWN, (), spelled)
    parameters = tuple((name, _plain(getattr(layer, name, None))) for name in _PARAMETERS.get(spelled, ()))
    return Activation(canonical(spelled), parameters, spelled)


def _identify_operation(operation: Any) -> Activation:
    spelled = type(operation).__name__
    if not _ours_or_keras(operation):
        return Activation(UNKNOWN, (), spelled)
    snake = "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(spelled))
    held = vars(operation)
    parameters = tuple((name, _plain(held[name])) for name in _OPERATION_PARAMETERS if name in held)
    return Activation(canonical(snake), parameters, spelled)


def _named(name: str, spelled: str) -> Activation:
    known = canonical(name)
    return Activation(known if known in _KNOWN else UNKNOWN, (), spelled)


def _plain(value: Any) -> Any:
    return (
        value if isinstance(value, (int, float, str, bool, type(None))) else keras.ops.convert_to_numpy(value).tolist()
    )


def _keras_names() -> frozenset[str]:
    functions: dict[str, Callable[..., Any]] = {
        name: value for name, value in vars(keras.activations).items() if callable(value) and name.islower()
    }
    names = {canonical(name) for name in functions} - {"get", "serialize", "deserialize"}
    own = "squareplus algebraic algebraic_softmax hard_sigmoid_keras2".split()
    return frozenset(names | {*own, "prelu", "leaky_relu", "linear"})


_KNOWN = _keras_names()

"""What this package uses of the private parts of Keras and TensorFlow.

Each part is listed with what it is and what happens without it. `check`, called when the package is imported, warns
of parts that the installed release lacks. Nothing fails because one is missing.
"""

import importlib
import warnings
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import keras


@dataclass(frozen=True, slots=True)
class PrivatePart:
    """One private attribute.

    Attributes:
        owner: Where it is: "layer", "tensor", "model", "lambda", "attention", or the name of a module.
        attribute: Its name.
        what: What it is.
        without: What happens without it.
        library: The library that has it.
    """

    owner: str
    attribute: str
    what: str
    without: str
    library: str = "Keras"

    def of(self, holder: Any, default: Any = None) -> Any:
        """Returns the attribute of `holder`, or `default` if this release does not have it."""
        return getattr(holder, self.attribute, default)

    def __str__(self) -> str:
        """Returns the text of the warning about its absence."""
        return f"This {self.library} release hides {self.what} (`{self.attribute}` of {self.owner}): {self.without}"


LAYERS = PrivatePart(
    "layer",
    "_layers",
    "the list of a layer's own layers",
    "layers are found in a layer's attributes instead, and the softmax of attention stays Keras's own.",
)
INBOUND_NODES = PrivatePart(
    "layer",
    "_inbound_nodes",
    "the calls of a layer",
    "`drop_head` drops no head, because a mask could be in use, and `distill` trains no single layers.",
)
OUTBOUND_NODES = PrivatePart("layer", "_outbound_nodes", "the uses of a layer's result", "copies need no reset.")
NODES = PrivatePart("model", "_nodes_by_depth", "the calls inside a functional model", "`drop_head` drops no head.")
HISTORY = PrivatePart("tensor", "_keras_history", "the layer that made a tensor", "`drop_head` drops no head.")
BUILD_SHAPES = PrivatePart(
    "layer",
    "_build_shapes_dict",
    "the shapes that a layer was built with",
    "subclassed models without `get_build_config` cannot be copied.",
)
LAMBDA_SHAPE = PrivatePart(
    "lambda", "_output_shape", "the output shape given to a Lambda", "a copied Lambda finds its output shape by itself."
)
BUILD_ATTENTION = PrivatePart(
    "attention",
    "_build_attention",
    "the step in which attention makes its softmax",
    "the softmax of attention stays Keras's own.",
)
COMPUTE_ATTENTION = PrivatePart(
    "attention",
    "_compute_attention",
    "the step in which attention calls its softmax",
    "the softmax of attention stays Keras's own.",
)
ATTENTION_SOFTMAX = PrivatePart(
    "attention once built", "_softmax", "the softmax of attention", "the softmax of attention stays Keras's own."
)
CALCULATE_SCORES = PrivatePart(
    "dot attention",
    "_calculate_scores",
    "the step in which Attention compares queries and keys",
    "Attention and AdditiveAttention stay Keras's own.",
)
APPLY_SCORES = PrivatePart(
    "dot attention",
    "_apply_scores",
    "the step in which Attention computes softmax",
    "Attention and AdditiveAttention stay Keras's own.",
)
ACTIVATION_TABLE = PrivatePart(
    "keras.src.activations",
    "ALL_OBJECTS_DICT",
    "the table of activation names",
    'the string "squareplus" keeps its stock meaning. Pass `activation=sqp_keras.squareplus` instead; everything else '
    "works.",
)
RECORD = PrivatePart(
    "tensorflow.python.eager.record",
    "record_operation",
    "the recording of operations for gradients",
    "there is no forward mode inside `tf.function`.",
    library="TensorFlow",
)
TANGENTS = PrivatePart(
    "tensorflow.python.eager.forwardprop_util",
    "pack_tangents",
    "what forward accumulators follow",
    "a fourth derivative that eager mode gets wrong is not refused.",
    library="TensorFlow",
)

PARTS = (
    LAYERS,
    INBOUND_NODES,
    OUTBOUND_NODES,
    NODES,
    HISTORY,
    BUILD_SHAPES,
    LAMBDA_SHAPE,
    BUILD_ATTENTION,
    COMPUTE_ATTENTION,
    CALCULATE_SCORES,
    APPLY_SCORES,
    ACTIVATION_TABLE,
    RECORD,
    TANGENTS,
)
"""All that can be looked up without building weights; the softmax of attention is looked up when one is built."""

_warned: set[PrivatePart] = set()


def check(parts: Iterable[PrivatePart] = PARTS) -> tuple[PrivatePart, ...]:
    """Returns the parts that the installed releases lack, and warns once of each."""
    if keras.config.backend() != "tensorflow":
        parts = [part for part in parts if part.library != "TensorFlow"]
    # Named, so that no automatic name of the user's layers is used up.
    tensor = keras.Input((1,), name="sqp_keras_check")
    layer = keras.layers.Identity(name="sqp_keras_check_layer")
    layer.compute_output_spec = lambda _: keras.KerasTensor((None, 1), name="sqp_keras_check_output")
    # Through a layer, since Keras 3.12 refuses a model whose output is its input.
    model = keras.Model(tensor, layer(tensor), name="sqp_keras_check_model")
    holders = {
        "layer": model.layers[0],
        "tensor": tensor,
        "model": model,
        "lambda": keras.layers.Lambda(keras.activations.linear, name="sqp_keras_check_lambda"),
        "attention": keras.layers.MultiHeadAttention,
        "dot attention": keras.layers.Attention,
    }
    missing = [
        part
        for part in parts
        if not hasattr(holders[part.owner] if part.owner in holders else _module(part.owner), part.attribute)
    ]
    for part in missing:
        warn(part)
    return tuple(missing)


def warn(part: PrivatePart) -> None:
    """Warns that a part is missing, the first time it is."""
    if part not in _warned:
        _warned.add(part)
        warnings.warn(str(part), stacklevel=3)


def layers_of(parent: Any) -> list[Any]:
    """Returns the layers directly inside a layer or model, in the order in which Keras holds them."""
    listed = LAYERS.of(parent)
    if listed is None:
        listed = getattr(parent, "layers", None)
    if listed is None:
        listed = _layers_in_attributes(parent)
    return list(listed)


def list_instead(parent: Any, old: Any, new: Any) -> bool:
    """Puts `new` in the place of `old` in the list of the parent's layers; removes `old` if `new` is not a layer.

    Returns:
        Whether the list is known; without it Keras does not see the weights of `new`.
    """
    listed = LAYERS.of(parent)
    if listed is None:
        return False
    for index, layer in reversed(list(enumerate(listed))):
        # Past Keras's own list class, which is locked once the layer is built.
        if layer is old and isinstance(new, keras.layers.Layer):
            list.__setitem__(listed, index, new)
        elif layer is old:
            list.__delitem__(listed, index)
    return True


def attributes_of(layer: Any) -> dict[str, Any]:
    """Returns what a layer holds, by attribute; on PyTorch by name, since layers are in a dictionary of their own."""
    held = vars(layer)
    return dict(sorted({**held["_modules"], **held}.items())) if "_modules" in held else held


def unlist(parent: Any, layer: Any) -> None:
    """Removes a layer from the list of the parent's layers, while the parent is being built."""
    listed = LAYERS.of(parent, [])
    if any(one is layer for one in listed):
        listed.remove(layer)


def calls_of(operation: Any) -> list[Any] | None:
    """Returns the nodes that call a layer or operation, None if they are not known."""
    found = INBOUND_NODES.of(operation)
    return None if found is None else list(found)


def forget_calls(operation: Any) -> None:
    """Takes a copied operation out of the graph of the original."""
    for part in (INBOUND_NODES, OUTBOUND_NODES):
        if hasattr(operation, part.attribute):
            setattr(operation, part.attribute, [])


def nodes_in(model: Any) -> list[Any] | None:
    """Returns all nodes of a functional model, None if they are not known."""
    by_depth = NODES.of(model)
    return None if by_depth is None else [node for group in by_depth.values() for node in group]


def maker_of(tensor: Any) -> Any:
    """Returns the layer or operation that made a symbolic tensor, None if it is not known."""
    return getattr(HISTORY.of(tensor), "operation", None)


def place_of(tensor: Any) -> int:
    """Returns which of its maker's results a symbolic tensor is, 0 if it is not known."""
    return int(getattr(HISTORY.of(tensor), "tensor_index", 0))


def input_of(tensor: Any) -> Any:
    """Returns the symbolic tensor that the call which made this one reads first, None if it is not known."""
    number, calls = getattr(HISTORY.of(tensor), "node_index", None), calls_of(maker_of(tensor))
    if number is None or calls is None or not 0 <= number < len(calls) or not calls[number].input_tensors:
        return None
    return calls[number].input_tensors[0]


def readers_of(tensor: Any) -> list[Any]:
    """Returns the nodes that read a symbolic tensor, as far as they are known."""
    nodes = OUTBOUND_NODES.of(maker_of(tensor), [])
    return [node for node in nodes if any(one is tensor for one in node.input_tensors)]


def argument_of(tensor: Any, name: str, place: int) -> Any:
    """Returns what the call that made a symbolic tensor got for an argument, None if it got nothing or is not known.

    Args:
        tensor: The symbolic tensor.
        name: Of the argument.
        place: Its place where it is not passed by name.
    """
    number, calls = getattr(HISTORY.of(tensor), "node_index", None), calls_of(maker_of(tensor))
    if number is None or calls is None or not 0 <= number < len(calls):
        return None
    given = getattr(calls[number], "arguments", None)
    args, kwargs = getattr(given, "args", ()), getattr(given, "kwargs", {})
    return kwargs.get(name, args[place] if len(args) > place else None)


def build_shapes(layer: Any) -> dict[str, Any]:
    """Returns the shapes that a layer was built with, by argument; empty if they are not known."""
    return BUILD_SHAPES.of(layer) or {}


def lambda_output_shape(layer: Any) -> Any:
    """Returns the output shape that a Lambda was given, None if none."""
    return LAMBDA_SHAPE.of(layer)


def attention_softmax(layer: Any) -> Any:
    """Returns the softmax layer of a built `MultiHeadAttention`, None if it is not known."""
    return ATTENTION_SOFTMAX.of(layer)


def attention_is_open() -> bool:
    """Returns whether the softmax of `MultiHeadAttention` can be exchanged in this release."""
    steps = (BUILD_ATTENTION, COMPUTE_ATTENTION)
    if not all(hasattr(keras.layers.MultiHeadAttention, part.attribute) for part in steps):
        return False
    return hasattr(keras.layers.InputLayer((1,), name="sqp_keras_check"), LAYERS.attribute)


def scores_are_open() -> bool:
    """Returns whether what `Attention` and `AdditiveAttention` compute can be exchanged in this release."""
    return all(hasattr(keras.layers.Attention, part.attribute) for part in (CALCULATE_SCORES, APPLY_SCORES))


def ask_for_scores(layer: Any) -> None:
    """Keeps `GroupedQueryAttention` from its fused kernel, in the call that is running."""
    layer._return_attention_scores = True


def become(layer: Any, other: type) -> bool:
    """Makes a layer an instance of another class, and returns whether Python allowed it.

    Attention inside a layer of the user's has been built by then, with weights that other parts already hold.
    """
    try:
        layer.__class__ = other
    except TypeError:
        return False
    return True


def activation_table() -> MutableMapping[str, Any] | None:
    """Returns Keras's table from strings to activations, None if this release keeps it elsewhere."""
    table = ACTIVATION_TABLE.of(_module(ACTIVATION_TABLE.owner))
    return table if isinstance(table, MutableMapping) else None


def record() -> Any:
    """Returns TensorFlow's module that records operations for gradients, None if this release keeps it elsewhere."""
    module = _module(RECORD.owner)
    needed = (RECORD.attribute, "stop_recording", "could_possibly_record")
    return module if all(hasattr(module, name) for name in needed) else None


def accumulators(tensors: list[Any]) -> int:
    """Returns how many active forward accumulators of TensorFlow follow one of the tensors; 0 if it cannot be told."""
    pack = getattr(_module(TANGENTS.owner), TANGENTS.attribute, None)
    return 0 if pack is None else sum(1 for pairs in pack(tensors).indices if pairs)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _layers_in_attributes(parent: Any) -> list[Any]:
    found: list[Any] = []
    for value in attributes_of(parent).values():
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
        found += [item for item in items if isinstance(item, keras.layers.Layer)]
    return list({id(layer): layer for layer in found}.values())

"""Drops the last softmax or sigmoid of a model, and explains how to read the outputs without it."""

from dataclasses import dataclass
from typing import Any

import keras

from sqp_keras import accept, private
from sqp_keras.models.rebuild import rebuild
from sqp_keras.models.sites import Site, sites

_READ = {
    "softmax": "the largest value{place} is the class (argmax); the values are logits, not probabilities",
    "log_softmax": "the largest value{place} is the class (argmax); the values are logits, not log-probabilities",
    "sigmoid": "above 0 means yes (what was 0.5 is 0; a threshold p becomes log(p/(1-p)))",
}


_COPYING = ("Reshape", "Flatten", "Dropout", "Identity", "Squeeze", "ExpandDims")
"""Layers and operations of Keras that pass their input on, in the same order."""


@dataclass(frozen=True, slots=True)
class Head:
    """The activation dropped from one output.

    Attributes:
        output: The output's name in Keras, "" if the model has one output.
        layer: Path of the layer that had it.
        was: "softmax", "log_softmax" or "sigmoid".
        note: How to read the output now.
    """

    output: str
    layer: str
    was: str
    note: str

    def __str__(self) -> str:
        """Returns one line for a report."""
        place = f"output `{self.output}`" if self.output else "output"
        return f"{place}: {self.was} of `{self.layer}` dropped; {self.note}"


def drop_head(model: keras.Model, custom_objects: dict[str, Any] | None = None) -> tuple[Any, tuple[Head, ...]]:
    """Returns a copy of the model without the softmax or sigmoid of its outputs, and a note per output changed.

    A Reshape, Flatten or Dropout may follow it. A softmax over an axis other than the last, or whose rows such a layer
    joins, is kept, because its argmax would be another one. So is an activation whose result is also used elsewhere in
    the model. If there is nothing to drop, the model itself is returned.

    Args:
        model: A built Sequential or functional model; the last layer may be a nested model.
        custom_objects: Your own classes and functions that cannot be found in the model.
    """
    model, custom_objects = accept.model("model", model), accept.objects("custom_objects", custom_objects)
    found = _heads(model)
    if not found:
        return model, ()
    substitutes = {(id(site.owner), site.attribute): _linear if site.attribute else _nothing for _, site, _ in found}
    heads = tuple(Head(name, site.label, site.activation.name, _note(site, shape)) for name, site, shape in found)
    return rebuild(model, substitutes, custom_objects), heads


def droppable(model: keras.Model) -> tuple[tuple[str, Site], ...]:
    """Returns (output, "" if there is one; its activation) of every softmax or sigmoid that `drop_head` would drop."""
    return tuple((name, site) for name, site, _ in _heads(model))


def _heads(model: keras.Model) -> list[tuple[str, Site, tuple[Any, ...]]]:
    """The same with the shape of each output."""
    known = {(id(site.owner), site.attribute): site for site in sites(model)}
    found = []
    for name, owner, uses, shape in _last_layers(model):
        for attribute in ("activation", ""):
            site = known.get((id(owner), attribute))
            if site is None or site.activation.name not in _READ or uses != 1 or _masked(owner):
                continue
            rows = _shape(owner)[-1:] in ((), shape[-1:])
            if site.activation.name == "sigmoid" or (_last_axis(site) and rows):
                found.append((name, site, shape))
    return found


def _shape(owner: Any) -> tuple[Any, ...]:
    return tuple(getattr(getattr(owner, "output", None), "shape", None) or ())


def _note(site: Site, shape: tuple[Any, ...]) -> str:
    cells = "x".join(str(size) for size in shape[1:-1])
    return _READ[site.activation.name].format(place=f" in each of {cells} cells" if cells else "")


def _masked(owner: Any) -> bool:
    """Whether a mask is, or may be, in use: without the softmax, masked values could be the largest."""
    calls = private.calls_of(owner)
    return calls is None or any(node.arguments.kwargs.get("mask") is not None for node in calls)


def _last_axis(site: Site) -> bool:
    axis = dict(site.activation.parameters).get("axis", -1)
    if axis in (-1, [-1], (-1,)):
        return True
    shape = _shape(site.owner)
    return isinstance(axis, int) and bool(shape) and axis == len(shape) - 1


def _last_layers(model: Any) -> list[tuple[str, Any, int, tuple[Any, ...]]]:
    """Returns (output name, layer or operation that computes it, uses of its result, shape of the output).

    It looks into nested models, and through what only passes its input on.
    """
    if isinstance(model, keras.Sequential):
        return [("", *_inside(model, 1), _shape(model.layers[-1]))] if model.layers else []
    outputs = getattr(model, "outputs", None)
    nodes = private.nodes_in(model)
    if not outputs or nodes is None:
        return []
    names = list(model.output_names) if len(outputs) > 1 else [""]
    found = []
    for name, end in zip(names, outputs, strict=True):
        tensor, operation, uses = end, private.maker_of(end), _uses(end, outputs, nodes)
        while uses == 1 and _copies(operation):
            tensor = private.input_of(tensor)
            # What passes it on is one of its readers.
            operation, uses = private.maker_of(tensor), _uses(tensor, outputs, nodes) - 1
        if operation is not None:
            found.append((name, *_inside(operation, uses), tuple(end.shape)))
    return found


def _uses(tensor: Any, outputs: list[Any], nodes: list[Any]) -> int:
    readers = sum(any(t is tensor for t in node.input_tensors) for node in nodes)
    copies = sum(t is tensor for t in outputs)
    calls = sum(node.operation is private.maker_of(tensor) for node in nodes)
    return readers + max(copies, calls)


def _copies(operation: Any) -> bool:
    kind = type(operation)
    return kind.__name__ in _COPYING and kind.__module__.split(".")[0] == "keras"


def _inside(operation: Any, uses: int) -> tuple[Any, int]:
    if isinstance(operation, keras.Sequential):
        last = next((layer for layer in reversed(operation.layers) if not _copies(layer)), None)
        return (operation, uses) if last is None else _inside(last, uses)
    if isinstance(operation, keras.Model) and len(getattr(operation, "outputs", None) or ()) == 1:
        for _, owner, inner, _ in _last_layers(operation):
            return owner, uses + inner - 1
    return operation, uses


def _linear(owner: Any) -> Any:
    return keras.activations.linear


def _nothing(owner: Any) -> Any:
    return keras.layers.Activation("linear", name=owner.name)


def last_activations(model: Any) -> tuple[Site | None, ...]:
    """Returns the activation that makes each output, in Keras's order; None for a layer without one, () if unknown."""
    found = {(id(site.owner), site.attribute): site for site in sites(model)}
    owners = [owner for _, owner, _, _ in _last_layers(model)]
    return tuple(found.get((id(owner), "activation")) or found.get((id(owner), "")) for owner in owners)

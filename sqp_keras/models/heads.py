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

    A softmax over an axis other than the last is kept, because its argmax would be another one. So is an activation
    whose result is also used elsewhere in the model. If there is nothing to drop, the model itself is returned.

    Args:
        model: A built Sequential or functional model; the last layer may be a nested model.
        custom_objects: Your own classes and functions that cannot be found in the model.
    """
    model, custom_objects = accept.model("model", model), accept.objects("custom_objects", custom_objects)
    found = droppable(model)
    if not found:
        return model, ()
    substitutes = {(id(site.owner), site.attribute): _linear if site.attribute else _nothing for _, site in found}
    heads = tuple(Head(name, site.label, site.activation.name, _note(site)) for name, site in found)
    return rebuild(model, substitutes, custom_objects), heads


def droppable(model: keras.Model) -> tuple[tuple[str, Site], ...]:
    """Returns (output, "" if there is one; its activation) of every softmax or sigmoid that `drop_head` would drop."""
    known = {(id(site.owner), site.attribute): site for site in sites(model)}
    found = []
    for name, owner, uses in _last_layers(model):
        for attribute in ("activation", ""):
            site = known.get((id(owner), attribute))
            if (
                site is not None
                and site.activation.name in _READ
                and uses == 1
                and _last_axis(site)
                and not _masked(owner)
            ):
                found.append((name, site))
    return tuple(found)


def _note(site: Site) -> str:
    shape = getattr(getattr(site.owner, "output", None), "shape", ())
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
    shape = getattr(getattr(site.owner, "output", None), "shape", None)
    return isinstance(axis, int) and shape is not None and axis == len(shape) - 1


def _last_layers(model: Any) -> list[tuple[str, Any, int]]:
    """Returns (output name, last layer or operation, uses of its result) per output, looking into nested models."""
    if isinstance(model, keras.Sequential):
        return [("", *_inside(model.layers[-1], 1))] if model.layers else []
    outputs = getattr(model, "outputs", None)
    nodes = private.nodes_in(model)
    if not outputs or nodes is None:
        return []
    names = list(model.output_names) if len(outputs) > 1 else [""]
    found = []
    for name, tensor in zip(names, outputs, strict=True):
        operation = private.maker_of(tensor)
        if operation is None:
            continue
        readers = sum(any(t is tensor for t in node.input_tensors) for node in nodes)
        copies = sum(t is tensor for t in outputs)
        calls = sum(node.operation is operation for node in nodes)
        found.append((name, *_inside(operation, readers + max(copies, calls))))
    return found


def _inside(operation: Any, uses: int) -> tuple[Any, int]:
    if isinstance(operation, keras.Sequential):
        return _inside(operation.layers[-1], uses) if operation.layers else (operation, uses)
    if isinstance(operation, keras.Model) and len(getattr(operation, "outputs", None) or ()) == 1:
        for _, owner, inner in _last_layers(operation):
            return owner, uses + inner - 1
    return operation, uses


def _linear(owner: Any) -> Any:
    return keras.activations.linear


def _nothing(owner: Any) -> Any:
    return keras.layers.Activation("linear", name=owner.name)


def last_activations(model: Any) -> tuple[Site | None, ...]:
    """Returns the activation that makes each output, in Keras's order; None for a layer without one, () if unknown."""
    found = {(id(site.owner), site.attribute): site for site in sites(model)}
    owners = [owner for _, owner, _ in _last_layers(model)]
    return tuple(found.get((id(owner), "activation")) or found.get((id(owner), "")) for owner in owners)

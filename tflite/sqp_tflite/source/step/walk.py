"""Every call of a layer or an operation inside a Sequential or functional model, nested ones taken apart, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from sqp_keras import private
from sqp_keras.models import sites


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        path: Of the layer or operation, as `sites.paths` writes it.
        layer: The layer or operation.
        args: What it is called with; symbolic tensors stand for slots.
        kwargs: The same by name.
        slots: {id of a symbolic tensor in the arguments: its slot}.
        outputs: The slots of its results, flattened.
    """

    path: str
    layer: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    slots: Mapping[int, int]
    outputs: tuple[int, ...]

    def read(self, value: Any) -> list[int]:
        """Returns the slots of the symbolic tensors in a part of the arguments."""
        return [self.slots[id(leaf)] for leaf in keras.tree.flatten(value) if symbolic(leaf)]

    def filled(self, value: Any, values: Mapping[int, Any]) -> Any:
        """Returns a part of the arguments with values in the place of symbolic tensors.

        Args:
            value: `args`, `kwargs`, or a part of them.
            values: By slot.
        """
        return keras.tree.map_structure(lambda leaf: values[self.slots[id(leaf)]] if symbolic(leaf) else leaf, value)


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls inside a model.

    Attributes:
        calls: Each after those whose results it reads.
        inputs: Slots of the model's inputs, in order.
        outputs: Slots of its outputs, in order.
        tensors: The symbolic tensor of each slot, which has its shape and type.
    """

    calls: tuple[Call, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tensors: tuple[Any, ...]


def symbolic(value: Any) -> bool:
    """Returns whether a value is a symbolic tensor."""
    return isinstance(value, keras.KerasTensor)


def walk(model: Any) -> Calls | None:
    """Returns the calls inside a model; None for a model whose calls are not known (a subclassed one).

    Args:
        model: A Keras model; it is only read.
    """
    if not _open(model):
        return None
    found = _Walk()
    inputs = tuple(found.slot(tensor) for tensor in model.inputs)
    outputs = found.through(model, inputs, "")
    return Calls(tuple(found.calls), inputs, outputs, tuple(found.tensors))


def _open(model: Any) -> bool:
    """Whether the calls inside a layer are known."""
    if isinstance(model, keras.Sequential):
        return bool(getattr(model, "inputs", None))
    return sites.is_functional(model) and private.nodes_in(model) is not None


class _Walk:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.tensors: list[Any] = []

    def slot(self, tensor: Any) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def through(self, model: Any, inputs: tuple[int, ...], prefix: str) -> tuple[int, ...]:
        """Adds the calls inside a model and returns the slots of its outputs."""
        if isinstance(model, keras.Sequential):
            slot, tensor = inputs[0], model.inputs[0]
            for layer in model.layers:
                made = () if _open(layer) else tuple(keras.tree.flatten(layer.compute_output_spec(tensor)))
                outputs = self._called(layer, (tensor,), {}, {id(tensor): slot}, made, prefix)
                slot, tensor = outputs[0], self.tensors[outputs[0]]
            return (slot,)
        slots = {id(tensor): slot for tensor, slot in zip(model.inputs, inputs, strict=True)}
        for node in _ordered(model, slots):
            if not node.is_input:
                given = node.arguments
                outputs = self._called(node.operation, given.args, given.kwargs, slots, tuple(node.outputs), prefix)
                slots |= {id(tensor): slot for tensor, slot in zip(node.outputs, outputs, strict=True)}
        return tuple(slots[id(tensor)] for tensor in model.outputs)

    def _called(
        self, layer: Any, args: Any, kwargs: Any, slots: Mapping[int, int], made: tuple[Any, ...], prefix: str
    ) -> tuple[int, ...]:
        path = f"{prefix}/{layer.name}" if prefix else layer.name
        if _open(layer):
            inner = [slots[id(leaf)] for leaf in keras.tree.flatten(args[0] if args else kwargs) if symbolic(leaf)]
            return self.through(layer, tuple(inner), path)
        outputs = tuple(self.slot(tensor) for tensor in made)
        self.calls.append(Call(path, layer, tuple(args), dict(kwargs), dict(slots), outputs))
        return outputs


def _ordered(model: Any, known: Mapping[int, int]) -> Iterator[Any]:
    """Yields the nodes of a functional model, each after those whose results it reads."""
    ready = set(known)
    left = list(private.nodes_in(model) or ())
    while left:
        waiting = []
        for node in left:
            if all(id(tensor) in ready for tensor in node.input_tensors):
                ready |= {id(tensor) for tensor in node.outputs}
                yield node
            else:
                waiting.append(node)
        if len(waiting) == len(left):  # Nodes of another model that reads the same inputs.
            return
        left = waiting

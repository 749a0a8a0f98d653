"""Which input and output of a TFLite file, of any origin, is which of its Keras model's."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sqp_tflite.accept import quoted
from sqp_tflite.errors import PairingError
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.run.end_names import by_name, by_number
from sqp_tflite.run.interpreters import Outputs
from sqp_tflite.wording import joined

INPUTS, OUTPUTS = "inputs", "outputs"

_MOST_LISTED = 4

Shapes = Mapping[str, tuple[int, ...]]
"""A model's inputs or outputs: shapes without the batch by name, in Keras's order."""


@dataclass(frozen=True, slots=True)
class Order:
    """Where the model's inputs or outputs are in the file.

    Attributes:
        places: For each of the model's, in Keras's order, its place in the file.
        counted: Whether only numbers in the names of tensors said so ("StatefulPartitionedCall:1").
    """

    places: tuple[int, ...]
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which input and output of a file is which of the model's: the only place where an order is changed."""

    inputs: Order
    outputs: Order

    def to_file(self, inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """Returns the model's inputs in the file's order."""
        return tuple(inputs[self.inputs.places.index(place)] for place in range(len(inputs)))

    def from_file(self, outputs: Outputs) -> Outputs:
        """Returns the file's outputs in Keras's order."""
        places = self.outputs.places
        return Outputs(
            tuple(outputs.values[place] for place in places),
            tuple(outputs.codes[place] for place in places),
            tuple(outputs.scales[place] for place in places),
        )


@dataclass(frozen=True, slots=True)
class _Slot:
    """An input or output of a file; `signed` is its name in the signature, "" where there is none."""

    place: int
    tensor: Tensor
    signed: str = ""


def order(which: str, model: Shapes, graph: Graph, given: Sequence[str] | None = None) -> Order:
    """Returns where the model's inputs or outputs are in a file.

    What has a shape of its own is found by it. Among those of one shape, the names in the file's signature decide, then
    the names of its tensors, then numbers that stand for names.

    Args:
        which: `INPUTS` or `OUTPUTS`.
        model: The model's.
        graph: The file.
        given: The model's names in the file's order, from the user; None to find out.

    Raises:
        PairingError: The file's are not the model's, or several of one shape cannot be told apart.
    """
    slots = _slots(which, graph)
    tensors = [slot.tensor for slot in slots]
    if Counter(model.values()) != Counter(tensor.sample_shape for tensor in tensors):
        raise _misfit(which, model, tensors)
    if given is not None:
        return _given(which, model, graph, given)
    names = list(model)
    sources = (
        (by_name(names, [slot.signed for slot in slots]), False),
        (by_number([slot.signed for slot in slots]), False),
        (by_name(names, [tensor.name for tensor in tensors]), False),
        (by_number([tensor.name for tensor in tensors]), True),
    )
    places: dict[int, int] = {}
    used = []
    for shape in dict.fromkeys(model.values()):
        ours = [place for place, name in enumerate(names) if model[name] == shape]
        theirs = [place for place, tensor in enumerate(tensors) if tensor.sample_shape == shape]
        if len(ours) == 1:
            places[ours[0]] = theirs[0]
            continue
        fitting = [source for source in sources if sorted(source[0].get(i, -1) for i in ours) == theirs]
        if not fitting:
            raise _ambiguous(which, names, [names[i] for i in ours], [slots[i] for i in theirs])
        places.update({i: fitting[0][0][i] for i in ours})
        used.append(fitting[0][1])
    return Order(tuple(slots[places[place]].place for place in range(len(names))), any(used))


def _slots(which: str, graph: Graph) -> list[_Slot]:
    """Those of the signature, if it names them all: two names may stand for one tensor."""
    indices = getattr(graph.main, which)
    for signature in graph.signatures:
        named: Mapping[str, int] = getattr(signature, which)
        if signature.subgraph == 0 and len(named) == len(indices) and set(named.values()) == set(indices):
            return [_Slot(indices.index(index), graph.main.tensors[index], name) for name, index in named.items()]
    return [_Slot(place, graph.main.tensors[index]) for place, index in enumerate(indices)]


def _given(which: str, model: Shapes, graph: Graph, given: Sequence[str]) -> Order:
    tensors: tuple[Tensor, ...] = getattr(graph, which)
    if sorted(given) != sorted(model):
        raise PairingError(
            f"`{which}` (--{which}) must list each of the model's {which} once, in the file's order: "
            f"{_listed(map(quoted, model))}. Received: {_listed(map(quoted, given))}."
        )
    for place, (name, tensor) in enumerate(zip(given, tensors, strict=True)):
        if tensor.sample_shape != model[name]:
            raise PairingError(
                f"`{which}` (--{which}) must be in the file's order. Received: {quoted(name)} {(1, *model[name])} for "
                f"number {place} of the file, which is {_told(tensor)}. Put each name where its shape is."
            )
    return Order(tuple(given.index(name) for name in model))


def _misfit(which: str, model: Shapes, tensors: Sequence[Tensor]) -> PairingError:
    """The error for a file whose inputs or outputs are not the model's, whatever their order."""
    held = Counter(tensor.shape for tensor in tensors)
    batches = {tensor.shape[0] for tensor in tensors if tensor.shape}
    if len(batches) == 1 and held == Counter((*batches, *shape) for shape in model.values()):
        return PairingError(
            f"The file's batch must be 1 or open, because samples run one after the other. Received: batch "
            f"{batches.pop()}, {which} {_listed(map(_told, tensors))}. Convert the model again without batch_size in "
            "its Input, or with sqp-export, which always writes batch 1."
        )
    for tensor in tensors:
        later = [place for place in tensor.open if place]
        if later:
            return PairingError(
                f"The file's {which} must have fixed sizes after the batch, as the model has here. Received: "
                f"{_told(tensor)}, whose dimension {later[0]} is open. Convert a model whose keras.Input has full "
                "sizes, or use sqp-export, which takes them from --data."
            )
    ours = _listed(f"{quoted(name)} {(1, *shape)}" for name, shape in model.items())
    return PairingError(
        f"The file's {which} must be the model's. Received: model {ours}; file {_listed(map(_told, tensors))}. "
        "Check that the file was made from this model, with batch 1."
    )


def _ambiguous(which: str, names: list[str], ours: list[str], theirs: list[_Slot]) -> PairingError:
    held = _listed(quoted(slot.signed or slot.tensor.name) for slot in theirs)
    return PairingError(
        f"The file must say which of its {which} of shape {theirs[0].tensor.shape} is which, by names in its signature "
        f"or of its tensors. Received: {held}, for {_listed(map(quoted, ours))} of the model. List the model's {which} "
        f"in the file's order; if that is the model's: --{which} {shlex.quote(','.join(names))}"
    )


def _told(tensor: Tensor) -> str:
    return f"{quoted(tensor.name)} {tensor.shape}"


def _listed(items: Iterable[str]) -> str:
    return joined(items, _MOST_LISTED) or "none"

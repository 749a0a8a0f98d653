"""Finds the states of a model: outputs that go back in as inputs at the next run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from sqp_keras import private
from sqp_tflite.accept import shown
from sqp_tflite.errors import OptionError
from sqp_tflite.source.load import InputSpec, Loaded
from sqp_tflite.wording import listed

_STATE = re.compile(r"(h|c|state|states|hidden|carry|memory|cache)(\d*)$")
"""Words of a name that say it is a state, with a number behind them."""

_SAME = {"state": "h", "states": "h", "hidden": "h", "carry": "c"}
"""Other words for an LSTM's h and c, and for the only state of other layers."""

_DIRECTION = frozenset("in out input output new next old prev previous last init initial final".split())
"""Words that say which end it is."""


def state_pairs(
    loaded: Loaded, outputs: Sequence[InputSpec], wanted: Mapping[str, str] | None
) -> tuple[tuple[int, int], ...]:
    """Returns pairs (place of an output, place of the input that it goes back into), in the order of the outputs.

    A recurrent layer's states belong to the inputs that are its `initial_state`. Of other outputs the name decides: it
    must say that it is a state (h, c, state, hidden), and only one input of that shape may fit.

    Args:
        loaded: The model.
        outputs: Name, shape without the batch, and type of each output.
        wanted: {output: input} as the user says; None to find the pairs.

    Raises:
        OptionError: A name that the model does not have, an input that two outputs go into, or other shapes.
    """
    inputs = loaded.inputs
    if wanted is not None:
        return _as_wanted(inputs, outputs, wanted)
    found = {
        out: into
        for out, into in _recurrent(loaded.model, inputs, len(outputs)).items()
        if _alike(outputs[out], inputs[into])
    }
    free_out = [place for place in range(len(outputs)) if place not in found]
    free_in = [place for place in range(len(inputs)) if place not in found.values()]
    for exact in (True, False):
        ours = {place: _key(outputs[place], exact) for place in free_out if place not in found}
        theirs = {place: _key(inputs[place], exact) for place in free_in if place not in found.values()}
        for out, key in ours.items():
            fitting = [into for into, other in theirs.items() if other == key and key is not None]
            rivals = [other for other in ours.values() if other == key]
            if len(fitting) == len(rivals) == 1:
                found[out] = fitting[0]
    return tuple(sorted(found.items()))


def _as_wanted(
    inputs: Sequence[InputSpec], outputs: Sequence[InputSpec], wanted: Mapping[str, str]
) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for out, into in wanted.items():
        ours, theirs = _place(outputs, out, "output"), _place(inputs, into, "input")
        if not _alike(outputs[ours], inputs[theirs]):
            raise OptionError(
                "A state's output and input must have the same shape and type. Received: --state "
                f"{shown(f'{out}={into}')}, {_described(outputs[ours])} into {_described(inputs[theirs])}. "
                "Name the input that it goes back into."
            )
        if theirs in found.values():
            raise OptionError(
                f"An input takes one state. Received: --state for input {shown(into)} twice. Leave one out."
            )
        found[ours] = theirs
    return tuple(sorted(found.items()))


def _place(ends: Sequence[InputSpec], name: str, role: str) -> int:
    for place, end in enumerate(ends):
        if end.name == name:
            return place
    raise OptionError(
        f"--state OUT=IN must name an output and an input of the model. Received: {role} {shown(name)}; its {role}s "
        f"are {listed([end.name for end in ends])}. Use one of these."
    )


def _described(end: InputSpec) -> str:
    return f"{end.dtype} {end.shape}"


def _alike(output: InputSpec, into: InputSpec) -> bool:
    return (output.shape, output.dtype) == (into.shape, into.dtype)


def _recurrent(model: Any, inputs: Sequence[InputSpec], outputs: int) -> dict[int, int]:
    """The states of recurrent layers whose `initial_state` is an input of the model."""
    tensors = list(getattr(model, "outputs", None) or ())
    sources = {id(tensor): place for place, tensor in enumerate(getattr(model, "inputs", None) or ())}
    if len(tensors) != outputs or len(sources) != len(inputs):
        return {}
    found: dict[int, int] = {}
    for out, tensor in enumerate(tensors):
        place = private.place_of(tensor)
        layer = private.maker_of(tensor)
        if not isinstance(layer, (keras.layers.RNN, keras.layers.Bidirectional)) or place == 0:
            continue
        begins = keras.tree.flatten(private.argument_of(tensor, "initial_state", 1))
        into = sources.get(id(begins[place - 1])) if place <= len(begins) else None
        if into is not None and into not in found.values():
            found[out] = into
    return found


def _key(end: InputSpec, exact: bool) -> tuple[object, ...] | None:
    """What an output and its input have in common; None for a name that does not say that it is a state.

    Args:
        end: The input or output.
        exact: Whether all words of the name count, or only the one that says which state it is.
    """
    words = [word for word in re.split(r"[^0-9a-z]+", end.name.lower()) if word and word not in _DIRECTION]
    kinds = [matched for word in words if (matched := _STATE.match(word))]
    if not kinds or not end.dtype.startswith("float"):
        return None
    said = tuple(words) if exact else (_SAME.get(kinds[-1][1], kinds[-1][1]), kinds[-1][2])
    return (*said, end.shape, end.dtype)

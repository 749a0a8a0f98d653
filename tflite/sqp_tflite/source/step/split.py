"""Decides, for each call of a model of sequences, how it is done one time step at a time."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sqp_tflite.source.step import refusals
from sqp_tflite.source.step.parts import Part, Parts, Role, State, Track
from sqp_tflite.source.step.walk import Call, Calls

_L = keras.layers

_RINGS = (_L.Conv1D, _L.DepthwiseConv1D, _L.SeparableConv1D)
_STEPS = 6
"""Time steps on which a layer of an open length is tried."""

_CLOSE = 1e-4
"""Max difference between a layer on one step and on the sequence, over the size of the result: float32 rounds."""


def split(calls: Calls) -> Parts:
    """Returns how each call that the outputs depend on is done in a step.

    Layers that Keras documents as recurrent, and convolutions over time, get states. Of every other layer it is tried,
    on random numbers, whether it gives the same for one step as within the sequence.

    Args:
        calls: Of the model.

    Raises:
        RefusedError: A layer needs steps that come later, or more of the past than a step has; it is named.
    """
    return _Split(calls).parts()


class _Split:
    def __init__(self, calls: Calls):
        self._calls = calls
        self._made_by = {slot: call for call in calls.calls for slot in call.outputs}
        self._tracks: dict[int, Track] = {slot: Track(True) for slot in calls.inputs}
        self._parts: list[Part] = []
        self._names: set[str] = set()

    def parts(self) -> Parts:
        needed = self._needed()
        for call in self._calls.calls:
            if not needed.isdisjoint(call.outputs):
                self._add(call)
        return Parts(self._calls, tuple(self._parts), self._tracks)

    def _needed(self) -> set[int]:
        """The slots that the outputs depend on: not masks, and not the sequences behind an initial state."""
        found, left = set[int](), list(self._calls.outputs)
        while left:
            slot = left.pop()
            if slot not in found:
                found.add(slot)
                call = self._made_by.get(slot)
                left += [] if call is None else call.read((call.args, without_mask(call.kwargs)))
        return found

    def _add(self, call: Call) -> None:
        slots = tuple(dict.fromkeys(call.read((call.args, without_mask(call.kwargs)))))
        reads = tuple(slot for slot in slots if self._tracks[slot].sequence)
        if not reads:
            late = max((self._tracks[slot].late for slot in slots), default=0)
            self._keep(Part(call, Role.WHOLE), Track(False, late))
            return
        tracks = {self._tracks[slot] for slot in slots}
        if len(tracks) > 1 and not isinstance(call.layer, _L.RNN):
            raise refusals.uneven(call.path, call.layer)
        part, track = self._part(call, reads, self._tracks[reads[0]])
        self._keep(part, track)

    def _keep(self, part: Part, track: Track) -> None:
        self._parts.append(part)
        for place, slot in enumerate(part.call.outputs):
            # What a recurrent layer returns behind its output are its last states.
            self._tracks[slot] = Track(False, track.late) if part.role is Role.CELL and place else track

    def _part(self, call: Call, reads: tuple[int, ...], track: Track) -> tuple[Part, Track]:
        layer = call.layer
        if isinstance(layer, _L.RNN) and not isinstance(layer, _conv_rnn()):
            return self._recurrent(call, reads, track)
        if type(layer) in _RINGS and layer.kernel_size[0] > 1:
            return self._ring(call, reads, track)
        if track.padded:
            raise refusals.uneven(call.path, layer)
        if isinstance(layer, _L.Masking):
            return Part(call, Role.SAME, reads), track
        if type(layer) in (_L.ZeroPadding1D, _L.Cropping1D):
            return self._shifted(call, reads, track)
        if type(layer) is _L.Flatten:
            return self._window(call, reads, track)
        if type(layer).__name__ == "GetItem" and _is_newest(call):
            return Part(call, Role.NEWEST, reads), Track(False, track.late)
        if type(layer) is _L.TimeDistributed:
            return Part(call, Role.INNER, reads), track
        if type(layer) is _L.Reshape and self._keeps_time(call, reads):
            return Part(call, Role.RESHAPED, reads), track
        role = _tried(call, reads, [self._calls.tensors[slot] for slot in reads], track.late)
        if role is None:
            raise refusals.refused(call.path, layer)
        return Part(call, role, reads), track

    def _keeps_time(self, call: Call, reads: tuple[int, ...]) -> bool:
        before, after = self._calls.tensors[reads[0]].shape, self._calls.tensors[call.outputs[0]].shape
        return before[1] is not None and len(after) > 1 and before[1] == after[1]

    def _recurrent(self, call: Call, reads: tuple[int, ...], track: Track) -> tuple[Part, Track]:
        layer = call.layer
        if layer.go_backwards:
            raise refusals.backwards(call.path, layer)
        if track.late or track.padded:
            raise refusals.early(call.path, layer)
        given = call.kwargs.get("initial_state", call.args[1] if len(call.args) > 1 else None)
        if call.read(given):
            raise refusals.begun(call.path, layer)
        begins = layer.get_initial_state(batch_size=1) if given is None else given
        values = [np.asarray(value, np.float32)[0] for value in keras.tree.flatten(begins)]
        names = _state_names(layer.cell, len(values))
        named = zip(names, values, strict=True)
        states = tuple(State(self._named(f"{call.path}/{name}"), value) for name, value in named)
        return Part(call, Role.CELL, reads, states), Track(layer.return_sequences)

    def _ring(self, call: Call, reads: tuple[int, ...], track: Track) -> tuple[Part, Track]:
        layer = call.layer
        if layer.data_format != "channels_last":
            raise refusals.convolution(call.path, layer, "data_format='channels_first'")
        if layer.strides[0] != 1:
            raise refusals.convolution(call.path, layer, f"strides={layer.strides[0]}")
        if layer.padding not in ("causal", "valid"):
            raise refusals.convolution(call.path, layer, f"padding='{layer.padding}'")
        past = (layer.kernel_size[0] - 1) * layer.dilation_rate[0]
        late = track.late
        if layer.padding == "valid":
            late += past - track.padded
        if late < 0 or (layer.padding == "causal" and (track.late or track.padded)):
            raise refusals.early(call.path, layer)
        channels = self._calls.tensors[reads[0]].shape[-1]
        state = State(self._named(f"{call.path}/past"), np.zeros((past, channels), np.float32))
        return Part(call, Role.TAPS, reads, (state,)), Track(True, late)

    def _shifted(self, call: Call, reads: tuple[int, ...], track: Track) -> tuple[Part, Track]:
        """Zeros in front of a sequence are what a convolution's state begins with."""
        padding = isinstance(call.layer, _L.ZeroPadding1D)
        before, after = call.layer.padding if padding else call.layer.cropping
        if after or (padding and track.late):
            raise refusals.refused(call.path, call.layer, "changes the end of a sequence, or a start that has no value")
        moved = Track(True, 0, before) if padding else Track(True, track.late + before)
        return Part(call, Role.SAME, reads), moved

    def _window(self, call: Call, reads: tuple[int, ...], track: Track) -> tuple[Part, Track]:
        shape = self._calls.tensors[reads[0]].shape
        if shape[1] is None:
            raise refusals.refused(call.path, call.layer, "joins an open number of steps")
        rest = tuple(shape[2:]) or (1,)
        state = State(self._named(f"{call.path}/past"), np.zeros((shape[1] - 1, *rest), np.float32))
        role, states = (Role.WINDOW, (state,)) if shape[1] > 1 else (Role.TIMED, ())
        return Part(call, role, reads, states), Track(False, track.late + shape[1] - 1)

    def _named(self, wanted: str) -> str:
        """Returns a name that no other state has: a layer that is called twice has two sets of states."""
        head, _, end = wanted.rpartition("/")
        name, number = wanted, 0
        while name in self._names:
            number += 1
            name = f"{head}_{number}/{end}"
        self._names.add(name)
        return name


def remembers(layer: Any) -> bool:
    """Returns whether a layer is of a kind that may keep states."""
    return isinstance(layer, (_L.RNN, _L.Bidirectional, _L.Flatten)) or hasattr(layer, "kernel_size")


def without_mask(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments without masks: a step is there or it is not fed."""
    return {name: value for name, value in kwargs.items() if name not in ("mask", "training", "initial_state")}


def called(layer: Any, args: Any, kwargs: Mapping[str, Any], flat: bool = False) -> Any:
    """Returns what a layer or operation gives in inference.

    Args:
        layer: The layer or operation.
        args: Its arguments.
        kwargs: The same by name.
        flat: Whether they have no time dimension, which a BatchNormalization would refuse that was built with one.
    """
    function = layer.call if flat and isinstance(layer, _L.BatchNormalization) else layer
    more = {"training": False} if takes_training(layer) else {}
    return function(*args, **{**kwargs, **more})


def takes_training(layer: Any) -> bool:
    """Returns whether a layer's call has the argument `training`."""
    return isinstance(layer, _L.Layer) and "training" in inspect.signature(layer.call).parameters


def _conv_rnn() -> tuple[type, ...]:
    return (_L.ConvLSTM1D, _L.ConvLSTM2D, _L.ConvLSTM3D)


def _is_newest(call: Call) -> bool:
    key = call.args[1] if len(call.args) > 1 else call.kwargs.get("key")
    everything = slice(None, None, None)
    return isinstance(key, tuple) and len(key) > 1 and key == (everything, -1, *[everything] * (len(key) - 2))


def _state_names(cell: Any, count: int) -> list[str]:
    if isinstance(cell, _L.StackedRNNCells):
        sizes = [len(keras.tree.flatten(size)) for size in cell.state_size]
        return [f"{i}/{name}" for i, one in enumerate(cell.cells) for name in _state_names(one, sizes[i])]
    if isinstance(cell, _L.LSTMCell) and count == 2:
        return ["h", "c"]
    return ["h"] if count == 1 else [f"h{place}" for place in range(count)]


def _tried(call: Call, reads: tuple[int, ...], tensors: list[Any], late: int) -> Role | None:
    """How a layer of any class is done on one step so that it gives what it gives within a sequence; None if in no way.

    Args:
        call: The call.
        reads: The slots of its sequences.
        tensors: Their symbolic tensors.
        late: By how many steps they are shorter than the model's inputs.
    """
    arrays = {slot: _random(tensor, place) for place, (slot, tensor) in enumerate(zip(reads, tensors, strict=True))}
    try:
        whole = _results(call, {slot: tf.constant(value) for slot, value in arrays.items()}, flat=False)
    except Exception:  # The layer's code, the user's own included, raises every kind.
        return None
    steps = next(iter(arrays.values())).shape[1]
    if any(value.ndim < 2 or value.shape[:2] != (2, steps) for value in whole):
        return None
    flat_first = (True, False) if all(len(tensor.shape) > 2 for tensor in tensors) else (False,)
    for flat in flat_first:
        if all(_same_at(call, arrays, whole, place, flat) for place in {0, 1 % steps, steps - 1}):
            return Role.FLAT if flat else Role.TIMED
    return None


def _same_at(call: Call, arrays: Mapping[int, Any], whole: list[Any], place: int, flat: bool) -> bool:
    cut = {slot: value[:, place] if flat else value[:, place : place + 1] for slot, value in arrays.items()}
    try:
        found = _results(call, {slot: tf.constant(value) for slot, value in cut.items()}, flat)
    except Exception:  # As above.
        return False
    wanted = [value[:, place] if flat else value[:, place : place + 1] for value in whole]
    return all(
        one.shape == other.shape and np.allclose(one, other, rtol=0, atol=_CLOSE * max(1.0, float(np.abs(other).max())))
        for one, other in zip(found, wanted, strict=True)
    )


def _results(call: Call, values: Mapping[int, Any], flat: bool) -> list[Any]:
    args, kwargs = call.filled(call.args, values), call.filled(without_mask(call.kwargs), values)
    return [np.asarray(value) for value in keras.tree.flatten(called(call.layer, args, kwargs, flat))]


def _random(tensor: Any, seed: int) -> Any:
    steps = tensor.shape[1] or _STEPS
    rng, shape = np.random.default_rng(seed), (2, steps, *tensor.shape[2:])
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return rng.integers(0, 2, shape).astype(dtype) if "int" in dtype else rng.normal(size=shape).astype("float32")

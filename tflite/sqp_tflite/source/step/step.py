"""A model of one time step, described like a loaded model: it takes a step and the states, and gives the new states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from sqp_tflite.errors import ModelError
from sqp_tflite.layer_names import scope_name
from sqp_tflite.source.calling import in_float32
from sqp_tflite.source.keras_errors import running
from sqp_tflite.source.load import InputSpec, Loaded
from sqp_tflite.source.output_names import output_names
from sqp_tflite.source.step import refusals
from sqp_tflite.source.step.parts import Part, Parts, Role, State
from sqp_tflite.source.step.split import called, remembers, split, takes_training, without_mask
from sqp_tflite.source.step.walk import walk

TIMES = 4
"""How many of the model's sequences are run one after another, as one, to see whether a file drifts."""


@dataclass(frozen=True, slots=True)
class Step:
    """One time step of a model of sequences.

    Attributes:
        loaded: The step: its inputs are those of the model without time, then the states; its outputs likewise.
        states: Each is an input and an output of the same name.
        steps: Time steps of the sequences that the model was given for.
        outputs: The names of the model's outputs.
        sequences: For each output of the model, whether it has a time dimension there.
        late: For each output, how many steps at the start it has no meaning for.
        shapes: For each output, its shape in the model behind the batch and time.
    """

    loaded: Loaded
    states: tuple[State, ...]
    steps: int
    outputs: tuple[str, ...]
    sequences: tuple[bool, ...]
    late: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Returns pairs (place of a state's output, place of its input)."""
        outs, ins = len(self.sequences), len(self.loaded.inputs) - len(self.states)
        return tuple((outs + place, ins + place) for place in range(len(self.states)))

    @property
    def times(self) -> int:
        """Returns over how many sequences in a row it is compared: one, if its outputs need the steps of just one."""
        ends = zip(self.sequences, self.late, strict=True)
        return 1 if all(not sequence and late + 1 == self.steps for sequence, late in ends) else TIMES

    @property
    def gives(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of its outputs without the batch by name, the states last."""
        own = zip(self.outputs, self.shapes, self.sequences, strict=True)
        # A sequence without features keeps its time dimension.
        named = {name: shape or ((1,) if sequence else ()) for name, shape, sequence in own}
        return {**named, **{state.name: state.shape for state in self.states}}


@dataclass(frozen=True, slots=True)
class Steps:
    """One time step of the model that the file is made from, and of the user's own; the same object if it is that."""

    written: Step
    given: Step


def stepped(loaded: Loaded) -> Step:
    """Returns one time step of a model, which is only read.

    Args:
        loaded: The model of sequences: the first dimension of each input after the batch is time.

    Raises:
        ModelError: What was loaded is no Keras model of known calls, nothing in it remembers past steps, or its
            inputs are no sequences of one length.
        RefusedError: A layer cannot be done one step at a time.
    """
    calls = None if loaded.model is None else walk(loaded.model)
    if calls is None:
        raise ModelError(
            "--step needs a Sequential or functional Keras model, whose layers say what they keep from step to step. "
            f"Received: `{loaded.source}`, which is none. Build the model from keras.Input and layers, and save it "
            "with model.save('model.keras')."
        )
    if not any(remembers(call.layer) for call in calls.calls):
        raise refusals.stateless(loaded.source)
    lengths = {spec.shape[:1] for spec in loaded.inputs}
    if len(lengths) != 1 or () in lengths:
        listed = ", ".join(f"`{spec.name}` {(None, *spec.shape)}" for spec in loaded.inputs)
        raise ModelError(
            "With --step every input is a sequence: the first dimension after the batch is time, of one length for "
            f"all. Received: {listed}. Export it without --step."
        )
    with in_float32(loaded.model), running(loaded.source):
        parts = split(calls)
    ins = tuple(dataclasses.replace(spec, shape=spec.shape[1:] or (1,)) for spec in loaded.inputs)
    ends = tuple(InputSpec(state.name, state.shape, "float32") for state in parts.states)
    outputs = [parts.tracks[slot] for slot in calls.outputs]
    shapes = [calls.tensors[slot].shape for slot in calls.outputs]
    described = dataclasses.replace(loaded, call=_caller(loaded, parts), inputs=ins + ends)
    return Step(
        described,
        parts.states,
        loaded.inputs[0].shape[0],
        _names(loaded.model, parts),
        tuple(track.sequence for track in outputs),
        tuple(track.late for track in outputs),
        tuple(tuple(shape[2 if track.sequence else 1 :]) for shape, track in zip(shapes, outputs, strict=True)),
    )


def _names(model: Any, parts: Parts) -> tuple[str, ...]:
    """The names of the model's outputs, in its own structure of them."""
    tensors = [parts.calls.tensors[slot] for slot in parts.calls.outputs]
    if isinstance(model, keras.Sequential):
        return output_names(model, tensors[0])
    return output_names(model, keras.tree.pack_sequence_as(model.output, tensors))


def _caller(loaded: Loaded, parts: Parts) -> Callable[[Sequence[Any]], dict[str, Any]]:
    calls, count = parts.calls, len(parts.calls.inputs)
    names = _names(loaded.model, parts)

    def call(tensors: Sequence[Any]) -> dict[str, Any]:
        with in_float32(loaded.model), running(loaded.source):
            values = dict(zip(calls.inputs, tensors[:count], strict=True))
            old = dict(zip(parts.states, tensors[count:], strict=True))
            new: dict[State, Any] = {}
            run = _Run(parts, values, old, new)
            for part in parts.parts:
                run.do(part)
            outputs = [values[slot] for slot in calls.outputs]
            named = dict(zip(names, outputs, strict=True))
        return {**named, **{state.name: new[state] for state in parts.states}}

    return call


@dataclass(frozen=True, slots=True)
class _Run:
    """One step that is being done: values by slot, sequences without time (but with it where they have no features)."""

    parts: Parts
    values: dict[int, Any]
    old: Mapping[State, Any]
    new: dict[State, Any]

    def do(self, part: Part) -> None:
        """Computes what a part gives, and its new states."""
        with tf.name_scope(f"{scope_name(part.call.path)}/"):
            made = _DO[part.role](self, part)
        for slot, value in zip(part.call.outputs, made, strict=True):
            self.values[slot] = value

    def first(self, part: Part) -> Any:
        """Returns the first sequence that a part reads."""
        return self.values[part.reads[0]]

    def call(self, part: Part, layer: Any, values: Mapping[int, Any], flat: bool = False) -> list[Any]:
        """Returns what a layer gives for the part's arguments with other values."""
        args = part.call.filled(part.call.args, values)
        kwargs = part.call.filled(without_mask(part.call.kwargs), values)
        return list(keras.tree.flatten(called(layer, args, kwargs, flat)))

    def whole(self, part: Part) -> list[Any]:
        return self.call(part, part.call.layer, self.values)

    def flat(self, part: Part) -> list[Any]:
        return self.call(part, part.call.layer, self.values, flat=True)

    def inner(self, part: Part) -> list[Any]:
        return self.call(part, part.call.layer.layer, self.values, flat=True)

    def same(self, part: Part) -> list[Any]:
        return [self.first(part)]

    def timed(self, part: Part) -> list[Any]:
        values = {**self.values, **{slot: self._timed(slot) for slot in part.reads}}
        made = self.call(part, part.call.layer, values)
        return [value if self._bare(slot) else value[:, 0] for slot, value in zip(part.call.outputs, made, strict=True)]

    def reshaped(self, part: Part) -> list[Any]:
        shape = self.parts.calls.tensors[part.call.outputs[0]].shape[2:]
        return [keras.ops.reshape(self.first(part), (-1, *(shape or (1,))))]

    def cell(self, part: Part) -> list[Any]:
        layer = part.call.layer
        more = {"training": False} if takes_training(layer.cell) else {}
        given = [self.old[state] for state in part.states]
        states = keras.tree.pack_sequence_as(_nested(layer.cell.state_size), given)
        output, states = layer.cell(self._featured(part), states, **more)
        ends = keras.tree.flatten(states)
        self.new.update(zip(part.states, ends, strict=True))
        return [output, *ends][: len(part.call.outputs)]

    def taps(self, part: Part) -> list[Any]:
        layer, window = part.call.layer, self._window(part)
        dilation = layer.dilation_rate[0]
        made = _convolved(layer, window[:, ::dilation] if dilation > 1 else window)
        made = made if layer.bias is None else made + layer.bias
        return [made if layer.activation is None else layer.activation(made)]

    def window(self, part: Part) -> list[Any]:
        return self.call(part, part.call.layer, {**self.values, part.reads[0]: self._window(part)})

    def _window(self, part: Part) -> Any:
        """The past and the new input along time; all but the oldest of them are the past of the next step."""
        (state,) = part.states
        window = keras.ops.concatenate([self.old[state], self._featured(part)[:, None]], axis=1)
        self.new[state] = window[:, 1:]
        return window

    def _featured(self, part: Part) -> Any:
        return self.first(part)

    def _bare(self, slot: int) -> bool:
        """Whether a sequence has no features: a step of it keeps the time dimension, since the batch is not alone."""
        return self.parts.tracks[slot].sequence and len(self.parts.calls.tensors[slot].shape) == 2

    def _timed(self, slot: int) -> Any:
        value = self.values[slot]
        return value if self._bare(slot) else value[:, None]


def _nested(size: Any) -> Any:
    return size if isinstance(size, (list, tuple)) else [size]


def _convolved(layer: Any, taps: Any) -> Any:
    """The convolution of as many steps as it has taps: one result, without time."""
    if isinstance(layer, keras.layers.SeparableConv1D):
        made = keras.ops.separable_conv(taps, layer.depthwise_kernel, layer.pointwise_kernel, padding="valid")
    elif isinstance(layer, keras.layers.DepthwiseConv1D):
        made = keras.ops.depthwise_conv(taps, layer.kernel, padding="valid")
    elif layer.groups > 1:
        made = keras.ops.conv(taps, layer.kernel, padding="valid")
    else:  # All of it is one product, which needs no dimensions of its own.
        kernel = keras.ops.reshape(layer.kernel, (-1, layer.filters))
        return keras.ops.matmul(keras.ops.reshape(taps, (-1, kernel.shape[0])), kernel)
    return made[:, 0]


_DO: Mapping[Role, Callable[[_Run, Part], list[Any]]] = {
    Role.WHOLE: _Run.whole,
    Role.FLAT: _Run.flat,
    Role.TIMED: _Run.timed,
    Role.INNER: _Run.inner,
    Role.SAME: _Run.same,
    Role.NEWEST: _Run.same,
    Role.RESHAPED: _Run.reshaped,
    Role.CELL: _Run.cell,
    Role.TAPS: _Run.taps,
    Role.WINDOW: _Run.window,
}

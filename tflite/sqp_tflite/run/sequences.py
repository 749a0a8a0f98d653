"""Runs a file of one time step over whole sequences, with its own states fed back as they came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run.interpreters import Outputs, decode, encode, open_here, outputs_of, within
from sqp_tflite.source.samples import Samples
from sqp_tflite.worker import Worker

if TYPE_CHECKING:  # The interpreters' processes run these functions, without TensorFlow.
    from sqp_tflite.source.step.step import Step

MOST_ROWS = 8192
"""Steps that ranges are taken from: more cost time and change little."""


_MOST_LONG = 4
"""Long sequences that are made of them."""


@dataclass(frozen=True, slots=True)
class Stream:
    """How a file of one time step is run over sequences.

    Attributes:
        pairs: Pairs (place of a state's output in the file, place of its input).
        initial: What each of these states is before the first step, as real numbers, without the batch.
        inputs: The places of the other inputs in the file, in the model's order.
        outputs: The places of the other outputs in the file, in the model's order.
        sequences: For each of these outputs, whether it has a time dimension in the model.
        late: For each, how many steps at the start it has no meaning for.
        shapes: For each, its shape in the model behind the batch and time.
    """

    pairs: tuple[tuple[int, int], ...]
    initial: tuple[NDArray[Any], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sequences: tuple[bool, ...]
    late: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    def run(self, runtime: str, content: bytes, inputs: tuple[NDArray[Any], ...]) -> Outputs:
        """Returns the outputs as the model of sequences gives them; see `interpreters.run`.

        Args:
            runtime: One of `policy.RUNTIMES`.
            content: The file.
            inputs: One array per input of the model, shape (sequences, steps, ...).

        Raises:
            RuntimeFailedError: The interpreter refused the file, or crashed.
        """
        found = self.steps(runtime, content, inputs)

        def cut(arrays: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
            ends = zip(arrays, self.sequences, self.late, strict=True)
            return tuple(array[:, late:] if sequence else array[:, -1] for array, sequence, late in ends)

        return Outputs(cut(found.values), cut(found.codes), found.scales)

    def steps(self, runtime: str, content: bytes, inputs: tuple[NDArray[Any], ...]) -> Outputs:
        """Returns the outputs of every step, each of shape (sequences, steps, ...); otherwise as `run`."""
        found: Outputs = within(runtime, "sqp_tflite.run.sequences:steps_here", runtime, content, inputs, self)
        return found


def stream(step: Step, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None) -> Stream:
    """Returns how the file of a step is run.

    Args:
        step: The step.
        inputs: Where each of the step's inputs is in the file; None for the same order.
        outputs: The same for its outputs.
    """
    ins, outs = len(step.loaded.inputs) - len(step.states), len(step.outputs)
    fed = inputs or range(ins + len(step.states))
    made = outputs or range(outs + len(step.states))
    pairs = tuple((made[out], fed[into]) for out, into in step.pairs)
    initial = tuple(state.initial for state in step.states)
    return Stream(pairs, initial, tuple(fed[:ins]), tuple(made[:outs]), step.sequences, step.late, step.shapes)


def joined(samples: Samples, times: int) -> tuple[NDArray[Any], ...]:
    """Returns a few sequences of several times the length, one array per input: sequences that follow one another.

    Args:
        samples: The sequences; those of the first set are taken.
        times: How many make one.
    """
    first = next(iter(samples.parts().values()))
    count = len(range(len(samples))[first])
    places = np.arange(max(1, min(_MOST_LONG, count // times)) * times) % count
    return tuple(
        array[first][places].reshape(len(places) // times, times * array.shape[1], *array.shape[2:])
        for array in samples.inputs
    )


def rows(content: bytes, samples: Samples, stream: Stream, worker: Worker, times: int) -> Samples:
    """Returns every step of the sequences as a sample of its own, with the states that the float file has there.

    Args:
        content: The float file.
        samples: The sequences; the first ones are taken until there are `MOST_ROWS` steps.
        stream: How the file is run.
        worker: The child process to work in.
        times: Over how many sequences in a row the file is compared: the ranges come from these, too.
    """
    steps = samples.inputs[0].shape[1]
    runs = [tuple(array[: max(1, MOST_ROWS // steps)] for array in samples.inputs)]
    runs += [joined(samples, times)] if times > 1 else []
    found = []
    for inputs in runs:
        states = worker.call("sqp_tflite.run.sequences:states_here", content, inputs, stream)
        found.append(_as_rows((*inputs, *states), samples).inputs)
    return Samples(tuple(np.concatenate(parts) for parts in zip(*found, strict=True)), None, samples.given)


def first_steps(runtime: str, content: bytes, samples: Samples, stream: Stream, count: int) -> Samples:
    """Returns the first steps of the first sequence as samples, with the states that the file has there.

    Args:
        runtime: One of `policy.RUNTIMES`.
        content: The file, whose inputs are in the order of the step.
        samples: The sequences.
        stream: How the file is run.
        count: Of steps, at most.

    Raises:
        RuntimeFailedError: The interpreter refused the file, or crashed.
    """
    inputs = tuple(array[:1, :count] for array in samples.inputs)
    states = within(runtime, "sqp_tflite.run.sequences:states_here", content, inputs, stream, runtime)
    ends = [read(content).inputs[into] for _, into in stream.pairs]
    real = [decode(codes, end) for codes, end in zip(states, ends, strict=True)]
    return _as_rows((*inputs, *real), samples)


def _as_rows(arrays: tuple[NDArray[Any], ...], samples: Samples) -> Samples:
    """Every step as a sample; one without features has a single one."""
    featured = (array[..., None] if array.ndim < 3 else array for array in arrays)
    return Samples(tuple(array.reshape(-1, *array.shape[2:]) for array in featured), None, samples.given)


def steps_here(runtime: str, content: bytes, inputs: tuple[NDArray[Any], ...], stream: Stream) -> Outputs:
    """Does the work of `Stream.steps` in this process, which native code may crash."""
    graph = read(content)
    rows = _run(runtime, content, inputs, stream, stream.outputs)
    shaped = [row.reshape(*row.shape[:2], *shape) for row, shape in zip(rows[0], stream.shapes, strict=True)]
    return outputs_of([graph.outputs[place] for place in stream.outputs], tuple(shaped))


def states_here(
    content: bytes, inputs: tuple[NDArray[Any], ...], stream: Stream, runtime: str = "litert"
) -> tuple[NDArray[Any], ...]:
    """Returns what each state is before every step, shape (sequences, steps, ...), in the file's types.

    Args:
        content: A file of one time step.
        inputs: As in `Stream.run`.
        stream: How the file is run.
        runtime: One of `policy.RUNTIMES`, in this process.
    """
    return _run(runtime, content, inputs, stream, ())[1]


def _run(
    runtime: str, content: bytes, inputs: tuple[NDArray[Any], ...], stream: Stream, kept: tuple[int, ...]
) -> tuple[tuple[NDArray[Any], ...], tuple[NDArray[Any], ...]]:
    """Returns the numbers of some outputs, and of the states before each step."""
    graph, opened = read(content), open_here(runtime, content)
    ends = [graph.inputs[place] for place in stream.inputs]
    count, steps = inputs[0].shape[:2]
    fed = [encode(array, end).reshape(count, steps, *end.shape) for array, end in zip(inputs, ends, strict=True)]
    backs = [graph.inputs[into] for _, into in stream.pairs]
    begin = [encode(value.reshape(end.shape), end) for value, end in zip(stream.initial, backs, strict=True)]
    made = [np.empty((count, steps, *graph.outputs[place].shape[1:]), graph.outputs[place].dtype) for place in kept]
    held = [np.empty((count, steps, *end.shape[1:]), end.dtype) for end in backs] if not kept else []
    for sequence in range(count):
        states = begin
        for step in range(steps):
            for place, array in zip(stream.inputs, fed, strict=True):
                opened.set(place, array[sequence, step])
            for (_, into), value in zip(stream.pairs, states, strict=True):
                opened.set(into, value)
            for array, value in zip(held, states, strict=False):
                array[sequence, step] = value[0]
            opened.invoke()
            states = [opened.get(out).reshape(end.shape) for (out, _), end in zip(stream.pairs, backs, strict=True)]
            for array, place in zip(made, kept, strict=True):
                array[sequence, step] = opened.get(place).reshape(array.shape[2:])
    return tuple(made), tuple(held)

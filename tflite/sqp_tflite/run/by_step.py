"""What Keras's own layers compute one step at a time: the reference where a sequence is longer than the model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sqp_tflite.errors import RefusedError
from sqp_tflite.report import Finding, Kind
from sqp_tflite.run.reference import reference
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.samples import Samples
from sqp_tflite.source.step.step import Step

SAME = 1e-3
"""Max difference between a model on sequences and its step, over the range of the output. Both compute the same sums in
float32; a recurrent layer may amplify their rounding."""

_FEW = 4


def by_step(step: Step, inputs: tuple[NDArray[Any], ...]) -> dict[str, NDArray[Any]]:
    """Returns the outputs of every step by name, without the states, each of shape (sequences, steps, ...), float32.

    Args:
        step: The step.
        inputs: One array per input of the model, shape (sequences, steps, ...).
    """
    count, steps = inputs[0].shape[:2]
    function = tf.function(step.loaded.call, autograph=False)
    states = [tf.constant(np.repeat(state.initial[None], count, axis=0)) for state in step.states]
    fed = [tf.constant(array.reshape(count, steps, -1) if array.ndim < 3 else array) for array in inputs]
    made: list[list[NDArray[Any]]] = [[] for _ in step.sequences]
    names: list[str] = []
    for place in range(steps):
        outputs = function([array[:, place] for array in fed] + states)
        names, values = list(outputs), list(outputs.values())
        states = values[len(made) :]
        for rows, value in zip(made, values, strict=False):
            rows.append(np.asarray(value, np.float32))
    found = (np.stack(rows, axis=1) for rows in made)
    return {
        name: array.reshape(count, steps, *shape) for name, array, shape in zip(names, found, step.shapes, strict=False)
    }


def require_same(step: Step, loaded: Loaded, inputs: Samples) -> None:
    """Raises if the step, over whole sequences, does not give what the model gives for them.

    Args:
        step: The step.
        loaded: The model of sequences.
        inputs: The samples, of which a few are tried.

    Raises:
        RefusedError: An output differs: a layer remembers what nothing said that it does.
    """
    few = Samples(tuple(array[:_FEW] for array in inputs.inputs), None, inputs.given)
    whole, found = reference(loaded, few), by_step(step, few.inputs)
    for place, (name, wanted) in enumerate(whole.items()):
        late, rows = step.late[place], found[name]
        ours = rows[:, late:] if step.sequences[place] else rows[:, -1]
        off = float(np.abs(ours - wanted).max(initial=0.0))
        if off > SAME * max(float(np.ptp(wanted)), float(np.abs(wanted).max(initial=0.0))):
            rule = (
                "With --step the states of the known layers must be all that is remembered. Received: output "
                f"`{name}`, which is off by {off:.3g} when the model is run step by step."
            )
            remedy = "Take out the layer of your own that mixes steps, or export the whole sequence, without --step."
            finding = Finding("the whole model", "", "", rule, remedy, Kind.STATE)
            raise RefusedError(f"{loaded.source}: {finding}", (finding,))

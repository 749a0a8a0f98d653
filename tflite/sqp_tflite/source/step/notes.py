"""What the user must know of a file of one time step, in sentences."""

from __future__ import annotations

import numpy as np

from sqp_tflite.source.masks import masking
from sqp_tflite.source.step.masked import NOT_FED
from sqp_tflite.source.step.step import Step
from sqp_tflite.wording import listed

_MOST = 6


def notes(step: Step) -> tuple[str, ...]:
    """Returns how a step is used: what goes back in, what it begins with, and from when on each output is valid.

    Args:
        step: The step.
    """
    names = [state.name for state in step.states]
    begun = [state.name for state in step.states if np.any(state.initial)]
    start = "with all states 0"
    if begun:
        start = f"with the states 0, except {listed(begun, _MOST)}, whose first values are in the report"
    found = [
        f"The file computes one time step of `{step.loaded.source}`: copy each of its {len(names)} state outputs, byte "
        f"by byte, into the input of the same name ({listed(names, _MOST)}), and begin a sequence {start}."
    ]
    if masked := masking(step.loaded.model):
        which = ", ".join(f"`{path}`" for path in masked[:_MOST])
        found.append(f"Keras masks steps in {which}, the file does not: {NOT_FED}")
    for place, name in enumerate(step.outputs):
        late, sequence = step.late[place], step.sequences[place]
        if not sequence and not late:
            found.append(f"`{name}` is at every step what the model gives for the sequence up to that step.")
        elif late:
            found.append(f"`{name}` is valid from step {late + 1} on: the model needs {late + 1} steps for its first.")
    return tuple(found)


def state_values(step: Step) -> dict[str, tuple[float, ...]]:
    """Returns the first values of the states that do not begin with zeros, flattened, by name."""
    return {s.name: tuple(map(float, s.initial.reshape(-1))) for s in step.states if np.any(s.initial)}

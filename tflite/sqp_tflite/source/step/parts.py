"""What each call of a model of sequences becomes in a step: as it is, on one time step, or with states."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sqp_tflite.source.step.walk import Call, Calls


class Role(enum.Enum):
    """How a call is done in a step."""

    WHOLE = "whole"
    """As it is: nothing that it reads is a sequence."""
    FLAT = "flat"
    """On one time step, without a time dimension."""
    TIMED = "timed"
    """On one time step, as a sequence of length 1."""
    INNER = "inner"
    """The layer that a TimeDistributed holds, on one time step."""
    SAME = "same"
    """Not at all: its result is its input (Masking; a shift of time at the start)."""
    CELL = "cell"
    """The cell of a recurrent layer, with its states."""
    TAPS = "taps"
    """A convolution over past inputs, which are its state."""
    WINDOW = "window"
    """The layer on as many past inputs as the sequence has steps: they are its state."""
    NEWEST = "newest"
    """The last step of a sequence, `x[:, -1]`: in a step the only one."""
    RESHAPED = "reshaped"
    """A Reshape of each time step."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A tensor that goes out of a step and into the next one.

    Attributes:
        name: Of the input and of the output, for example "lstm/h".
        initial: What it is before the first step, shape without the batch, float32.
    """

    name: str
    initial: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns its shape without the batch."""
        return tuple(self.initial.shape)


@dataclass(frozen=True, slots=True)
class Part:
    """One call in a step.

    Attributes:
        call: In the model of sequences.
        role: How it is done.
        reads: The slots of its inputs that are sequences.
        states: What it keeps.
    """

    call: Call
    role: Role
    reads: tuple[int, ...] = ()
    states: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True)
class Track:
    """What a slot holds.

    Attributes:
        sequence: Whether it has a time dimension.
        late: How many steps at the start it has no value for: a valid convolution over k steps needs k of them.
        padded: How many zeros are in front of its first step.
    """

    sequence: bool
    late: int = 0
    padded: int = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """A model of sequences as the parts of a step.

    Attributes:
        calls: What they were made from.
        parts: In the order in which they are done.
        tracks: By slot.
    """

    calls: Calls
    parts: tuple[Part, ...]
    tracks: Mapping[int, Track]

    @property
    def states(self) -> tuple[State, ...]:
        """Returns all states, in the order of the parts."""
        return tuple(state for part in self.parts for state in part.states)

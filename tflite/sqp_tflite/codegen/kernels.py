"""What the plan and the writer know of an operator's loops, whichever module makes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from sqp_tflite.codegen.fused import Sink
from sqp_tflite.codegen.printing import Range
from sqp_tflite.codegen.source import Source
from sqp_tflite.flatbuffer.graph import Tensor


class Kernel(ABC):
    """The loops of one operator, which makes one tensor.

    Attributes:
        target: The tensor that it makes, element by element in the order of memory.
    """

    __slots__ = ()
    target: Tensor

    @property
    def output(self) -> int:
        """Returns the index of the tensor that it makes."""
        return self.target.index

    @property
    @abstractmethod
    def reads(self) -> tuple[int, ...]:
        """Returns the indices of the computed tensors that it reads."""

    @property
    def scratch(self) -> int:
        """Returns the bytes that it needs while it runs, aligned to 8."""
        return 0

    @property
    def macs(self) -> int:
        """Returns its multiplications with an addition."""
        return 0

    @property
    def in_place(self) -> bool:
        """Returns whether its first input may lie where its output does: what is written is not read again."""
        return False

    @property
    @abstractmethod
    def made(self) -> Range | None:
        """Returns the range of the codes that it makes, None for floats."""

    @property
    def channels(self) -> int:
        """Returns how many elements follow one another before its inner loop begins again."""
        return self.target.shape[-1]

    @abstractmethod
    def body(self, source: Source, names: Mapping[int, str], scratch: str, sink: Sink) -> list[str]:
        """Returns the statements.

        Args:
            source: Where constants and helpers go.
            names: C names of the pointers to computed tensors, by index.
            scratch: C name of a pointer to bytes, "" if it needs none.
            sink: Takes each element.
        """


class OneInput(Kernel):
    """The loops of an operator that computes from one tensor.

    Attributes:
        source: That tensor.
    """

    __slots__ = ()
    source: Tensor

    @property
    def reads(self) -> tuple[int, ...]:
        """Returns the indices of the computed tensors that it reads."""
        return (self.source.index,)


class Mover(Protocol):
    """An operator that only copies elements: it makes its outputs itself, and nothing is fused into it."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """Returns the tensors that it makes."""

    @property
    def reads(self) -> tuple[int, ...]:
        """Returns the computed tensors that it reads."""

    def body(self, source: Source, names: Mapping[int, str]) -> list[str]:
        """Returns the statements; as `Kernel.body`."""

"""What the firmware artefacts are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sqp_tflite.codegen.naming import CStyle, Golden, Port, ports
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.report import Report
from sqp_tflite.run.arena import Arena
from sqp_tflite.run.interpreters import encode


@dataclass(frozen=True, slots=True)
class Held:
    """A state that the runner keeps from one step to the next.

    Attributes:
        input: Where it goes in.
        output: Where it comes out.
        initial: Its first values as real numbers; () for zeros.
    """

    input: Port
    output: Port
    initial: tuple[float, ...] = ()

    @property
    def first(self) -> tuple[str, ...]:
        """Returns its first codes, or numbers, as C literals."""
        count = int(self.input.tensor.elements)
        values = np.asarray(self.initial or (0.0,) * count, np.float32)
        return tuple(str(code) for code in encode(values, self.input.tensor).reshape(-1).tolist())


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that an artefact may need.

    Attributes:
        model: The file's bytes.
        graph: The same, read.
        report: The report of the export; its op rows name the layers behind each op.
        style: Names and places of the C symbols.
        arena: What the interpreter needs; None if it was not measured.
        golden: The golden vectors; None if none were made.
        stepped: Whether the file is one time step, and the golden vectors are the first steps of a sequence.
        proven: The file that was compared, if the device gets another one that was compiled from it.
    """

    model: bytes
    graph: Graph
    report: Report
    style: CStyle = field(default_factory=CStyle)
    arena: Arena | None = None
    golden: Golden | None = None
    stepped: bool = False
    proven: bytes | None = None

    @property
    def source(self) -> str:
        """Returns the model's file name, without its folder."""
        return Path(self.report.source).name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Returns the model's inputs in order."""
        return ports("INPUT", self.graph.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Returns the model's outputs in order."""
        return ports("OUTPUT", self.graph.outputs)

    @property
    def states(self) -> tuple[Held, ...]:
        """Returns the states of one time step; () for other files."""
        inputs, outputs = self.inputs, self.outputs
        pairs = self.report.states if self.stepped else ()
        return tuple(Held(inputs[pair.input_index], outputs[pair.output_index], pair.initial) for pair in pairs)

    @property
    def fed(self) -> tuple[Port, ...]:
        """Returns the inputs that are no states."""
        return tuple(port for port in self.inputs if port not in [held.input for held in self.states])

    @property
    def given(self) -> tuple[Port, ...]:
        """Returns the outputs that are no states."""
        return tuple(port for port in self.outputs if port not in [held.output for held in self.states])

"""What the firmware artefacts are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sqp_tflite.codegen.naming import CStyle, Golden, Port, ports
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.report import Report
from sqp_tflite.run.arena import Arena


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
    """

    model: bytes
    graph: Graph
    report: Report
    style: CStyle = field(default_factory=CStyle)
    arena: Arena | None = None
    golden: Golden | None = None

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

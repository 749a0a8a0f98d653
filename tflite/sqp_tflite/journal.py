"""What the steps of an export return is kept here, and the report is made from it: once, at the end or at a refusal."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from sqp_tflite.agreement import Agreement, Reserve
from sqp_tflite.device import Memory
from sqp_tflite.errors import ParityError, RefusedError
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.limits import Limit
from sqp_tflite.npu.judge import Judged
from sqp_tflite.ops.audit import op_rows, release_notes, tensor_rows
from sqp_tflite.ops.policy import NAMES
from sqp_tflite.options import ExportOptions
from sqp_tflite.quantize.quantize import Reduced
from sqp_tflite.report import ON_DATA, ON_MADE_UP, Finding, Report, StatePair
from sqp_tflite.run import interpreters
from sqp_tflite.run.arena import Arena
from sqp_tflite.solution import Solution
from sqp_tflite.source import own_code, unroll
from sqp_tflite.source.exchange import Exchanged, named
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.masks import Masks
from sqp_tflite.source.plan import Plan
from sqp_tflite.source.samples import Samples
from sqp_tflite.source.step.notes import notes as step_notes
from sqp_tflite.source.step.notes import state_values
from sqp_tflite.source.step.step import Steps
from sqp_tflite.source.trace import Traced
from sqp_tflite.versions import versions
from sqp_tflite.wording import MOST_LINES, harmless

_Result = TypeVar("_Result")

_MOST_LISTED = MOST_LINES - 3
"""Findings in the message of a refusal, whose last line is the way out."""

_UNPROVEN = "`{}` was taken for {} (--map); what it computed in training is not in the model, and was not compared"


@dataclass(frozen=True, slots=True)
class Given:
    """The user's model and samples.

    Attributes:
        loaded: The model.
        inputs: The samples, or made-up ones.
        warnings: Where they do not fit each other.
        allowed: How much memory what is read may take, decided once: an export takes some of what was free before.
    """

    loaded: Loaded
    inputs: Samples
    warnings: tuple[str, ...] = ()
    allowed: Limit | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the file needs on the device.

    Attributes:
        memory: As the report shows it.
        arena: None where it was not measured.
    """

    memory: Memory
    arena: Arena | None


@dataclass(frozen=True, slots=True)
class Compared:
    """How the file agrees with Keras.

    Attributes:
        rows: One per runtime, reference and output.
        notes: What the user should know about runtimes that do not decide.
        warnings: What is allowed and may still break the user's product.
        reserves: How far the activations' inputs are from where half precision overflows; () where it was not asked.
    """

    rows: tuple[Agreement, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    reserves: tuple[Reserve, ...] = ()


class Journal:
    """The results of an export's steps, one of each type.

    Args:
        options: What was asked for.
        began: When the user began to wait, as `time.monotonic` counts; None for now.
    """

    def __init__(self, options: ExportOptions, began: float | None = None):
        self.options = options
        self._began = time.monotonic() if began is None else began
        self._results: dict[type, Any] = {}

    def keep(self, result: _Result) -> _Result:
        """Returns a step's result, which the report will hold."""
        self._results[type(result)] = result
        return result

    def get(self, kind: type[_Result]) -> _Result | None:
        """Returns the result of that type, None where its step was not reached."""
        found: _Result | None = self._results.get(kind)
        return found

    def seconds(self) -> float:
        """Returns how long the user has waited by now."""
        return round(time.monotonic() - self._began, 3)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Gives a refusal and a parity failure in the block the report of what was known by then."""
        try:
            yield
        except RefusedError as error:
            report = self.report("refused", error.findings)
            raise RefusedError(_sentence(report), error.findings, report) from error
        except ParityError as error:
            report = self.report("parity_failed")
            said = tuple(error.remedy.splitlines())
            error.report = dataclasses.replace(report, notes=(*said, *report.notes))
            raise

    def report(self, verdict: str, findings: tuple[Finding, ...] = ()) -> Report:
        """Returns the report of the steps that were reached.

        Args:
            verdict: "ok", "refused", "parity_failed", or "planned" of a dry run.
            findings: Why it was refused.
        """
        given, changed, planned = self.get(Given), self.get(Exchanged), self.get(Plan)
        traced, reduced, graph = self.get(Traced), self.get(Reduced), self.get(Graph)
        measured, compared, solution = self.get(Measured), self.get(Compared), self.get(Solution)
        masked, placed = self.get(Masks), self.get(Judged)
        layers = traced.layers if traced else None
        output = self.options.output if compared and verdict == "ok" else None
        return Report(
            verdict=verdict,
            source=given.loaded.source if given else self.options.source,
            target=self.options.wanted.target,
            quantize=self.options.wanted.quantize,
            lowering=self.options.wanted.lowering,
            output=None if output is None else str(output),
            sha256=graph.sha256 if graph else "",
            size_bytes=graph.size_bytes if graph else 0,
            ops=op_rows(graph, layers) if graph else (),
            findings=findings,
            solution=solution.call if solution else "",
            replacements=changed.replacements if changed else (),
            agreement=compared.rows if compared else (),
            inputs=tensor_rows(graph, graph.main.inputs) if graph else (),
            outputs=tensor_rows(graph, graph.main.outputs) if graph else (),
            states=self._states(),
            memory=measured.memory if measured else Memory(),
            npu=placed.npu if placed else None,
            plan=named(changed.was, planned.rows) if changed and planned else (),
            layer_errors=reduced.layer_errors if reduced else (),
            reserves=compared.reserves if compared else (),
            judged_on=(ON_DATA if given.inputs.given else ON_MADE_UP) if given and compared else "",
            stand_in=self._stand_in(),
            unproven=tuple(_UNPROVEN.format(*pair) for pair in (self.options.names or {}).items())
            + (changed.unproven if changed else ()),
            warnings=(given.loaded.warnings + given.warnings if given else ())
            + (masked.warnings if masked else ())
            + (placed.warnings if placed and not self.options.npu_only else ())
            + (compared.warnings if compared else ()),
            notes=self._notes(),
            versions=versions(),
            command=self.options.command,
            seconds=self.seconds(),
        )

    def _states(self) -> tuple[StatePair, ...]:
        traced, steps = self.get(Traced), self.get(Steps)
        if not traced or not steps:
            return traced.states if traced else ()
        begun = state_values(steps.written)
        return tuple(
            dataclasses.replace(pair, output=pair.input, initial=begun.get(state.name, ()))
            for pair, state in zip(traced.states, steps.written.states, strict=True)
        )

    def _stand_in(self) -> str:
        return interpreters.stand_in(self.options.wanted.target) if self.get(Compared) else ""

    def _notes(self) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        changed, planned = self.get(Exchanged), self.get(Plan)
        traced, reduced, graph = self.get(Traced), self.get(Reduced), self.get(Graph)
        measured, compared, placed = self.get(Measured), self.get(Compared), self.get(Judged)
        if changed and planned:
            notes += planned.notes + changed.notes + own_code.notes(planned.loaded.model)
        steps = self.get(Steps)
        notes += step_notes(steps.written) if steps else ()
        if traced and graph:
            arena = measured.arena.needed if measured and measured.arena else None
            notes += unroll.notes(
                planned.loaded.model if planned else None, dict(traced.steps), graph, traced.layers, arena
            )
            notes += _cast_notes(traced, graph) + traced.notes
        notes += reduced.notes if reduced else ()
        notes += release_notes(graph, self.options.wanted.target, self._stand_in()) if graph else ()
        notes += measured.arena.notes if measured and measured.arena else ()
        notes += placed.notes if placed else ()
        return notes + (compared.notes if compared else ())


def _cast_notes(traced: Traced, graph: Graph) -> tuple[str, ...]:
    """How the user's integers go into a file that takes another type."""
    notes = []
    for place, own in traced.cast:
        tensor, name = graph.inputs[place], traced.inputs[place].name
        how = "pass the same numbers as floats"
        if tensor.quantization is not None:
            scale, zero = float(tensor.quantization.scales[0]), int(tensor.quantization.zero_points[0])
            how = f"pass round(value / {scale:.6g}) + {zero}"
            if scale == 1.0:
                how = f"pass value - {-zero}" if zero else "pass the same numbers"
        notes.append(f"`{name}` is {own} in the model and {tensor.dtype} in the file: {how}.")
    return tuple(notes)


def _sentence(report: Report) -> str:
    count = f"{len(report.findings)} reason" + ("s" if len(report.findings) > 1 else "")
    lines = [f"\n- {finding}" for finding in report.findings]
    if len(lines) > _MOST_LISTED:
        lines[_MOST_LISTED:] = [f"\n- ... and {len(lines) - _MOST_LISTED:,} more"]
    if report.solution:
        lines.append(f"\n{report.leads_to} {harmless(report.solution)}")
    return f"{harmless(report.source)} cannot ship to {NAMES[report.target]}, {count}:{''.join(lines)}"

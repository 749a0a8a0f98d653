"""What an export found, as data: the text, the JSON and the HTML are renderings of `Report`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
"""Version of the JSON object; raised when a key changes its meaning or goes."""


@dataclass(frozen=True, slots=True)
class OpRow:
    """One kind of operator in the file."""

    op: str
    dtype: str
    version: int
    count: int
    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why a file may not ship.

    Attributes:
        layer: The Keras layer, or the tensor where the model is not known.
        op: As the schema spells it.
        dtype: The type that decides whether a kernel exists.
        rule: What was broken, in a sentence.
        remedy: What to do, in a sentence.
    """

    layer: str
    op: str
    dtype: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"`{self.layer}`: {self.rule} Received: {self.op}, {self.dtype}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class Replacement:
    """One activation that was exchanged: `max_change` is the largest change of its output."""

    layer: str
    was: str
    now: str
    terms: int | None
    max_change: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one runtime's outputs compare with Keras's.

    Attributes:
        runtime: "litert", "tflite-runtime" or "tflm".
        status: "ok", "failed" (it could not run the file), "differs", "not checked" (not installed) or "saturates" (an
            integer file at the ends of its range: shown, not judged).
        reason: The runtime's own words, or what is missing; "" when ok.
        samples: How many inputs were compared.
        max_abs_error: Largest difference of any output, in the output's unit.
        error_of_range: The same over the range of Keras's outputs.
        max_steps: Largest difference in steps of the output's scale; None for float outputs.
        argmax_agreement: Share of samples with Keras's argmax; None for outputs with one element.
        metric_before: Accuracy of Keras on the labels; None without labels.
        metric_after: Accuracy of the file.
        on: The inputs: "data", or "ends" and "beyond" of the file's range.
    """

    runtime: str
    status: str
    reason: str = ""
    samples: int = 0
    max_abs_error: float | None = None
    error_of_range: float | None = None
    max_steps: float | None = None
    argmax_agreement: float | None = None
    metric_before: float | None = None
    metric_after: float | None = None
    on: str = "data"


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One input or output of the file; `index` is its place in the interpreter's list."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """One operator in execution order, and the bytes of all tensors that are needed while it runs."""

    op: str
    layer: str
    live_bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What the model needs on the device, in bytes; None where it was not measured.

    Attributes:
        arena_bytes: Smallest arena with which `arena_runtime` ran the file here: an upper bound for a 32-bit target.
        arena_runtime: The interpreter, with its version.
        arena_32bit_low: No 32-bit target needs less.
        arena_32bit_high: No 32-bit target with reference kernels needs more.
        peak_tensor: The largest tensor at the moment when the tensors are largest together.
        peak_bytes: Their size together.
        peak_layer: The layer that runs at that moment.
        ram_budget: What `--ram` allowed.
        flash_budget: What `--flash` allowed.
        steps: What is in memory at each operator.
    """

    arena_bytes: int | None = None
    arena_runtime: str = ""
    arena_32bit_low: int | None = None
    arena_32bit_high: int | None = None
    peak_tensor: str = ""
    peak_bytes: int | None = None
    peak_layer: str = ""
    ram_budget: int | None = None
    flash_budget: int | None = None
    steps: tuple[MemoryStep, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanRow:
    """What one layer's activation is and what the export writes for it."""

    layer: str
    activation: str
    becomes: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayerError:
    """How far a layer's output in the integer file is from the float file's, on the data; worst first in a report."""

    layer: str
    tensor: str
    max_abs_error: float
    error_of_range: float


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that an export has to say. `verdict` is "ok", "refused" or "parity_failed"."""

    verdict: str
    source: str
    target: str
    quantize: str
    lowering: str
    output: str | None = None
    sha256: str = ""
    size_bytes: int = 0
    ops: tuple[OpRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    agreement: tuple[Agreement, ...] = ()
    inputs: tuple[TensorRow, ...] = ()
    outputs: tuple[TensorRow, ...] = ()
    memory: Memory = Memory()
    plan: tuple[PlanRow, ...] = ()
    layer_errors: tuple[LayerError, ...] = ()
    notes: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    command: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as one JSON object, keys as documented."""
        return {"schema": SCHEMA, **_plain(self), "versions": dict(self.versions)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value

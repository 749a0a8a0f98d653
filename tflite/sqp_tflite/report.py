"""What an export found, as data: the text, the JSON and the HTML are renderings of `Report`."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from dataclasses import dataclass, field
from typing import Any

from sqp_tflite.agreement import GIVEN, MADE_UP, Agreement, Reserve
from sqp_tflite.device import Memory, Npu
from sqp_tflite.wording import harmless

SCHEMA = 2
"""Version of the JSON object; increased when a key changes its meaning or is removed."""

ON_DATA, ON_MADE_UP = "data", "made-up inputs"
"""What a verdict rests on."""

SOLVED_BY = "All of this is solved by:"
NEAREST = "The nearest call that can work (not tried):"
"""What stands in front of the solution of a refusal."""

_MOST_LISTED = 8
"""Up to this many operators of an activation are listed in order; more are counted."""


class Kind(str, enum.Enum):
    """What a finding is about."""

    OP = "op"
    """An operator that may not be in the file, or that the target does not have."""
    VERSION = "version"
    """An operator version that the target does not have."""
    DTYPE = "dtype"
    """A type for which the target, or the quantiser, does not have the operator."""
    BUDGET = "budget"
    """More RAM or flash than was allowed."""
    SHAPE = "shape"
    """A dimension that is open, or too long."""
    STATE = "state"  # Variables or random numbers.
    DATA = "data"  # The samples.
    WEIGHTS = "weights"  # Constants that are not finite.
    GRAPH = "graph"
    """A file whose operators do not fit together."""
    NPU = "npu"
    """An operator that an NPU leaves to the CPU."""


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
        layer: The Keras layer, or the tensor if the model is not known.
        op: As the schema spells it; "" if the finding is not about an operator.
        dtype: The type that decides whether a kernel exists; "" if the finding is not about a type.
        rule: The rule that was broken, in a sentence.
        remedy: What to do, in a sentence.
        kind: What the finding is about.
    """

    layer: str
    op: str
    dtype: str
    rule: str
    remedy: str
    kind: Kind

    @property
    def received(self) -> str:
        """Returns the operator and the type, if the finding has them."""
        return ", ".join(word for word in (self.op, self.dtype) if word)

    def __str__(self) -> str:
        received = f" Received: {self.received}." if self.received else ""
        return harmless(f"`{self.layer}`: {self.rule}{received} {self.remedy}")


@dataclass(frozen=True, slots=True)
class Replacement:
    """One activation that was replaced: `max_change` is the largest change of its output."""

    layer: str
    was: str
    now: str
    terms: int | None
    max_change: float | None


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
class StatePair:
    """An output that goes back in as an input; the indices are those of `outputs` and `inputs`, no `initial` is 0."""

    output: str
    input: str
    output_index: int
    input_index: int
    initial: tuple[float, ...] = ()

    def __str__(self) -> str:
        return f"`{self.output}` goes back into `{self.input}`"


Parameter = float | str | bool | None
"""A value that an activation is set to."""


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation as data.

    Attributes:
        name: Keras's name ("softplus", "squareplus", "algebraic", ...), "unknown" for the user's own code.
        parameters: Pairs (name, value) of what the model sets, e.g. (("b", 4.0),). Arrays are omitted.
        spelled: What the model calls it; "" where that is the name.
    """

    name: str
    parameters: tuple[tuple[str, Parameter], ...] = ()
    spelled: str = ""

    def __str__(self) -> str:
        given = dict(self.parameters)
        if self.name == "squareplus":
            b = given.get("b")
            return f"squareplus (b={'learnt' if given.get('learn_b') else 4 if b is None else format(b, 'g')})"
        if self.name in ("algebraic", "algebraic_softmax"):
            return f"algebraic {given.get('of', 'softmax')}"
        return self.spelled if self.name == "unknown" and self.spelled else self.name


class Form(str, enum.Enum):
    """How an export writes an activation."""

    OPS = "ops"
    """With operators in the model's own number type."""
    ISLAND = "island"
    """In float, between conversions of an integer model."""
    INT16 = "int16"
    """In int16, without float."""
    TABLE = "table"
    """As a table of 256 codes."""
    OWN_CODE = "own code"
    """With the operators that TensorFlow's converter writes for the user's code."""


_BEFORE_OPS = {Form.ISLAND: "in float: ", Form.INT16: "in int16: ", Form.TABLE: "a table: "}


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One layer's activation and what the export writes for it.

    Attributes:
        layer: The layer, and the attribute if it is not `activation`.
        now: The activation that is exported.
        form: How it is written.
        ops: The operators of that form.
        refused: Those of them that the target cannot run.
        was: The activation of the user's model if it was replaced.
    """

    layer: str
    now: Activation
    form: Form
    ops: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    was: Activation | None = None

    @property
    def activation(self) -> str:
        """Returns what the activation is, e.g. "gelu -> algebraic gelu"."""
        return f"{self.was} -> {self.now}" if self.was else str(self.now)

    @property
    def becomes(self) -> str:
        """Returns what the export writes, in words."""
        if self.refused:
            return f"refused: {', '.join(self.refused)}"
        if self.form is Form.OWN_CODE:
            return f"its own code: {_counted(self.ops)}" if self.ops else "its own code"
        return _BEFORE_OPS.get(self.form, "") + _counted(self.ops)

    def to_dict(self) -> dict[str, Any]:
        """Returns the row as a JSON object: the data, and the words made from it."""
        words = {"layer": self.layer, "activation": self.activation, "becomes": self.becomes, "ops": list(self.ops)}
        data = {"form": self.form.value, "refused": list(self.refused)}
        return {**words, **data, "now": _plain(self.now), "was": _plain(self.was)}


def _counted(ops: tuple[str, ...]) -> str:
    """Returns few operators in order, many as counts."""
    if len(ops) <= _MOST_LISTED:
        return " ".join(ops)
    return " ".join(f"{ops.count(op)} {op}" for op in dict.fromkeys(sorted(ops)))


@dataclass(frozen=True, slots=True)
class LayerError:
    """The error of a layer's output in the integer file against the float file, on the data; worst first in reports."""

    layer: str
    tensor: str
    max_abs_error: float
    error_of_range: float


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that an export found.

    Attributes:
        verdict: "ok", "refused", "parity_failed", or "planned" of a dry run.
        runs: Of an inspected file, whether the target's interpreter ran it: "yes", "no" or "not checked".
        stand_in: What ran the file in place of the target's own release, with its version; "" if nothing had to.
        exp_and_log: Of an inspected file, the operators that need exp or log.
        states: Which outputs go back in as inputs.
        npu: Of a target with an NPU, what its compiler makes of the file; None otherwise.
        solution: Of a refusal, the call that solves all findings: the command with other options, or keyword
            arguments; "" if there is none.
        solution_tried: Whether it was tried up to the audit. Where number type, lowering and target cannot go
            together, the nearest that do are named without a trial.
        judged_on: "data", "made-up inputs", or "" where no outputs were compared.
        unproven: What the verdict does not cover, because nothing could be compared with it.
        warnings: What is allowed and may still break the user's product.
        seconds: How long the user waited, imports included.
    """

    verdict: str
    source: str
    target: str
    quantize: str
    lowering: str
    output: str | None = None
    sha256: str = ""
    size_bytes: int = 0
    runs: str = ""
    stand_in: str = ""
    exp_and_log: tuple[str, ...] = ()
    ops: tuple[OpRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    solution: str = ""
    solution_tried: bool = True
    replacements: tuple[Replacement, ...] = ()
    agreement: tuple[Agreement, ...] = ()
    inputs: tuple[TensorRow, ...] = ()
    outputs: tuple[TensorRow, ...] = ()
    states: tuple[StatePair, ...] = ()
    memory: Memory = field(default_factory=Memory)
    npu: Npu | None = None
    plan: tuple[PlanRow, ...] = ()
    layer_errors: tuple[LayerError, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    judged_on: str = ""
    unproven: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    command: str = ""
    seconds: float = 0.0

    def worst(self, runtime: str, against: str = GIVEN) -> Agreement | None:
        """Returns the row of a runtime that is furthest off; None if it was not run."""
        rows = [row for row in self.agreement if (row.runtime, row.against) == (runtime, against)]
        return max(rows, key=lambda row: (row.status != "ok", row.error_of_range or 0.0), default=None)

    @property
    def basis(self) -> str:
        """Returns what stands beside the verdict if it does not rest on the user's data, "" if it does."""
        return MADE_UP if self.judged_on == ON_MADE_UP else ""

    @property
    def leads_to(self) -> str:
        """Returns what stands in front of the solution."""
        return SOLVED_BY if self.solution_tried else NEAREST

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as one JSON object with the documented keys."""
        return {"schema": SCHEMA, **_plain(self), "versions": dict(self.versions)}


def json_text(value: Any) -> str:
    """Returns data as JSON: plain ASCII, and null in the place of NaN and infinities, which JSON does not have."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, PlanRow):
        return value.to_dict()
    if isinstance(value, Activation):
        return {"name": value.name, "parameters": _plain(dict(value.parameters)), "spelled": value.spelled}
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value

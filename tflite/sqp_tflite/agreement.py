"""How a file agrees with Keras, as rows of data and as tables, which are the same in the text and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqp_tflite.wording import digits

GIVEN = "given"
"""Compared with the user's own model: what the file really changes."""

WRITTEN = "written"
"""Compared with the model after an exchange of activations, which the file was made from: proof of the conversion."""


DATA = "data"
"""The user's inputs."""

ORDINARY, LARGE, EXTREME = "ordinary", "large", "extreme"
"""Made-up inputs: about as the model's are, 30 times and 1000 times as far from their middle."""

ENDS, BEYOND = "ends", "beyond"
"""Inputs at the ends of a file's input range, and twice as far from its middle."""

DECIDING = (DATA, ORDINARY)
"""The sets without which there is no verdict."""

MADE_UP = "judged on made-up inputs: pass --data with inputs of your own"
"""What is said beside a verdict without the user's data."""

KERAS = "Keras"
"""What computes the reference, unless that is a finished file."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one output of the file, on one runtime, compares with Keras's.

    The range of an output is the largest value less the smallest that Keras gives for the samples of the set. Outside
    of the data, or of the ordinary inputs, it is at least theirs: an output that saturates has no range there.

    Attributes:
        runtime: "litert", "tflite-runtime", "tflm", or "half" for an emulation of half precision.
        status: "ok", "failed" (it could not run the file), "differs", "not checked" (not installed, or not what the
            file was exported for), "saturates" (an integer file outside of its data: shown, not judged) or "outside" (a
            file with other activations, outside of the data that they were judged on: shown, not judged).
        reason: The runtime's own message, or what is wrong or missing; "" when ok.
        against: `GIVEN` or `WRITTEN`; files of a model without exchange have rows of the first kind only.
        output: The output's name; "" in the only row of a runtime that gave no outputs.
        samples: How many inputs were compared.
        max_abs_error: Max error, in the output's unit.
        spread: The range of Keras's output.
        error_of_range: The max error over the range (over the size of an output that is constant in Keras).
        limit: The `error_of_range` up to which the row is ok.
        max_steps: Max error in steps of the output's scale; None for float outputs.
        codes: How many different codes the output takes over the samples; None for float outputs.
        codes_of: How many its type has.
        argmax_agreement: Share of samples with Keras's argmax; None where the output is not one of classes.
        metric: What `metric_before` and `metric_after` are: "accuracy" or "mean absolute error"; "" without labels.
        metric_before: Keras's metric on the labels.
        metric_after: The file's.
        on: The set of inputs: `DATA`; without data `ORDINARY`, `LARGE` and `EXTREME`; in a check also `ENDS`, `BEYOND`.
        column: The column (last axis) that is furthest off among those with ranges ten times smaller than the output's;
            None where no column is judged by itself.
        column_error_of_range: The max error of that column over its own range, for which the same limit holds.
        coarse: Whether the codes of the output, or of that column, are too wide for what it spans.
        by: What computed the outputs that it is compared with: "Keras", or the interpreter of a finished file.
        drift: Of a file of one time step: pairs (step, max error at that step over the range), the last ones after more
            steps than the model's sequences have.
        emulated: Whether no device's interpreter computed it. Such a row proves nothing; it only warns.
    """

    runtime: str
    status: str
    reason: str = ""
    against: str = GIVEN
    output: str = ""
    samples: int = 0
    max_abs_error: float | None = None
    spread: float | None = None
    error_of_range: float | None = None
    limit: float | None = None
    max_steps: float | None = None
    codes: int | None = None
    codes_of: int | None = None
    argmax_agreement: float | None = None
    metric: str = ""
    metric_before: float | None = None
    metric_after: float | None = None
    on: str = DATA
    column: int | None = None
    column_error_of_range: float | None = None
    coarse: bool = False
    by: str = KERAS
    drift: tuple[tuple[int, float], ...] = ()
    emulated: bool = False

    @property
    def by_what(self) -> str:
        """Returns the runtime as tables show it."""
        return f"{self.runtime} (emulated)" if self.emulated else self.runtime


RESERVES = "half precision: room before a square overflows"
"""The title of the table of reserves."""

RESERVE_COLUMNS = ("layer", "largest abs(x)", "overflows from", "reserve")


@dataclass(frozen=True, slots=True)
class Reserve:
    """How far the inputs of a squareplus, or of a sum of roots, are on the data from where half precision overflows.

    Attributes:
        layer: The layer.
        largest: The largest abs(x) on the data, on the side of 0 that is nearer to its limit.
        limit: The abs(x) from which a square is infinite there in half precision; None for never.
        reserve: limit / largest; None without a limit.
    """

    layer: str
    largest: float
    limit: float | None
    reserve: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Returns the row of a table with `RESERVE_COLUMNS`."""
        limit, reserve = _number(self.limit) or "never", "" if self.reserve is None else f"{self.reserve:.3g} x"
        return self.layer, _number(self.largest), limit, reserve


def verdict(rows: tuple[Agreement, ...]) -> str:
    """Returns what rows say about a file in all: "ok", "parity_failed", or "not_proven" where nothing decides.

    Args:
        rows: Of a check.
    """
    if any(row.status in ("differs", "failed") for row in rows):
        return "parity_failed"
    run = [row for row in rows if row.status != "not checked" and not row.emulated]
    deciding = [row.status for row in run if row.on in DECIDING]
    return "ok" if deciding and set(deciding) == {"ok"} else "not_proven"


def heading(rows: tuple[Agreement, ...]) -> str:
    """Returns what the tables of some rows are about."""
    by = {row.by for row in rows}
    if by <= {KERAS}:
        return "agreement with Keras"
    runs = " and ".join(sorted(by - {KERAS}))
    if not any(row.against == GIVEN for row in rows):
        return f"agreement of the interpreters with {runs}"
    return f"agreement with {'Keras and ' if KERAS in by else ''}the given file, run by {runs}"


_TITLES = {
    GIVEN: "The file against your model: what the export changed in all",
    WRITTEN: "The file against the model with the new activations: proof of the conversion",
}
_DIGITS = 3
"""Of numbers in the tables."""

_WORDS = ("runtime", "set", "output", "status", "at step")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of agreement with one model.

    Attributes:
        title: Which model; "" where there is one only.
        columns: Their names; those without any value are left out.
        numeric: Which of them hold numbers.
        rows: The cells.
        statuses: "ok", "bad" or "other" for each row.
    """

    title: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    statuses: tuple[str, ...]


def tables(rows: tuple[Agreement, ...]) -> tuple[Table, ...]:
    """Returns one table for each model that the file was compared with."""
    kinds = tuple(dict.fromkeys(row.against for row in rows))
    return tuple(
        _table(tuple(row for row in rows if row.against == kind), _TITLES[kind] if len(kinds) > 1 else "")
        for kind in kinds
    )


def _table(rows: tuple[Agreement, ...], title: str) -> Table:
    several_sets = len({row.on for row in rows}) > 1
    several_outputs = len({row.output for row in rows if row.output}) > 1
    metric = next((row.metric for row in rows if row.metric), "")
    columns = {
        "runtime": [row.by_what for row in rows],
        "set": [row.on if several_sets else "" for row in rows],
        "output": [row.output if several_outputs else "" for row in rows],
        "status": [row.status for row in rows],
        "samples": [str(row.samples or "") for row in rows],
        "max error": [_number(row.max_abs_error) for row in rows],
        "range": [_number(row.spread) for row in rows],
        "of range": [_number(row.error_of_range, _digits(row)) for row in rows],
        "column": ["" if row.column is None else str(row.column) for row in rows],
        "of its range": [_number(row.column_error_of_range) for row in rows],
        "at step": [", ".join(f"{step}: {error:.2g}" for step, error in row.drift) for row in rows],
        "limit": [_number(row.limit, _digits(row)) for row in rows],
        "steps": [_number(row.max_steps) for row in rows],
        "codes": [f"{row.codes:,} of {row.codes_of:,}" if row.codes else "" for row in rows],
        "same class": ["" if row.argmax_agreement is None else f"{row.argmax_agreement:.2%}" for row in rows],
        metric: [_number(row.metric_after, 4) for row in rows],
        f"{rows[0].by}'s": [_number(row.metric_before, 4) for row in rows],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    return Table(
        title,
        tuple(shown),
        tuple(name not in _WORDS for name in shown),
        tuple(zip(*shown.values(), strict=True)),
        tuple(_status(row) for row in rows),
    )


def _status(row: Agreement) -> str:
    return "ok" if row.status == "ok" else "bad" if row.status in ("differs", "failed") else "other"


def _digits(row: Agreement) -> int:
    """How many digits show which is larger, an error or its limit."""
    return (
        _DIGITS if row.error_of_range is None or row.limit is None else digits(row.error_of_range, row.limit, _DIGITS)
    )


def _number(value: float | None, shown: int = _DIGITS) -> str:
    return "" if value is None else f"{value:.{shown}g}"


def fault(rows: Sequence[Agreement]) -> str:
    """Returns what a file that differs does, for the headline: the emulation of half precision is no interpreter."""
    differing = [row for row in rows if row.status == "differs"]
    only = " in half precision (emulated) as" if differing and all(row.emulated for row in differing) else ""
    return f"does not compute the same{only} on"

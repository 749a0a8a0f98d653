"""Judges a file's outputs: how far they are from a reference, in what measure, and whether that is too far."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.agreement import BEYOND, DATA, DECIDING, ENDS, EXTREME, GIVEN, KERAS, LARGE, ORDINARY, Agreement
from sqp_tflite.run.interpreters import Outputs
from sqp_tflite.run.metric import ACCURACY, Metric, argmax_agreement, classifies, metric, with_head
from sqp_tflite.wording import apart

ROUNDING = 2.0**-18
"""Max error from rounding only, over the output's size: 64 units in float32's last place. An output that hardly varies
compared with its size (a large bias, random weights) has almost no range."""

MOST_ROUNDING = 0.01
"""Max allowance for the rounding of sums, over the range: a file whose outputs are mostly rounding is of no use."""

_WHERE = {
    DATA: "",
    ORDINARY: ", on made-up inputs",
    LARGE: ", on made-up inputs 30 times as large as ordinary ones",
    EXTREME: ", on made-up inputs 1000 times as large as ordinary ones",
    ENDS: ", at the ends of the file's input range",
    BEYOND: ", beyond the file's input range",
}

APART = 10.0
"""A column whose range is this many times smaller than that of its output is judged by its own."""

MOST_COLUMNS = 32
"""More columns than this are features, not quantities."""

COARSE = 16
"""With fewer codes than this for all that an output spans on the data, the user is told."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a file's outputs are compared with.

    Attributes:
        against: `report.GIVEN` for the user's own model, `report.WRITTEN` for the one whose activations were exchanged.
        outputs: By name, in Keras's order, each of shape (samples, ...).
        limit: Max error over the range that is ok.
        heads: What was dropped behind each output ("softmax", "log_softmax", "sigmoid", "" for nothing), from the file
            and from the reference. It is put back for the metric. () if nothing was dropped.
        positive: Which outputs are above 0 for every input, by the function that makes them. () for none.
        rounding: What `rounding.rounding` returned: a float output may also be off by what rounding moves sums of
            square roots of the same sample. It is only computed for an output that is too far. None for no such sums.
        columns: Which outputs have columns that may be quantities of their own. () for none.
        on: Which set of inputs the outputs are for.
        least: What the range of each output is at least: that of the deciding set, in the others. () for 0.
        by: What computed the outputs: "Keras", or the interpreter of a finished file.
    """

    against: str
    outputs: dict[str, NDArray[Any]]
    limit: float
    heads: tuple[str, ...] = ()
    positive: tuple[bool, ...] = ()
    rounding: Callable[[], tuple[NDArray[Any], ...]] | None = None
    columns: tuple[bool, ...] = ()
    on: str = DATA
    least: tuple[float, ...] = ()
    by: str = KERAS


@dataclass(frozen=True, slots=True)
class Judged:
    """The rows of one runtime and reference, and what the user should know about them."""

    rows: tuple[Agreement, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Output:
    """One output of the file and of the reference, as real numbers in the same unit."""

    name: str
    ours: NDArray[Any]
    theirs: NDArray[Any]
    taken: NDArray[Any]
    scale: float | None
    bits: int
    dropped: str
    positive: bool
    least: float
    by: str

    @property
    def codes(self) -> int | None:
        return int(np.unique(self.taken).size) if self.scale else None

    @property
    def spread(self) -> float:
        return max(spread(self.theirs), self.least)

    @property
    def errors(self) -> NDArray[Any]:
        """The largest error of each sample, where both are finite."""
        both = np.isfinite(self.ours) & np.isfinite(self.theirs)
        off = np.abs(np.where(both, self.ours - self.theirs, 0.0))
        return np.asarray(off.reshape(len(off), -1).max(axis=1, initial=0.0))

    @property
    def size(self) -> float:
        return float(np.abs(self.theirs[np.isfinite(self.theirs)]).max(initial=0.0))

    @property
    def measure(self) -> float:
        """What the error is a share of. Codes cannot follow what varies by rounding only: there it is the size."""
        follows = self.spread > 0.0 if self.scale is None else self.varies
        return (self.spread if follows else self.size) or 1.0

    @property
    def varies(self) -> bool:
        """Whether the reference varies by more than rounding."""
        return self.spread > ROUNDING * self.size


def spread(values: NDArray[Any]) -> float:
    """Returns the largest finite value less the smallest, 0 for none."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) - float(finite.min()) if finite.size else 0.0


def judge(runtime: str, outputs: Outputs, reference: Reference, labels: NDArray[Any] | None = None) -> Judged:
    """Returns one row per output.

    The error is measured over the range of the reference: its largest value less its smallest, over the samples (and at
    least `Reference.least`). An output that is constant in Keras has no range; there it is measured over its size.

    Args:
        runtime: Which interpreter computed the outputs.
        outputs: Its outputs.
        reference: What they should be.
        labels: Of the first output, None for none.
    """
    rows: list[Agreement] = []
    warnings: list[str] = []
    for place, output in enumerate(_paired(outputs, reference)):
        row, said = _judged(runtime, output, reference, place, labels if place == 0 else None)
        rows.append(row)
        warnings += said
    return Judged(tuple(rows), tuple(warnings))


def _paired(outputs: Outputs, reference: Reference) -> list[_Output]:
    found, by = [], reference.by
    heads = reference.heads or ("",) * len(reference.outputs)
    positive = reference.positive or (False,) * len(reference.outputs)
    least = reference.least or (0.0,) * len(reference.outputs)
    for place, (name, theirs) in enumerate(reference.outputs.items()):
        ours, codes, scale = outputs.values[place], outputs.codes[place], outputs.scales[place]
        if ours.shape != theirs.shape:
            raise ValueError(f"Output {name} must have the shape {theirs.shape}. Received: {ours.shape}.")
        bits = 8 * codes.dtype.itemsize
        real = ours.astype(np.float64), theirs.astype(np.float64)
        found.append(_Output(name, *real, codes, scale, bits, heads[place], positive[place], least[place], by))
    return found


def _judged(
    runtime: str, output: _Output, reference: Reference, place: int, labels: NDArray[Any] | None
) -> tuple[Agreement, list[str]]:
    ours, theirs = output.ours, output.theirs
    error = float(output.errors.max(initial=0.0))
    share = error / output.measure
    limit = _limit(output, reference, place)
    broken = _broken(output)
    as_trained, as_shipped = with_head(output.dropped, theirs), with_head(output.dropped, ours)
    before, after = None, None
    if labels is not None:
        before, after = metric(as_trained, labels), metric(as_shipped, labels)
    reason = broken or _too_far(output, error, share, limit) or _collapsed(before, after, output.by)
    column = None if classifies(as_trained, labels) else _worst_column(output, reference, place)
    reason = reason or (column.reason if column is not None else "")
    coarse = column.coarse if column is not None else ""
    row = Agreement(
        runtime=runtime,
        status="differs" if reason else "ok",
        reason=f"output `{output.name}`{_WHERE[reference.on]}: {reason}" if reason else "",
        against=reference.against,
        output=output.name,
        samples=len(theirs),
        max_abs_error=None if broken else error,
        spread=output.spread,
        error_of_range=None if broken else share,
        limit=limit,
        max_steps=error / output.scale if output.scale and not broken else None,
        codes=output.codes,
        codes_of=2**output.bits if output.codes is not None else None,
        argmax_agreement=argmax_agreement(ours, theirs) if classifies(as_trained, labels) else None,
        metric="" if before is None else before.name,
        metric_before=None if before is None else before.value,
        metric_after=None if after is None else after.value,
        column=None if column is None else column.place,
        column_error_of_range=None if column is None else column.share,
        coarse=_is_coarse(output) or bool(coarse),
        on=reference.on,
        by=reference.by,
    )
    if reason or reference.against != GIVEN:
        return row, []
    return row, _warned(output, before, reference.on in DECIDING, coarse)


@dataclass(frozen=True, slots=True)
class _Column:
    """The column that is furthest off among those with a range of their own, and what is wrong with it."""

    place: int
    share: float
    reason: str
    coarse: str


def _worst_column(output: _Output, reference: Reference, place: int) -> _Column | None:
    """An error that is a small share of what all columns span may be all that one of them says."""
    count = output.theirs.shape[-1] if output.theirs.ndim > 1 else 1
    apart = reference.columns[place] if reference.columns else False
    if not apart or not 1 < count <= MOST_COLUMNS or output.dropped or reference.on not in DECIDING:
        return None
    found = []
    for column in range(count):
        ours, theirs, taken = (array[..., [column]] for array in (output.ours, output.theirs, output.taken))
        one = dataclasses.replace(output, ours=ours, theirs=theirs, taken=taken, least=0.0)
        if one.spread * APART >= output.spread:
            continue
        error = float(one.errors.max(initial=0.0))
        share, limit = error / one.measure, _limit(one, reference, place)
        far = _too_far(one, error, share, limit, _OWN_OUTPUT)
        which = f"in column {column} of {count}, which is judged by a range of its own, "
        coarse = f"output `{output.name}` is coarse in column {column} of {count}. {_coarse(one, _OWN_OUTPUT)}"
        found.append(_Column(column, share, far and which + far, coarse if _is_coarse(one) else ""))
    return max(found, key=lambda one: (bool(one.reason), one.share), default=None)


def _limit(output: _Output, reference: Reference, place: int) -> float:
    """The limit for the largest error: that of the reference, and what rounding moves in that sample.

    Each sample has an allowance of its own, so that a large input hides nothing in the others: where one of them is
    further off than it may be, the reference's limit holds for all.
    """
    errors = output.errors / output.measure
    if output.scale is not None or reference.rounding is None or errors.max(initial=0.0) <= reference.limit:
        return reference.limit
    limits = reference.limit + np.minimum(reference.rounding()[place] / output.measure, MOST_ROUNDING)
    return float(limits[errors.argmax()]) if (errors <= limits).all() else reference.limit


def _broken(output: _Output) -> str:
    if not np.array_equal(np.isfinite(output.ours), np.isfinite(output.theirs)):
        return f"it is not finite where {output.by}'s is"
    return "it is NaN, which agrees with nothing" if np.isnan(output.ours).any() else ""


_OFFSET = "take the constant offset out of the last layer and add it after the model"
_OWN_OUTPUT = "make the column an output of its own, by a layer beside the others"


def _too_far(output: _Output, error: float, share: float, limit: float, way: str = _OFFSET) -> str:
    rounded = output.scale is None and error <= ROUNDING * output.size
    if share <= limit or rounded:
        return ""
    of = f"the range ({output.spread:.3g})" if output.varies else f"its size ({output.size:.3g}; it does not vary)"
    far, most = apart(share, limit)
    reason = f"the max error is {error:.3g}, {far} of {of}; the limit is {most}"
    return f"{reason}. {_coarse(output, way)}" if _is_coarse(output) else reason


def _is_coarse(output: _Output) -> bool:
    return bool(output.scale and output.varies and output.spread < COARSE * output.scale)


def _coarse(output: _Output, way: str = _OFFSET) -> str:
    """What is wrong with an output whose codes are wide compared with what it spans, and what to do."""
    used = "one code for all samples" if output.codes == 1 else f"{output.codes} of {2**output.bits:,} codes"
    finer = f"--quantize int16x8 has finer codes; or {way}" if output.bits == 8 else way[0].upper() + way[1:]
    return (
        f"It uses {used}: a code is {output.scale or 0.0:.3g} wide, and {output.by}'s values span {output.spread:.3g} "
        f"(codes always reach to 0). {finer}."
    )


def _collapsed(before: Metric | None, after: Metric | None, by: str) -> str:
    if before is None or after is None or not after.collapsed(before):
        return ""
    return f"the {after.name} on the labels is {after.value:.4g}, {by}'s is {before.value:.4g}"


def _warned(output: _Output, before: Metric | None, decides: bool, column: str) -> list[str]:
    said = [column] if column else []
    if decides and _is_coarse(output):
        said.append(f"output `{output.name}` is coarse. {_coarse(output)}")
    low = _below_zero(output)
    if low:
        said.append(low)
    if decides and not output.varies and len(output.theirs) > 1:
        said.append(
            f"output `{output.name}` is constant in {output.by} over these samples ({output.size:.3g}): the comparison "
            "says little. Pass --data with samples that differ."
        )
    if before is not None and _at_chance(before):
        said.append(
            f"{output.by}'s own {before.name} on the labels is {before.value:.4g}, no better than one constant answer "
            f"({before.chance:.4g}): check that labels and inputs are in the same order, and that the inputs have the "
            "scale that the model was trained on."
        )
    return said


def _at_chance(before: Metric) -> bool:
    return before.value <= before.chance if before.name == ACCURACY else before.value >= before.chance


def _below_zero(output: _Output) -> str:
    """A division by it, or its logarithm, breaks on the device."""
    if not output.positive or output.theirs.min(initial=1.0) <= 0:
        return ""
    rows = (output.ours <= 0).reshape(len(output.ours), -1).any(axis=1)
    if not rows.any():
        return ""
    return (
        f"output `{output.name}` is above 0 in {output.by} for every sample, and 0 or less in the file for "
        f"{int(rows.sum())} of {len(rows)}: a division by it, or its logarithm, fails on the device. Add a small "
        "constant there first, give the model's last Squareplus a `floor` of one code or more, or use --quantize "
        "int16x8."
    )

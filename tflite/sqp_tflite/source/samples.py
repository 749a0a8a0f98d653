"""Inputs for calibration and comparison: the user's data, or made-up inputs."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sqp_tflite import accept
from sqp_tflite.agreement import DATA
from sqp_tflite.errors import DataError
from sqp_tflite.files import check_data
from sqp_tflite.limits import Limit, limit
from sqp_tflite.source.arrays import ONLY_INPUT, read_arrays
from sqp_tflite.source.made_up import COUNT, Scale, made_up
from sqp_tflite.wording import listed, shortened

if TYPE_CHECKING:
    from sqp_tflite.source.load import InputSpec

GivenData: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | NDArray[Any] | Sequence[Any] | None
"""What users pass as data: a path, arrays by name, one array (or lists of numbers), or nothing."""

LABELS = "y"


@dataclass(frozen=True, slots=True)
class Samples:
    """Inputs of a model, in Keras's order.

    Attributes:
        inputs: One array per input, shape (samples, *input shape).
        labels: Shape (samples, ...) or None; they belong to the model's first output.
        given: Whether they are the user's; made-up inputs must not be used for calibration.
        sets: Pairs (name, number of samples) of the sets that are judged each by a range of its own, in order; () for
            one set, the data. The first is the one that the others are seen against.
    """

    inputs: tuple[NDArray[Any], ...]
    labels: NDArray[Any] | None
    given: bool
    sets: tuple[tuple[str, int], ...] = ()

    def __len__(self) -> int:
        return len(self.inputs[0])

    def parts(self) -> dict[str, slice]:
        """Returns which samples are in which set."""
        found, first = {}, 0
        for name, count in self.sets or ((DATA, len(self)),):
            found[name] = slice(first, first + count)
            first += count
        return found

    def with_sets(self, others: Mapping[str, Samples]) -> Samples:
        """Returns these samples and others behind them, each of which is a set of its own and has no labels."""
        sets = (self.sets or ((DATA, len(self)),)) + tuple((name, len(one)) for name, one in others.items())
        parts = (self.inputs, *(one.inputs for one in others.values()))
        inputs = tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return dataclasses.replace(self, inputs=inputs, sets=sets)


@dataclass(frozen=True, slots=True)
class Data:
    """The user's arrays, read but not yet checked against a model.

    Attributes:
        arrays: By name.
        what: What messages call them: the file, or "`data`".
    """

    arrays: dict[str, Any]
    what: str

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the arrays' shapes without the sample dimension, for inputs with an open dimension.

        What is called `x` stands for an only input of any name.
        """
        return {name: np.shape(array)[1:] for name, array in self.arrays.items()}


def open_data(data: GivenData, allowed: Limit | None = None) -> Data | None:
    """Returns the user's arrays; None without data.

    Args:
        data: As in `samples`.
        allowed: How much memory they may take; None for the limit of this machine.

    Raises:
        DataError: A file that isn't there, isn't npz or is too large, or no arrays.
    """
    return None if data is None else Data(*_arrays(data, allowed or limit()))


def samples(
    data: Data | GivenData,
    specs: tuple[InputSpec, ...],
    allowed: Limit | None = None,
    scales: Callable[[], Mapping[str, Scale]] | None = None,
) -> Samples:
    """Returns the data checked against the model's inputs; without data, made-up inputs.

    Args:
        data: Path of an .npz (or, for one input, .npy) file, a mapping of arrays or one array. Keys are the names of
            the Keras inputs (or `x` if there is one input), and `y` for labels. Or the result of `open_data`.
        specs: The model's inputs.
        allowed: As in `open_data`.
        scales: Returns what numbers the inputs take, by name; called if there are no data.

    Raises:
        DataError: A file that isn't there, isn't npz or is too large; a key that is missing, unknown or given
            twice; a shape that doesn't fit; no samples; a number that isn't finite (with its row).
    """
    allowed = allowed or limit()
    opened = data if isinstance(data, Data) else open_data(data, allowed)
    if opened is None:
        _require_room(allowed, COUNT, specs, "the model's inputs, in", "Make the inputs smaller")
        inputs, sets = made_up(specs, scales() if scales else {})
        return Samples(inputs, None, given=False, sets=sets)
    arrays, what = dict(opened.arrays), opened.what
    labels = arrays.pop(LABELS, None) if LABELS not in {spec.name for spec in specs} else None
    if len(specs) == 1 and ONLY_INPUT in arrays and specs[0].name not in arrays:
        arrays[specs[0].name] = arrays.pop(ONLY_INPUT)
    names = [spec.name for spec in specs]
    if set(arrays) != set(names):
        raise DataError(
            f"{what} must hold one array per Keras input: {listed(names)}{' (or x)' if len(names) == 1 else ''}, and "
            f"may hold labels under y. Received: {listed(arrays) or 'no array'}. "
            "Save it with numpy.savez and these names."
        )
    given = tuple(_shaped(arrays[spec.name], spec, what) for spec in specs)
    _check_counts(given, names, labels, what)
    count = max((len(array) for array in given), default=0)
    _require_room(allowed, count, specs, f"{what}, as the model's inputs for", "Pass fewer samples")
    inputs = tuple(_checked(array, spec, what) for array, spec in zip(given, specs, strict=True))
    if labels is not None:
        taken = np.asarray(labels).size * np.dtype(np.float64).itemsize
        allowed.require(taken, f"{what} holds labels under `{LABELS}` that take", "Pass fewer samples")
    _check_labels(labels, what)
    return Samples(inputs, None if labels is None else np.asarray(labels), given=True)


def _require_room(allowed: Limit, count: int, specs: tuple[InputSpec, ...], what: str, remedy: str) -> None:
    """Raises if the samples, in the type of the model's inputs, do not fit: bytes become four times as long."""
    needed = sum(math.prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in specs)
    allowed.require(count * needed, f"{what} {count:,} samples, takes", remedy)


def _arrays(data: Any, allowed: Limit) -> tuple[dict[str, Any], str]:
    if isinstance(data, (str, os.PathLike)):
        path = accept.path("`data`", data)
        check_data(path)
        return {name or ONLY_INPUT: array for name, array in read_arrays(path, allowed).items()}, f"`{data}`"
    if hasattr(data, "keys") and hasattr(data, "__getitem__") and not isinstance(data, type):
        return {str(name): _array(data[name], f"`{name}` in `data`") for name in data}, "`data`"
    if isinstance(data, (list, tuple)) or hasattr(data, "__array__"):
        return {ONLY_INPUT: _array(data, "`data`")}, "`data`"
    accept.refuse(
        "`data`", "a path, a mapping of arrays or an array", data, "Pass {'x': array} or the path of an .npz file."
    )


def _array(values: Any, what: str) -> NDArray[Any]:
    hidden = int(np.sum(values.mask)) if isinstance(values, np.ma.MaskedArray) else 0
    if hidden:
        raise DataError(
            f"{what} must be a plain array. Received: a masked array with {hidden} masked elements, "
            "which a model cannot leave out. Fill them: array.filled(value)."
        )
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # Rows of different lengths; tensors without values.
        raise DataError(
            f"{what} must be an array of numbers, all rows of one shape. Received: {accept.shown(values)}, of which "
            "numpy makes no array. Pad or cut the rows to one length, or pass numpy.asarray(...) of it."
        ) from error


def _shaped(values: Any, spec: InputSpec, what: str) -> NDArray[Any]:
    """Returns an array of numbers with the shape of the input; none of it is looked at."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"`{spec.name}` in {what} must hold numbers. Received: dtype {array.dtype}. Pass an "
            "array that numpy.asarray(..., 'float32') makes."
        )
    if array.shape[1:] != spec.shape or array.ndim == 0:
        raise DataError(
            f"`{spec.name}` in {what} must have the shape (samples, {', '.join(map(str, spec.shape))}). "
            f"Received: {array.shape}. Give each sample the shape of the model's input, and stack them along the first "
            "axis."
        )
    if not len(array):
        raise DataError(
            f"`{spec.name}` in {what} must hold at least one sample. Received: {array.shape}. Pass some rows of the "
            "data that the model was trained on, or omit --data where the number type needs none."
        )
    return array


def _checked(array: NDArray[Any], spec: InputSpec, what: str) -> NDArray[Any]:
    finite = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if not finite.all():
        rows = np.flatnonzero(~finite)
        raise DataError(
            f"`{spec.name}` in {what} must be finite. Received: inf or NaN in {len(rows)} of {len(array)} rows, the "
            f"first is row {rows[0]}. Remove or repair them."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        found = array.astype(spec.dtype)
    if found.dtype.kind in "iub" and not np.array_equal(found, array):
        raise DataError(
            f"`{spec.name}` in {what} must hold numbers of {spec.dtype}, the type of the input. Received: "
            f"{array.dtype} from {array.min():g} to {array.max():g}, {np.count_nonzero(found != array):,} of which it "
            "does not have. Pass what the model was trained on."
        )
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise DataError(
            f"`{spec.name}` in {what} must fit {spec.dtype}, the type of the input. Received: numbers up to "
            f"{np.abs(array).max():.3g}. Scale the data as for training."
        )
    return found


def _check_labels(labels: Any, what: str) -> None:
    if labels is None:
        return
    array = np.asarray(labels)
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"`{LABELS}` in {what} must hold numbers. Received: dtype {array.dtype}. Pass class numbers or targets."
        )
    if not np.isfinite(array).all():
        raise DataError(
            f"`{LABELS}` in {what} must be finite. Received: NaN or infinity in {int(np.sum(~np.isfinite(array)))} of "
            f"{array.size} labels. Remove these samples, or omit the labels."
        )


def _check_counts(inputs: tuple[NDArray[Any], ...], names: list[str], labels: Any, what: str) -> None:
    counts = {shortened(name, 40): len(array) for name, array in zip(names, inputs, strict=True)}
    if labels is not None:
        counts[LABELS] = len(np.atleast_1d(labels))
    if len(set(counts.values())) > 1:
        raise DataError(
            f"The arrays in {what} must have the same number of rows. Received: {counts}. Cut them to the same samples."
        )

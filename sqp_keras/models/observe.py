"""What a model's activations receive and return on real inputs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from sqp_keras import accept
from sqp_keras.models.rebuild import copied_activation, rebuild
from sqp_keras.models.sites import Site, function_at

SAMPLES = 256
"""Rows of the data that are run, enough for each layer's range."""

PER_CALL = 4096
"""Values kept of one call of an activation, besides the smallest and the largest input."""

_CALLS = 512


@dataclass(frozen=True, slots=True)
class Seen:
    """Inputs of one activation with its outputs; float64, one axis, the smallest and largest input among them."""

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]


class _Record:
    def __init__(self) -> None:
        self.pieces: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]] = []

    def add(self, x: Any, y: Any) -> None:
        if isinstance(x, keras.KerasTensor) or len(self.pieces) >= _CALLS:
            return
        flat = ops.convert_to_numpy(ops.cast(x, "float32")).astype(np.float64).ravel()
        out = ops.convert_to_numpy(ops.cast(y, "float32")).astype(np.float64).ravel()
        if flat.size:
            step = max(1, flat.size // PER_CALL)
            chosen = np.concatenate([np.arange(0, flat.size, step), [flat.argmin(), flat.argmax()]])
            self.pieces.append((flat[chosen], out[chosen]))

    def seen(self) -> Seen | None:
        if not self.pieces:
            return None
        return Seen(*(np.concatenate(side) for side in zip(*self.pieces, strict=True)))


class _Probe(keras.layers.Layer):
    """Runs an activation layer or operation and records what goes in and out."""

    def __init__(self, inner: Callable[..., Any], record: _Record, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Past Keras's tracking: the copy must list one layer here, as the model does.
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "record", record)

    def call(self, inputs: Any) -> Any:
        """Returns what the activation returns."""
        outputs = self.inner(inputs)
        self.record.add(inputs, outputs)
        return outputs

    def compute_output_spec(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the shape of the input."""
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)


def observe(model: keras.Model, sites: tuple[Site, ...], data: Any) -> tuple[Seen | None, ...]:
    """Returns what each site receives and returns, None for one that never ran.

    Args:
        model: The model; a copy of it is run, layer by layer and not compiled.
        sites: Elementwise activations of the model.
        data: See `batches`.
    """
    records = [_Record() for _ in sites]
    probing = {
        (id(site.owner), site.attribute): _prober(site, record) for site, record in zip(sites, records, strict=True)
    }
    copy = rebuild(model, probing)
    for batch in batches(data, SAMPLES, model):
        copy(batch, training=False)
    return tuple(record.seen() for record in records)


def _prober(site: Site, record: _Record) -> Callable[[Any], Any]:
    def make(owner: Any) -> Any:
        if not site.attribute:
            return _Probe(copied_activation(owner), record, name=owner.name)
        function = function_at(site)

        def probe(x: Any) -> Any:
            y = function(x)
            record.add(x, y)
            return y

        return probe

    return make


def batches(data: Any, limit: int, model: Any = None) -> Iterator[Any]:
    """Yields model inputs, about `limit` rows in all.

    Args:
        data: An array, a list or a dictionary of arrays with equal first axes (rows are taken evenly), or something
            to iterate over that yields batches, such as a `tf.data.Dataset`, of inputs or of tuples (inputs, ...).
        limit: Rows to take.
        model: The model that gets them, None where the shapes are not known.

    Raises:
        TypeError: `data` is none of these.
        ValueError: It has no rows, arrays of different lengths, or arrays that the model does not take.
    """
    arrays = keras.tree.flatten(data) if isinstance(data, dict | list | tuple) else [data]
    if all(_rows(array) is not None for array in arrays) and arrays:
        counts = {_rows(array) for array in arrays}
        if len(counts) != 1 or 0 in counts:
            raise ValueError(f"The arrays of `data` have equal first axes of at least 1. Received: lengths {counts}.")
        count = counts.pop() or 0
        _check_fits(data, model)
        rows = np.unique(np.linspace(0, count - 1, min(limit, count)).round().astype(int))
        for start in range(0, len(rows), 64):
            chosen = rows[start : start + 64]
            yield keras.tree.map_structure(lambda array, chosen=chosen: np.asarray(array)[chosen], data)
        return
    taken = 0
    for batch in _iterated(data):
        inputs = batch[0] if isinstance(batch, tuple) else batch
        parts = keras.tree.flatten(inputs)
        if not parts or any(_rows(part) is None for part in parts):
            _refuse(data)
        _check_fits(inputs, model)
        yield inputs
        taken += _rows(parts[0]) or 0
        if taken >= limit:
            return
    if not taken:
        raise ValueError("`data` yields at least one batch. Received: an empty dataset.")


def _rows(array: Any) -> int | None:
    """Returns the length of an array's or a tensor's first axis, None for anything else."""
    shape = getattr(array, "shape", None)
    if shape is None or accept.is_sparse(array) or not len(shape) or shape[0] is None:
        return None
    return int(shape[0])


def _iterated(data: Any) -> Iterator[Any]:
    single = isinstance(data, str | bytes | bytearray | type | Mapping | set) or accept.is_sparse(data)
    if single or hasattr(data, "shape") or not hasattr(data, "__iter__"):
        _refuse(data)
    return iter(data)


def _refuse(data: Any) -> NoReturn:
    rule = "an array, a list or dictionary of arrays, or a dataset of batches"
    accept.wrong_type("data", rule, data, "Pass e.g. numpy.asarray(...).")


def _check_fits(inputs: Any, model: Any) -> None:
    """Raises if a model whose inputs are known would not take these; Keras's own words for it fill a screen."""
    arrays = keras.tree.flatten(inputs)
    types = [keras.backend.standardize_dtype(array.dtype) if _known(array) else str(array.dtype) for array in arrays]
    wanted = getattr(model, "inputs", None)
    fits = all(dtype == "bool" or "int" in dtype or "float" in dtype for dtype in types)
    if fits and wanted:
        names = {tensor.name for tensor in wanted}
        fits = len(arrays) == len(wanted) and (not isinstance(inputs, Mapping) or set(inputs) <= names)
        ordered = [inputs[t.name] for t in wanted] if fits and isinstance(inputs, Mapping) else arrays
        fits = fits and all(_fit(array.shape, t.shape) for array, t in zip(ordered, wanted, strict=True))
    if not fits:
        received = ", ".join(f"{tuple(array.shape)} {dtype}" for array, dtype in zip(arrays, types, strict=True))
        listed = ", ".join(f"`{t.name}` {tuple(t.shape)}" for t in wanted or ()) or "numbers"
        keys = f" under the keys {accept.shown(list(inputs))}" if isinstance(inputs, Mapping) else ""
        raise ValueError(
            f"`data` has what the model takes: {listed}. Received: {received}{keys}. Pass matching arrays."
        )


def _known(array: Any) -> bool:
    return getattr(array.dtype, "kind", "f") in "fiub" or "float" in str(array.dtype)


def _fit(given: Any, wanted: Any) -> bool:
    return len(given) == len(wanted) and all(w in (None, g) for g, w in zip(given[1:], wanted[1:], strict=True))

"""What a model's activations receive and return on real inputs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from sqp_keras.models.rebuild import copied_activation, rebuild
from sqp_keras.models.sites import Site

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
    for batch in batches(data, SAMPLES):
        copy(batch, training=False)
    return tuple(record.seen() for record in records)


def _prober(site: Site, record: _Record) -> Callable[[Any], Any]:
    def make(owner: Any) -> Any:
        if not site.attribute:
            return _Probe(copied_activation(owner), record, name=owner.name)
        function = getattr(owner, site.attribute)

        def probe(x: Any) -> Any:
            y = function(x)
            record.add(x, y)
            return y

        return probe

    return make


def batches(data: Any, limit: int) -> Iterator[Any]:
    """Yields model inputs, about `limit` rows in all.

    Args:
        data: An array, a list or a dictionary of arrays with equal first axes (rows are taken evenly), or something
            to iterate over that yields batches, such as a `tf.data.Dataset`, of inputs or of tuples (inputs, ...).
        limit: Rows to take.

    Raises:
        TypeError: `data` is none of these.
        ValueError: It has no rows, or arrays of different lengths.
    """
    arrays = keras.tree.flatten(data) if isinstance(data, dict | list | tuple) else [data]
    if all(hasattr(array, "shape") and len(array.shape) for array in arrays) and arrays:
        counts = {int(array.shape[0]) for array in arrays}
        if len(counts) != 1 or 0 in counts:
            raise ValueError(f"The arrays of `data` have equal first axes of at least 1. Received: lengths {counts}.")
        count = counts.pop()
        rows = np.unique(np.linspace(0, count - 1, min(limit, count)).round().astype(int))
        for start in range(0, len(rows), 64):
            chosen = rows[start : start + 64]
            yield keras.tree.map_structure(lambda array, chosen=chosen: np.asarray(array)[chosen], data)
        return
    if isinstance(data, str | bytes) or not hasattr(data, "__iter__"):
        raise TypeError(
            f"`data` is an array, a list or dictionary of arrays, or a dataset of batches. Received: {type(data)}."
        )
    taken = 0
    for batch in data:
        inputs = batch[0] if isinstance(batch, tuple) else batch
        yield inputs
        taken += int(keras.tree.flatten(inputs)[0].shape[0])
        if taken >= limit:
            return
    if not taken:
        raise ValueError("`data` yields at least one batch. Received: an empty dataset.")

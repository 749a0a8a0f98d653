"""What Keras computes: the reference that every file is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_keras.models.heads import last_activations
from sqp_tflite.errors import ModelError
from sqp_tflite.limits import Limit, limit
from sqp_tflite.report import Activation
from sqp_tflite.source.activations import activation
from sqp_tflite.source.calling import compiled
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.samples import Samples

_CHUNK = 64

_POSITIVE = ("softplus", "squareplus", "exponential")


def reference(loaded: Loaded, inputs: Samples, *, allowed: Limit | None = None) -> dict[str, NDArray[Any]]:
    """Returns Keras's outputs for the samples by name, in order, each of shape (samples, ...), float32.

    Args:
        loaded: The model.
        inputs: The samples.
        allowed: How much memory the outputs may take; None for the limit of this machine.

    Raises:
        ModelError: Keras's own outputs are not finite in the first set, where nothing could agree with them, or not
            one row of numbers per sample, or too large.
    """
    chunks, names, call = [], [], compiled(loaded.model, loaded.call)
    for start in range(0, len(inputs), _CHUNK):
        outputs = call([array[start : start + _CHUNK] for array in inputs.inputs])
        names = list(outputs)
        count = min(_CHUNK, len(inputs) - start)
        chunks.append([_rows(name, value, count, loaded.source) for name, value in outputs.items()])
        if start == 0:
            needed = sum(part.nbytes for part in chunks[0]) * len(inputs) // min(_CHUNK, len(inputs))
            what = f"the outputs of `{loaded.source}` for {len(inputs):,} samples take"
            (allowed or limit()).require(needed, what, "Pass fewer samples with --data")
    found = {name: np.concatenate(parts) for name, *parts in zip(names, *chunks, strict=True)}
    first = next(iter(inputs.parts().values()))
    for name, values in found.items():
        _require_finite(name, values[first], loaded.source, inputs.given)
    return found


def _rows(name: str, value: Any, count: int, source: str) -> NDArray[Any]:
    array = np.asarray(value)
    numbers = array.dtype.kind in "fiub" or array.dtype.name == "bfloat16"
    if not numbers or array.shape[:1] != (count,):
        raise ModelError(
            f"Every output of `{source}` must hold numbers, one row per sample. Received: output `{name}` of type "
            f"{array.dtype} and shape {array.shape} for {count} samples. Keep the batch dimension, and compute text or "
            "sums over the batch outside of the model."
        )
    if not array.size:
        raise ModelError(
            f"Every output of `{source}` must hold at least one number, or there is nothing to compare. Received: "
            f"output `{name}` of shape {array.shape} for {count} samples. Take it out, or build the model with "
            "larger inputs."
        )
    return array.astype(np.float32)


def positive(loaded: Loaded) -> tuple[bool, ...]:
    """Returns which outputs are above 0 for every input, by the activation that makes them; () where unknown."""
    if loaded.model is None:
        return ()
    return tuple(site is not None and _positive(activation(site)) for site in last_activations(loaded.model))


def quantities(loaded: Loaded) -> tuple[bool, ...]:
    """Returns for each output whether its columns may be quantities, each with a range of its own; () where unknown.

    They may where no activation makes them; what one makes are classes or features, which have one scale.
    """
    if loaded.model is None:
        return ()
    return tuple(site is None or activation(site).name == "linear" for site in last_activations(loaded.model))


def _positive(made_by: Activation) -> bool:
    of = dict(made_by.parameters).get("of", "") if made_by.name == "algebraic" else made_by.name
    return of in _POSITIVE


def _require_finite(name: str, values: NDArray[Any], source: str, given: bool) -> None:
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if not bad.size:
        return
    remedy = "Look for NaN in the weights (a training that diverged leaves them), and at the scale of --data."
    if not given:
        remedy = (
            "Pass --data with real samples: these were made up. If it is so with them, look for NaN in the weights."
        )
    raise ModelError(
        f"The outputs of `{source}` must be finite in Keras. Received: NaN or infinity in output `{name}` for "
        f"{len(bad)} of {len(values)} samples, the first is sample {bad[0]}. {remedy}"
    )

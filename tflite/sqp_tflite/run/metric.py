"""The metric on the user's labels, and whether an output is one of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import DataError

ACCURACY = "accuracy"
ERROR = "mean absolute error"

WORSE = 0.1
"""Where Keras is no better than a constant answer, a file that loses more accuracy than this has collapsed."""

_SUM_TOLERANCE = 1e-3
"""By how much a row of probabilities may miss 1: half precision, and softmax written with square roots."""


@dataclass(frozen=True, slots=True)
class Metric:
    """How good outputs are on labels.

    Attributes:
        name: `ACCURACY`, of which more is better, or `ERROR`, of which less is.
        value: Of these outputs.
        chance: Of the best constant answer: the most frequent class, or the median target.
    """

    name: str
    value: float
    chance: float

    def collapsed(self, before: Metric) -> bool:
        """Returns whether most of what was better than a constant answer is gone, or the file is far worse than that.

        Args:
            before: Keras's.
        """
        gained = before.value - before.chance if self.name == ACCURACY else before.chance - before.value
        lost = before.value - self.value if self.name == ACCURACY else self.value - before.value
        if gained > 0:
            return lost > gained / 2
        # Keras itself is no better than a constant answer: then by how much the file is worse.
        return lost > (WORSE if self.name == ACCURACY else before.chance / 2)


def metric(outputs: NDArray[Any], labels: NDArray[Any]) -> Metric:
    """Returns the accuracy for a classifier, the mean absolute error for a regression.

    Args:
        outputs: Shape (samples, classes), or (samples, 1) for two classes (above 0.5 is the second) or a regression.
        labels: Class numbers, shape (samples,) or (samples, 1), one-hot rows, or real targets; these two have the
            outputs' shape, whose last axis may be left out or added where it is 1.

    Raises:
        DataError: Labels that fit neither.
    """
    labels = np.asarray(labels)
    flat = outputs.reshape(len(outputs), -1)
    if flat.shape[1] > 1 and labels.size == len(labels) and labels.ndim <= 2:
        if labels.min() < 0 or labels.max() >= flat.shape[1] or np.any(labels != np.floor(labels)):
            raise DataError(
                f"Labels must be class numbers from 0 to {flat.shape[1] - 1}. "
                f"Received: {labels.dtype} from {labels.min()} to {labels.max()}. "
                "Put one class number per sample under y."
            )
        return _accuracy(flat.argmax(axis=1), labels.reshape(-1).astype(np.int64))
    if flat.shape[1] > 1 and labels.shape == outputs.shape and set(np.unique(labels)) <= {0, 1}:
        return _accuracy(flat.argmax(axis=1), labels.reshape(len(labels), -1).argmax(axis=1))
    if _squeezed(labels.shape) != _squeezed(outputs.shape):
        raise DataError(
            f"Labels must have one row per sample, of the shape of the model's first output, {outputs.shape}. "
            f"Received: {labels.shape}. Put matching labels under y, or omit them."
        )
    if set(np.unique(labels)) <= {0, 1}:
        return _accuracy((flat.reshape(labels.shape) > 0.5).reshape(-1), labels.reshape(-1).astype(np.int64))
    targets = labels.astype(np.float64)
    error = float(np.mean(np.abs(outputs.reshape(labels.shape) - targets)))
    return Metric(ERROR, error, float(np.mean(np.abs(targets - np.median(targets, axis=0)))))


def classifies(values: NDArray[Any], labels: NDArray[Any] | None = None) -> bool:
    """Returns whether the largest value along the last axis is an answer: each row is a distribution, or labels say so.

    Args:
        values: Keras's outputs, shape (samples, ..., classes).
        labels: Of the same output, None for none.
    """
    if values.ndim < 2 or values.shape[-1] < 2:
        return False
    if labels is not None and metric(values, labels).name == ACCURACY:
        return True
    return bool((values >= 0).all() and np.allclose(values.sum(axis=-1), 1.0, rtol=0, atol=_SUM_TOLERANCE))


def with_head(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Returns outputs as the head that was dropped would give them.

    Args:
        name: "softmax", "log_softmax", "sigmoid", or "" for the values themselves.
        values: Shape (samples, ..., classes).
    """
    if name == "sigmoid":
        return 0.5 * (1.0 + np.tanh(0.5 * values))
    if not name:
        return values
    shifted = values - values.max(axis=-1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.asarray(log if name == "log_softmax" else np.exp(log))


def argmax_agreement(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Returns the share of rows whose largest value is at the same place."""
    return float(np.mean(ours.argmax(axis=-1) == theirs.argmax(axis=-1)))


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without a last axis of 1."""
    return shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape


def _accuracy(answers: NDArray[Any], labels: NDArray[Any]) -> Metric:
    frequent = float(np.bincount(labels).max()) / len(labels)
    return Metric(ACCURACY, float(np.mean(answers == labels)), frequent)

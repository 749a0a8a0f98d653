"""Masks of time steps, which no device leaves out: whether the user's data show full sequences only."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sqp_keras import private
from sqp_keras.models import sites
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import runtime_of
from sqp_tflite.source import hooks
from sqp_tflite.source.keras_errors import running
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.samples import Samples

_CHUNK = 64

Saw = Callable[[Any, Any], bool]
"""Is told what makes a mask, and the mask, and says whether the mask stays."""


@dataclass(frozen=True, slots=True)
class Masks:
    """What the layers that mask time steps leave out of the user's data.

    Attributes:
        seen: Pairs (layer, how many samples have steps that it masks); () if there are no data, or it does not matter.
        samples: How many there are.
    """

    seen: tuple[tuple[str, int], ...] = ()
    samples: int = 0

    @property
    def full(self) -> bool:
        """Returns whether the data show sequences without a masked step, so that the file needs no masks."""
        return bool(self.seen) and not any(count for _, count in self.seen)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Returns what the user must know about a file without the masks."""
        return tuple(
            f"`{layer}` masks no time step of the {self.samples} samples, so the file computes every step: it takes "
            "full sequences only. Inputs with masked steps (padding) give other results than in Keras."
            for layer, _ in self.seen
            if self.full
        )


def masks(loaded: Loaded, inputs: Samples, wanted: Combination) -> Masks:
    """Returns what the model masks in the user's data; the model is run on them where the file would need its masks.

    Args:
        loaded: The model.
        inputs: The samples.
        wanted: Says whether the target has the operators of masks.

    Raises:
        BadInputError: A layer of the model raises an error.
    """
    found = dict(sites.paths(loaded.model)) if loaded.model is not None and inputs.given else {}
    if not _in_the_way(found.values(), wanted):
        return Masks()
    samples = masked_samples(loaded, inputs)
    return Masks(tuple((path, len(odd)) for path, odd in samples.items()), len(inputs)) if samples else Masks()


def masking(model: Any) -> tuple[str, ...]:
    """Returns the paths of a Keras model's layers that mask time steps."""
    return tuple(dict.fromkeys(_makers(dict(sites.paths(model))).values()))


def masked_samples(loaded: Loaded, inputs: Samples) -> dict[str, set[int]]:
    """Returns {layer that masks steps: the samples in which it masks some}; {} for a model without such layers.

    Args:
        loaded: The model.
        inputs: The samples, on which it is run.

    Raises:
        BadInputError: A layer of the model raises an error.
    """
    makers = _makers(dict(sites.paths(loaded.model))) if loaded.model is not None else {}
    samples: dict[str, set[int]] = {path: set() for path in makers.values()}
    if not makers:
        return samples
    start = 0

    def saw(maker: Any, mask: Any) -> bool:
        if id(maker) in makers and mask is not None:
            steps = np.asarray(mask)
            odd = np.flatnonzero(~steps.reshape(len(steps), -1).all(axis=1))
            samples[makers[id(maker)]] |= set((start + odd).tolist())
        return True

    with watched(saw), running(loaded.source):
        for start in range(0, len(inputs), _CHUNK):
            loaded.call([array[start : start + _CHUNK] for array in inputs.inputs])
    return samples


@contextlib.contextmanager
def watched(saw: Saw) -> Iterator[None]:
    """Tells each mask that a Masking, an Embedding or an operation makes; those that do not stay mask nothing."""

    def change(maker: Any, mask: Any) -> Any:
        stays = not isinstance(mask, tf.Tensor) or saw(maker, mask)
        return mask if stays else tf.ones(mask.shape, mask.dtype)

    with contextlib.ExitStack() as stack:
        stack.enter_context(hooks.hooked(keras.layers.Masking, "call", _call))
        for owner in (keras.layers.Masking, keras.layers.Embedding):
            stack.enter_context(hooks.hooked(owner, "compute_mask", _compute_mask))
        stack.enter_context(hooks.changed(change))
        yield


def _call(stock: Any) -> Any:
    @functools.wraps(stock)
    def call(layer: Any, inputs: Any) -> Any:
        if hooks.changes() is None:
            return stock(layer, inputs)
        # With a mask that masks nothing Masking returns what it gets; with another, 0 there.
        kept = layer.compute_mask(inputs)
        return keras.ops.where(keras.ops.expand_dims(kept, -1), inputs, 0)

    return call


def _compute_mask(stock: Any) -> Any:
    @functools.wraps(stock)
    def compute_mask(layer: Any, *arguments: Any, **named: Any) -> Any:
        mask, change = stock(layer, *arguments, **named), hooks.changes()
        return mask if change is None else change(layer, mask)

    return compute_mask


def none_masked(model: Any) -> Saw:
    """Returns the answer for `watched` that no mask of the model stays.

    Args:
        model: The Keras model.
    """
    makers = _makers(dict(sites.paths(model)))
    return lambda maker, mask: id(maker) not in makers


def _makers(layers: Mapping[str, Any]) -> dict[int, str]:
    """Returns the path of the layer by the id of what makes its mask: itself, and operations of a functional model."""
    found = {}
    for path, layer in layers.items():
        if isinstance(layer, keras.layers.Masking) or getattr(layer, "mask_zero", False):
            found[id(layer)] = path
            found |= {id(operation): path for operation in _operations(layer)}
    return found


def _operations(layer: Any) -> Iterator[Any]:
    """In a functional model masks are operations: NotEqual for an Embedding, Any behind it for Masking."""
    for call in private.calls_of(layer) or ():
        compared = [node for x in call.input_tensors for node in _read(x, "NotEqual")]
        if isinstance(layer, keras.layers.Masking):
            compared = [node for first in compared for mask in first.outputs for node in _read(mask, "Any")]
        yield from (node.operation for node in compared)


def _read(tensor: Any, operation: str) -> list[Any]:
    return [node for node in private.readers_of(tensor) if type(node.operation).__name__ == operation]


def _in_the_way(layers: Iterable[Any], wanted: Combination) -> bool:
    """Whether no file can hold the masks: those of Masking, and on TFLM and in integers those of recurrent layers."""
    layers = list(layers)
    if any(isinstance(layer, keras.layers.Masking) for layer in layers):
        return True
    loops = any(isinstance(layer, keras.layers.RNN) for layer in layers)
    return loops and (wanted.integer or runtime_of(wanted.target) == "tflm")

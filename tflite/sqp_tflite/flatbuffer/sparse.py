"""Sparse constants as dense ones: TFLM and the quantiser read no others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.graph import Tensor


def dense(parameters: Any, data: NDArray[np.uint8], tensor: Tensor) -> NDArray[Any] | None:
    """Returns a sparse constant's numbers, zeros among them, in its own type and shape.

    The form is that of the schema's `SparsityParameters`: levels in the order of traversal, each of which holds all
    places of its dimension, or those of each place of the level above as compressed rows (CSR). Dimensions behind the
    tensor's own are blocks of some of these.

    Args:
        parameters: The schema's object.
        data: The bytes of what is not left out.
        tensor: Its shape and type.

    Returns None where type or form are not known, or the places do not fit the shape.
    """
    rank, order = len(tensor.shape), [int(place) for place in _list(parameters.traversalOrder)]
    levels, blocks = _list(parameters.dimMetadata), [int(place) for place in _list(parameters.blockMap)]
    if len(order) != len(levels) or sorted(order) != list(range(rank + len(blocks))):
        return None
    try:
        values = np.frombuffer(data.tobytes(), np.dtype(tensor.dtype))
        places = _coordinates(levels)
        if places is None or len(places[0]) != len(values):
            return None
        by_dimension = dict(zip(order, places, strict=True))
        sizes = {order[level]: int(held.denseSize) for level, held in enumerate(levels)}
        at = [by_dimension[dimension] for dimension in range(rank)]
        for number, dimension in enumerate(blocks):
            at[dimension] = at[dimension] * sizes[rank + number] + by_dimension[rank + number]
        made = np.zeros(tensor.shape, values.dtype)
        made[tuple(at)] = values
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return made


def _coordinates(levels: list[Any]) -> list[NDArray[np.int64]] | None:
    """The place of every number along each level."""
    rows, found = np.zeros(1, np.int64), list[NDArray[np.int64]]()
    for level in levels:
        if schema.names("DimensionType").get(int(level.format)) == "DENSE":
            size = int(level.denseSize)
            count = np.full(len(rows), size)
            place = np.tile(np.arange(size), len(rows))
            rows = np.repeat(rows, size) * size + place
        else:
            segments = np.asarray(level.arraySegments.values, np.int64)
            indices = np.asarray(level.arrayIndices.values, np.int64)
            count = segments[rows + 1] - segments[rows]
            if len(rows) and (count.min() < 0 or segments.min() < 0):
                return None
            first = np.repeat(segments[rows] - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
            rows = first + np.arange(int(count.sum()))
            place = indices[rows]
        found = [np.repeat(places, count) for places in found] + [place]
    return found


def _list(values: Any) -> list[Any]:
    return [] if values is None else list(values)

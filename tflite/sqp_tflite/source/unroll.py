"""Writes recurrent layers out, step by step, while a model is traced, because no device can run the loop."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import keras

from sqp_keras.models import sites
from sqp_tflite.errors import RefusedError
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.report import Finding, Kind
from sqp_tflite.source import hooks

MOST_STEPS = 512
"""Longer sequences, at a dozen operators or more per step, give a file of no use on a device and take minutes."""


@contextlib.contextmanager
def unrolled(model: Any, steps: dict[str, int]) -> Iterator[None]:
    """Lets recurrent layers trace one copy of their cell per time step while the block runs, in this thread only.

    Args:
        model: The Keras model; it is only read.
        steps: Gains {path of the layer: its time steps} for every layer that is called in the block.

    Raises:
        RefusedError: Inside the block, where a layer is called with an open or too long time dimension.
    """
    found = {id(layer): (path, layer) for path, layer in sites.paths(model) if isinstance(layer, keras.layers.RNN)}
    if not found:
        yield
        return

    def called(layer: Any, sequences: Any) -> None:
        path, length = found[id(layer)][0], sequences.shape[1]
        if length is None or length > MOST_STEPS:
            raise _refused(path, layer, length)
        steps[path] = int(length)

    classes = {type(layer) for _, layer in found.values()}
    with hooks.unrolled(dict.fromkeys(found, called), classes), hooks.flipped_by_hand():
        yield


def notes(
    model: Any, steps: dict[str, int], graph: Graph, layers: LayerNames, arena: int | None = None
) -> tuple[str, ...]:
    """Returns one sentence per layer that was written out, with its share of the file's operators.

    Args:
        model: The Keras model.
        steps: What `unrolled` found.
        graph: The converted file.
        layers: Names the layer of each operator.
        arena: Bytes that the file needs on the device; None if they were not measured.
    """
    held = [layer for _, layer in sites.paths(model)] if steps else []
    forwards = not any(isinstance(one, keras.layers.Bidirectional) or _backwards(one) for one in held)
    needed = f", an arena of {arena:,} bytes" if arena else ""
    counts = Counter(
        layers.of(subgraph.tensors[op.outputs[0]].name, op.name) for subgraph, op in graph.all_ops() if len(op.outputs)
    )
    total = sum(counts.values())
    found = []
    for path, length in steps.items():
        own = sum(count for layer, count in counts.items() if layer == path or layer.startswith(f"{path}/"))
        found.append(
            f"`{path}` is written out for its {length} time step{'s' if length > 1 else ''}: {own} of the file's "
            f"{total} operators, {graph.size_bytes:,} bytes in all{needed}."
            + (" Run step by step, --step makes a file of one of them." if length > 1 and forwards else "")
        )
    return tuple(found)


def _backwards(layer: Any) -> bool:
    return bool(getattr(layer, "go_backwards", False))


def _refused(path: str, layer: Any, length: int | None) -> RefusedError:
    name = type(layer).__name__
    if length is None:
        rule = f"A device runs {name} as one copy of its cell per time step, so the time dimension must be fixed."
        remedy = "Build the model with keras.Input(shape=(steps, features))."
    else:
        rule = f"A device runs {name} as one copy of its cell per time step, at most {MOST_STEPS} of them."
        remedy = "Shorten or pool the sequence in front of it, or feed windows and keep the state outside the model."
    rule += f" Received: {name}, {'an open number of' if length is None else length} time steps."
    finding = Finding(path, "", "", rule, remedy, Kind.SHAPE)
    return RefusedError(str(finding), (finding,))

"""Brings a finished file into the form that the other steps read, and says what was changed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.accept import quoted
from sqp_tflite.errors import TFLiteFileError
from sqp_tflite.finished.model import ORIGIN
from sqp_tflite.flatbuffer.cleaned import fold_shapes, fold_weights, shapes_of
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import Subgraph
from sqp_tflite.flatbuffer.op_versions import versioned
from sqp_tflite.source.load import Loaded
from sqp_tflite.wording import listed
from sqp_tflite.worker import ChildError, lent


def cleaned(model: Loaded, quantize: str) -> tuple[bytes, tuple[str, ...]]:
    """Returns the file with a fixed batch, constant shapes and plain weights, and what was done, in sentences.

    A file to which none of this applies is returned as it is.

    Args:
        model: The finished file.
        quantize: The wanted number type; "float16" and "dynamic" keep narrow weights.

    Raises:
        TFLiteFileError: LiteRT, which computes the shapes, does not run it.
    """
    given, others = _alone(model.content)
    editor = Editor(given)
    before, notes = editor.graph.main, list[str]()
    if others:
        kept = editor.graph.subgraphs[0].name
        notes.append(f"Only the main graph, {quoted(kept)}, is kept, without {listed(others)}, which it does not call.")
    if not _needed(before):
        return given, tuple(notes)
    editor.give_own_names()
    editor.drop_signatures()  # They are put back at the end, by the places of inputs and outputs.
    names = shapes_of(editor.main())
    is_open = any(tensor.open for tensor in before.tensors)
    if is_open or names:
        # What a converter writes for a dimension that depends on the batch need not be what it is for a batch of 1.
        values, shapes = _observed(editor.bytes(), model, names)
        if is_open and len(editor.graph.subgraphs) == 1:
            editor.close_shapes(shapes)
        editor = Editor(editor.bytes())
        fold_shapes(editor, values)
    editor.drop_unused()
    content = editor.bytes()
    editor = Editor(content)
    sparse, narrow = fold_weights(editor) if quantize not in ("float16", "dynamic") else (0, 0)
    if any(tensor.open == (0,) for tensor in before.tensors):
        notes.append("The batch was open and is fixed to 1.")
    if sparse:
        notes.append(f"{sparse} sparse weight(s) are dense now: TensorFlow Lite Micro reads no others.")
    if narrow:
        notes.append(f"{narrow} weight(s) of fewer bits are float32 now, with the same values.")
    versioned(editor)
    return editor.bytes(), tuple(notes)


def _alone(content: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The file without graphs that its main one does not call, and their names: each signature has a graph."""
    editor = Editor(content)
    if len(editor.graph.subgraphs) == 1:
        return content, ()
    others = tuple(graph.name for graph in editor.graph.subgraphs[1:])
    editor.drop_unused()
    return (editor.bytes(), others) if len(editor.graphs()) == 1 else (content, ())


def named(content: bytes) -> Editor:
    """Returns an editor of the file in which every tensor has a name of its own."""
    editor = Editor(content)
    editor.give_own_names()
    return Editor(editor.bytes())


def _needed(graph: Subgraph) -> bool:
    open_batch = any(tensor.open for tensor in graph.tensors)
    narrow = any(tensor.sparse for tensor in graph.tensors) or any(
        (op.name == "DEQUANTIZE" and graph.tensors[op.inputs[0]].constant)
        or op.name in ("DENSIFY", "SHAPE")
        or (op.dtype == "float32" and op.weights in ("int8", "uint8", "int4"))
        for op in graph.ops
    )
    read = {index for op in graph.ops for index in op.inputs} | set(graph.outputs)
    dead = any(op.outputs and read.isdisjoint(op.outputs) for op in graph.ops)
    return open_batch or narrow or dead


def _observed(
    content: bytes, model: Loaded, names: tuple[str, ...]
) -> tuple[dict[str, NDArray[Any]], dict[int, tuple[int, ...]]]:
    """The values of some tensors, and the shapes of all that are computed, as LiteRT has them for one sample."""
    zeros = tuple(np.zeros((1, *spec.shape), spec.dtype) for spec in model.inputs)
    with lent(ORIGIN, ("sqp_tflite.run.interpreters",)) as worker:
        try:
            return worker.call("sqp_tflite.run.layer_errors:shapes_here", content, zeros, names)
        except ChildError as error:
            raise TFLiteFileError(
                f"A finished file must run on LiteRT. Received: `{model.source}`, which it does not run: {error}. "
                "Export the model that it was made from."
            ) from error

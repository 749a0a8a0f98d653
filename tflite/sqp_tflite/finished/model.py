"""A finished file as a model: what its own interpreter computes is the reference."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sqp_tflite.accept import quoted
from sqp_tflite.errors import TFLiteFileError
from sqp_tflite.files import Content, content_of
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.flatbuffer.heads import drop_heads
from sqp_tflite.flatbuffer.read import bytes_of, opened, read
from sqp_tflite.limits import Limit
from sqp_tflite.run import interpreters
from sqp_tflite.run.extremes import bounded, codes_of
from sqp_tflite.source.load import InputSpec, Loaded
from sqp_tflite.source.made_up import Scale
from sqp_tflite.wording import joined, listed

ORIGIN = "litert"
"""The interpreter that a file is taken to be made for."""

_REACH = 4.0
"""How far made-up inputs reach: four standard deviations."""

_NO_NUMBERS = ("string", "resource", "variant", "complex64", "complex128")
_SINGLE_SCALE = ("int8", "uint8", "int16")


def is_file(model: Any) -> bool:
    """Returns whether a model is the path of a TFLite file."""
    return isinstance(model, (str, Path)) and content_of(Path(model)) is Content.TFLITE


def loaded(path: str | Path, allowed: Limit) -> Loaded:
    """Returns the description of a finished file.

    Args:
        path: The file.
        allowed: How much memory it, and each of its tensors, may take.

    Raises:
        TFLiteFileError: It cannot be read, has no inputs or outputs, or some that are no numbers or of open size.
    """
    content, what = bytes_of(path, allowed=allowed)
    graph = opened(content, what)[1]
    interpreters.require_room(graph, what, allowed)
    return described(content, graph, str(path))


def described(content: bytes, graph: Graph, source: str) -> Loaded:
    """Returns the description of a file that was read.

    Args:
        content: The file.
        graph: What it holds.
        source: What messages call it.
    """
    for which, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        _require_ends(which, tensors, source)
    names, outputs = end_names(graph)
    specs = tuple(
        InputSpec(name, tensor.sample_shape, "float32" if tensor.quantization else tensor.dtype)
        for name, tensor in zip(names, graph.inputs, strict=True)
    )

    def call(values: Sequence[Any]) -> dict[str, Any]:
        try:
            found = interpreters.run(ORIGIN, content, tuple(np.asarray(value) for value in values))
        except interpreters.RuntimeFailedError as error:
            raise TFLiteFileError(
                f"A finished file must run on LiteRT, whose outputs the new file is compared with. Received: "
                f"{quoted(source)}, which it does not run: {error}. Export the model that it was made from."
            ) from error
        return dict(zip(outputs, found.values, strict=True))

    return Loaded(None, call, source, specs, (), content=content)


def _require_ends(which: str, tensors: tuple[Tensor, ...], source: str) -> None:
    if not tensors:
        raise TFLiteFileError(
            f"A file must have inputs and outputs, or there is nothing to compare. Received: {quoted(source)} without "
            f"{which}. Pass another file."
        )
    odd = [f"`{tensor.name}` of type {tensor.dtype}" for tensor in tensors if tensor.dtype in _NO_NUMBERS]
    wide = [tensor for tensor in tensors if any(place > 0 for place in tensor.open)]
    unranked = [tensor for tensor in tensors if not tensor.ranked]
    if odd:
        raise TFLiteFileError(
            f"The {which} of a file for a device must be numbers. Received: {', '.join(odd[:4])} in {quoted(source)}. "
            "Make the file without this part, and do it in your program."
        )
    if unranked and which == "inputs":
        raise TFLiteFileError(
            "Every dimension of an input must be fixed, because a device's memory is. Received: input "
            f"`{unranked[0].name}` of {quoted(source)}, which may have any number of dimensions. Convert its source "
            "again with inputs of full size."
        )
    if wide and which == "inputs":
        raise TFLiteFileError(
            "Every dimension after the batch must be fixed, because a device's memory is. Received: input "
            f"`{wide[0].name}` of {quoted(source)}, whose dimension {wide[0].open[-1]} is open. Convert its source "
            "again with inputs of full size."
        )
    if 0 in [size for tensor in tensors for size in tensor.shape]:
        raise TFLiteFileError(
            f"Every dimension must be at least 1. Received: {which} of {quoted(source)} with a dimension of 0. "
            "Convert its source again with inputs of full size."
        )


def end_names(graph: Graph) -> tuple[list[str], list[str]]:
    """Returns what a file calls its inputs and outputs: by its signature if it has one, else by their tensors."""
    signature = next((one for one in graph.signatures if one.subgraph == 0), None)
    found = []
    for tensors, named in (
        (graph.inputs, signature.inputs if signature else {}),
        (graph.outputs, signature.outputs if signature else {}),
    ):
        names = [own or tensor.name for own, tensor in zip(by_place(tensors, named), tensors, strict=True)]
        counts, used = Counter(names), Counter[str]()
        for place, name in enumerate(names):
            if counts[name] > 1 or not name:
                names[place] = f"{name or 'value'}_{used[name]}"
                used[name] += 1
        found.append(names)
    return found[0], found[1]


def by_place(tensors: Sequence[Tensor], named: Mapping[str, int]) -> list[str]:
    """Returns the name that a signature gives to each tensor in order, "" for none; one tensor may have several."""
    free = dict(named)
    names = []
    for tensor in tensors:
        name = next((name for name, index in free.items() if index == tensor.index), "")
        free.pop(name, None)
        names.append(name)
    return names


def unsigned(content: bytes) -> bytes:
    """Returns the file without its signatures, whose tensors would be kept; several graphs keep theirs."""
    editor = Editor(content)
    if len(editor.graph.subgraphs) > 1 or not editor.graph.signatures:
        return content
    editor.drop_signatures()
    return editor.bytes()


def signed(content: bytes, given: bytes) -> bytes:
    """Returns a file that was made from another one with that one's signatures, by the places of inputs and outputs.

    Args:
        content: The file.
        given: The other one, with as many inputs and outputs in the same order.
    """
    editor, before = Editor(content), read(given)
    if content == given or len(editor.graph.subgraphs) > 1 or not before.signatures:
        return content
    editor.drop_signatures()
    for one in (one for one in before.signatures if one.subgraph == 0):
        names = by_place(before.inputs, one.inputs), by_place(before.outputs, one.outputs)
        if all(names[0]) and all(names[1]):
            editor.sign(one.key, *names)
    return editor.bytes()


def scales(model: Loaded, graph: Graph) -> dict[str, Scale]:
    """Returns what numbers the inputs take, as far as their codes say it; ordinary ones for floats.

    No layer tells a finished file's scale, and far beyond it the file itself overflows: log(1 + exp(100)) is infinite.
    """
    codes = [codes_of(graph, place) for place in range(len(graph.inputs))]
    plain = {
        spec.name: Scale(ends=(-_REACH, _REACH))
        for spec, tensor in zip(model.inputs, codes, strict=True)
        if spec.dtype.startswith("float") and tensor.quantization is None
    }
    return bounded(model.inputs, codes, plain)


def without_heads(model: Loaded) -> tuple[Loaded, tuple[str, ...], tuple[str, ...]]:
    """Returns the file without its last softmax or sigmoid, what each output lost, and how to read it now."""
    editor = Editor(model.content)
    heads = drop_heads(editor)
    if not any(heads):
        return model, (), ("No output ends in a softmax or sigmoid: nothing was dropped.",)
    content, (_, names) = editor.bytes(), end_names(editor.graph)
    lost = [f"{listed([name])} ({head})" for name, head in zip(names, heads, strict=True) if head]
    note = f"Dropped at the end: {joined(lost)}. The largest value is still the answer; a sigmoid's 0.5 is 0 now."
    made = described(content, opened(content)[1], model.source)
    return dataclasses.replace(made, inputs=model.inputs), heads, (note,)

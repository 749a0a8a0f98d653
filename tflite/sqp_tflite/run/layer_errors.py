"""Where accuracy is lost: the error of each layer of an integer file against the float file, on the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.graph import Subgraph, Tensor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.report import LayerError
from sqp_tflite.run.interpreters import decode, encode
from sqp_tflite.wording import LONGEST_NAME, harmless, shortened

MOST_SAMPLES = 64
"""The errors are measured on this many samples, the first ones: both files keep every tensor while they run."""

_NAMED = 3
"""Layers that a message names."""

_NEXT = {
    "int8": ("--quantize int16x8", "whose numbers between the layers are 256 times finer."),
    "int16x8": ("--quantize float32", "because what is left is mostly the rounding of the weights to 8 bits."),
}


def worst_layers(errors: tuple[LayerError, ...], quantize: str, named: bool = False) -> str:
    """Returns where a file of integers that does not agree loses accuracy, and what to do; "" for the float types.

    Args:
        errors: Worst first; () where they were not measured.
        quantize: The number type.
        named: Whether the message has named the next step already.
    """
    if quantize not in _NEXT:
        return ""
    option, why = _NEXT[quantize]
    shown = ", ".join(
        f"`{shortened(harmless(row.layer), LONGEST_NAME)}` ({row.error_of_range:.2g} of its range)"
        for row in errors[:_NAMED]
    )
    parts = [f"Furthest from the float file: {shown}; errors add up from layer to layer."] if shown else []
    return " ".join(parts if named else [*parts, f"Next: {option}, {why}"])


def pairs(plain: Subgraph, reduced: Subgraph, layers: LayerNames) -> tuple[tuple[str, str, str], ...]:
    """Returns (layer, tensor of the float file, tensor of the other file): the last tensor of each layer in both."""
    held = {tensor.name for tensor in reduced.tensors if not tensor.constant}
    last: dict[str, tuple[str, str]] = {}
    for op in plain.ops:
        for index in op.outputs:
            name = plain.tensors[index].name
            found = next((n for n in (f"{name}_quantized", name) if n in held), None)
            if found and plain.tensors[index].dtype == "float32":
                last[layers.of(name)] = name, found
    return tuple((layer, *names) for layer, names in last.items())


def layer_errors_here(
    plain: bytes,
    reduced: bytes,
    inputs: tuple[NDArray[Any], ...],
    wanted: tuple[tuple[str, str, str], ...],
    spans: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> tuple[LayerError, ...]:
    """Returns the errors, worst first; runs in a child.

    Args:
        plain: The float file.
        reduced: The integer file.
        inputs: One array per input, shape (samples, *shape), real numbers.
        wanted: The result of `pairs`.
        spans: {tensor: (smallest, largest)} of what is read of tensors that the integer file holds no further.
    """
    few = tuple(array[:MOST_SAMPLES] for array in inputs)
    before = _observed(plain, few, tuple(row[1] for row in wanted), codes=False)
    after = _observed(reduced, few, tuple(row[2] for row in wanted), codes=False)
    errors, lows, highs = [0.0] * len(wanted), [np.inf] * len(wanted), [-np.inf] * len(wanted)
    for ours, theirs in zip(before, after, strict=True):
        for place, (_, name, other) in enumerate(wanted):
            values = np.clip(ours[name], *spans[name]) if name in spans else ours[name]
            errors[place] = max(errors[place], float(np.abs(values - theirs[other]).max(initial=0.0)))
            lows[place] = min(lows[place], float(values.min(initial=np.inf)))
            highs[place] = max(highs[place], float(values.max(initial=-np.inf)))
    rows = [
        LayerError(layer, other, error, error / ((high - low) if high > low else 1.0))
        for (layer, _, other), error, low, high in zip(wanted, errors, lows, highs, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: -row.error_of_range))


def observe_here(
    content: bytes, inputs: tuple[NDArray[Any], ...], names: tuple[str, ...], *, codes: bool = False
) -> dict[str, NDArray[Any]]:
    """Returns {tensor: values for all samples, shape (samples, ...)} as computed by LiteRT; runs in a child.

    Args:
        content: A TFLite file.
        inputs: One array per input, real numbers.
        names: Names of the tensors.
        codes: Whether quantised tensors are returned as their codes.
    """
    rows = list(_observed(content, inputs, names, codes))
    return {name: np.stack([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def spans_here(
    content: bytes, inputs: tuple[NDArray[Any], ...], names: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    """Returns {tensor: (its smallest value, its largest)} over all samples, as computed by LiteRT; runs in a child."""
    found = dict.fromkeys(names, (np.inf, -np.inf))
    for row in _observed(content, inputs, names, codes=False):
        for name, values in row.items():
            low, high = found[name]
            found[name] = min(low, float(values.min(initial=np.inf))), max(high, float(values.max(initial=-np.inf)))
    return found


def _observed(
    content: bytes, inputs: tuple[NDArray[Any], ...], names: tuple[str, ...], codes: bool
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yields the tensors' values sample by sample: all of them at once may be more than the memory holds."""
    main = read(content).main
    interpreter = keeping_tensors(content)
    tensors = {name: tensor for name, tensor in main.by_name().items() if name in set(names)}
    for sample in range(len(inputs[0])):
        for index, array in zip(main.inputs, inputs, strict=True):
            tensor = main.tensors[index]
            interpreter.set_tensor(index, encode(array[sample].reshape(tensor.shape), tensor))
        interpreter.invoke()
        yield {name: _value(interpreter, held, codes) for name, held in tensors.items()}


def shapes_here(
    content: bytes, inputs: tuple[NDArray[Any], ...], names: tuple[str, ...]
) -> tuple[dict[str, NDArray[Any]], dict[int, tuple[int, ...]]]:
    """Returns values of tensors by name, and the shapes of all computed ones by index, for one sample, run by LiteRT.

    Args:
        content: A TFLite file.
        inputs: One array per input, whose first sample is taken.
        names: Names of the tensors whose values are returned.
    """
    main = read(content).main
    interpreter = keeping_tensors(content)
    for index, array in zip(main.inputs, inputs, strict=True):
        tensor = main.tensors[index]
        interpreter.set_tensor(index, encode(array[0].reshape(tensor.shape), tensor))
    interpreter.invoke()
    shapes = {
        detail["index"]: tuple(int(size) for size in detail["shape"])
        for detail in interpreter.get_tensor_details()
        if detail["index"] < len(main.tensors) and not main.tensors[detail["index"]].constant
    }
    held = {name: tensor.index for name, tensor in main.by_name().items() if name in set(names)}
    return {name: interpreter.get_tensor(index) for name, index in held.items()}, shapes


def keeping_tensors(content: bytes) -> Any:
    """Returns an allocated LiteRT interpreter that keeps every tensor; it has no delegate, which would hide some."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=content,
        num_threads=1,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    return interpreter


def _value(interpreter: Any, tensor: Tensor, codes: bool) -> NDArray[Any]:
    held = interpreter.get_tensor(tensor.index)
    return held if codes else decode(held, tensor)

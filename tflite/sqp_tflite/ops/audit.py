"""Judges a file against the op policy and the target's kernels: all findings, each with its Keras layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES, INTEGER_DTYPES, Graph, Op, Subgraph, Tensor
from sqp_tflite.layer_names import THE_MODEL, LayerNames
from sqp_tflite.ops.finite import not_finite
from sqp_tflite.ops.policy import (
    ADMITTED,
    DELEGATED,
    DELEGATED_DIMENSIONS,
    EXP_AND_LOG,
    MOST_DIMENSIONS,
    NAMES,
    ONE_SCALE,
    RELEASES,
    RUNTIMES,
    broken_rule,
    hybrid,
    kernels,
    runtime_of,
    takes_version,
    versions,
)
from sqp_tflite.report import Finding, Kind, OpRow, TensorRow

_ACTIVATION_REMEDY = 'Retrain with `activation="squareplus"`, or run again with `--replace accurate`.'
_REMEDIES = {
    **dict.fromkeys(
        ("EXP", "LOG", "ELU", "GELU", "LOGISTIC", "TANH", "POW", "SIN", "COS", "SELECT", "SELECT_V2"),
        _ACTIVATION_REMEDY,
    ),
    "SOFTMAX": "Drop a final one with `--head logits` (the largest logit is the largest probability), exchange another "
    "with `--replace accurate`.",
    "LOG_SOFTMAX": "Drop it: the largest logit is the largest probability.",
    "WHILE": "Write a loop of your own as a Python `for`; give a recurrent layer keras.Input(shape=(steps, features)).",
    "IF": "Compute both branches and choose: keras.ops.where(condition, a, b).",
    "SHAPE": "Give Reshape its full target shape, and the input a fixed one.",
}
_INTEGER_WEIGHTS = ("int8", "int4", "uint8")
_READS_BOTH = ("DEQUANTIZE", "QUANTIZE")
"""Operators that go from one type of numbers to the other: they have no weights of their own."""

SCHEMA_VERSION = 3
"""Of every TFLite file; readers of other versions do not exist."""

_AGAIN = "Export the Keras model again with sqp-export: the file is damaged, or its writer has a fault."

_Judge = Callable[[Subgraph, Op, str, LayerNames], "Finding | None"]


def audit(graph: Graph, target: str, layers: LayerNames | None = None) -> tuple[Finding, ...]:
    """Returns every reason why a file may not run on the target; () for a file that may.

    Args:
        graph: What `read` returned.
        target: One of `policy.TARGETS`.
        layers: Names the Keras layer of each op; without it the tensor's scope is named.
    """
    layers = layers or LayerNames()
    findings = _each(
        graph, target, layers, (_op, _version, _hybrid, _wide, _cast, _rank, _delegated, _indices, _scales)
    )
    findings += _open_shapes(graph, layers) + _not_finite(graph, layers) + incoherent(graph, layers)
    return tuple(dict.fromkeys(findings))


def _not_finite(graph: Graph, layers: LayerNames) -> list[Finding]:
    found = []
    for subgraph, reader, finding in not_finite(graph):
        layer = layer_of(subgraph, reader, layers) if reader else layers.of(finding.layer)
        found.append(dataclasses.replace(finding, layer=layer))
    return found


def incoherent(graph: Graph, layers: LayerNames | None = None) -> list[Finding]:
    """Returns where a file computes from memory that nothing has written, and what lets nobody read its results.

    Interpreters trust the order of the operators: they run such a file and return what lay in the memory.
    """
    layers = layers or LayerNames()
    found = [finding for subgraph in graph.subgraphs for finding in _unwritten(subgraph, layers)]
    if not graph.main.outputs:
        rule = "A file must have outputs: nothing that this one computes can be read."
        found.append(Finding(THE_MODEL, "", "", rule, _AGAIN, Kind.GRAPH))
    if graph.schema_version != SCHEMA_VERSION:
        rule = f"A TFLite file has schema version {SCHEMA_VERSION}, this one says {graph.schema_version}."
        found.append(Finding(THE_MODEL, "", "", rule, _AGAIN, Kind.GRAPH))
    return found


def _unwritten(subgraph: Subgraph, layers: LayerNames) -> Iterator[Finding]:
    """Yields a finding for each tensor that is read, or is an output, before an operator has written it."""
    tensors = subgraph.tensors
    held = {one.index for one in tensors if one.constant or one.variable or 0 in one.shape} | set(subgraph.inputs)
    makers = subgraph.makers()
    for op in subgraph.ops:
        for index in dict.fromkeys(op.inputs):
            if index >= 0 and index not in held:
                held.add(index)  # One finding for each.
                when = "only a later operator writes" if index in makers else "nothing writes"
                rule = "An operator may not read what no operator before it has written: "
                rule += f"`{tensors[index].name}`, which {when}."
                yield Finding(layer_of(subgraph, op, layers), op.name, op.dtype, rule, _AGAIN, Kind.GRAPH)
        held.update(op.outputs)
    for index in dict.fromkeys(subgraph.outputs):
        if index not in held:
            rule = f"An output must be computed: nothing writes `{tensors[index].name}`."
            yield Finding(layers.of(tensors[index].name), "", tensors[index].dtype, rule, _AGAIN, Kind.GRAPH)


def silent(graph: Graph, target: str) -> tuple[Finding, ...]:
    """Returns what the target's interpreter gets wrong without saying so, although it runs the file."""
    found = _each(graph, target, LayerNames(), (_hybrid, _rank, _scales))
    found += _not_finite(graph, LayerNames()) + incoherent(graph)
    return tuple(dict.fromkeys(found))


def exp_and_log(graph: Graph) -> tuple[str, ...]:
    """Returns the operators whose kernels need exp or log, or may: custom ones do not say. () if there are none."""
    found = [
        op.name
        for _, op in graph.all_ops()
        if op.name in EXP_AND_LOG or op.name.startswith("CUSTOM:") or op.fused in ("TANH", "SIGMOID")
    ]
    return tuple(dict.fromkeys(found))


def _each(graph: Graph, target: str, layers: LayerNames, judges: tuple[_Judge, ...]) -> list[Finding]:
    found = (judge(subgraph, op, target, layers) for subgraph, op in graph.all_ops() for judge in judges)
    return [finding for finding in found if finding]


def release_notes(graph: Graph, target: str, stand_in: str = "") -> tuple[str, ...]:
    """Returns what the target's release must have for a file, in sentences; the newest has all.

    TFLM of 2023-10 and 2024-02 computes dense layers with a scale per unit wrong (8.69 off, of a range of 47, for a CNN
    of digits), that of 2024-08 fails to allocate, from 2024-11 on it is right: measured with wheels of these months.

    Args:
        graph: The file.
        target: One of `policy.TARGETS`.
        stand_in: What runs it here in place of the target's own release, "" if nothing has to.
    """
    if not stand_in:
        return _about_scales(graph, target)
    return (
        *_about_scales(graph, target),
        f"Run and measured on {stand_in}, which is installed, not on {NAMES[target]}. Which operators that has was "
        f"probed on its version {RELEASES[target]}. Its arena may be larger, by up to 8 % in what was measured: leave "
        "room for that.",
    )


def _about_scales(graph: Graph, target: str) -> tuple[str, ...]:
    if target in ONE_SCALE and any(_integer_dense(op) for _, op in graph.all_ops()):
        return (
            f"Dense layers have one weight scale each, as with --per-tensor: {NAMES[target]} ignores the others, "
            "without an error.",
        )
    if target != "tflm" or not scale_per_unit(graph):
        return ()
    return (
        "Dense layers have a scale per unit: this needs TensorFlow Lite Micro of November 2024 or later. Earlier ones "
        "compute something else without an error; for them export with --target tflm@2023 or --per-tensor.",
    )


def scale_per_unit(graph: Graph) -> bool:
    """Returns whether a dense layer of integers has weights with a scale for each unit."""
    return any(_scale_per_unit(subgraph, op) for subgraph, op in graph.all_ops() if _integer_dense(op))


def _integer_dense(op: Op) -> bool:
    return op.name == "FULLY_CONNECTED" and op.dtype in INTEGER_DTYPES and op.inputs[1] >= 0


def _scale_per_unit(subgraph: Subgraph, op: Op) -> bool:
    held = subgraph.tensors[op.inputs[1]].quantization
    return held is not None and len(held.scales) > 1


def op_rows(graph: Graph, layers: LayerNames | None = None) -> tuple[OpRow, ...]:
    """Returns the operators of a file, counted, with the Keras layers behind each, most frequent first."""
    layers = layers or LayerNames()
    rows: dict[tuple[str, str, int], list[str]] = {}
    for subgraph, op in graph.all_ops():
        rows.setdefault((op.name, op.dtype, op.version), []).append(layer_of(subgraph, op, layers))
    listed = [
        OpRow(name, dtype, version, len(found), tuple(dict.fromkeys(found)))
        for (name, dtype, version), found in rows.items()
    ]
    return tuple(sorted(listed, key=lambda row: (-row.count, row.op, row.dtype, row.version)))


def tensor_rows(graph: Graph, indices: tuple[int, ...]) -> tuple[TensorRow, ...]:
    """Returns inputs or outputs of the main graph as rows, in order."""
    rows = []
    for place, index in enumerate(indices):
        tensor = graph.main.tensors[index]
        scale = tensor.quantization.scales[0] if tensor.quantization else None
        point = tensor.quantization.zero_points[0] if tensor.quantization else None
        rows.append(TensorRow(place, tensor.name, tensor.shape, tensor.dtype, scale, point))
    return tuple(rows)


def layer_of(subgraph: Subgraph, op: Op, layers: LayerNames) -> str:
    """Returns the Keras layer behind an op, by the name of what it writes."""
    if not op.outputs:
        return op.name
    layer = layers.of(subgraph.tensors[op.outputs[0]].name, op.name)
    read = [index for index in op.inputs if index in subgraph.inputs]
    # What a model does with an input before its first layer: Keras changes the input's type, for example.
    return subgraph.tensors[read[0]].name if layer == THE_MODEL and read else layer


def _op(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    rule = broken_rule(op.name, op.dtype, target)
    if rule is None:
        return None
    kind = Kind.DTYPE if op.name in ADMITTED and op.name in kernels(target) else Kind.OP
    others = [f"`--target {name}`" for name in RUNTIMES if broken_rule(op.name, op.dtype, name) is None]
    way = f"try {' or '.join(others)}" if others else "compute it outside of the model"
    remedy = _REMEDIES.get(op.name, f"Write the layer with admitted ops, or {way}.")
    return Finding(layer_of(subgraph, op, layers), op.name, op.dtype, rule, remedy, kind)


def _version(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    if takes_version(op.name, op.version, target) or _cast(subgraph, op, target, layers):
        return None  # A type that no version has is what is wrong.
    rule = f"{NAMES[target]} takes {op.name} up to version {versions(target)[op.name]}, the file has {op.version}."
    others = [other for other in RUNTIMES if takes_version(op.name, op.version, other) and other != target]
    runs = [f"`--target {other}`" for other in others if broken_rule(op.name, op.dtype, other) is None]
    remedy = "Export the Keras model again with sqp-export, which writes the lowest version that does the work"
    remedy += f", or use {' or '.join(runs)}." if runs else "."
    return Finding(layer_of(subgraph, op, layers), op.name, op.dtype, rule, remedy, Kind.VERSION)


def _hybrid(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    if op.dtype not in FLOAT_DTYPES or op.weights not in _INTEGER_WEIGHTS or op.name in _READS_BOTH:
        return None
    has = hybrid(target)
    if op.name in has:
        return None
    rule = f"{NAMES[target]} has no {op.name} for float inputs with {op.weights} weights"
    rule += f", only {', '.join(has)}." if has else ", and no other op for them."
    remedy = "Use `--quantize int8` with `--data`, or float32"
    others = [f"`--target {other}`" for other in RUNTIMES if op.name in hybrid(other)]
    remedy += f", or {' or '.join(others)}." if others else "."
    dtype = f"{op.dtype} with {op.weights} weights"
    return Finding(layer_of(subgraph, op, layers), op.name, dtype, rule, remedy, Kind.DTYPE)


def _wide(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    """Only LiteRT multiplies numbers of int16 with a constant batch of int8 matrices."""
    if op.name != "BATCH_MATMUL" or (op.dtype, op.weights) != ("int16", "int8") or target == "litert":
        return None
    rule = f"{NAMES[target]} has no BATCH_MATMUL for int16 inputs with int8 weights."
    remedy = "Use `--quantize int8`, or float32, or `--target litert`."
    return Finding(layer_of(subgraph, op, layers), op.name, op.dtype, rule, remedy, Kind.DTYPE)


_CASTS_ON_TFLM = ("float32", "int32", "int16", "int8", "uint32", "bool")
_NO_CASTS = ("bfloat16", "uint64")
"""Found by running CAST from float32, int32 and int8 into every type; nobody reads bfloat16 as an array."""


def _cast(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    """The table says which types CAST reads; this is about what it writes."""
    if op.name != "CAST" or not op.outputs:
        return None
    made = subgraph.tensors[op.outputs[0]].dtype
    if made not in _NO_CASTS if runtime_of(target) != "tflm" else made in _CASTS_ON_TFLM:
        return None
    rule = f"{NAMES[target]} has no CAST into {made}."
    remedy = "Cast into float32 or int32, or leave the cast out and convert the output behind the model."
    return Finding(layer_of(subgraph, op, layers), op.name, op.dtype, rule, remedy, Kind.DTYPE)


def _rank(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    most = MOST_DIMENSIONS.get(target)
    return None if most is None or op.name == "RESHAPE" else _dimensions(subgraph, op, target, layers, most)


def _delegated(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    if target != "litert" or op.name not in DELEGATED or op.dtype != "float32":
        return None
    return _dimensions(subgraph, op, target, layers, DELEGATED_DIMENSIONS)


def _dimensions(subgraph: Subgraph, op: Op, target: str, layers: LayerNames, most: int) -> Finding | None:
    ranks = [len(subgraph.tensors[place].shape) for place in (*op.inputs, *op.outputs) if place >= 0]
    if max(ranks, default=0) <= most:
        return None
    has = "has tensors of" if target in MOST_DIMENSIONS else f"runs {op.name} on tensors of"
    rule = f"{NAMES[target]} {has} at most {most} dimensions, the batch included, not of {max(ranks)}."
    # The converter leaves out a Reshape in front of a dense layer.
    remedy = (
        f"Join dimensions so that {most - 1} are left: in the shape of keras.Input (the numbers stay in their order), "
        "or, where they come from another layer, with a keras.layers.Reshape behind that."
    )
    return Finding(layer_of(subgraph, op, layers), op.name, op.dtype, rule, remedy, Kind.SHAPE)


def _indices(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    if op.name != "GATHER" or runtime_of(target) != "tflm" or len(op.inputs) < 2:
        return None
    dtype = subgraph.tensors[op.inputs[1]].dtype
    if dtype == "int32":
        return None
    rule = f"{NAMES[target]} looks rows up by int32 only."
    remedy = 'Make the indices int32: keras.ops.cast(x, "int32").'
    return Finding(layer_of(subgraph, op, layers), op.name, dtype, rule, remedy, Kind.DTYPE)


def _scales(subgraph: Subgraph, op: Op, target: str, layers: LayerNames) -> Finding | None:
    if target not in ONE_SCALE or not _integer_dense(op) or not _scale_per_unit(subgraph, op):
        return None
    rule = "FULLY_CONNECTED with a scale per unit is silently wrong on TensorFlow Lite Micro from before November 2024."
    remedy = f"Export the Keras model with `--target {target}`, or with `--per-tensor`."
    return Finding(layer_of(subgraph, op, layers), op.name, op.dtype, rule, remedy, Kind.VERSION)


def _open_shapes(graph: Graph, layers: LayerNames) -> list[Finding]:
    """A batch that is open runs as 1; others are findings of their inputs (loops are refused as such)."""
    inputs = [tensor for tensor in graph.inputs if not tensor.ranked or any(place > 0 for place in tensor.open)]
    if not inputs and not any(tensor.open for tensor in graph.inputs):
        inputs = [tensor for tensor in graph.main.tensors if tensor.open][:1]
    return [
        Finding(
            layers.of(tensor.name),
            "",
            tensor.dtype,
            f"`{tensor.name}` has an open dimension: {_shown(tensor)}.",
            "Give the model's inputs fixed shapes.",
            Kind.SHAPE,
        )
        for tensor in inputs
    ]


def _shown(tensor: Tensor) -> str:
    if not tensor.ranked:
        return "any number of them"
    sizes = ["?" if place in tensor.open else str(size) for place, size in enumerate(tensor.shape)]
    return f"({', '.join(sizes)})"

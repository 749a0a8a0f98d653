"""What an operator that has no C form raises, and the finding that the plan makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from sqp_tflite.codegen.arithmetic import LIMITS, RANGES
from sqp_tflite.codegen.source import C_TYPES
from sqp_tflite.flatbuffer.graph import Graph, Op, Tensor
from sqp_tflite.layer_names import THE_MODEL
from sqp_tflite.ops.audit import incoherent
from sqp_tflite.ops.finite import not_finite
from sqp_tflite.ops.policy import ADMITTED
from sqp_tflite.ops.ways import away_from
from sqp_tflite.report import Finding, Kind

_PROJECT = "Run the file with TensorFlow Lite Micro (sqp-export FILE.tflite --emit project)"
_CLOSE = "Close it first: sqp-export FILE.tflite fixes an open batch to 1."
_STATES = "Export the Keras model with its states as inputs and outputs (--step)."
_REMEDY = f"{_PROJECT}, or leave the operator out of the model."
_MOST_FOUND = 20


class Unsupported(Exception):
    """An operator that has no C form.

    Attributes:
        op: The operator.
        rule: What it would have to be, after its name.
        received: What it is.
    """

    def __init__(self, op: Op, rule: str, received: str):
        super().__init__(f"{op.name} {rule}. Received: {received}.")
        self.op, self.rule, self.received = op, rule, received


def refuse(op: Op, rule: str, received: object) -> NoReturn:
    """Raises `Unsupported`.

    Args:
        op: The operator.
        rule: Goes on behind the operator's name.
        received: What it is instead.
    """
    raise Unsupported(op, rule, str(received))


def of_file(graph: Graph) -> Sequence[Finding]:
    """Returns what lets a file have no C form besides its operators."""
    found = []
    if any(tensor.variable for tensor in graph.main.tensors):
        rule = "C code keeps nothing between two calls; states must be inputs and outputs."
        found.append(Finding("", "", "", rule, _STATES, Kind.STATE))
    for tensor in dict.fromkeys((*graph.inputs, *graph.outputs)):
        if tensor.dtype not in C_TYPES:
            rule = f"Inputs and outputs hold floats or integers. `{tensor.name}` holds {tensor.dtype}."
            found.append(Finding(tensor.name, "", tensor.dtype, rule, f"{_PROJECT}.", Kind.DTYPE))
    for tensor in graph.main.tensors:
        if tensor.open and not tensor.constant:
            rule = f"Every dimension must be known. `{tensor.name}` is {tensor.shape}, of which some may change."
            found.append(Finding(tensor.name, "", tensor.dtype, rule, _CLOSE, Kind.SHAPE))
    found += [one for _, _, one in not_finite(graph)]
    found += incoherent(graph)
    if not graph.inputs:
        found.append(Finding(THE_MODEL, "", "", "A file must have inputs.", "Give the model one.", Kind.GRAPH))
    found += [*_twice(graph), *_beyond(graph)]
    return found[:_MOST_FOUND]


def _twice(graph: Graph) -> Iterator[Finding]:
    """Yields the inputs and outputs that are one tensor: the function has a pointer for each."""
    for which in ("inputs", "outputs"):
        tensors: tuple[Tensor, ...] = getattr(graph, which)
        for tensor in dict.fromkeys(one for one in tensors if tensors.count(one) > 1):
            rule = f"Each of the {which} must be a tensor of its own. `{tensor.name}` is listed several times."
            yield Finding(tensor.name, "", tensor.dtype, rule, f"{_PROJECT}.", Kind.GRAPH)


def _beyond(graph: Graph) -> Iterator[Finding]:
    """Yields the tensors whose zero point is no code."""
    for tensor in graph.main.tensors:
        low, high = RANGES.get(tensor.dtype, (0, 0))
        if tensor.quantization and not all(low <= point <= high for point in tensor.quantization.zero_points):
            rule = f"A zero point must be from {low:,} to {high:,} for {tensor.dtype}. `{tensor.name}` has another one."
            yield Finding(tensor.name, "", tensor.dtype, rule, "The file is damaged: export it again.", Kind.GRAPH)


def finding(graph: Graph, error: Unsupported) -> Finding:
    """Returns what a report says of an operator without a C form.

    Args:
        graph: The file.
        error: What was raised.
    """
    op = error.op
    name = graph.main.tensors[op.outputs[0]].name if op.outputs else op.name
    rule = f"{op.name} {error.rule}; it has {error.received}."
    return Finding(name, op.name, op.dtype, rule, _remedy(op, graph), Kind.OP)


def _remedy(op: Op, graph: Graph) -> str:
    """What helps: a project holds only what sqp-export admits."""
    if op.name in ADMITTED and op.fused in LIMITS:
        return _REMEDY
    option = away_from(op.name, graph)
    if option:
        return f"Write the file without it first: sqp-export FILE.tflite {option}."
    return "Leave it out of the model, and compute it in your program."

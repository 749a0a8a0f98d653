"""What each layer's activation is, and what it becomes for this target and this type of numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from sqp_keras.models import sites
from sqp_keras.models.sites import Site
from sqp_tflite import private
from sqp_tflite.ops.combinations import INTEGER_IO
from sqp_tflite.ops.policy import broken_rule
from sqp_tflite.report import PlanRow
from sqp_tflite.source.load import Loaded

SQUAREPLUS_OPS = ("MUL", "ADD", "SQRT", "ADD")

FLOAT_OPS = MappingProxyType(
    {
        "linear": (),
        "relu": ("RELU",),
        "relu6": ("RELU6",),
        "leaky_relu": ("LEAKY_RELU",),
        "prelu": ("PRELU",),
        "hard_sigmoid": ("MUL", "ADD", "RELU6"),
        "hard_silu": ("HARD_SWISH",),
        "hard_tanh": ("RELU_N1_TO_1",),
        "softsign": ("ABS", "ADD", "DIV"),
        "softplus": ("EXP", "ADD", "LOG"),
        "sigmoid": ("LOGISTIC",),
        "tanh": ("TANH",),
        "softmax": ("SOFTMAX",),
        "log_softmax": ("LOG_SOFTMAX",),
        "silu": ("LOGISTIC", "MUL"),
        "elu": ("ELU",),
        "gelu": ("GELU",),
        "mish": ("EXP", "ADD", "LOG", "TANH", "MUL"),
        "selu": ("GREATER", "MUL", "EXP", "SUB", "MUL", "SELECT"),
        "celu": ("RELU", "MINIMUM", "EXP", "SUB", "ADD"),
        "exponential": ("EXP",),
        "log_sigmoid": ("EXP", "ADD", "LOG"),
    }
)
"""What TensorFlow's converter writes for each of Keras's activations in a float model."""


_TENSORFLOW_OPS = MappingProxyType(
    {
        "Mul": "MUL",
        "AddV2": "ADD",
        "Sub": "SUB",
        "Sqrt": "SQRT",
        "Rsqrt": "RSQRT",
        "Relu": "RELU",
        "Minimum": "MINIMUM",
        "Maximum": "MAXIMUM",
        "Max": "REDUCE_MAX",
        "Mean": "MEAN",
    }
)


_NEEDS_FLOAT = frozenset("SQRT EXP LOG LOGISTIC TANH ELU GELU SELECT".split())
"""What makes an activation more than clips and straight lines: an integer model writes it in another way."""

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """What an export is going to do.

    Attributes:
        loaded: The model.
        target: Whose operator table decides.
        quantize: "float32", ...
        lowering: "algebraic", ...
        rows: One per activation.
        notes: What the user should know, in sentences.
    """

    loaded: Loaded
    target: str
    quantize: str
    lowering: str
    rows: tuple[PlanRow, ...]
    notes: tuple[str, ...]


def plan(loaded: Loaded, *, target: str = "tflm", quantize: str = "float32", lowering: str = "algebraic") -> Plan:
    """Returns the plan of an export; the model is only read.

    Args:
        loaded: What `load` returned.
        target: One of `policy.TARGETS`.
        quantize: The type of numbers.
        lowering: How an activation is written.
    """
    notes = [f"The batch is fixed to 1: {_shapes(loaded)}.", *private.notes()]
    if lowering != "algebraic" and quantize not in INTEGER_IO:
        notes.append(f"In a {quantize} model `--lowering {lowering}` writes the algebraic form.")
    if loaded.model is None:
        notes.append(
            "A SavedModel holds finished graphs: its activations are exported as they stand in it, squareplus "
            "in its training form. Export the .keras file for MUL ADD SQRT ADD."
        )
        return Plan(loaded, target, quantize, lowering, (), tuple(notes))
    if _half_precision(loaded.model):
        notes.append("The model was trained in mixed precision; it is exported in float32, the type of its weights.")
    rows = tuple(_row(site, target) for site in sites.sites(loaded.model))
    written = tuple(_lowered(row, lowering) if quantize in INTEGER_IO else row for row in rows if row)
    return Plan(loaded, target, quantize, lowering, written, tuple(notes))


def _lowered(row: PlanRow, lowering: str) -> PlanRow:
    """What an integer model has instead: a table, a float island, or the same with v*rsqrt(v) for the root."""
    if not _NEEDS_FLOAT & set(row.ops) or row.activation == "algebraic softmax":
        return row
    if lowering == "table":
        ops: tuple[str, ...] = ("CAST", "ADD", "GATHER")
        return dataclasses.replace(row, becomes="a table: CAST ADD GATHER", ops=ops)
    if row.becomes.startswith("refused"):
        return row
    if lowering == "integer":
        ops = tuple(part for op in row.ops for part in (("RSQRT", "MUL") if op == "SQRT" else (op,)))
        return dataclasses.replace(row, becomes=f"in int16: {_counted(ops)}", ops=ops)
    ops = ("DEQUANTIZE", *row.ops, "QUANTIZE")
    return dataclasses.replace(row, becomes=f"in float: {_counted(ops)}", ops=ops)


def _counted(ops: tuple[str, ...]) -> str:
    """Returns a few operators in their order, many as numbers."""
    if len(ops) <= _MOST_LISTED:
        return " ".join(ops)
    return " ".join(f"{ops.count(op)} {op}" for op in dict.fromkeys(sorted(ops)))


def _row(site: Site, target: str) -> PlanRow | None:
    activation = site.activation
    if activation.name == "linear":
        return None
    parameters = dict(activation.parameters)
    if activation.name == "squareplus":
        learnt = parameters.get("learn_b")
        b = "learnt" if learnt else f"{parameters.get('b', 4.0):g}" if parameters.get("b") is not None else "4"
        written = ("RELU",) if b == "0" else SQUAREPLUS_OPS
        ops: tuple[str, ...] = (*written, "ADD") if parameters.get("floor") else written
        return PlanRow(site.label, f"squareplus (b={b})", " ".join(ops), ops)
    if activation.name in ("algebraic", "algebraic_softmax"):
        ops = _traced_ops(site)
        return PlanRow(site.label, f"algebraic {parameters.get('of', 'softmax')}", _counted(ops), ops)
    if activation.name == sites.UNKNOWN:
        return PlanRow(site.label, activation.spelled, "as its code says", ())
    ops = FLOAT_OPS.get(activation.name, ())
    refused = [op for op in dict.fromkeys(ops) if broken_rule(op, "float32", target)]
    becomes = f"refused: {', '.join(refused)}" if refused else " ".join(ops) or "as its code says"
    return PlanRow(site.label, activation.name, becomes, ops)


def _traced_ops(site: Site) -> tuple[str, ...]:
    """The operators of an activation made of roots, counted where they are written: in its own trace."""
    activation = getattr(site.owner, site.attribute) if site.attribute else site.owner
    traced = tf.function(activation, autograph=False).get_concrete_function(tf.TensorSpec((1, 2, 2, 2, 8)))
    return tuple(_TENSORFLOW_OPS[op.type] for op in traced.graph.get_operations() if op.type in _TENSORFLOW_OPS)


def _shapes(loaded: Loaded) -> str:
    return ", ".join(f"`{spec.name}` is {(1, *spec.shape)}" for spec in loaded.inputs)


def _half_precision(model: Any) -> bool:
    return any(layer.dtype_policy.compute_dtype != "float32" for layer in private.layers(model))

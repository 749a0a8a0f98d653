"""What each layer's activation is, and what it becomes for this target and this type of numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from sqp_keras import forms
from sqp_keras.models import sites
from sqp_keras.models.sites import Site
from sqp_tflite import private
from sqp_tflite.errors import OptionError, RefusedError
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import broken_rule
from sqp_tflite.report import Finding, Form, Kind, PlanRow
from sqp_tflite.source import safe_half as safe_half_form
from sqp_tflite.source.activations import activation
from sqp_tflite.source.load import Loaded
from sqp_tflite.wording import listed

SQUAREPLUS_OPS = ("MUL", "ADD", "SQRT", "ADD")

FLOAT_OPS = MappingProxyType(
    {
        "linear": (),
        "relu": ("RELU",),
        "relu6": ("RELU6",),
        "leaky_relu": ("LEAKY_RELU",),
        "prelu": ("PRELU",),
        "hard_sigmoid": ("MUL", "ADD", "RELU6"),
        "hard_sigmoid_keras2": ("MUL", "ADD", "RELU6", "MUL"),
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
        "log_sigmoid": ("NEG", "EXP", "ADD", "LOG", "NEG"),
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

_WIDE = "float64"
_MOST_LISTED = 6
WITH_WEIGHTS = "then model.save_weights('w.weights.h5') and small.load_weights('w.weights.h5')."
"""The end of a remedy that copies a model: `set_weights` would leave a Normalization without its statistics."""

_NARROWER = (
    "Build the model after keras.config.set_floatx('float32') (keras.json may say float64), or copy it: small = "
    f"keras.models.model_from_json(model.to_json().replace('float64', 'float32')), {WITH_WEIGHTS}"
)
_UNQUANTIZED = "Export the model as it was before model.quantize(...), with --quantize int8 and --data."

_TABLE_OPS = ("CAST", "ADD", "GATHER")

_INT8_OPS = MappingProxyType(
    {
        "leaky_relu": _TABLE_OPS,
        "prelu": _TABLE_OPS,
        "softsign": (*_TABLE_OPS, "ADD", "DIV"),
    }
)
"""Activations of clips and straight lines with an operator that has no int8 form: what the file holds instead."""

_INT16_OPS = MappingProxyType(
    {
        "leaky_relu": ("DEQUANTIZE", "LEAKY_RELU", "QUANTIZE"),
        "prelu": ("DEQUANTIZE", "PRELU", "QUANTIZE"),
        "hard_silu": ("DEQUANTIZE", "HARD_SWISH", "QUANTIZE"),
        "softsign": ("DEQUANTIZE", "ABS", "QUANTIZE", "ADD", "DEQUANTIZE", "DIV", "QUANTIZE"),
    }
)
"""The same for int16, in float where the lowering allows it."""

_NEVER_ALONE = ("RELU_N1_TO_1",)
"""Operators that the converter fuses into the one in front, which then does them on every target."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an export is going to do.

    Attributes:
        loaded: The model.
        wanted: The type of numbers, the lowering and the target.
        rows: One per activation.
        notes: What the user should know, in sentences.
        full: Whether time steps are masked nowhere, because the data show full sequences only.
        safe_half: Whether activations are written in forms that stay finite in half precision.
    """

    loaded: Loaded
    wanted: Combination
    rows: tuple[PlanRow, ...]
    notes: tuple[str, ...]
    full: bool = False
    safe_half: bool = False


def plan(loaded: Loaded, wanted: Combination | None = None, safe_half: bool = False) -> Plan:
    """Returns the plan of an export; the model is only read.

    Args:
        loaded: What `load` returned.
        wanted: The type of numbers, the lowering and the target; by default those of `export`.
        safe_half: Whether activations must stay finite in half precision.

    Raises:
        OptionError: A SavedModel, whose graphs are finished, with `safe_half`.
        RefusedError: The model computes in float64, or Keras has quantised it.
    """
    wanted = wanted or Combination()
    _refuse_types(loaded)
    notes = [f"The batch is fixed to 1: {_shapes(loaded)}.", *private.notes()]
    if wanted.lowering != "algebraic" and not wanted.integer:
        notes.append(f"In a {wanted.quantize} model `--lowering {wanted.lowering}` writes the algebraic form.")
    if loaded.model is None and safe_half:
        raise OptionError(
            "`safe_half` (--safe-half) writes activations while a Keras model is traced; a SavedModel holds finished "
            f"graphs. Received: {loaded.source}. Pass the .keras file, or leave it out."
        )
    if loaded.model is None:
        notes.append(
            "A SavedModel holds finished graphs: its activations are exported as they are there, and squareplus of "
            "sqp_keras as MUL ADD SQRT ADD."
        )
        return Plan(loaded, wanted, (), tuple(notes))
    if _half_precision(loaded.model):
        notes.append("The model computes in half precision; it is exported in float32.")
    with forms.use(safe_half_form.form if safe_half else None, halves=safe_half):
        rows = tuple(row for site in sites.sites(loaded.model) if (row := _row(site, wanted.target)))
    written = tuple(_lowered(row, wanted) for row in rows) if wanted.integer else rows
    return Plan(loaded, wanted, written, tuple(notes), safe_half=safe_half)


def _refuse_types(loaded: Loaded) -> None:
    """Refuses a model whose weights or numbers are of a type that no export starts from."""
    found = [] if loaded.model is None else private.layers(loaded.model)
    inner = [layer for layer in found if layer is not loaded.model and not _only_holds(layer)]
    wide = [layer.name for layer in inner if _WIDE in (layer.compute_dtype, layer.variable_dtype)]
    if wide or loaded.model is None:  # A layer of float32 casts what it is given: then the file takes float32.
        wide += [spec.name for spec in loaded.inputs if spec.dtype == _WIDE]
    coarse = [layer.name for layer in inner if getattr(layer, "quantization_mode", None)]
    findings = []
    if wide:
        rule = f"The interpreters compute in float32, not in float64. In float64 are {_names(wide)}."
        findings.append(Finding(wide[0], "", _WIDE, rule, _NARROWER, Kind.DTYPE))
    if coarse:
        rule = f"An export quantises float weights by itself. Quantised already in Keras are {_names(coarse)}."
        findings.append(Finding(coarse[0], "", "", rule, _UNQUANTIZED, Kind.DTYPE))
    if findings:
        raise RefusedError(" ".join(map(str, findings)), tuple(findings))


def _only_holds(layer: Any) -> bool:
    """Whether a layer computes nothing itself: its type is from keras.json, which says nothing of the file."""
    if isinstance(layer, (keras.layers.InputLayer, keras.Sequential)):
        return True
    return isinstance(layer, keras.Model) and private.inputs_structure(layer) is not None


def _names(layers: list[str]) -> str:
    return listed(dict.fromkeys(layers), _MOST_LISTED)


def _lowered(row: PlanRow, wanted: Combination) -> PlanRow:
    """What an integer model has instead: a table, a float island, or the same with v*rsqrt(v) for the root."""
    lowering = wanted.lowering
    if row.now.name in _INT16_OPS:
        return _straight(row, wanted)
    if not _NEEDS_FLOAT & set(row.ops) or row.now.name == "algebraic_softmax":
        return row
    if lowering == "table":
        return dataclasses.replace(row, form=Form.TABLE, ops=_TABLE_OPS, refused=())
    if row.refused:
        return row
    if lowering == "integer":
        ops = tuple(part for op in row.ops for part in (("RSQRT", "MUL") if op == "SQRT" else (op,)))
        return dataclasses.replace(row, form=Form.INT16, ops=ops)
    return dataclasses.replace(row, form=Form.ISLAND, ops=("DEQUANTIZE", *row.ops, "QUANTIZE"))


def _straight(row: PlanRow, wanted: Combination) -> PlanRow:
    """What an activation of straight lines becomes, whose operator the quantiser does not know."""
    if wanted.quantize == "int8":
        ops = _TABLE_OPS if wanted.lowering == "table" else _INT8_OPS.get(row.now.name)
        return dataclasses.replace(row, form=Form.TABLE, ops=ops, refused=()) if ops else row
    if wanted.lowering == "algebraic":
        return dataclasses.replace(row, form=Form.ISLAND, ops=_INT16_OPS[row.now.name], refused=())
    odd = tuple(op for op in row.ops if op != "ADD")
    return dataclasses.replace(row, refused=odd)


def _row(site: Site, target: str) -> PlanRow | None:
    now = activation(site)
    if now.name == "linear":
        return None
    ops = _float_ops(site, dict(now.parameters))
    if ops is None:
        return PlanRow(site.label, now, Form.OWN_CODE)
    refused = tuple(op for op in dict.fromkeys(ops) if op not in _NEVER_ALONE and broken_rule(op, "float32", target))
    return PlanRow(site.label, now, Form.OPS, ops, refused)


def _float_ops(site: Site, parameters: dict[str, Any]) -> tuple[str, ...] | None:
    """The operators of an activation in a float model; None where the converter decides."""
    name = site.activation.name
    if name in ("algebraic", "algebraic_softmax"):
        return _without_fused(_traced_ops(site))
    if name != "squareplus":
        return FLOAT_OPS.get(name)
    usual = safe_half_form.SQUAREPLUS_OPS if forms.for_halves() else SQUAREPLUS_OPS
    ops = ("RELU",) if parameters.get("b") == 0 else usual
    return (*ops, "ADD") if parameters.get("floor") else ops


def _traced_ops(site: Site) -> tuple[str, ...]:
    """The operators of an activation made of roots, counted where they are written: in its own trace."""
    activation = sites.function_at(site) if site.attribute else site.owner

    def call(x: Any) -> Any:
        with tf.name_scope("activation"):  # TensorFlow forbids that the first scope begins with "_", as a layer may.
            return activation(x)

    traced = tf.function(call, autograph=False).get_concrete_function(tf.TensorSpec((1, 2, 2, 2, 8)))
    return tuple(_TENSORFLOW_OPS[op.type] for op in traced.graph.get_operations() if op.type in _TENSORFLOW_OPS)


_FUSED = ((("ADD", "RELU"), 0), (("ADD", "MAXIMUM", "MINIMUM"), 0), (("ADD", "RELU", "MINIMUM"), 1))
"""How the clips of a sum end, and how many of them the converter does not make part of the ADD in front."""


def _without_fused(ops: tuple[str, ...]) -> tuple[str, ...]:
    for place in range(len(ops) - 2):  # The clip that holds an input in [-1, 1].
        if ops[place : place + 3] == ("MUL", "MINIMUM", "MAXIMUM"):
            return _without_fused((*ops[: place + 1], *ops[place + 3 :]))
    for end, left in _FUSED:
        if ops[-len(end) :] == end:
            return (*ops[: -len(end)], "ADD", *end[len(end) - left :])
    return ops


def _shapes(loaded: Loaded) -> str:
    return ", ".join(f"`{spec.name}` is {(1, *spec.shape)}" for spec in loaded.inputs)


def _half_precision(model: Any) -> bool:
    return any(layer.dtype_policy.compute_dtype in ("float16", "bfloat16") for layer in private.layers(model))

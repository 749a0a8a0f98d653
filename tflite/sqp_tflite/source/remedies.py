"""What helps against a finding, by the layer and its role: what to do, and the options that do it.

An operator does not say what helps: a sigmoid at the end is dropped, one in the middle exchanged, one in a user's own
code written anew. The ways are tried in order, the most specific first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import keras

from sqp_keras.models import heads, rules, sites
from sqp_keras.models.rules import Cause
from sqp_tflite.flatbuffer.elementwise import ELEMENTWISE
from sqp_tflite.layer_names import FUSING, THE_MODEL
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import ADMITTED, EXP_AND_LOG, NAMES, RUNTIMES, broken_rule, kernels
from sqp_tflite.report import Finding, Kind
from sqp_tflite.source import own_code
from sqp_tflite.source.masks import Masks
from sqp_tflite.source.plan import FLOAT_OPS, WITH_WEIGHTS

Changes = Mapping[str, str]
"""Options and their new values, as the command line spells both: {"replace": "accurate"}."""

_NONE: Changes = MappingProxyType({})

_READ = MappingProxyType(
    {
        "sigmoid": "above 0 means yes",
        "softmax": "the largest logit is the largest probability",
        "log_softmax": "the largest logit is the largest probability",
    }
)
_BENDS = ("softplus", "silu", "gelu", "elu", "selu", "celu", "mish")
"""Activations whose part in a network squareplus can take after a training."""

_ROOTS, _CLIPS = ("SQRT", "RSQRT"), ("RELU_N1_TO_1", "RELU_0_TO_1")
_UNARY = (EXP_AND_LOG & ELEMENTWISE).union("SQRT RSQRT ABS NEG SQUARE LEAKY_RELU HARD_SWISH".split(), _CLIPS)
"""Operators of one tensor: a table of 256 codes can take their place."""

_CHOOSING = frozenset("SELECT SELECT_V2 GREATER GREATER_EQUAL LESS LESS_EQUAL EQUAL NOT_EQUAL".split())
"""Operators that a table can take the place of where all that they choose from is computed from one tensor."""

_PREPARING = ("MelSpectrogram", "STFTSpectrogram", "STFT", "RFFT", "FFT", "TextVectorization", "StringLookup",
              "IntegerLookup", "Hashing", "Discretization")  # fmt: skip
"""Layers and operations that compute features."""

_ODD_INPUTS = MappingProxyType({"uint8": "int32", "int64": "int32", "uint16": "int32", "uint32": "int32",
                                "float16": "float32", "bfloat16": "float32"})  # fmt: skip
"""Types of inputs for which the interpreters lack operators, and those to take instead."""

_ATTENTION_OPS = ("SOFTMAX", "TANH", "REDUCE_MAX")


@dataclass(frozen=True, slots=True)
class Remedy:
    """What helps against one finding.

    Attributes:
        finding: The finding, with the remedy; of the layer that has to change.
        changes: The options that solve it; None if no option does.
    """

    finding: Finding
    changes: Changes | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What an export was about when it was refused.

    Attributes:
        wanted: The type of numbers, the lowering and the target.
        model: The Keras model as it was exported; None for a SavedModel.
        given: The same before activations were exchanged.
        left: {layer whose activation an exchange left: what to do about it}.
        inputs: {input: its type}.
        has_data: Whether the user gave samples.
        replaced: Whether activations were exchanged.
        masks: What the model's masks leave out of the data.
    """

    wanted: Combination
    model: Any = None
    given: Any = None
    left: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    has_data: bool = False
    replaced: bool = False
    masks: Masks = field(default_factory=Masks)


def remedied(findings: tuple[Finding, ...], situation: Situation) -> tuple[tuple[Finding, ...], Changes | None]:
    """Returns the findings with remedies that work, and the options that should solve all of them (None: no options).

    Args:
        findings: Of the audit and the quantiser.
        situation: What the export was about.
    """
    judge = _Judge(situation, findings)
    found = [judge.remedy(finding) for finding in findings]
    merged: dict[tuple[str, str], Remedy] = {}
    for remedy in found:
        one = remedy.finding
        # One layer that has to go is one finding, however many of its operators are in the way.
        key = (one.layer, one.remedy) if one.op == "" else (one.layer, f"{one.op} {one.dtype} {one.rule}")
        merged.setdefault(key, remedy)
    changes: dict[str, str] = {}
    for remedy in merged.values():
        changes |= remedy.changes or {}
    solved = all(remedy.changes is not None for remedy in merged.values())
    return tuple(remedy.finding for remedy in merged.values()), changes if solved and changes else None


class _Judge:
    """Finds a remedy per finding of one export."""

    def __init__(self, situation: Situation, findings: tuple[Finding, ...] = ()):
        self._now = situation
        self._in_float = {one.layer for one in findings if one.dtype == "float32" and one.op not in _UNARY | {""}}
        """Layers that stay in float around what a table could hold."""
        self._layers = dict(sites.paths(situation.model)) if situation.model is not None else {}
        self._sites = sites.sites(situation.model) if situation.model is not None else ()
        self._heads = heads.droppable(situation.given) if situation.given is not None else ()

    def remedy(self, finding: Finding) -> Remedy:
        """Returns the remedy of the first way that knows one, the audit's where none does."""
        if finding.kind is Kind.WEIGHTS:
            return Remedy(finding, {"quantize": "float32"} if finding.dtype == "float16" else None)
        if self._now.model is None:
            return self._without_model(finding)
        ways = (
            *(self._input, self._mask, self._layer, self._head, self._left, self._activation, self._own, self._root),
            *(self._wide, self._only_table, self._choosing, self._elsewhere, self._outside, self._float),
        )
        for way in ways:
            found = way(finding)
            if found is not None:
                return found
        return Remedy(finding)

    def _without_model(self, finding: Finding) -> Remedy:
        if finding.op not in EXP_AND_LOG:
            return self._only_table(finding) or self._elsewhere(finding) or Remedy(finding)
        ways = "Its activations cannot be exchanged in a finished graph"
        if finding.op in _UNARY and not self._now.wanted.integer:
            ways += "; with `--quantize int8 --lowering table --data FILE.npz` they become tables"
        program = (
            "In the program that makes the model, save it with model.save('model.keras'), and export that with "
            "`--replace accurate` or `--head logits`."
        )
        return Remedy(_with(finding, f"{ways}.{self._or_table(finding.op)} {program}"))

    def _input(self, finding: Finding) -> Remedy | None:
        names = [name for name, dtype in self._now.inputs.items() if dtype == finding.dtype]
        other = _ODD_INPUTS.get(finding.dtype)
        if not names or other is None:
            return None
        own, new = finding.dtype, other
        rule = f"{NAMES[self._now.wanted.target]} lacks operators for an input of {own}."
        text = (
            f'Build the model with keras.Input(..., dtype="{new}"), or copy it: small = keras.models.model_from_json('
            f"model.to_json().replace('\"{own}\"', '\"{new}\"')), {WITH_WEIGHTS}"
        )
        return Remedy(dataclasses.replace(finding, layer=names[0], op="", rule=rule, remedy=text, kind=Kind.DTYPE))

    def _mask(self, finding: Finding) -> Remedy | None:
        if finding.op != "REDUCE_ANY" and finding.dtype != "bool":
            return None
        for path, layer in self._layers.items():
            masking = isinstance(layer, keras.layers.Masking)
            if masking or getattr(layer, "mask_zero", False):
                what = f"Take `{path}` (Masking) out" if masking else f"Build `{path}` with mask_zero=False"
                rule = "A mask leaves out time steps, for which the file would need operators that no target has."
                text = f"{what}: every time step is computed, so feed windows of full length. {self._full(path)}"
                return Remedy(dataclasses.replace(finding, layer=path, op="", dtype="", rule=rule, remedy=text))
        return None

    def _full(self, path: str) -> str:
        """What helps where the device gets full sequences only."""
        count = dict(self._now.masks.seen).get(path, 0)
        if count:
            return (
                f"Or pass --data without the samples in which it masks steps ({count} of {self._now.masks.samples}), "
                "if the device gets full sequences only."
            )
        return "Or pass --data with full sequences, if the device gets no others."

    def _layer(self, finding: Finding) -> Remedy | None:
        layer = self._layers.get(finding.layer)
        kinds = [kind.__name__ for kind in type(layer).__mro__]
        prepares = next((kind for kind in kinds if kind in _PREPARING), None)
        if prepares:
            rule = f"{prepares} needs operators that no target has, such as {finding.op}."
            text = f"`{finding.layer}` computes features: compute them before the model, in your firmware, and export "
            text += "the layers behind it."
            return Remedy(dataclasses.replace(finding, op="", dtype="", rule=rule, remedy=text))
        way = own_code.attention(layer) if finding.op in _ATTENTION_OPS else ""
        return Remedy(_with(finding, way)) if way else None

    def _head(self, finding: Finding) -> Remedy | None:
        site = next((site for _, site in self._heads if _belongs(site, finding.layer)), None)
        if site is None or finding.op in FUSING:
            return None
        name = site.activation.name
        text = f"Drop it with `--head logits`: {_READ[name]}."
        if name in ("sigmoid", "softmax") and not self._now.replaced:
            text += " To keep it, use `--replace accurate`."
        return Remedy(_with(finding, text), {"head": "logits"})

    def _left(self, finding: Finding) -> Remedy | None:
        text = self._now.left.get(finding.layer)
        if text is None:
            return None
        decision = self._decision(finding)
        return Remedy(_with(finding, text), {"replace": "accurate"} if decision and decision.cause is None else None)

    def _activation(self, finding: Finding) -> Remedy | None:
        decision = self._decision(finding)
        if decision is None:
            return None
        if finding.op not in EXP_AND_LOG and finding.op not in ("SELECT", "SELECT_V2", "GREATER"):
            return None
        if decision.cause is Cause.NEEDS_DATA:
            text = (
                "Use `--replace accurate` with `--data`, which tells the largest input, or build the model with "
                'sqp_keras.Algebraic("exponential", upper=<largest input>).'
            )
            return Remedy(_with(finding, text))
        if decision.cause is not None:
            reason = rules.reason(decision.cause, decision.was, decision.site.activation.spelled)
            return Remedy(_with(finding, f"`--replace` cannot exchange it: {reason}.{self._or_table(finding.op)}"))
        own = "AlgebraicSoftmax()" if decision.form == "softmax" else f'Algebraic("{decision.was}")'
        new = "squareplus" if decision.was in _BENDS else f"sqp_keras.{own}"
        retrain = f'retrain with `activation="{new}"`' if new == "squareplus" else f"build the model with {new}"
        text = f"Use `--replace accurate`, or {retrain}.{self._or_table(finding.op)}"
        return Remedy(_with(finding, text), {"replace": "accurate"})

    def _decision(self, finding: Finding) -> rules.Decision | None:
        """What `--replace accurate` would do about the activation of the finding's layer."""
        if finding.op in FUSING:
            return None
        here = tuple(site for site in self._sites if _belongs(site, finding.layer) and self._makes(site, finding))
        decided = rules.decide(here, "accurate", (), 1e-3, self._now.has_data)
        open_ones = [one for one in decided if one.cause not in (Cause.ALLOWED, Cause.SAME, Cause.KEPT)]
        softmax = [one for one in decided if one.site.activation.name == "algebraic_softmax"]
        ready = [one for one in open_ones if one.cause is None]
        # A cell of an LSTM has two activations.
        ready.sort(key=lambda one: finding.op not in FLOAT_OPS.get(one.site.activation.name, ()))
        return next(iter(ready + open_ones + softmax), None)

    def _makes(self, site: sites.Site, finding: Finding) -> bool:
        """Whether an activation is what the operator comes from, and not the code around it."""
        if finding.op in FLOAT_OPS.get(site.activation.name, ()):
            return True
        layer = self._layers.get(finding.layer)
        return site.path == finding.layer and type(layer).__module__.split(".")[0] in own_code.KERAS

    def _own(self, finding: Finding) -> Remedy | None:
        layer = self._now.model if finding.layer == THE_MODEL else self._layers.get(finding.layer)
        way = own_code.call_instead(layer, finding.op)
        return Remedy(_with(finding, f"{way}{self._or_table(finding.op)}"), self._as_table(finding.op)) if way else None

    def _root(self, finding: Finding) -> Remedy | None:
        wanted = self._now.wanted
        straight = wanted.quantize == "int16x8" and finding.op in ELEMENTWISE and finding.op in ADMITTED
        if not wanted.integer or not (finding.op in _ROOTS or straight):
            return None
        if wanted.lowering == "integer":
            text = "Use `--lowering algebraic`, which leaves it in float."
            return Remedy(_with(finding, f"{text}{self._or_table(finding.op)}"), {"lowering": "algebraic"})
        return self._only_table(finding)

    def _wide(self, finding: Finding) -> Remedy | None:
        """What has an int8 form only."""
        if self._now.wanted.quantize != "int16x8" or "int8" not in kernels(self._now.wanted.target).get(finding.op, ()):
            return None
        return Remedy(_with(finding, "Use `--quantize int8`, or float32."), {"quantize": "int8"})

    def _choosing(self, finding: Finding) -> Remedy | None:
        wanted = self._now.wanted
        if finding.op not in _CHOOSING or wanted.quantize != "int8" or wanted.lowering == "table":
            return None
        text = "Use `--lowering table`, which writes a function of one tensor as a table, or float32."
        return Remedy(_with(finding, text), {"lowering": "table"})

    def _elsewhere(self, finding: Finding) -> Remedy | None:
        """Another target, where one has the operator."""
        if finding.kind not in (Kind.OP, Kind.DTYPE) or finding.op not in ADMITTED:
            return None
        if broken_rule(finding.op, finding.dtype, self._now.wanted.target) is None:
            return None
        runs = [other for other in RUNTIMES if broken_rule(finding.op, finding.dtype, other) is None]
        other = f"use {' or '.join(f'`--target {name}`' for name in runs)}, or " if runs else ""
        text = f"{other}write the layer with other operators, or take it out and compute it outside of the model."
        # What an integer file holds in float has no integer form there either.
        also = {"quantize": "float32"} if self._now.wanted.integer and finding.dtype == "float32" else {}
        return Remedy(_with(finding, text[0].upper() + text[1:]), {"target": runs[0], **also} if runs else None)

    def _table(self, op: str) -> str:
        """The options that make a table of an operator; "" if none do."""
        wanted = self._now.wanted
        if op not in _UNARY or not wanted.integer or wanted.lowering == "table":
            return ""
        return "`--quantize int8 --lowering table`" if wanted.quantize == "int16x8" else "`--lowering table`"

    def _or_table(self, op: str) -> str:
        table = self._table(op)
        return f" Or use {table}, which writes it as a table." if table else ""

    def _only_table(self, finding: Finding) -> Remedy | None:
        table = self._table(finding.op)
        if not table:
            return None
        if finding.layer in self._in_float:
            return self._float(finding)
        return Remedy(
            _with(finding, f"Use {table}, which writes it as a table, or float32."), self._as_table(finding.op)
        )

    def _as_table(self, op: str) -> Changes | None:
        return {"lowering": "table"} if self._table(op) and self._now.wanted.quantize == "int8" else None

    def _float(self, finding: Finding) -> Remedy | None:
        """What has no integer form, nor a table."""
        text = "Use `--quantize float32`, or write the layer with other operations."
        use = self._now.wanted.integer and finding.kind is Kind.DTYPE
        return Remedy(_with(finding, text), {"quantize": "float32"}) if use else None

    def _outside(self, finding: Finding) -> Remedy | None:
        """What no option and no target has."""
        if finding.op not in EXP_AND_LOG or finding.kind is not Kind.OP:
            return None
        text = "`--replace` does not reach it: take it out and compute it outside of the model."
        return Remedy(_with(finding, f"{text}{self._or_table(finding.op)}"), self._as_table(finding.op))


def _with(finding: Finding, text: str) -> Finding:
    return dataclasses.replace(finding, remedy=text)


def _belongs(site: sites.Site, layer: str) -> bool:
    """Whether an activation is that of a layer, or of a layer inside it that has no scope of its own."""
    return site.path == layer or site.path.startswith(f"{layer}/")

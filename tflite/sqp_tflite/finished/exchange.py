"""Activations of a finished float file as sums of square roots: which becomes what, and the file with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqp_keras.family import coefficients
from sqp_keras.family.names import canonical
from sqp_keras.models.fit import fitted_b, fitted_sum
from sqp_keras.models.observe import Seen
from sqp_keras.models.rules import RULES, TO_SQUAREPLUS
from sqp_tflite.errors import OptionError
from sqp_tflite.finished.cleaning import named
from sqp_tflite.finished.model import ORIGIN
from sqp_tflite.flatbuffer.functions import Found, activations
from sqp_tflite.flatbuffer.graph import Op, Subgraph
from sqp_tflite.flatbuffer.op_versions import versioned
from sqp_tflite.flatbuffer.softmaxes import Softmax, softmaxes
from sqp_tflite.flatbuffer.sums import Bend, Written, can_halve, replace
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.policy import ADMITTED
from sqp_tflite.report import Activation, Form, PlanRow, Replacement
from sqp_tflite.source.exchange import about_zeros
from sqp_tflite.source.samples import Samples
from sqp_tflite.wording import joined, listed
from sqp_tflite.worker import lent

_CURVED = ("SQRT", "RSQRT", "DIV")
"""Operators that are admitted: some programs write gelu as a fraction of polynomials."""
_SHORTEST = 5
"""Operators of squareplus where nothing is folded into the layer in front."""
_FEW = 32
_VALUES = 65_536
SOFTMAX_ERROR = 5e-4
"""Max error of the algebraic softmax for up to 1000 values; docs/algebraic.md lists it by length."""


@dataclass(frozen=True, slots=True)
class Made:
    """A file with other activations.

    Attributes:
        content: The file.
        rows: One per activation, for the plan.
        replacements: Those that were exchanged.
        notes: What was left and why, in sentences.
    """

    content: bytes
    rows: tuple[PlanRow, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Site:
    """An activation of the file: a function of one tensor, or a SOFTMAX."""

    layer: str
    was: str
    found: Found | None = None
    softmax: Softmax | None = None


def exchanged(
    content: bytes, inputs: Samples, rule: str | Mapping[str, Any], bound: float, positive: bool = False
) -> Made:
    """Returns the file with the activations that the rule names exchanged.

    Args:
        content: A cleaned float file.
        inputs: The user's samples, to which "fast" is fitted; made-up ones are not used.
        rule: "accurate", "fast", or a mapping from activations or layers to these and "keep", "*" for all others.
        bound: Max change of a value under "accurate", as a share of the activation's range.
        positive: Whether softplus, sigmoid and exponential stay above 0.

    Raises:
        OptionError: A rule that does not fit this file.
    """
    editor = named(content)
    content, main = editor.bytes(), editor.graph.main
    sites = _sites(main)
    rules = _checked({"*": rule} if isinstance(rule, str) else dict(rule), sites)
    wanted = {site: _rule(site, rules) for site in sites}
    seen = _seen(content, main, [site for site, one in wanted.items() if one == "fast"], inputs)
    becomes: dict[Found, Written] = {}
    written_too, rows, replacements = list[Softmax](), list[PlanRow](), list[Replacement]()
    now: Activation
    terms: int | None
    error: float | None
    for site, one in wanted.items():
        if one == "keep":
            rows.append(_row(site, Activation(site.was), ()))
            continue
        if site.softmax is not None:
            written_too.append(site.softmax)
            now, terms, error = Activation("algebraic_softmax"), None, SOFTMAX_ERROR
        elif site.found is not None:
            written = _written(site.found, one, bound, seen.get(site), positive)
            becomes[site.found] = written
            now, terms, error = _now(site, written)
        replacements.append(Replacement(site.layer, site.was, str(now), terms, error))
        rows.append(_row(site, now, ()))
    made = replace(editor, becomes, tuple(written_too))
    if made:
        versioned(editor)
    rows = [_with_ops(row, site, made) for row, site in zip(rows, wanted, strict=True)]
    zeros = (row.was for row in replacements if row.was in coefficients.POSITIVE and not positive)
    return Made(editor.bytes(), tuple(rows), tuple(replacements), _left(main, sites) + about_zeros(zeros))


def _sites(main: Subgraph) -> tuple[_Site, ...]:
    layers = LayerNames()
    found = [
        _Site(layers.of(main.tensors[one.chain.result].name), one.known.name, found=one)
        for one in activations(main, curved)
        if one.known.name != "squareplus" or _improves(main, one)
    ]
    whole = [one for one in softmaxes(main).values() if main.tensors[one.result].dtype == "float32"]
    # A logarithm of a softmax has no sum.
    found += [_Site(layers.of(main.tensors[s.result].name), s.name, softmax=s) for s in whole if s.name == "softmax"]
    parts = {place for one in whole for place in one.ops}
    found = [site for site in found if site.found is None or parts.isdisjoint(site.found.chain.ops)]
    return tuple(sorted(found, key=_place))


def curved(op: Op) -> bool:
    """Returns whether an operator may be part of an activation that has a sum, or of a squareplus."""
    return op.name not in ADMITTED or op.name in _CURVED


def _place(site: _Site) -> int:
    return site.softmax.ops[-1] if site.softmax else site.found.chain.ops[-1] if site.found else 0


def _improves(main: Subgraph, found: Found) -> bool:
    """Whether a squareplus gets shorter in the form for devices."""
    ops = [main.ops[place].name for place in found.chain.ops]
    return len(ops) > _SHORTEST or not {"MUL", "ADD", "SQRT"}.issuperset(ops) or can_halve(main, found.chain)


def _checked(rules: dict[str, Any], sites: Sequence[_Site]) -> dict[str, str]:
    known = {canonical(name) for site in sites for name in _names(site)}
    known |= {*coefficients.names(), "softmax", "squareplus", "*"}
    for name, rule in rules.items():
        if rule not in RULES:
            raise OptionError(
                f"In a finished file an activation becomes accurate or fast, or is kept (keep). Received: {rule!r} for "
                f"{name!r} in --replace. Use one of these, or change the model that the file was made from."
            )
        if canonical(name) not in known:
            raise OptionError(
                f"A rule is for an activation or a layer of the file. Received: {name!r} in --replace. The file has: "
                f"{listed(site.layer for site in sites) or 'none that has a sum'}."
            )
    return {canonical(name): rule for name, rule in rules.items()}


def _names(site: _Site) -> tuple[str, ...]:
    return site.layer, site.layer.rsplit("/", 1)[-1], site.was


def _rule(site: _Site, rules: Mapping[str, str]) -> str:
    """The most specific rule: the layer, the activation, all."""
    return next((rules[canonical(key)] for key in (*_names(site), "*") if canonical(key) in rules), "keep")


def _seen(content: bytes, main: Subgraph, sites: Sequence[_Site], inputs: Samples) -> dict[_Site, Seen]:
    """What goes into and comes out of activations on the user's samples."""
    ends = {site: site.found.chain for site in sites if site.found}
    if not ends or not inputs.given:
        return {}
    names = {index: main.tensors[index].name for chain in ends.values() for index in (chain.source, chain.result)}
    few = tuple(array[:_FEW] for array in inputs.inputs)
    with lent(ORIGIN, ("sqp_tflite.run.interpreters",)) as worker:
        held = worker.call("sqp_tflite.run.layer_errors:observe_here", content, few, tuple(names.values()))

    def values(index: int) -> Any:
        flat = held[names[index]].astype(np.float64).reshape(-1)
        return flat[:: max(1, flat.size // _VALUES)]

    return {site: Seen(values(chain.source), values(chain.result)) for site, chain in ends.items()}


def _written(found: Found, rule: str, bound: float, seen: Seen | None, positive: bool) -> Written:
    name, alpha = found.known.name, found.known.parameter
    positive = positive and name in coefficients.POSITIVE
    if name == "squareplus":
        return Bend(alpha)
    if rule != "accurate" and name in TO_SQUAREPLUS:
        return Bend(fitted_b(name, seen), coefficients.LEAST_POSITIVE if positive else 0.0)
    if rule == "accurate":
        made = coefficients.find(name, coefficients.enough(name, bound, alpha), alpha)
    else:
        made = coefficients.find(name, coefficients.term_counts(name)[0], alpha)
        made = made if seen is None else fitted_sum(made, seen)
    return coefficients.above_zero(name, made) if positive else made


def _now(site: _Site, written: Written) -> tuple[Activation, int | None, float | None]:
    if isinstance(written, Bend):
        parameters = (("b", written.b), *((("floor", written.floor),) if written.floor else ()))
        return Activation("squareplus", parameters), 1, 0.0 if site.was == "squareplus" else None
    terms = sum(len(part.roots) for part in written.parts)
    parameters = (("of", site.was), ("terms", terms))
    return Activation("algebraic", parameters), terms, written.value_error


def _row(site: _Site, now: Activation, ops: tuple[str, ...]) -> PlanRow:
    was = None if now.name == site.was else Activation(site.was)
    return PlanRow(site.layer, now, Form.OPS, ops, was=was)


def _with_ops(row: PlanRow, site: _Site, made: Mapping[int, tuple[str, ...]]) -> PlanRow:
    result = site.softmax.result if site.softmax else site.found.chain.result if site.found else -1
    return PlanRow(row.layer, row.now, row.form, made.get(result, ()), was=row.was)


def _left(main: Subgraph, sites: Sequence[_Site]) -> tuple[str, ...]:
    """Names what needs exp or log and is no activation that has a sum."""
    covered = {place for site in sites if site.found for place in site.found.chain.ops}
    covered |= {place for site in sites if site.softmax for place in site.softmax.ops}
    layers = LayerNames()
    left = [
        f"{op.name} of `{layers.of(main.tensors[op.outputs[0]].name)}`"
        for op in main.ops
        if op.name not in ADMITTED and op.index not in covered and op.outputs
    ]
    return (f"No sum of square roots is known for {joined(left)}.",) if left else ()

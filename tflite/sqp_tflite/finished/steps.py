"""The steps from a finished file to one of the wanted numbers that is read and judged, in the place of `making`'s."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from sqp_tflite import limits, making
from sqp_tflite.errors import ParityError, TFLiteFileError
from sqp_tflite.finished import cleaning, exchange, model, remedies, repair
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.float_ends import add_float_ends
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.flatbuffer.op_versions import versioned
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.journal import Given, Journal
from sqp_tflite.layer_names import LayerNames, in_scope
from sqp_tflite.making import Made, Tell
from sqp_tflite.ops.audit import audit
from sqp_tflite.ops.combinations import INTEGER_IO
from sqp_tflite.options import ExportOptions
from sqp_tflite.quantize.conversions import conversions
from sqp_tflite.quantize.quantize import Reduced, all_findings
from sqp_tflite.quantize.recipe import Request
from sqp_tflite.report import Finding, StatePair
from sqp_tflite.run.metric import ACCURACY, metric
from sqp_tflite.solution import LEAST_SECONDS, Deadline
from sqp_tflite.source.exchange import ACCURATE_CHANGE, MAX_ERRORS, OTHER_CHANGE, Exchanged, refined, without_heads
from sqp_tflite.source.load import InputSpec, Loaded, load
from sqp_tflite.source.plan import Plan
from sqp_tflite.source.states import state_pairs
from sqp_tflite.source.trace import Traced
from sqp_tflite.wording import apart
from sqp_tflite.worker import Worker

_UNPROVEN = (
    "the tables hold what the operators of `{}` mean, in float64, and an interpreter looks them up right; whether the "
    "whole then computes what its author meant was not compared with anything: pass the float file or the Keras model "
    "with --reference, or labels (y) in --data"
)
_WORSE = 0.02
"""How much of the accuracy on labels, or of the error, a repair may lose."""


def planned(options: ExportOptions, given: Given, done: Journal) -> tuple[Exchanged, Plan]:
    """Returns the file with its activations as they are to be, and what became of each.

    Args:
        options: What was asked for, settled.
        given: The user's file and samples.
        done: Keeps the results.

    Raises:
        TFLiteFileError: A rule, a reference or a file that cannot be used.
        ParityError: A repaired file is worse on the labels.
    """
    content, notes = cleaning.cleaned(given.loaded, options.wanted.quantize)
    if _changes(options) or content != given.loaded.content:
        content = model.unsigned(content)
    base, compared, heads = dataclasses.replace(given.loaded, content=content), given.loaded, tuple[str, ...]()
    if options.head == "logits":
        base, heads, said = model.without_heads(_described(content, given.loaded))
        compared = model.without_heads(given.loaded)[0]
        base, notes = dataclasses.replace(base, call=compared.call), notes + said
    if options.finished in INTEGER_IO:
        changed, rows = _with_tables(options, given, base, heads)
    else:
        changed, rows = _with_sums(options, given, base, heads)
    changed = dataclasses.replace(changed, notes=notes + changed.notes)
    if options.reference is not None:
        changed = dataclasses.replace(changed, given=_reference(options, given, heads), unproven=())
    return done.keep(changed), done.keep(Plan(changed.loaded, options.wanted, rows, ()))


def _changes(options: ExportOptions) -> bool:
    """Whether anything is asked for that changes the file."""
    table = options.finished in INTEGER_IO and options.wanted.lowering == "table"
    numbers = options.wanted.quantize != options.finished
    return table or numbers or options.head != "keep" or options.replace is not None or options.io is not None


def _described(content: bytes, like: Loaded) -> Loaded:
    return dataclasses.replace(model.described(content, read(content), like.source), inputs=like.inputs)


def _with_tables(options: ExportOptions, given: Given, base: Loaded, heads: tuple[str, ...]) -> Any:
    if options.wanted.lowering != "table":
        return Exchanged(base, base, heads), ()
    made = repair.repaired(base.content, given.inputs, options.faithful)
    loaded = _described(made.content, base)
    if not made.rows or options.faithful:
        same = dataclasses.replace(base, content=made.content)
        return Exchanged(same, same, heads, replacements=made.replacements, notes=made.notes), made.rows
    notes, unproven = _on_labels(base, loaded, given)
    return (
        Exchanged(
            loaded, loaded, heads, replacements=made.replacements, notes=made.notes + notes, repaired=True,
            unproven=unproven,
        ),
        made.rows,
    )  # fmt: skip


def _on_labels(before: Loaded, after: Loaded, given: Given) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the labels say about a repair: a note, or that nothing says anything."""
    inputs = given.inputs
    if inputs.labels is None:
        return (), (_UNPROVEN.format(before.source),)
    held, made = (metric(next(iter(one.call(list(inputs.inputs)).values())), inputs.labels) for one in (before, after))
    lost = (held.value - made.value) if made.name == ACCURACY else (made.value - held.value) / (held.chance or 1.0)
    if lost > _WORSE:
        now, was = apart(made.value, held.value, 4)
        raise ParityError(
            f"A repaired file must not be worse on the labels. Received: {made.name} {now}, and {was} with the kernels "
            "of the given file. Use --faithful, which keeps what these compute."
        )
    return (f"On the labels, run by LiteRT: {made.name} {held.value:.4g} as given, {made.value:.4g} now.",), ()


def _with_sums(options: ExportOptions, given: Given, base: Loaded, heads: tuple[str, ...]) -> Any:
    rule = options.replace
    if rule is None:
        return Exchanged(base, base, heads), ()

    def with_bound(bound: float) -> tuple[Loaded, exchange.Made]:
        made = exchange.exchanged(base.content, given.inputs, rule, bound, options.positive)
        return _described(made.content, base), made

    loaded, made = with_bound(options.max_error or MAX_ERRORS[0])
    notes, rules = tuple[str, ...](), set(rule.values() if isinstance(rule, Mapping) else [rule])
    if options.max_error is None and "accurate" in rules and made.replacements:
        loaded, made, notes = refined(base, loaded, made, given.inputs, with_bound)
    accurate = rules <= {"accurate", "keep"}
    return (
        Exchanged(
            loaded if made.replacements else base, base, heads, change=ACCURATE_CHANGE if accurate else OTHER_CHANGE,
            accurate=accurate, replacements=made.replacements, notes=notes + made.notes,
        ),
        made.rows,
    )  # fmt: skip


def _reference(options: ExportOptions, given: Given, heads: tuple[str, ...]) -> Loaded:
    """The model that the user says the file should compute, without the heads that were dropped."""
    allowed = given.allowed or limits.limit(options.max_memory)
    if model.is_file(options.reference):
        found = model.loaded(options.reference, allowed)
        found = model.without_heads(found)[0] if any(heads) else found
    else:
        shapes = {spec.name: spec.shape for spec in given.loaded.inputs}
        found = load(options.reference, shapes=shapes, allowed=allowed)
        found = without_heads(found)[0] if any(heads) else found
    ours, theirs = ([spec.shape for spec in one.inputs] for one in (given.loaded, found))
    if ours != theirs:
        raise TFLiteFileError(
            f"`--reference` must take the inputs of the file. Received: `{found.source}` with {theirs}, for "
            f"`{given.loaded.source}` with {ours}. Pass the model that the file was made from."
        )
    return found


def made(
    options: ExportOptions, given: Given, changed: Exchanged, planned: Plan, worker: Worker, done: Journal, tell: Tell
) -> Made:
    """Returns the file in the wanted numbers, and every finding about it; like `making.made`."""
    began, content, layers = time.monotonic(), changed.loaded.content, LayerNames()
    graph = read(content)
    traced = done.keep(_traced(options, changed.loaded, graph))
    states = tuple((pair.output_index, pair.input_index) for pair in traced.states)
    request = Request(options.wanted, options.io == "float32", traced.forms, options.one_scale, states)
    if options.finished in INTEGER_IO:
        made_of = Reduced(_with_ends(options, content))
    else:
        made_of = making.reduced(content, given.inputs, request, layers, worker, tell)
    made_of = dataclasses.replace(made_of, content=model.signed(made_of.content, given.loaded.content))
    finish = making.finishing(changed, options, given.inputs.given)
    made_of = done.keep(dataclasses.replace(made_of, content=making.finished(made_of.content, finish)))
    graph = done.keep(read(made_of.content))
    found = all_findings(audit(graph, options.wanted.target, layers), made_of.findings)
    findings, changes = remedies.remedied(found, graph, options)
    done.keep(dataclasses.replace(made_of, notes=made_of.notes + remedies.kept(graph, options)))
    findings += conversions(graph, layers, request) if options.no_conversions else ()
    again = max(LEAST_SECONDS, time.monotonic() - began)
    return Made(made_of.content, graph, traced, findings, changes, again)


def _traced(options: ExportOptions, loaded: Loaded, graph: Graph) -> Traced:
    names, outputs = model.end_names(graph)
    makers, main = graph.main.makers(), graph.main
    forms = tuple(
        tensor.name
        for tensor in graph.outputs
        if tensor.index in makers
        and any(in_scope(main.tensors[index].name) for index in makers[tensor.index].inputs if index >= 0)
    )
    ends = [InputSpec(name, t.sample_shape, t.dtype) for name, t in zip(outputs, graph.outputs, strict=True)]
    pairs = tuple(
        StatePair(outputs[out], names[into], out, into) for out, into in state_pairs(loaded, ends, options.state)
    )
    return Traced(b"", loaded.inputs, tuple(outputs), LayerNames(), forms=forms, states=pairs)


def _with_ends(options: ExportOptions, content: bytes) -> bytes:
    """The file of integers with the ends that were asked for."""
    own, graph = INTEGER_IO[options.wanted.quantize], read(content)
    floats = [tensor.name for tensor in (*graph.inputs, *graph.outputs) if tensor.quantization is None]
    if options.io == own and floats:
        raise TFLiteFileError(
            f"The file has ends that are no codes: {floats[0]}. Received: --io {own}. Leave it out, or begin with a "
            "file whose inputs and outputs are integers."
        )
    if options.io != "float32" or len(floats) == len(graph.inputs) + len(graph.outputs):
        return content
    editor = Editor(content)
    add_float_ends(editor)
    versioned(editor)
    return editor.bytes()


def tried(options: ExportOptions, given: Given, worker: Worker, seconds: float) -> tuple[Finding, ...]:
    """Returns the findings of an export with other options; like `making.tried`."""
    done, deadline = Journal(options), Deadline(seconds)
    changed, what = planned(options, given, done)
    with worker.bounded(deadline.left):
        return made(options, given, changed, what, worker, done, lambda step: None).findings

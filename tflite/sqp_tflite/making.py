"""From a loaded model to a file of the wanted numbers that is read and judged: the steps that a refusal tries again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.flatbuffer.mark import Mark, put
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.journal import Given, Journal
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.audit import audit
from sqp_tflite.ops.policy import runtime_of
from sqp_tflite.options import ExportOptions
from sqp_tflite.quantize.conversions import conversions
from sqp_tflite.quantize.quantize import Reduced, all_findings
from sqp_tflite.quantize.quantize import quantize as reduce
from sqp_tflite.quantize.recipe import Request
from sqp_tflite.report import Finding, LayerError, StatePair
from sqp_tflite.run.by_step import require_same
from sqp_tflite.run.sequences import rows, stream
from sqp_tflite.solution import LEAST_SECONDS, Deadline
from sqp_tflite.source.convert import convert
from sqp_tflite.source.exchange import Exchanged, exchange
from sqp_tflite.source.held import held
from sqp_tflite.source.masks import Masks, masks
from sqp_tflite.source.plan import Plan, plan
from sqp_tflite.source.remedies import Changes, Situation, remedied
from sqp_tflite.source.rewrites import on_device
from sqp_tflite.source.samples import Samples
from sqp_tflite.source.step.step import Steps, stepped
from sqp_tflite.source.trace import Traced, trace
from sqp_tflite.worker import Worker

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """A file, and what the audit says about it.

    Attributes:
        content: The file.
        graph: What it holds.
        traced: What it was converted from.
        findings: Why it may not ship.
        changes: Options that should solve all findings; None if none do.
        again: Seconds that a trial with other options may take.
        layer_errors: Of an integer file, worst first.
    """

    content: bytes
    graph: Graph
    traced: Traced
    findings: tuple[Finding, ...]
    changes: Changes | None
    again: float
    layer_errors: tuple[LayerError, ...] = ()


def planned(options: ExportOptions, given: Given, done: Journal) -> tuple[Exchanged, Plan]:
    """Returns the model as it is to be exported, and what becomes of each activation.

    Args:
        options: What was asked for.
        given: The user's model and samples.
        done: Keeps the results.
    """
    # Activations are exchanged as Keras layers: there they have names and a meaning.
    changed = done.keep(_exchanged(options, given))
    # What each activation becomes is decided before anything is written.
    masked = done.keep(masks(changed.loaded, given.inputs, options.wanted))
    model = done.keep(_steps(changed, given)).written.loaded if options.step else changed.loaded
    found = plan(model, options.wanted, options.safe_half)
    return changed, done.keep(dataclasses.replace(found, full=masked.full))


def _steps(changed: Exchanged, given: Given) -> Steps:
    """One time step of the model as it is written, and of the user's own; each gives what its model gives."""
    written = stepped(changed.loaded)
    require_same(written, changed.loaded, given.inputs)
    return Steps(written, written if changed.given is changed.loaded else stepped(changed.given))


def check_states(options: ExportOptions, planned: Plan) -> None:
    """Raises `BadInputError` if the states that the user names do not fit the model: only its graph names all ends.

    Args:
        options: What was asked for.
        planned: What becomes of each activation.
    """
    if options.state:
        trace(planned, options.state)


def made(
    options: ExportOptions, given: Given, changed: Exchanged, planned: Plan, worker: Worker, done: Journal, tell: Tell
) -> Made:
    """Returns the file of a plan, and every finding about it.

    Args:
        options: What was asked for.
        given: The user's model and samples.
        changed: The model as it is to be exported.
        planned: What becomes of each activation.
        worker: The child process to work in.
        done: Keeps the results.
        tell: Is called with the name of each step.
    """
    began, integer = time.monotonic(), options.wanted.integer
    tell("trace")  # A fresh function with each activation in its form; the user's model stays as it was.
    steps = done.get(Steps)
    wanted = {state.name: state.name for state in steps.written.states} if steps else options.state
    traced = done.keep(on_device(trace(planned, wanted), planned.wanted))
    tell("convert")  # In a child process: native code that crashes there becomes a message here.
    content = convert(traced, worker)
    states = tuple((pair.output_index, pair.input_index) for pair in traced.states)
    request = Request(
        options.wanted, options.io == "float32", traced.forms, options.one_scale, states, traced.cast, options.step
    )
    # The float file to the wanted type of numbers, tables included.
    samples = given.inputs
    if steps and integer:
        samples = rows(content, samples, stream(steps.written), worker, steps.written.times)
    # The file says itself how it is meant to differ from the model, for whoever checks it later.
    finish = finishing(changed, options, given.inputs.given, traced.states)
    made_of = done.keep(reduced(content, samples, request, traced.layers, worker, tell, finish))
    # From here on the file is evidence: it is read and judged, not changed.
    graph = done.keep(read(made_of.content))
    found = all_findings(audit(graph, options.wanted.target, traced.layers), made_of.findings)
    done.keep(held(planned, graph, traced.layers, found))  # What was planned, as it has become.
    findings, changes = remedied(found, _situation(options, given, changed, done.get(Masks))) if found else ((), None)
    findings += conversions(graph, traced.layers, request) if options.no_conversions else ()
    again = max(LEAST_SECONDS, time.monotonic() - began)
    return Made(made_of.content, graph, traced, findings, changes, again, made_of.layer_errors)


def tried(options: ExportOptions, given: Given, worker: Worker, seconds: float) -> tuple[Finding, ...]:
    """Returns the findings of an export with other options, () if it has none; nothing of it is kept.

    Args:
        options: The other options.
        given: The user's model and samples.
        worker: The child process to work in.
        seconds: What it may take. A worker that is busy then is ended.

    Raises:
        ExportError: It cannot be made, or takes too long.
    """
    done, deadline = Journal(options), Deadline(seconds)
    changed, what = planned(options, given, done)
    with worker.bounded(deadline.left):
        return made(options, given, changed, what, worker, done, lambda step: None).findings


def _situation(options: ExportOptions, given: Given, changed: Exchanged, masked: Masks | None) -> Situation:
    return Situation(
        options.wanted,
        changed.loaded.model,
        changed.given.model,
        dict(changed.left),
        {spec.name: spec.dtype for spec in given.loaded.inputs},
        given.inputs.given,
        bool(changed.replacements),
        masked or Masks(),
    )


def _exchanged(options: ExportOptions, given: Given) -> Exchanged:
    return exchange(
        given.loaded, given.inputs, replace=options.replace, head=options.head, max_error=options.max_error,
        positive=options.positive,
    )  # fmt: skip


def reduced(
    content: bytes,
    inputs: Samples,
    request: Request,
    layers: LayerNames,
    worker: Worker,
    tell: Tell,
    finish: Callable[[Editor], None] | None = None,
) -> Reduced:
    """Returns a float32 file in the requested numbers; see `quantize.quantize`."""
    if request.quantize == "float32":
        return Reduced(finished(content, finish))
    tell("quantize")
    return reduce(content, inputs, request, layers, worker, finish)


def finished(content: bytes, finish: Callable[[Editor], None] | None) -> bytes:
    """Returns a file with the last changes.

    Args:
        content: The file.
        finish: What `finishing` returned.
    """
    if finish is None:
        return content
    editor = Editor(content)
    finish(editor)
    return editor.bytes()


def finishing(
    changed: Exchanged, options: ExportOptions, data: bool, states: tuple[StatePair, ...] = ()
) -> Callable[[Editor], None] | None:
    """Returns what marks a file with how it is meant to differ from the user's model; None if it agrees in all.

    Args:
        changed: What was exchanged in it.
        options: What was asked for.
        data: Whether that was judged on the user's data.
        states: Those of one time step, whose outputs get the names of the inputs.
    """
    limit = options.max_change or changed.change or None
    runtime = runtime_of(options.wanted.target)
    elsewhere = None if runtime == "tflm" else runtime
    mark = Mark(limit, changed.heads, options.hard_sigmoid, elsewhere, data and limit is not None, options.step)
    if mark == Mark():
        return None

    def finish(editor: Editor) -> None:
        if options.step:
            _name_states(editor, states)
        put(editor, mark)

    return finish


def _name_states(editor: Editor, states: tuple[StatePair, ...]) -> None:
    """Gives both ends of a state one name."""
    main = editor.main()
    inputs, outputs = ([main.tensors[index].name for index in ends] for ends in (main.inputs, main.outputs))
    for pair in states:
        outputs[pair.output_index] = inputs[pair.input_index]
    editor.name_ends(tuple(inputs), tuple(outputs))

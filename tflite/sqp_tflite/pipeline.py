"""The way from a Keras model to a proven TFLite file: the steps in order."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sqp_tflite import accept, limits, making
from sqp_tflite.comparison import compared
from sqp_tflite.disagreement import require_parity
from sqp_tflite.emit import CStyle
from sqp_tflite.emit.firmware import firmware
from sqp_tflite.emit.rendering import render
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.files import write_all
from sqp_tflite.finished import model
from sqp_tflite.finished import steps as finished
from sqp_tflite.finished.settle import settled
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.journal import Given, Journal, Measured
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.npu.judge import Judged, judged
from sqp_tflite.ops.policy import NAMES
from sqp_tflite.options import ExportOptions, asked
from sqp_tflite.places import Place
from sqp_tflite.report import Finding, Kind, Report
from sqp_tflite.run.memory import memory, over_budget
from sqp_tflite.run.scaling import scaling_warnings
from sqp_tflite.run.sequences import stream
from sqp_tflite.solution import solved
from sqp_tflite.source.convert import IMPORTS
from sqp_tflite.source.load import load
from sqp_tflite.source.records import scales
from sqp_tflite.source.samples import GivenData, open_data, samples
from sqp_tflite.source.step.lengths import MADE_UP_STEPS, for_sequences, lengths
from sqp_tflite.source.step.masked import unmasked
from sqp_tflite.source.step.step import Steps
from sqp_tflite.validate import inputs, places, style, validate
from sqp_tflite.worker import Worker, lent, may_fork

Progress = Callable[[str], None]
"""Is called with the name of each step as it begins."""

Deliver = Callable[[bytes, Report, Mapping[Place, bytes]], None]
"""Takes the proven file's bytes, the report, and what has to be written by place, and puts all of it in its place."""


@dataclass(frozen=True, slots=True)
class Export:
    """What `export` returns: the file's bytes (None after a dry run), the report, the artefacts by relative path."""

    model_bytes: bytes | None
    report: Report
    files: Mapping[str, bytes] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Returns what it is in a line: the bytes and the report would fill screens."""
        size = "no file" if self.model_bytes is None else f"{len(self.model_bytes):,} bytes"
        files = f", {len(self.files)} more files" if self.files else ""
        report = self.report
        return f"Export({report.verdict!r}, {report.source!r}, {report.quantize}, {report.target}, {size}{files})"


def export(
    model: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    quantize: str | None = None,
    lowering: str | None = None,
    io: str | None = None,
    per_tensor: bool = False,
    no_conversions: bool = False,
    state: str | Mapping[str, str] | None = None,
    step: bool = False,
    target: str = "tflm",
    accelerator: str | None = None,
    npu_only: bool = False,
    data: GivenData = None,
    names: str | Mapping[str, str] | None = None,
    imports: str | Iterable[str] = (),
    trust_code: bool = False,
    hard_sigmoid: str | None = None,
    replace: str | Mapping[str, Any] | None = None,
    head: str = "keep",
    max_error: float | None = None,
    positive: bool = False,
    max_change: float | None = None,
    dry_run: bool = False,
    emit: str | Iterable[str] = (),
    c_style: CStyle | None = None,
    ram: int | str | None = None,
    flash: int | str | None = None,
    max_memory: int | str | None = None,
    reference: Any = None,
    faithful: bool = False,
    half: bool = False,
    safe_half: bool = False,
    reports: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    command: str = "",
    progress: Progress | None = None,
) -> Export:
    """Returns the model as a TFLite file that the target's interpreter has run, and writes it if `output` is given.

    Strings may be as on the command line: `ram="64k"`, `emit="c,golden"`, `replace="silu=fast"`, `names="mine=gelu"`.

    Args:
        model: A built Keras model, or the path of a `.keras` or `.h5` file, of a SavedModel folder or of a TFLite file.
        output: Where to write the file; written whole, and only if the verdict is "ok".
        quantize: Type of the numbers: "float32", "float16", "dynamic", "int8" or "int16x8"; None for "float32", and
            "int8" on a target with an NPU.
        lowering: How an activation is written in an integer model: "algebraic", "table" or "integer"; None for the
            target's fastest: "table" at int8 for TFLM and NPUs, "integer" at int16x8 for NPUs, "algebraic" elsewhere.
        io: Type of inputs and outputs; None for the model's own. "float32" puts conversions around an integer model.
        per_tensor: Whether the weights of dense layers get one scale each in an integer model, for TFLM from before
            November 2024.
        no_conversions: Whether to refuse an integer model with a QUANTIZE or DEQUANTIZE, but for those of `io`.
        state: {output: input} for the outputs that go back in as inputs, with the same scale; None to find them.
        step: Whether the file computes one time step of a model of sequences, with its states as inputs and outputs.
        target: Whose operator table and interpreter decide: "tflm", "litert", "tflite-runtime", or "tflm@2023", an
            older TFLM that boards carry, which implies `per_tensor` in an integer model; "ethos-u55", "ethos-u65" and
            "ethos-u85" are TFLM with an NPU, whose compiler Vela says what the NPU computes.
        accelerator: The variant of the NPU, for example "ethos-u55-256"; None for the target's default.
        npu_only: Whether to refuse a file with an operator that the NPU leaves to the CPU.
        data: Inputs to calibrate and compare on: an .npz path or a mapping, keyed by Keras input name (or x), labels
            under y. Without it made-up inputs; an integer model needs it.
        names: What an unknown activation name in the file means: {"my_softplus": "softplus"}.
        imports: Modules to import before the file is opened, "my_layers", or objects to take out of one,
            "my_layers:Scale"; the current folder counts.
        trust_code: Whether code in the file may run, and the modules that it names be imported.
        hard_sigmoid: What the name means in a file: "keras2" (slope 1/5), "keras3" (1/6), or None for what it meant in
            the Keras that wrote the file.
        replace: Exchanges the activations that need exp or log: "accurate", "fast" (fits on `data`), or a mapping from
            activations or layers to these; see `sqp_keras.replace_activations`.
        head: "logits" drops a final softmax or sigmoid, "keep" leaves it.
        max_error: Largest change of a value under "accurate", as a share of the activation's range; None for the
            first of 1e-3, 3e-4 and 1e-4 with which no output changes by more than 0.005 of its range.
        positive: Whether softplus, sigmoid and exponential stay above 0 under "accurate" and "fast", for a logarithm,
            a square root or a division behind them; see `sqp_keras.replace_activations`.
        max_change: Largest change of an output against `model`, as a share of its range; None for 0.02 under
            "accurate", 0.25 under other rules, and what the number type costs (see docs/report.md).
        dry_run: Whether to stop after the plan, which needs no `data`.
        emit: Firmware artefacts, some of "c", "resolver", "golden", "project", "code"; written beside `output`. For an
            NPU they hold the file that Vela compiles, which is written, too ("vela").
        c_style: Names and places of their C symbols, a `sqp_tflite.CStyle`; None for the name of `output`.
        ram: Bytes that the arena may take, also with a unit, "64k"; None for no limit.
        flash: Bytes that the file may take, likewise.
        max_memory: Bytes that the model file and the data may each take in memory; None for an eighth of what is free.
        reference: For a TFLite file: the model that it should compute, as `model`; None for the file itself.
        faithful: For a TFLite file of int8: whether its tables hold what LiteRT's integer kernels compute for each
            code, and not what the operators mean.
        half: Whether to emulate the file in half precision, too, as an estimate of a phone's GPU delegate.
        safe_half: Whether each squareplus and sum is written in a form that stays finite in half precision for every
            input; for a Keras model and files of floats.
        reports: Where to write the report, `.html` or `.json`; written with the file.
        command: Shown in the report as the way to make it again.
        progress: Is called with the name of each step.

    Raises:
        BadInputError: An argument is not of the kind that its parameter takes, or the model cannot be used.
        RefusedError: The target cannot run the model; `findings` lists every reason.
        ParityError: An interpreter's outputs are not Keras's.
        EnvironmentMissingError: The target's interpreter is not installed.
    """
    options = asked(
        model=model, output=output, quantize=quantize, lowering=lowering, io=io, per_tensor=per_tensor, target=target,
        accelerator=accelerator, npu_only=npu_only,
        no_conversions=no_conversions, state=state, step=step, data=data, names=names, imports=imports,
        trust_code=trust_code, hard_sigmoid=hard_sigmoid, replace=replace, head=head, max_error=max_error,
        positive=positive, max_change=max_change, dry_run=dry_run, emit=emit, c_style=c_style, ram=ram, flash=flash,
        max_memory=max_memory, reference=reference, faithful=faithful, half=half, safe_half=safe_half,
        reports=reports, command=command,
    )  # fmt: skip
    return run(options, accept.optional(accept.function)("`progress`", progress))


@np.errstate(all="ignore")  # Whatever the caller has NumPy do: what is not finite is looked for, and named.
def run(
    options: ExportOptions,
    progress: Progress | None = None,
    deliver: Deliver | None = None,
    began: float | None = None,
) -> Export:
    """Returns what `export` returns. These are its steps; each takes and returns data, which the journal keeps.

    Args:
        options: What was asked for.
        progress: Is called with the name of each step.
        deliver: Puts the results in their places; None to write the files, all or none.
        began: When the user began to wait, as `time.monotonic` counts; None for now.
    """
    options = settled(options)  # A finished file says itself what it computes with.
    validate(options)  # A call that cannot work ends here, before TensorFlow does anything.
    done, tell = Journal(options, began), progress or (lambda step: None)
    with done.reporting():
        with _worker(options) as worker:
            tell("load")  # First, since the model's inputs say what the samples must look like.
            given = done.keep(_loaded(options))
            steps = finished if given.loaded.content else making  # A finished file is not traced and converted.
            changed, planned = steps.planned(options, given, done)
            if options.dry_run:
                making.check_states(options, planned)
                return Export(None, done.report("planned"))
            made = steps.made(options, given, changed, planned, worker, done, tell)
            if made.findings:
                # One trial with other options, whose results go into a journal of its own.
                done.keep(solved(options, made.changes, lambda other: _tried(other, given, worker, made.again)))
            # The target's interpreter may crash on an operator that it lacks, so the operators come first.
            _refuse(made.findings)
        content, graph, traced = made.content, made.graph, made.traced
        tell("measure")  # Budgets before the comparison, which takes longer.
        measured = done.keep(_measured(options, content, graph, traced.layers))
        placed = done.keep(_judged(options, content, graph, traced.layers)) if options.variant else None
        npu = placed.npu if placed else None
        _refuse(over_budget(measured.memory, graph, options.ram, options.flash, npu))
        _refuse(placed.findings if placed and options.npu_only else ())
        tell("compare")  # Every installed interpreter, on the samples, against Keras.
        found = done.keep(compared(content, graph, given, changed, options, traced.layers, done.get(Steps)))
        require_parity(found, options, given, changed, made)
    report = done.report("ok")
    tell("emit")  # From the proven file only.
    stepping = done.get(Steps)
    files = firmware(
        options.artefacts, content, graph, report, given.inputs,
        fed=stream(stepping.written) if stepping else None, arena=measured.arena, style=style(options),
        compiled=placed.content if placed else None,
    )  # fmt: skip
    report = dataclasses.replace(report, seconds=done.seconds())
    put = deliver or functools.partial(_write, inputs(options))
    put(content, report, _rendered(options, report, graph, content, files))  # All files or none.
    return Export(content, report, files)


def _tried(options: ExportOptions, given: Given, worker: Worker, seconds: float) -> tuple[Finding, ...]:
    validate(options)  # Options may contradict each other.
    return (finished if given.loaded.content else making).tried(options, given, worker, seconds)


def _worker(options: ExportOptions) -> contextlib.AbstractContextManager[Worker]:
    purpose, imports = ("plan", ()) if options.dry_run else ("convert", IMPORTS)
    return lent(purpose, imports, fork=may_fork())


def _loaded(options: ExportOptions) -> Given:
    allowed = limits.limit(options.max_memory)
    opened = open_data(options.data, allowed)
    if options.finished is not None:
        held = model.loaded(options.model, allowed)
        inputs = samples(opened, held.inputs, allowed, lambda: model.scales(held, read(held.content)))
        return Given(held, inputs, (), allowed)
    shapes = opened.shapes() if opened else None
    loaded = load(
        options.model, names=options.names, imports=options.imports, trust=options.trust_code,
        hard_sigmoid=options.hard_sigmoid, shapes=shapes, steps=MADE_UP_STEPS if options.step else 0, allowed=allowed,
    )  # fmt: skip
    if options.step:
        loaded = for_sequences(loaded, lengths(shapes))
    inputs = samples(opened, loaded.inputs, allowed, lambda: scales(loaded))
    if options.step:
        inputs = unmasked(loaded, inputs)
    return Given(loaded, inputs, scaling_warnings(loaded, inputs), allowed)


def _refuse(findings: tuple[Finding, ...]) -> None:
    if findings:
        raise RefusedError("The file may not ship.", findings)


def _measured(options: ExportOptions, content: bytes, graph: Graph, layers: LayerNames) -> Measured:
    target = options.wanted.target
    try:
        needed, arena = memory(content, graph, target, layers)
    except BadInputError as error:
        rule = f"{NAMES[target]} must run the file."
        raise RefusedError(str(error), (Finding("the whole model", "", "", rule, str(error), Kind.OP),)) from error
    return Measured(dataclasses.replace(needed, ram_budget=options.ram, flash_budget=options.flash), arena)


def _judged(options: ExportOptions, content: bytes, graph: Graph, layers: LayerNames) -> Judged:
    return judged(content, graph, options.wanted.target, options.variant, layers, options.wanted)


def _rendered(
    options: ExportOptions, report: Report, graph: Graph, content: bytes, files: Mapping[str, bytes]
) -> dict[Place, bytes]:
    contents = {path: render(report, graph, content, path.suffix) for path in options.reports}
    if options.output is not None:
        contents |= {options.output.parent / path: part for path, part in files.items()} | {options.output: content}
    return {place: contents[place.path] for place in places(options)}


def _write(read: Iterable[Path], content: bytes, report: Report, files: Mapping[Place, bytes]) -> None:
    write_all(files, read)

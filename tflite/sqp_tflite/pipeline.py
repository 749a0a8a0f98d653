"""The whole way from a Keras model to a proven TFLite file: each step is a module, this one puts them in order."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.emit import CStyle
from sqp_tflite.emit.firmware import check_kinds, firmware
from sqp_tflite.emit.rendering import check_names, render
from sqp_tflite.errors import BadInputError, EnvironmentMissingError, ParityError, RefusedError
from sqp_tflite.files import check_model, check_places, write_all
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.audit import audit, op_rows, tensor_rows
from sqp_tflite.ops.combinations import INTEGER_IO, Combination, refuse
from sqp_tflite.ops.policy import NAMES, TARGETS
from sqp_tflite.quantize import quantize as numbers
from sqp_tflite.quantize.calibration import require
from sqp_tflite.quantize.quantize import Reduced, all_findings
from sqp_tflite.quantize.recipe import Request
from sqp_tflite.report import Agreement, Finding, Report
from sqp_tflite.run.compare import Original, compare
from sqp_tflite.run.extremes import DATA, extremes
from sqp_tflite.run.memory import memory, over_budget
from sqp_tflite.source import own_code, unroll
from sqp_tflite.source.convert import IMPORTS, convert
from sqp_tflite.source.exchange import HEADS, Exchanged, exchange, named
from sqp_tflite.source.load import Loaded, load
from sqp_tflite.source.plan import Plan, plan
from sqp_tflite.source.rsqrt import with_rsqrt
from sqp_tflite.source.samples import Samples, open_data, samples
from sqp_tflite.source.trace import trace
from sqp_tflite.versions import versions
from sqp_tflite.worker import lent, may_fork

Progress = Callable[[str], None]
"""Is told the name of each step as it begins."""

_CHUNK = 64


@dataclass(frozen=True, slots=True)
class Export:
    """What `export` returns: the file's bytes (None after a dry run), the report, the artefacts by relative path."""

    model_bytes: bytes | None
    report: Report
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)


def export(
    model: Any,
    output: str | Path | None = None,
    *,
    quantize: str = "float32",
    lowering: str = "algebraic",
    io: str | None = None,
    target: str = "tflm",
    data: str | Path | Mapping[str, Any] | NDArray[Any] | None = None,
    names: Mapping[str, str] | None = None,
    trust_code: bool = False,
    replace: str | Mapping[str, Any] | None = None,
    head: str = "keep",
    max_error: float | None = None,
    dry_run: bool = False,
    emit: Sequence[str] = (),
    c_style: CStyle | None = None,
    ram: int | None = None,
    flash: int | None = None,
    reports: Sequence[str | Path] = (),
    command: str = "",
    progress: Progress | None = None,
) -> Export:
    """Returns the model as a TFLite file that the target's interpreter has run, and writes it if `output` is given.

    Args:
        model: A built Keras model, or the path of a `.keras` or `.h5` file or of a SavedModel folder.
        output: Where to write the file; written whole, and only if the verdict is "ok".
        quantize: Type of the numbers: "float32", "float16", "dynamic", "int8" or "int16x8".
        lowering: How an activation is written in an integer model: "algebraic", "table" or "integer".
        io: Type of inputs and outputs; by default integer for an integer model. "float32" puts conversions around it.
        target: Whose operator table and interpreter decide: "tflm", "litert" or "tflite-runtime".
        data: Inputs to calibrate and compare on: an .npz path or a mapping, keyed by Keras input name (or x), labels
            under y. Seeded inputs without it; an integer model needs it.
        names: What an unknown activation name in the file stands for: {"my_softplus": "softplus"}.
        trust_code: Whether code in the file may run.
        replace: Exchanges the activations that need exp or log: "accurate", "fast", or a mapping from activations or
            layers to these (`sqp_keras.replace_activations` has the details); "fast" fits on `data`.
        head: "logits" drops a final softmax or sigmoid, "keep" leaves it.
        max_error: Largest change of a value under `replace="accurate"`, as a share of the activation's range; None for
            1e-3. Smaller takes more square roots.
        dry_run: Whether to stop after the plan.
        emit: Firmware artefacts, some of `emit.KINDS`; written beside `output`.
        c_style: Names and places of their C symbols; by default named after `output`.
        ram: Bytes that the arena may take.
        flash: Bytes that the file may take.
        reports: Where to write the report, `.html` or `.json`; written with the file.
        command: Stands in the report as how to make it again.
        progress: Is told each step.

    Raises:
        BadInputError: The call or the model cannot be used.
        RefusedError: The target cannot run the model; `findings` lists every reason.
        ParityError: The interpreter's outputs are not Keras's.
        EnvironmentMissingError: The target's interpreter is not installed.
    """
    began = time.monotonic()
    tell = progress or (lambda step: None)
    wanted = Combination(quantize, lowering, target)
    _check_call(model, output, target)
    if head not in HEADS:
        raise BadInputError(f"`head` must be one of {', '.join(HEADS)}. Received: {head!r}.")
    _check_combination(model, wanted, io)
    check_kinds(emit, target)
    check_names(reports)
    check_places(tuple(Path(path) for path in reports))
    purpose, imports = ("plan", ()) if dry_run else ("convert", IMPORTS)
    with lent(purpose, imports, fork=may_fork()) as worker:
        tell("load")
        opened = open_data(data)
        loaded = load(model, names=names, trust=trust_code, shapes=opened.shapes() if opened else None)
        inputs = samples(opened, loaded.inputs)
        given, changed = loaded, exchange(loaded, inputs, replace=replace, head=head, max_error=max_error)
        loaded = changed.loaded
        planned = plan(loaded, target=target, quantize=quantize, lowering=lowering)
        report = _planned(planned, changed)
        if dry_run:
            return Export(None, dataclasses.replace(report, seconds=_since(began)))
        _require_runtime(target)
        if quantize in INTEGER_IO:
            require(inputs, quantize)
        tell("trace")
        try:
            traced = trace(planned)
            if lowering == "integer" and quantize in INTEGER_IO:
                traced = dataclasses.replace(traced, graph_def=with_rsqrt(traced.graph_def))
            tell("convert")
            content = convert(traced, worker)
        except RefusedError as error:
            raise _refused(report, error.findings, began) from error
        reduced = Reduced(content)
        request = Request(quantize, lowering, target, float_io=io == "float32", forms=traced.forms)
        if quantize != "float32":
            tell("quantize")
            reduced = numbers.quantize(content, inputs, request, traced.layers, worker)
            content = reduced.content
    graph = read(content)
    notes = report.notes + unroll.notes(dict(traced.steps), graph, traced.layers) + reduced.notes
    report = dataclasses.replace(report, notes=notes, layer_errors=reduced.layer_errors)
    report = _described(report, graph, traced.layers)
    audited = own_code.with_remedies(audit(graph, target, traced.layers), loaded.model, dict(changed.left))
    findings = all_findings(audited, reduced.findings, request)
    if findings:
        raise _refused(report, findings, began)
    tell("measure")
    needed, arena = memory(content, graph, target, traced.layers)
    needed = dataclasses.replace(needed, ram_budget=ram, flash_budget=flash)
    notes = report.notes + (arena.notes if arena else ())
    report = dataclasses.replace(report, memory=needed, notes=notes, command=command)
    findings = over_budget(needed, graph.size_bytes, ram, flash)
    if findings:
        raise _refused(report, findings, began)
    tell("compare")
    report = _compared(report, content, loaded, inputs, began, given=given, threshold=changed.threshold)
    style = c_style or CStyle.named(Path(output).stem if output is not None else "model")
    tell("emit")
    files = firmware(emit, content, graph, report, inputs, arena=arena, style=style)
    report = dataclasses.replace(report, output=None if output is None else str(output), seconds=_since(began))
    written = {Path(path): render(report, graph, content, Path(path).suffix) for path in reports}
    if output is not None:
        written |= {Path(output).parent / path: part for path, part in files.items()} | {Path(output): content}
    write_all(written)
    return Export(content, report, files)


def check(
    model: Any,
    tflite: str | Path | bytes,
    data: str | Path | Mapping[str, Any] | NDArray[Any] | None = None,
    *,
    tolerance: float | None = None,
    names: Mapping[str, str] | None = None,
    trust_code: bool = False,
    ends: bool = False,
    progress: Progress | None = None,
) -> tuple[Agreement, ...]:
    """Returns how a TFLite file, of any origin, agrees with its Keras model on each installed runtime.

    Args:
        model: As in `export`.
        tflite: The file or its bytes.
        data: As in `export`.
        tolerance: Largest error over the range of the outputs; by default that of the file's type of numbers.
        names: As in `export`.
        trust_code: As in `export`.
        ends: Whether to compare also at the ends of the file's input range and beyond.
        progress: Is told each step.

    Raises:
        BadInputError: One of them cannot be read, or their inputs or outputs don't fit together.
    """
    graph = read(tflite)
    content = tflite if isinstance(tflite, bytes) else Path(tflite).read_bytes()
    opened = open_data(data)
    loaded = load(model, names=names, trust=trust_code, shapes=opened.shapes() if opened else None)
    _check_fits("inputs", [spec.shape for spec in loaded.inputs], graph.inputs)
    inputs = samples(opened, loaded.inputs)
    sets = {DATA: inputs, **(extremes(graph, inputs) if ends else {})}
    if progress:
        progress("compare")
    found: list[Agreement] = []
    for name, chosen in sets.items():
        expected = reference(loaded, chosen)
        _check_fits("outputs", [values.shape[1:] for values in expected], graph.outputs)
        rows = compare(content, chosen, expected, tolerance=tolerance)
        found += [_judged(dataclasses.replace(row, on=name), graph) for row in rows]
    return tuple(found)


def _check_fits(which: str, shapes: list[tuple[int, ...]], tensors: tuple[Tensor, ...]) -> None:
    given, held = [(1, *shape) for shape in shapes], [tensor.shape for tensor in tensors]
    if given != held:
        raise BadInputError(
            f"The file's {which} must be the model's. Received: model {given}, file {held}. "
            "Check that the file was made from this model, with batch 1."
        )


def _judged(row: Agreement, graph: Graph) -> Agreement:
    """An integer file holds what leaves its ranges at their ends: off the data a difference is shown, not judged."""
    if row.on == DATA or row.status != "differs" or not graph.integer:
        return row
    return dataclasses.replace(row, status="saturates", reason="")


def reference(loaded: Loaded, inputs: Samples) -> tuple[NDArray[Any], ...]:
    """Returns Keras's own outputs for the samples, one array per output."""
    chunks = []
    for start in range(0, len(inputs), _CHUNK):
        outputs = loaded.call([array[start : start + _CHUNK] for array in inputs.inputs])
        chunks.append([np.asarray(value, dtype=np.float32) for value in outputs.values()])
    return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))


def _check_call(model: Any, output: str | Path | None, target: str) -> None:
    if target not in TARGETS:
        raise BadInputError(f"`target` must be one of {', '.join(TARGETS)}. Received: {target!r}.")
    if isinstance(model, (str, Path)):
        check_model(Path(model))
    if output is not None:
        check_places((Path(output),))
        if isinstance(model, (str, Path)) and Path(output).exists() and Path(output).samefile(model):
            raise BadInputError(f"The output must not be the model itself. Received: `{output}`. Pass -o FILE.tflite.")


def _check_combination(model: Any, wanted: Combination, io: str | None) -> None:
    try:
        refuse(wanted, io)
    except RefusedError as error:
        source = str(model) if isinstance(model, (str, Path)) else getattr(model, "name", "the model")
        given = Report("refused", source, wanted.target, wanted.quantize, wanted.lowering, findings=error.findings)
        raise RefusedError(str(error), error.findings, given) from error


def _require_runtime(target: str) -> None:
    from sqp_tflite.run import interpreters

    if not interpreters.installed(target):
        raise EnvironmentMissingError(
            f"A file for `{target}` is proven on {NAMES[target]}, which is not installed. Received: --target {target}. "
            f"Install it with {interpreters.INSTALL[target]}, or choose --target litert."
        )


def _planned(planned: Plan, changed: Exchanged) -> Report:
    return Report(
        verdict="ok",
        source=planned.loaded.source,
        target=planned.target,
        quantize=planned.quantize,
        lowering=planned.lowering,
        plan=named(changed.replacements, planned.rows),
        replacements=changed.replacements,
        notes=planned.notes + changed.notes + own_code.notes(planned.loaded.model),
        versions=versions(),
    )


def _described(report: Report, graph: Graph, layers: LayerNames) -> Report:
    return dataclasses.replace(
        report,
        sha256=graph.sha256,
        size_bytes=graph.size_bytes,
        ops=op_rows(graph, layers),
        inputs=tensor_rows(graph, graph.main.inputs),
        outputs=tensor_rows(graph, graph.main.outputs),
    )


def _refused(report: Report, findings: tuple[Finding, ...], began: float) -> RefusedError:
    refused = dataclasses.replace(report, verdict="refused", findings=findings, seconds=_since(began))
    count = f"{len(findings)} reason" + ("s" if len(findings) > 1 else "")
    listed = "".join(f"\n- {finding}" for finding in findings)
    return RefusedError(f"{report.source} cannot ship to {NAMES[report.target]}, {count}:{listed}", findings, refused)


def _compared(
    report: Report, content: bytes, loaded: Loaded, inputs: Samples, began: float, *, given: Loaded, threshold: float
) -> Report:
    expected = reference(loaded, inputs)
    original = Original(expected if given is loaded else reference(given, inputs), threshold)
    found = compare(content, inputs, expected, original=original)
    report = dataclasses.replace(report, agreement=found, seconds=_since(began))
    bad = [row for row in found if row.status in ("differs", "failed") and row.runtime == report.target]
    bad += [row for row in found if row.status == "differs" and row.runtime != report.target]
    if bad:
        failed = dataclasses.replace(report, verdict="parity_failed")
        listed = "".join(f"\n- {NAMES[row.runtime]}: {row.reason}" for row in bad)
        raise ParityError(f"The file does not agree with {report.source}:{listed}", report=failed)
    others = [row for row in found if row.status == "failed"]
    notes = [f"{NAMES[row.runtime]} cannot run the file: {row.reason}" for row in others]
    return dataclasses.replace(report, notes=report.notes + tuple(notes))


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)

"""Turns a float file into the wanted number type: calibrated, quantised, lowered, named as in Keras, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.errors import CrashedError
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.float_ends import add_float_ends
from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES, Graph, Subgraph, Tensor
from sqp_tflite.flatbuffer.integer_ends import settle_ends
from sqp_tflite.flatbuffer.narrowing import narrow, widen_by_float
from sqp_tflite.flatbuffer.op_versions import versioned
from sqp_tflite.flatbuffer.pooling import pool_first
from sqp_tflite.flatbuffer.read import ends, read
from sqp_tflite.flatbuffer.tables import Table, lower, verify
from sqp_tflite.layer_names import INNER, LayerNames
from sqp_tflite.ops.combinations import INTEGER_IO, require_data
from sqp_tflite.quantize import calibration
from sqp_tflite.quantize.islands import Islands
from sqp_tflite.quantize.recipe import INTEGER_BITS, Request, whole_codes
from sqp_tflite.quantize.states import shared, widens
from sqp_tflite.report import Finding, Kind, LayerError
from sqp_tflite.run import layer_errors
from sqp_tflite.source.samples import Samples
from sqp_tflite.wording import listed
from sqp_tflite.worker import ChildError, Worker

_TABLE_SAMPLES = 8
"""A real interpreter's lookups are compared with the tables on this many samples (without one, all codes are)."""


_MOST_STATES = 6

_BY_FLOAT = "tflite-runtime turns int8 into int16 by way of float32: a DEQUANTIZE and a QUANTIZE each time."

_OTHER_WAY = "Write the layer with other operations, or export it in float32."


_NOT_ON_LITERT = "LiteRT, which measures the error of each layer, does not run the file: there is none in the report."


@dataclass(frozen=True, slots=True)
class Reduced:
    """The file in its number type.

    Attributes:
        content: The file.
        findings: Operators that stayed in float but must not.
        notes: What the user should know, in sentences.
        layer_errors: Per layer, worst first; empty for the float types.
    """

    content: bytes
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    layer_errors: tuple[LayerError, ...] = ()


def quantize(
    content: bytes,
    samples: Samples,
    request: Request,
    layers: LayerNames,
    worker: Worker,
    finish: Callable[[Editor], None] | None = None,
) -> Reduced:
    """Returns the file quantised as requested.

    Args:
        content: The float32 file.
        samples: The user's data.
        request: What was requested.
        layers: Layer names, for messages.
        worker: The child process to work in.
        finish: Changes the file last, before it is packed and checked; None for no change.

    Raises:
        BadInputError: There is no data, or the model's numbers are not finite on it.
        CrashedError: The quantiser failed.
    """
    try:
        return _reduced(content, samples, request, layers, worker, finish)
    except ChildError as error:
        raise CrashedError(
            f"The {request.quantize} file could not be made. Received: {error}. "
            "Export in float32, and look at the weights and at the ranges of the data."
        ) from error


def _reduced(
    content: bytes,
    samples: Samples,
    request: Request,
    layers: LayerNames,
    worker: Worker,
    finish: Callable[[Editor], None] | None,
) -> Reduced:
    plain = Editor(content)
    if len(plain.graph.subgraphs) > 1:  # Loops and conditions, which every target refuses: the audit says where.
        return Reduced(content)
    plain.give_own_names()
    named, main = plain.bytes(), plain.main()
    ranges: dict[str, tuple[float, float]] = {}
    notes: tuple[str, ...] = ()
    if request.quantize in INTEGER_BITS:
        require_data(request.quantize, samples.given)
        found = worker.call("sqp_tflite.quantize.calibration:calibrate_here", named, samples.inputs)
        names = [tensor.name for tensor in main.tensors]
        exponents = {names[op.outputs[0]]: names[op.inputs[0]] for op in main.ops if op.name == "EXP"}
        calibration.check(found, layers, exponents)
        known = whole_codes([main.tensors[index].name for index in main.inputs], request)
        ranges = shared(found.ranges() | known, main, request.states)
        notes = calibration.notes(found, layers, calibration.outside(main), request.step)
        notes += _state_notes(samples, main, request)
    quantized = worker.call("sqp_tflite.quantize.recipe:quantize_here", named, request, ranges)
    if wide := sorted(quantized.wide.inputs):
        notes += (f"The states {listed(wide, _MOST_STATES)} add up small numbers: they and their sums are int16.",)
        notes += (_BY_FLOAT,) if not widens(request.target) else ()
    editor = Editor(quantized.content)
    wider = bool(quantized.wide.places or quantized.shares) and bool(quantized.islands.tables)
    if wider and narrow(editor, quantized.islands.becomes_tables, quantized.shares):
        editor = Editor(editor.bytes())
    tables = _put_tables(editor, quantized.islands, samples, worker)
    if tables and any(op.name == "MAX_POOL_2D" for op in main.ops):
        editor = Editor(editor.bytes())
        pool_first(editor)
    if quantized.integer_ends:
        spans = [_span(ranges, main.tensors[index]) for index in (*main.inputs, *main.outputs)]
        settle_ends(editor, INTEGER_IO[request.quantize], spans, dict(request.states), dict(quantized.wide.places))
        if request.float_io:
            add_float_ends(editor)
    editor.name_ends(*(tuple(main.tensors[i].name for i in ends) for ends in (main.inputs, main.outputs)))
    if quantized.wide.places and not widens(request.target):
        widen_by_float(editor)
    versioned(editor)
    if finish:
        finish(editor)
    ended = editor.bytes()
    if request.quantize not in INTEGER_BITS:
        return Reduced(ended)
    after = read(ended)
    findings = hidden_floats(after, request, quantized.islands, layers)
    errors = ()
    if not findings:
        wanted = layer_errors.pairs(main, after.main, layers)
        try:
            errors = worker.call(
                "sqp_tflite.run.layer_errors:layer_errors_here", named, ended, samples.inputs, wanted, quantized.spans
            )
        except ChildError as error:
            if error.kind != "RuntimeError":  # What the interpreter raises.
                raise
            notes += (_NOT_ON_LITERT,)
    return Reduced(ended, findings, notes + _table_notes(tables, layers), errors)


def hidden_floats(graph: Graph, request: Request, islands: Islands, layers: LayerNames) -> tuple[Finding, ...]:
    """Returns a finding for every operator of an integer file that computes in float and is not an allowed island.

    Args:
        graph: The quantised file.
        request: What was requested.
        islands: What may stay in float with the algebraic lowering.
        layers: Layer names, for messages.
    """
    allowed = islands.activations if request.lowering == "algebraic" else frozenset()
    findings = []
    for subgraph, op in graph.all_ops():
        if op.dtype not in FLOAT_DTYPES or op.name in ("QUANTIZE", "DEQUANTIZE"):
            continue
        names = [subgraph.tensors[i].name.removesuffix(INNER) for i in op.outputs]
        if not set(names) <= allowed:
            rule = f"{op.name} has no {request.quantize} form here and would stay in float."
            layer = layers.of(names[0], op.name)
            findings.append(Finding(layer, op.name, op.dtype, rule, _OTHER_WAY, Kind.DTYPE))
    return tuple(dict.fromkeys(findings))


def all_findings(audited: tuple[Finding, ...], floats: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Returns the findings of both, one per operator of a layer.

    Args:
        audited: Findings of the audit.
        floats: Findings of `hidden_floats`.
    """
    known = {(finding.layer, finding.op) for finding in audited}
    return audited + tuple(finding for finding in floats if (finding.layer, finding.op) not in known)


def _put_tables(editor: Editor, islands: Islands, samples: Samples, worker: Worker) -> tuple[Table, ...]:
    """Lowers the islands that become tables, and compares the result with a real interpreter."""
    tables = lower(editor, islands.becomes_tables) if islands.tables else ()
    if not tables:
        return ()
    names = tuple(name for table in tables for name in (table.source, table.result))
    few = tuple(array[:_TABLE_SAMPLES] for array in samples.inputs)
    content = editor.bytes()
    observed = worker.call("sqp_tflite.quantize.quantize:codes_here", content, few, names)
    wrong = verify(editor.graph, ends(content), tables, observed)
    if wrong:
        raise CrashedError(f"The tables of the lowered file are wrong: {' '.join(wrong)} Use another --lowering.")
    return tables


def codes_here(content: bytes, inputs: tuple[NDArray[Any], ...], names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Returns the codes of tensors as computed by LiteRT; runs in a child."""
    return layer_errors.observe_here(content, inputs, names, codes=True)


def _state_notes(samples: Samples, main: Subgraph, request: Request) -> tuple[str, ...]:
    names = [main.tensors[main.inputs[into]].name for _, into in request.states if np.ptp(samples.inputs[into]) == 0]
    if not names or len(samples) < 2:
        return ()
    return (
        f"The state {', '.join(f'`{name}`' for name in names)} is the same in all samples: its range comes from one "
        "step, and what grows beyond it in a run is clipped. Pass the states of a real run with --data.",
    )


def _span(ranges: Mapping[str, tuple[float, float]], tensor: Tensor) -> tuple[float, float]:
    return ranges.get(tensor.name, (0.0, 0.0))


def _table_notes(tables: tuple[Table, ...], layers: LayerNames) -> tuple[str, ...]:
    if not tables:
        return ()
    distinct = {table.entries.tobytes() for table in tables}
    names = list(dict.fromkeys(layers.of(table.result.removesuffix("_quantized")) for table in tables))
    return (
        f"{len(tables)} activation(s) are tables, {sum(map(len, distinct))} bytes in total: "
        f"{', '.join(f'`{name}`' for name in names[:5])}{', ...' if len(names) > 5 else ''}.",
    )

"""Refuses a file that does not agree with its model, and says what helps."""

from __future__ import annotations

from sqp_tflite.agreement import MADE_UP, WRITTEN, Agreement
from sqp_tflite.errors import ParityError, RefusedError
from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES, Graph
from sqp_tflite.journal import Compared, Given
from sqp_tflite.making import Made
from sqp_tflite.ops.audit import scale_per_unit
from sqp_tflite.ops.combinations import INTEGER_IO
from sqp_tflite.ops.policy import NAMES, RUNTIMES, runtime_of
from sqp_tflite.options import ExportOptions
from sqp_tflite.report import Finding, Kind
from sqp_tflite.run.layer_errors import worst_layers
from sqp_tflite.source.exchange import Exchanged
from sqp_tflite.wording import harmless

_NARROW = ("int8", "uint8", "int16", "uint16", "uint32")

_ONE_SCALE = "tflite-runtime"
"""Seen on RNNoise at int16x8: 0.8 of the range off with a scale per unit, right with one scale for each dense layer."""

_IN_HALF = (
    "Only the emulation of half precision differs: a phone's GPU delegate would be as far off. Use --safe-half if a "
    "squareplus or a sum overflows (the report has the reserve of each), have the delegate compute in float32 "
    "(docs/mobile.md), or leave --half out for other devices."
)


def require_parity(compared: Compared, options: ExportOptions, given: Given, changed: Exchanged, made: Made) -> None:
    """Raises unless the target runs the file and agrees; another interpreter that runs it must agree too.

    Args:
        compared: How the file agrees.
        options: What was asked for.
        given: The model and the inputs.
        changed: The model with other activations.
        made: The file.

    Raises:
        RefusedError: The target does not run it, so that there is nothing to compare.
        ParityError: It does not agree; the message ends with what to do.
    """
    runtime = runtime_of(options.wanted.target)
    _require_run(compared.rows, runtime, options.wanted.target)
    bad = [row for row in compared.rows if row.status == "differs"]
    bad.sort(key=lambda row: row.runtime != runtime)
    if not bad:
        return
    # Against both models it is often the same.
    listed = "".join(dict.fromkeys(f"\n- {NAMES[row.runtime]}: {harmless(row.reason)}" for row in bad))
    remedy = ""
    if all(row.emulated for row in bad):
        remedy = _IN_HALF
    elif changed.repaired and not any(row.against == WRITTEN for row in bad):
        remedy = (
            "The interpreters look the tables up right: it is the whole that is not the reference. Pass the model "
            "that the file was made from with --reference, or keep what its kernels compute with --faithful."
        )
    elif changed.loaded is not changed.given and not any(row.against == WRITTEN for row in bad):
        remedy = "The file is what was written; the exchange of activations is what changed the outputs. " + (
            "Accept it with --max-change, or lower --max-error, as far as there are sums with more roots."
            if changed.accurate
            else "Use --replace accurate, or train the new activations (sqp_keras.replace_activations, then "
            "sqp_keras.distill) and export the result, or accept the change with --max-change."
        )
    elif _one_scale_helps(bad, options, made.graph):
        remedy = (
            f"Only {NAMES[_ONE_SCALE]} differs, which is not safe with a scale per unit of a dense layer at "
            f"{options.wanted.quantize}. Use --per-tensor, which gives each of these layers one."
        )
    elif options.finished not in INTEGER_IO and any((row.runtime, row.status) == (runtime, "differs") for row in bad):
        named = any(map(_finer_codes_are_named, bad))
        remedy = worst_layers(made.layer_errors, options.wanted.quantize, named)
    remedy = remedy or _cast(made.graph)
    if not given.inputs.given:
        remedy = f"{remedy}\nThis was {MADE_UP}.".lstrip()
    raise ParityError(f"The file does not agree with {harmless(given.loaded.source)}:{listed}", remedy=remedy)


def _require_run(rows: tuple[Agreement, ...], runtime: str, target: str) -> None:
    failed = next((row for row in rows if (row.runtime, row.status) == (runtime, "failed")), None)
    if failed is None:
        return
    agree = {row.runtime for row in rows if row.status == "ok"} - {row.runtime for row in rows if row.status != "ok"}
    others = " or ".join(f"`--target {name}`" for name in RUNTIMES if name in agree)
    rule = f"{NAMES[target]} does not run the file: {harmless(failed.reason)}."
    remedy = "Export parts of the model to find the layer that it cannot run"
    remedy += f", or use {others}, where it agrees with the model." if others else "."
    raise RefusedError(rule, (Finding("the whole model", "", "", rule, remedy, Kind.OP),))


def _cast(graph: Graph) -> str:
    """What helps where floats become integers of few bits: what they do not have differs between interpreters."""
    tensors = graph.main.tensors
    casts = [op for op in graph.main.ops if op.name == "CAST" and op.dtype in FLOAT_DTYPES]
    made = next((dtype for op in casts if (dtype := tensors[op.outputs[0]].dtype) in _NARROW), "")
    if not made:
        return ""
    return (
        f"The file casts floats into {made}. What {made} does not have differs between interpreters: clip "
        "it first (keras.ops.clip), or cast into int32."
    )


def _one_scale_helps(bad: list[Agreement], options: ExportOptions, graph: Graph) -> bool:
    """Whether only tflite-runtime differs, where the file has what it does not compute reliably."""
    others = {row.runtime for row in bad} != {_ONE_SCALE}
    return not others and options.wanted.quantize == "int16x8" and options.finished is None and scale_per_unit(graph)


def _finer_codes_are_named(row: Agreement) -> bool:
    """Whether the reason says already that more bits help: of a coarse output of 8 bits that is too far off."""
    if not row.coarse or row.codes_of != 2**8 or row.limit is None:
        return False
    return max(row.error_of_range or 0.0, row.column_error_of_range or 0.0) > row.limit

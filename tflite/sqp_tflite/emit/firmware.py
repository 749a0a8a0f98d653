"""Golden vectors and artefacts of a finished export: the step between the proven file and `emit`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from sqp_tflite.emit import CStyle, Golden, Material, check_known, emit
from sqp_tflite.emit.compiled import of_compiled
from sqp_tflite.emit.emit import Artefact
from sqp_tflite.emit.golden import count_for
from sqp_tflite.errors import OptionError, RefusedError
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.ops.policy import NAMES, NPUS, runtime_of
from sqp_tflite.places import Place
from sqp_tflite.report import Report
from sqp_tflite.run import interpreters
from sqp_tflite.run.arena import Arena, tensor_bytes
from sqp_tflite.run.sequences import Stream, first_steps
from sqp_tflite.source.samples import Samples

_NEED_GOLDEN = frozenset(("golden", "project", "code"))
_NEED_TFLM = frozenset(("resolver", "project", "code"))


def check_kinds(kinds: Iterable[str], target: str) -> None:
    """Raises `OptionError` if an artefact is unknown or cannot be made for the target, before any work is done."""
    wanted = set(kinds)
    check_known(wanted)
    if "vela" in wanted and target not in NPUS:
        raise OptionError(
            f"--emit vela writes the file that Vela compiles for an NPU. Received: --target {target}. Omit it, or use "
            f"--target {' or '.join(NPUS)}."
        )
    if "code" in wanted and target in NPUS:
        raise OptionError(
            f"--emit code writes C for a processor, which does without the NPU. Received: --target {target}. Omit it, "
            "or use --target tflm."
        )
    wrong = sorted(_NEED_TFLM & wanted) if runtime_of(target) != "tflm" else []
    if wrong:
        raise OptionError(
            f"--emit {','.join(wrong)} writes code for TensorFlow Lite Micro. Received: --target {target}. "
            "Omit it, or use --target tflm."
        )


def artefact_places(output: Path, files: Iterable[Artefact]) -> list[Place]:
    """Returns where artefacts go.

    Args:
        output: The exported file, beside which they lie.
        files: Which.
    """
    return [Place(output.parent / file.path, "--emit", "-o or --c-prefix", file.folders) for file in files]


def firmware(
    kinds: Iterable[str],
    content: bytes,
    graph: Graph,
    report: Report,
    samples: Samples,
    *,
    fed: Stream | None = None,
    arena: Arena | None = None,
    style: CStyle | None = None,
    compiled: bytes | None = None,
) -> dict[str, bytes]:
    """Returns {relative path: content} of the requested artefacts.

    Args:
        kinds: Some of `emit.KINDS`.
        content: The proven file.
        graph: The same, read.
        report: The report of the export.
        samples: Samples whose first inputs become the golden vectors.
        fed: How a file of one time step is run over the samples, which are sequences then.
        arena: What the interpreter needs, if it was measured.
        style: Names and places of the C symbols.
        compiled: Of a target with an NPU, the compiled file, which the device gets.

    Raises:
        OptionError: An artefact cannot be made.
        RefusedError: Something in the file has no C form.
    """
    wanted = tuple(kinds)
    vectors = golden(content, graph, report.target, samples, fed) if _NEED_GOLDEN & set(wanted) else None
    material = Material(content, graph, report, style or CStyle(), arena, vectors, fed is not None)
    try:
        return emit(wanted, material if compiled is None else of_compiled(material, compiled))
    except RefusedError as error:
        refused = dataclasses.replace(report, verdict="refused", output=None, findings=error.findings)
        raise RefusedError(str(error), error.findings, refused) from error


def golden(content: bytes, graph: Graph, target: str, samples: Samples, fed: Stream | None = None) -> Golden:
    """Returns the first samples and the target interpreter's outputs for them, as many as fit in 32 KiB of flash.

    Of a file of one time step they are the first steps of a sequence, each with the states that the one before gave.
    """
    count = count_for(sum(tensor_bytes(tensor) for tensor in graph.inputs + graph.outputs))
    if fed:
        samples = first_steps(runtime_of(target), content, samples, fed, count)
    count = min(count, len(samples))
    inputs = tuple(array[:count] for array in samples.inputs)
    codes = tuple(interpreters.encode(values, tensor) for values, tensor in zip(inputs, graph.inputs, strict=True))
    runtime = runtime_of(target)
    outputs = interpreters.run(runtime, content, inputs)
    return Golden(codes, outputs.codes, f"{NAMES[runtime]} ({interpreters.version(runtime)})")

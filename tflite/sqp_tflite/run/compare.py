"""Runs a file on every installed interpreter and compares it with Keras's outputs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from sqp_tflite.agreement import GIVEN, Agreement
from sqp_tflite.flatbuffer.graph import Graph, numbers, stored_weights
from sqp_tflite.ops.policy import RUNTIMES
from sqp_tflite.run import interpreters
from sqp_tflite.run.judge import Judged, Reference, judge
from sqp_tflite.run.pairing import Pairing
from sqp_tflite.source.samples import Samples

FLOAT_TOLERANCE = 1e-4
"""Max error of a float32 file, over the range of the outputs: sums are added in another order, over many layers."""

TOLERANCES = MappingProxyType(
    {"float32": FLOAT_TOLERANCE, "float16": 0.02, "dynamic": 0.2, "int8": 0.25, "int16x8": 0.2}
)
"""The same for each number type. With 8-bit weights the limit only separates a file that computes something else
(constant or shifted outputs are wrong by half the range or more) from a coarse one. How coarse it may be is for the
user to judge, from the accuracy, the argmax agreement and the error of each layer in the report."""

STORED_TOLERANCE = 0.02
"""The same for a file that stores 8-bit weights and computes in float32. With a scale per channel, seven models of the
zoo are off by 0.002 to 0.015; with the wrong scales, by 0.02 to 0.12."""


def tolerance_of(graph: Graph) -> float:
    """Returns the max error that is allowed for a file, over the range of its outputs, by its number type."""
    kind = numbers(graph)
    return STORED_TOLERANCE if kind == "float32" and stored_weights(graph) else TOLERANCES[kind]


def compare(content: bytes, samples: Samples, *references: Reference, pairing: Pairing | None = None) -> Judged:
    """Returns a row for each runtime, reference and output; runtimes that are not installed are "not checked".

    Args:
        content: The TFLite file.
        samples: The inputs.
        references: What the outputs are compared with.
        pairing: Where the model's inputs and outputs are in the file; by default in the same order.
    """
    with ThreadPoolExecutor(len(RUNTIMES)) as pool:
        found = tuple(pool.map(lambda runtime: _one(runtime, content, samples, references, pairing), RUNTIMES))
    warnings = dict.fromkeys(warning for judged in found for warning in judged.warnings)
    return Judged(tuple(row for judged in found for row in judged.rows), tuple(warnings))


def _one(
    runtime: str, content: bytes, samples: Samples, references: tuple[Reference, ...], pairing: Pairing | None
) -> Judged:
    if not interpreters.installed(runtime):
        reason = f"not installed: {interpreters.INSTALL[runtime]}"
        return Judged(tuple(Agreement(runtime, "not checked", reason, ref.against) for ref in references))
    try:
        outputs = interpreters.run(runtime, content, pairing.to_file(samples.inputs) if pairing else samples.inputs)
    except interpreters.RuntimeFailedError as error:
        return Judged(tuple(Agreement(runtime, "failed", str(error), ref.against) for ref in references))
    outputs = pairing.from_file(outputs) if pairing else outputs
    # The labels are about the user's own model.
    judged = [judge(runtime, outputs, ref, samples.labels if ref.against == GIVEN else None) for ref in references]
    return Judged(tuple(row for one in judged for row in one.rows), tuple(w for one in judged for w in one.warnings))

"""Memory as the report shows it, and the budgets that it must fit."""

from __future__ import annotations

from sqp_tflite.device import Memory, MemoryStep, Npu
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.audit import layer_of
from sqp_tflite.ops.policy import runtime_of
from sqp_tflite.report import Finding, Kind
from sqp_tflite.run import arena, interpreters


def memory(
    content: bytes, graph: Graph, target: str, layers: LayerNames | None = None
) -> tuple[Memory, arena.Arena | None]:
    """Returns what the file needs on the device, and the arena if the target is TFLM and its interpreter is installed.

    Args:
        content: The file.
        graph: The same, read.
        target: One of `policy.TARGETS`; only TFLM has an arena.
        layers: Names the Keras layers.
    """
    layers = layers or LayerNames()
    steps = arena.live_steps(graph)
    rows = tuple(
        MemoryStep(step.name, layer_of(graph.main, graph.main.ops[step.op], layers), step.total) for step in steps
    )
    micro = runtime_of(target) == "tflm" and interpreters.installed("tflm")
    found = arena.measure(content) if micro else None
    if not steps:
        return Memory(), found
    moment, tensor = arena.peak(graph)
    return (
        Memory(
            arena_bytes=found.needed if found else None,
            arena_runtime=found.runtime if found else "",
            arena_32bit_low=found.low if found else None,
            arena_32bit_high=found.high if found else None,
            peak_tensor=tensor.name,
            peak_bytes=moment.total,
            peak_layer=rows[moment.op].layer,
            steps=rows,
        ),
        found,
    )


_SAVED = 0.7
"""What int8 takes off the bytes of float32, less what it adds to a file: scales, tables and conversions."""

_LARGE = 1024
"""Bytes of a constant of which int8 takes off more than its scales add."""


def _wide(tensor: Tensor) -> bool:
    return tensor.dtype == "float32" and tensor.constant_bytes >= _LARGE


def over_budget(
    found: Memory, graph: Graph, ram: int | None, flash: int | None, npu: Npu | None = None
) -> tuple[Finding, ...]:
    """Returns a finding for each budget that the file breaks, which says by how much.

    Args:
        found: What the file needs. Without a measured arena the tensors' peak decides: no arena can be smaller.
        graph: The file.
        ram: Bytes of RAM for the arena, None for no limit.
        flash: Bytes of flash for the model, None for no limit.
        npu: Of a target with an NPU, what its compiler makes of the file, which is what the device gets.
    """
    findings, size_bytes = [], graph.size_bytes
    needed = found.arena_bytes or found.peak_bytes or 0
    what = "arena" if found.arena_bytes else "tensors' peak"
    if npu is not None:
        needed, what, size_bytes = npu.sram_bytes + npu.dram_bytes, "NPU's memory", npu.compiled_bytes
    if ram is not None and needed > ram:
        remedy = (
            f"`{found.peak_layer}` is where the tensors take most ({found.peak_bytes:,} bytes): make it smaller there"
        )
        remedy += ", or give it a stride or pooling before it."
        if not graph.integer and needed - _SAVED * (found.peak_bytes or 0) <= ram:
            remedy += " With `--quantize int8` its tensors take a quarter."
        if npu is None and found.arena_32bit_high is not None and found.arena_32bit_high <= ram:
            remedy += (
                f" The size is measured on a 64-bit machine; a 32-bit target needs {found.arena_32bit_high:,} at most, "
                "which fits: for one, pass the larger budget."
            )
        rule = f"The {what} is {needed:,} bytes of RAM, {needed - ram:,} more than the {ram:,} of --ram."
        findings.append(Finding(found.peak_layer, "", "", rule, remedy, Kind.BUDGET))
    if flash is not None and size_bytes > flash:
        rule = (
            f"The model takes {size_bytes:,} bytes of flash, {size_bytes - flash:,} more than the {flash:,} of --flash."
        )
        remedy = "Give the widest layers fewer units."
        weights = sum(tensor.constant_bytes for one in graph.subgraphs for tensor in one.tensors if _wide(tensor))
        if size_bytes - _SAVED * weights <= flash:
            remedy = f"{remedy[:-1]}, or export with `--quantize int8`: weights take a quarter."
        findings.append(Finding("the whole model", "", "", rule, remedy, Kind.BUDGET))
    return tuple(findings)

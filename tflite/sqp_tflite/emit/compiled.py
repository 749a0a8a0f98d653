"""The compiled file for a target with an NPU, and how the device's memory for it is reckoned."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence

from sqp_tflite.device import Npu
from sqp_tflite.emit.material import Material
from sqp_tflite.errors import OptionError
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.npu.tables import COMMAND
from sqp_tflite.ops.audit import op_rows
from sqp_tflite.run.arena import ALIGNMENT, Arena, tensor_bytes

_PLAN = "OfflineMemoryAllocation"
"""The metadata in which a file says where in the arena its tensors lie: a version, the number of subgraphs, the number
of tensors, and an offset for each tensor, -1 where the interpreter chooses."""

_OF_DRIVER = 256
"""Bytes that the arena keeps for each operator that calls the NPU, as a generous guess: its own records are shorter."""

_TEXT = """\
{source} for {npu.accelerator}. Made by sqp-export. {prefix}_vela.tflite was compiled by {npu.compiler}:

    vela {prefix}.tflite --accelerator-config {npu.accelerator}

with its default system ({npu.system}) and memory mode ({npu.memory_mode}). Compile the file again
if yours is another one.

{npu.on_npu} of {count} operators on the NPU
{npu.cycles:,} cycles at {clock:,.0f} MHz, operators on the CPU not counted (estimate)
{npu.sram_bytes:,} bytes of SRAM, {npu.dram_bytes:,} of DRAM, {npu.flash_bytes:,} of flash (estimate)

{rows}
"""


def of_compiled(material: Material, content: bytes) -> Material:
    """Returns what the artefacts are made from if the device gets the compiled file.

    Args:
        material: That of the proven file, whose golden vectors hold for the compiled one.
        content: The compiled file.
    """
    graph = read(content)
    report = dataclasses.replace(material.report, ops=op_rows(graph), size_bytes=len(content), sha256=graph.sha256)
    arena = material.arena and _arena(graph, material.arena)
    return dataclasses.replace(material, model=content, graph=graph, report=report, arena=arena, proven=material.model)


def _arena(graph: Graph, measured: Arena) -> Arena:
    """An arena that suffices: the planned part, and what the proven file keeps, which has more operators."""
    main, plan = graph.main, _offsets(graph)
    scratch = [index for op in main.ops for index in op.inputs if index >= 0 and not main.tensors[index].constant]
    made = [index for op in main.ops for index in op.outputs]
    ends, apart = [0], 0
    for index in dict.fromkeys([*main.inputs, *scratch, *made]):
        size = tensor_bytes(main.tensors[index])
        if index < len(plan) and plan[index] >= 0:
            ends.append(plan[index] + size)
        else:
            apart += size + ALIGNMENT
    kept = measured.needed if measured.tail is None else measured.tail
    kept += _OF_DRIVER * sum(op.name == COMMAND for op in main.ops)
    needed = -(-(max(ends) + apart + kept) // ALIGNMENT) * ALIGNMENT
    return dataclasses.replace(measured, needed=needed, head=None, tail=None, low=None, high=None, trials=0)


def _offsets(graph: Graph) -> Sequence[int]:
    """Where the file's tensors lie in the arena; () without a plan."""
    words = graph.metadata.get(_PLAN, b"")
    numbers = struct.unpack(f"<{len(words) // 4}i", words[: len(words) // 4 * 4])
    return numbers[3:]


def compiled(material: Material) -> dict[str, str | bytes]:
    """Returns the compiled file and a text about it: {"model_vela.tflite": ..., "model_vela.txt": ...}.

    Raises:
        OptionError: Nothing was compiled.
    """
    prefix, npu = material.style.prefix, material.report.npu
    if npu is None:
        raise OptionError(
            "A compiled file needs a compiler. Received: an export for a target without one. Use e.g. "
            "--target ethos-u55, or omit `vela` from --emit."
        )
    return {f"{prefix}_vela.tflite": material.model, f"{prefix}_vela.txt": _text(material, npu)}


def _text(material: Material, npu: Npu) -> str:
    rows = (
        f"{'NPU' if row.on_npu else 'CPU'}  {row.op} {row.dtype}  {row.layer}"
        + (f"  ({row.reason})" if row.reason else "")
        for row in npu.operators
    )
    return _TEXT.format(
        source=material.source,
        npu=npu,
        prefix=material.style.prefix,
        count=len(npu.operators),
        clock=npu.clock_hz / 1e6,
        rows="\n".join(rows),
    )

"""What a file needs on its device, as data: memory, and where the compiler for an NPU puts each operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """One operator in execution order, and the bytes of all tensors that are needed while it runs."""

    op: str
    layer: str
    live_bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What the model needs on the device, in bytes; None where it was not measured.

    Attributes:
        arena_bytes: Smallest arena with which `arena_runtime` ran the file here: an upper bound for a 32-bit target.
        arena_runtime: The interpreter, with its version.
        arena_32bit_low: No 32-bit target needs less.
        arena_32bit_high: No 32-bit target with reference kernels needs more.
        peak_tensor: The largest tensor at the memory peak.
        peak_bytes: The size of all tensors at the peak.
        peak_layer: The layer that runs at the peak.
        ram_budget: The limit of `--ram`.
        flash_budget: The limit of `--flash`.
        steps: What is in memory at each operator.
    """

    arena_bytes: int | None = None
    arena_runtime: str = ""
    arena_32bit_low: int | None = None
    arena_32bit_high: int | None = None
    peak_tensor: str = ""
    peak_bytes: int | None = None
    peak_layer: str = ""
    ram_budget: int | None = None
    flash_budget: int | None = None
    steps: tuple[MemoryStep, ...] = ()


@dataclass(frozen=True, slots=True)
class NpuRow:
    """An operator of the file, in execution order.

    Attributes:
        op: As the schema spells it.
        dtype: The type that decides whether a kernel exists.
        layer: The Keras layer, or the tensor if the model is not known.
        on_npu: Whether the NPU computes it; otherwise the CPU does.
        reason: Why it is left to the CPU, in the compiler's words; "" where it does not say, or where it is not.
    """

    op: str
    dtype: str
    layer: str
    on_npu: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Npu:
    """What the compiler for an NPU makes of a file. All but places and sizes of files are its estimates.

    Attributes:
        accelerator: The variant that it was compiled for, as the compiler spells it.
        compiler: The compiler with its version.
        system: The system configuration that the estimates are for: clock, buses and memories.
        memory_mode: Which of the memories it uses for what.
        clock_hz: The accelerator's clock there.
        cycles: Of that clock, for one inference; operators on the CPU are not counted.
        sram_bytes: Used in SRAM, operators on the CPU not counted.
        dram_bytes: Used in DRAM, likewise.
        flash_bytes: Used in flash by weights and commands.
        macs: Multiplications with additions that the NPU does.
        compiled_bytes: Size of the compiled file.
        operators: Every operator of the file that was compiled, and where it runs.
    """

    accelerator: str
    compiler: str
    system: str
    memory_mode: str
    clock_hz: int
    cycles: int
    sram_bytes: int
    dram_bytes: int
    flash_bytes: int
    macs: int
    compiled_bytes: int
    operators: tuple[NpuRow, ...] = ()

    @property
    def on_npu(self) -> int:
        """Returns how many operators the NPU computes."""
        return sum(row.on_npu for row in self.operators)

    @property
    def on_cpu(self) -> int:
        """Returns how many operators are left to the CPU."""
        return len(self.operators) - self.on_npu

    @property
    def milliseconds(self) -> float:
        """Returns what the cycles take at the clock."""
        return 1000 * self.cycles / self.clock_hz if self.clock_hz else 0.0

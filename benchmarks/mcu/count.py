"""Returns what each kernel costs on each core: instructions per element, bytes of flash and RAM, symbols of libm.

python -m benchmarks.mcu.count [--json FILE]
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from tools.mcu import emulator

ELEMENTS = 256 * 64
KERNELS = {
    "relu": "ReLU",
    "sqp_f32": "squareplus",
    "sqp_f32_halved": "squareplus, half folded away",
    "sqp_f32_stable": "squareplus, cancellation-free",
    "elu": "ELU",
    "sigmoid": "sigmoid",
    "silu": "SiLU",
    "tanh": "tanh",
    "softplus_naive": "softplus, log(1 + exp(x))",
    "softplus": "softplus, stable",
    "sqp_i8": "any activation, int8 by table",
    "sqp_i16": "squareplus, int16 fixed point",
    "sqp_i8_direct": "squareplus, int8 fixed point",
}
SOURCE = Path(__file__).resolve().parent / "count.c"


def instructions(core: emulator.Core, program: Path, folder: Path) -> float:
    """Returns the instructions per element that the program of count.c executed."""
    printed = emulator.run(core, program, folder, counted=True)
    return int(printed.strip(), 16) * 1000 / core.megahertz / ELEMENTS


def measure(core: emulator.Core, folder: Path, kernels: tuple[str, ...] = tuple(KERNELS)) -> dict[str, Any]:
    """Returns {kernel: {instructions, flash, ram, libm}}; flash and RAM are what the kernel adds to a program."""
    rows = {}
    for kernel in kernels:
        dtype = (
            f"-DINPUT_{kernel.removeprefix('sqp_')[:3].rstrip('_')}" if kernel.startswith("sqp_i") else "-DINPUT_f32"
        )
        place = folder / core.name / kernel
        empty = emulator.build(core, SOURCE, place / "none", "-DKERNEL_none", dtype, startup="minimal")
        program = emulator.build(core, SOURCE, place, f"-DKERNEL_{kernel}", dtype, startup="minimal")
        rows[kernel] = {
            "instructions": round(instructions(core, program.path, place), 1),
            "flash": program.flash - empty.flash,
            "ram": program.ram - empty.ram,
            "libm": list(program.libm),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Counts instructions of activation kernels on emulated Cortex-M cores."
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    emulator.ensure_toolchain()
    with tempfile.TemporaryDirectory() as folder:
        figures = {core.name: measure(core, Path(folder)) for core in emulator.CORES}
    print(f"{'kernel':32}" + "".join(f"{name:>9}" for name in figures))
    for kernel, title in KERNELS.items():
        print(f"{title:32}" + "".join(f"{rows[kernel]['instructions']:9.1f}" for rows in figures.values()))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

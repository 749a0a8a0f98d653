"""Runs digest.c on cores that are not Arm's: AVR, whose int has 16 bits, RISC-V, and PowerPC, which is big-endian."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.mcu import emulator

SOURCE = emulator.HERE / "digest.c"
STRICT = ("-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{emulator.INCLUDE}")
_COLOURS = re.compile(r"\x1b\[\d*m")


@dataclass(frozen=True, slots=True)
class Target:
    """A core: its compiler and its emulator, each with its options, and Debian's packages of both."""

    name: str
    compiler: tuple[str, ...]
    emulator: tuple[str, ...]
    packages: tuple[str, ...]


def _riscv(arch: str, abi: str, bits: int) -> Target:
    places = {"__flash": 0x80000000, "__flash_size": 0x200000, "__ram": 0x80200000, "__ram_size": 0x200000}
    places["__stack_size"] = 0x1000
    compiler = ["riscv64-unknown-elf-gcc", f"-march={arch}", f"-mabi={abi}", "-mcmodel=medany", "-fno-math-errno"]
    compiler += ["--specs=picolibc.specs", "--crt0=semihost", "--oslib=semihost"]
    compiler += [f"-Wl,--defsym={name}={value:#x}" for name, value in places.items()]
    machine = [f"qemu-system-riscv{bits}", "-M", "virt", "-bios", "none", "-nographic", "-monitor", "none"]
    machine += ["-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]
    packages = ("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf", "qemu-system-misc")
    return Target(arch, tuple(compiler), tuple(machine), packages)


TARGETS = (
    Target(
        "AVR",
        ("avr-gcc", "-mmcu=atmega1284p"),
        ("simavr", "-m", "atmega1284p", "-f", "16000000"),
        ("gcc-avr", "avr-libc", "simavr"),
    ),
    _riscv("rv32ic", "ilp32", 32),  # no division, no floating point
    _riscv("rv32imac", "ilp32", 32),
    _riscv("rv32imafc", "ilp32f", 32),
    _riscv("rv64imac", "lp64", 64),
    Target(
        "PowerPC",
        ("powerpc-linux-gnu-gcc", "-static"),
        ("qemu-ppc",),
        ("gcc-powerpc-linux-gnu", "libc6-dev-powerpc-cross", "qemu-user"),
    ),
)
HOST = Target("host", ("gcc",), (), ("gcc",))


def ensure(target: Target) -> None:
    """Returns once compiler and emulator of `target` are there, installing Debian's packages if this machine allows it.

    Raises:
        ToolchainMissingError: They are missing and cannot be installed.
    """
    tools = [command[0] for command in (target.compiler, target.emulator) if command]
    emulator.install(target.packages, lambda: all(shutil.which(tool) is not None for tool in tools))


def digest(target: Target, folder: Path, include: Path = emulator.INCLUDE) -> dict[str, str]:
    """Returns {group of kernels: hash of what they give on `target`}; the program is written to `folder`."""
    program = folder / f"digest-{target.name}"
    command = [*target.compiler, f"-I{include}", *STRICT, str(SOURCE), "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([*target.emulator, str(program)], capture_output=True, text=True, check=True, timeout=120)
    lines = _COLOURS.sub("", done.stdout + done.stderr).splitlines()  # simavr colours what the port prints
    found = (re.fullmatch(r"(\w+) ([0-9a-f]{8})\.?", line) for line in lines)
    return {match[1]: match[2] for match in found if match}

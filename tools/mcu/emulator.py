"""Returns programs for Cortex-M cores, compiled by GCC with picolibc and run under QEMU.

The boards are QEMU's; only core, memory map and clock matter here. With `-icount shift=0` every instruction takes one
nanosecond of the board's time, so its SysTick timer counts instructions and repeats exactly.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "tflite" / "mcu"
PACKAGES = ("gcc-arm-none-eabi", "picolibc-arm-none-eabi", "qemu-system-arm")


class ToolchainMissingError(RuntimeError):
    """The cross compiler, its C library or the emulator is not here; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Core:
    """A core, how GCC is told of it, and the emulated board that has it."""

    name: str
    flags: tuple[str, ...]
    board: str
    flash: tuple[int, int]
    ram: tuple[int, int]
    megahertz: int
    fused: bool
    """True if GCC may fuse a multiplication and an addition on it."""


def _mps2(name: str, board: str, *flags: str, fused: bool) -> Core:
    return Core(name, flags, board, (0x0, 0x400000), (0x20000000, 0x400000), 25, fused)


CORES = (
    Core("M0", ("-mcpu=cortex-m0",), "microbit", (0x0, 0x40000), (0x20000000, 0x4000), 16, False),
    _mps2("M3", "mps2-an385", "-mcpu=cortex-m3", fused=False),
    _mps2("M4F", "mps2-an386", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", fused=True),
    _mps2("M7F", "mps2-an500", "-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard", fused=True),
    Core(
        "M33",
        ("-mcpu=cortex-m33", "-mfloat-abi=hard"),
        "mps2-an505",
        (0x10000000, 0x400000),
        (0x38000000, 0x200000),
        20,
        True,
    ),
)


# No board has a Cortex-M23; an M33 runs its code.
M23 = Core("M23", ("-mcpu=cortex-m23",), "mps2-an505", (0x10000000, 0x400000), (0x38000000, 0x200000), 20, False)


@dataclass(frozen=True, slots=True)
class Program:
    """A linked program: its file, bytes of flash and RAM without padding, and the symbols of libm it asked for."""

    path: Path
    flash: int
    ram: int
    libm: tuple[str, ...]


def ensure_toolchain() -> None:
    """Returns once compiler, library and emulator are there, installing Debian's packages if this machine allows it.

    Raises:
        ToolchainMissingError: They are missing and cannot be installed.
    """
    install(PACKAGES, _complete)


def install(packages: tuple[str, ...], complete: Callable[[], bool]) -> None:
    """Returns once `complete()` is true, installing these packages of Debian if this machine allows it.

    Raises:
        ToolchainMissingError: It is not, and they cannot be installed.
    """
    if complete():
        return
    advice = "Install the Debian packages " + ", ".join(packages) + "."
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ToolchainMissingError(f"Emulated cores need a cross compiler and QEMU; not root, or no apt-get. {advice}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    installing = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    for command in (["apt-get", "update"], installing):
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired as error:
            raise ToolchainMissingError(f"`{' '.join(command)}` took more than 600 s. {advice}") from error
        if done.returncode != 0:
            lines = (done.stderr.strip() or "no message").splitlines()
            raise ToolchainMissingError(f"`{' '.join(command)}` failed: {lines[-1]} {advice}")
    if not complete():
        raise ToolchainMissingError(f"apt-get succeeded, yet the tools are not complete. {advice}")


def _complete() -> bool:
    if shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None:
        return False
    specs = subprocess.run(
        ["arm-none-eabi-gcc", "-print-file-name=picolibc.specs"], capture_output=True, text=True, check=True
    )
    return Path(specs.stdout.strip()).is_file()


def build(
    core: Core,
    source: Path,
    folder: Path,
    *options: str,
    standard: str = "c99",
    startup: str = "semihost",
    include: Path = INCLUDE,
) -> Program:
    """Returns the program of one C file, compiled for `core` with -O2 and all warnings as errors.

    The start-up code "semihost" ends the emulator when main returns, and reports faults by printf; "minimal" links next
    to nothing, and the program must end by itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, linker_map = folder / f"{source.stem}.elf", folder / f"{source.stem}.map"
    places = {"__flash": core.flash[0], "__flash_size": core.flash[1], "__ram": core.ram[0], "__ram_size": core.ram[1]}
    places["__stack_size"] = 0x800
    command = ["arm-none-eabi-gcc", "-mthumb", *core.flags, f"-std={standard}", "-O2", "-fno-math-errno"]
    command += ["-Wall", "-Wextra", "-Werror", "-pedantic", *options, f"-I{include}"]
    command += ["--specs=picolibc.specs", "--picolibc-buildtype=release", f"--crt0={startup}", "--oslib=semihost"]
    command += [f"-Wl,--defsym={name}={value:#x}" for name, value in places.items()]
    command += [str(source), "-lm", f"-Wl,-Map={linker_map}", "-o", str(path)]
    subprocess.run(command, check=True)
    listing = subprocess.run(["arm-none-eabi-nm", "-S", str(path)], capture_output=True, text=True, check=True).stdout
    return Program(path, _bytes(listing, "tTwWvVrRdD"), _bytes(listing, "bBdD"), _libm_symbols(linker_map.read_text()))


def _bytes(listing: str, kinds: str) -> int:
    """Returns how many bytes the symbols of these kinds cover, from what nm -S prints; some lie inside others."""
    spans = []
    for line in listing.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in kinds:
            spans.append((int(words[0], 16), int(words[0], 16) + int(words[1], 16)))
    covered, reached = 0, 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _libm_symbols(linker_map: str) -> tuple[str, ...]:
    """Returns the symbols for whose sake members of libm were linked, from the head of the linker's map.

    The map names a member and, on the same line or the next, who asked for it and, in brackets, for which symbol.
    Picolibc keeps libm's members, all called libm_*, inside libc.a.
    """
    head = linker_map.partition("Archive member included")[2].partition("\nDiscarded input sections")[0]
    wanted = re.findall(r"lib[cm]\.a\(libm_[^)]*\)\s+\S+ \(([^)]*)\)", head)
    return tuple(sorted(wanted))


def run(core: Core, program: Path, folder: Path, *, counted: bool = False, timeout: float = 120.0) -> str:
    """Returns what the program printed; it reads and writes files in `folder`.

    Raises:
        RuntimeError: The program ended with another code than 0, or not in time.
    """
    command = ["qemu-system-arm", "-M", core.board, "-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(program.resolve())]
    if counted:
        command += ["-icount", "shift=0"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{program.name} did not end on {core.name} within {timeout:g} s.") from error
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} ended with code {done.returncode} on {core.name}: {done.stderr.strip()}")
    return done.stdout + done.stderr

"""Runs generated C of a whole model on emulated cores: its self-test, its instructions, its size, its symbols."""

import dataclasses
import subprocess
from pathlib import Path

from sqp_tflite.codegen.naming import CStyle, Golden, ports
from sqp_tflite.codegen.package import package
from sqp_tflite.flatbuffer.graph import Graph
from tools.mcu import emulator

PREFIX = "net"
M55 = emulator.Core(
    "M55", ("-mcpu=cortex-m55", "-mfloat-abi=hard"), "mps3-an547", (0x0, 0x80000), (0x20000000, 0x80000), 32, True
)
CORES = {core.name: core for core in (*emulator.CORES, M55)}
FOREIGN = frozenset("exp expf log logf pow powf tanh tanhf sqrtf malloc calloc free printf __errno".split())
"""What no linked program may hold: parts of libm and libc. (The compiler's own arithmetic, `__aeabi_*`, is neither.)"""

_MAIN = """\
#include <semihost.h>
#include "net.c"
#include "net_selftest.c"

#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)

static union { int64_t align; unsigned char bytes[NET_SELFTEST_BYTES]; } memory;

static void hexadecimal(uint32_t number)
{
    static const char digits[] = "0123456789abcdef";
    char text[10];
    int i;
    for (i = 0; i < 8; i++) text[i] = digits[(number >> (28 - 4 * i)) & 15u];
    text[8] = '\\n';
    text[9] = 0;
    sys_semihost_write0(text);
}

int main(void)
{
    unsigned char *volatile place = memory.bytes;
    unsigned char *a = place;
    uint32_t start, ticks;
    hexadecimal((uint32_t)net_selftest(a));
    SYST_RVR = 0xFFFFFFu;
    SYST_CVR = 0;
    SYST_CSR = 5;
    start = SYST_CVR;
    net_run(<arguments>);
    ticks = (start - SYST_CVR) & 0xFFFFFFu;
    hexadecimal(ticks);
    sys_semihost_exit(ADP_Stopped_ApplicationExit, 0);
    return 0;
}
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A model on a core.

    Attributes:
        wrong: Outputs of the self-test that differ.
        instructions: Of one run, to a few dozen.
        flash: Bytes of code and constants of the model only.
        foreign: Symbols of libm or libc in the linked program, and what the model's object asks for but arithmetic.
    """

    wrong: int
    instructions: int
    flash: int
    foreign: tuple[str, ...]


def write(graph: Graph, vectors: Golden, folder: Path) -> None:
    """Writes the code of a model and a program that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    _, files = package(graph, CStyle(PREFIX), "net.tflite", vectors)
    for path, text in files.items():
        (folder / path).write_text(text)
    inputs = [f"{PREFIX}_golden_input_{port.name}" for port in ports("INPUT", graph.inputs)]
    outputs, at = [], "NET_ARENA_BYTES"
    for port in ports("OUTPUT", graph.outputs):
        outputs.append(f"({port.c_type} *)(a + {at})")
        at += f" + (NET_{port.macro}_BYTES + 7) / 8 * 8"
    (folder / "main.c").write_text(_MAIN.replace("<arguments>", ", ".join(["a", *inputs, *outputs])))


def measure(core: emulator.Core, folder: Path, *flags: str) -> Run:
    """Returns what the model in a folder does on a core.

    Args:
        core: The core.
        folder: What `write` has filled.
        *flags: Of the compiler, behind -O2.
    """
    place = folder / core.name
    options = ("-ffp-contract=off", f"-I{folder}", *flags)
    program = emulator.build(core, folder / "main.c", place, *options, startup="minimal")
    wrong, ticks = (int(line, 16) for line in emulator.run(core, program.path, place, counted=True).split())
    listing = _output("arm-none-eabi-nm", program.path)
    names = {line.split()[-1] for line in listing.splitlines()}
    part = place / "net.o"
    command = ["arm-none-eabi-gcc", "-mthumb", *core.flags, "-std=c99", "-O2", *options, "-c", str(folder / "net.c")]
    subprocess.run([*command, "-o", str(part)], check=True)
    text, data = (int(word) for word in _output("arm-none-eabi-size", part).splitlines()[1].split()[:2])
    asked = {line.split()[-1] for line in _output("arm-none-eabi-nm", part, "-u").splitlines()}
    foreign = (names & FOREIGN) | {name for name in asked if not name.startswith("__aeabi_")}
    return Run(wrong, ticks * 1000 // core.megahertz, text + data, tuple(sorted(foreign)))


def _output(program: str, path: Path, *options: str) -> str:
    return subprocess.run([program, *options, str(path)], capture_output=True, text=True, check=True).stdout

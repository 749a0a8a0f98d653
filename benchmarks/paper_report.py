"""Returns the results page: every figure of results.json with the command that makes it, as Markdown."""

import re
from collections.abc import Iterator
from typing import Any

from benchmarks.interpreters import RUNTIMES
from benchmarks.mcu.count import KERNELS
from benchmarks.paper_table import CPU_COUNT, GPU_COUNT, PUBLISHED, TITLES
from benchmarks.paper_values import instructions, significant

SECTIONS = {
    "jax": "JAX, jit",
    "tensorflow_xla": "TensorFlow, XLA",
    "tensorflow_eager": "TensorFlow, eager",
    "numpy": "NumPy",
}
FIGURES = {
    "shape": "Figure 1: value, first and second derivative; the derivatives are the library's own gradients.",
    "difference": "Figure 2: each function minus ReLU, in float32. Naive softplus loses "
    "everything on the left, where 1 + exp(x) rounds to 1, and overflows on the right.",
    "half-precision": "Figure 3: relative error in float16 against float64, for every third float16 number: Keras's "
    "built-in squareplus and this library's. There is no point where the true value is not a normal float16.",
}
COMMANDS = {
    "cpu": "python -m benchmarks.paper_table --framework {jax,tensorflow,numpy}",
    "gpu": "python -m benchmarks.paper_table --framework jax --device gpu",
    "figures": "python -m benchmarks.paper_figures",
    "interpreters": "python -m benchmarks.interpreters",
    "mcu": "python -m benchmarks.mcu.count",
}


def render(results: dict[str, Any]) -> str:
    """Returns the page for what `benchmarks.paper` measured."""
    parts = (_head, _cpu, _gpu, _figures, _interpreters, _mcu)
    page = "\n".join(line for part in parts for line in part(results))
    return re.sub(r"\n{3,}", "\n\n", page).rstrip() + "\n"


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _head(results: dict[str, Any]) -> Iterator[str]:
    machine = results["machine"]
    yield "# Results"
    yield ""
    yield "Written by `make paper` (`python -m benchmarks.paper`); do not edit. The raw figures are in"
    yield "[results.json](results.json), what they mean is said in [speed.md](speed.md)."
    yield ""
    yield f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory']}; {machine['system']}."
    yield f"Python {machine['python']}. Date: {machine['date']}."
    seconds = {name: part["seconds"] for name, part in results.items() if name in COMMANDS and "seconds" in part}
    listed = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
    yield f"Programs that wanted a core when the last run began: {machine['load']}."
    yield f"Seconds: {listed}; {sum(seconds.values()):.0f} in all."
    yield ""
    yield from _table(["part", "version"], [[name, version] for name, version in machine["versions"].items()])


def _cpu(results: dict[str, Any]) -> Iterator[str]:
    yield f"## Table 1: {CPU_COUNT // 10**6} million inputs on the CPU"
    yield ""
    yield f"`{COMMANDS['cpu']}`"
    yield ""
    yield "float32. Every round calls each function once, in random order; medians of all rounds, quartiles in"
    yield "brackets. The published columns are the paper's. The copy is the floor that memory sets."
    for section, title in SECTIONS.items():
        yield ""
        yield f"### {title}"
        yield ""
        yield from _rows(results["cpu"]["sections"].get(section, {}), 0)


def _rows(rows: dict[str, Any], column: int) -> Iterator[str]:
    if not rows:
        yield "Not measured."
        return
    head = ["", "ms", "to ReLU", "to softplus", "published ms", "published, to ReLU", "rounds"]
    table = []
    for name, row in rows.items():
        known = PUBLISHED.get("squareplus" if name.startswith("squareplus") else name)
        relu = PUBLISHED["relu"][column]
        table.append(
            [
                TITLES[name],
                f"{significant(row['median'])} ({significant(row['low'])} to {significant(row['high'])})",
                significant(row["to_relu"]),
                significant(row["to_softplus"]),
                f"{known[column]:.3f}" if known else "",
                significant(known[column] / relu) if known else "",
                str(row["rounds"]),
            ]
        )
    yield from _table(head, table)


def _gpu(results: dict[str, Any]) -> Iterator[str]:
    yield f"## Table 1: {GPU_COUNT // 10**6} million inputs on a GPU"
    yield ""
    yield f"`{COMMANDS['gpu']}`"
    yield ""
    gpu = results["gpu"]
    if "missing" not in gpu:
        yield from _rows(gpu["sections"].get("jax", {}), 1)
        return
    yield f"Not measured: {gpu['missing']}"
    yield "The command needs jax and numpy only. What its `--json FILE` wrote on another machine is taken in by"
    yield "`python -m benchmarks.paper --only gpu --gpu-json FILE`. Published:"
    yield ""
    rows = [
        [TITLES[name], f"{times[1]:.3f}", significant(times[1] / PUBLISHED["relu"][1])]
        for name, times in PUBLISHED.items()
    ]
    yield from _table(["", "published ms", "published, to ReLU"], rows)


def _figures(results: dict[str, Any]) -> Iterator[str]:
    yield "## Figures"
    yield ""
    yield f"`{COMMANDS['figures']}`"
    yield ""
    for name, caption in FIGURES.items():
        yield f"![{caption.partition(':')[0]}](figures/{name}.svg)"
        yield ""
        yield caption
        yield ""


def _interpreters(results: dict[str, Any]) -> Iterator[str]:
    yield "## On the interpreters"
    yield ""
    yield f"`{COMMANDS['interpreters']}`"
    yield ""
    yield "Microseconds of one invocation on one thread of this machine, inputs already set; medians, quartiles in"
    yield 'brackets. "ours" is what `sqp_tflite.export` writes, "stock" what TensorFlow\'s converter makes of Keras\'s'
    yield "own function. In models of a single activation ReLU is not fused; in the networks it is. TFLM runs"
    yield "its portable kernels, on this PC. Squareplus in int8: by table, as an island of float operators, or of int16"
    yield "operators; without a layer in front that takes over the factor 1/2, the islands have one more MUL."
    runtimes = results["interpreters"]["runtimes"]
    for group in dict.fromkeys(row["group"] for rows in runtimes.values() for row in rows):
        yield ""
        yield f"### {group[0].upper()}{group[1:]}"
        yield ""
        yield from _group(group, runtimes)
    yield "### What does not run"
    yield ""
    yield from _refusals(runtimes)


def _group(group: str, runtimes: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    cells: dict[str, list[str]] = {}
    ops = {}
    for rows in runtimes.values():
        listed = [row for row in rows if row["group"] == group]
        for row in sorted(listed, key=lambda row: (row["name"] != "relu", "ours" not in row["name"])):
            timing = row["timing"]
            text = "does not run"
            if timing:
                low, high = significant(timing["low"] * 1000), significant(timing["high"] * 1000)
                text = f"{significant(timing['median'] * 1000)} ({low} to {high})"
            cells.setdefault(row["name"], []).append(text)
            ops[row["name"]] = " ".join(row["ops"]) if len(row["ops"]) < 9 else f"{len(row['ops'])} operators"
    head = ["", *(RUNTIMES[runtime] for runtime in runtimes), "operators"]
    yield from _table(head, [[name, *row, ops[name]] for name, row in cells.items()])


def _refusals(runtimes: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yields each refusal once, with the interpreter's own words."""
    reasons = (
        f"- {RUNTIMES[runtime]}, {row['name']}, {row['group'].rpartition(' ')[2]}: `{row['refused']}`"
        for runtime, rows in runtimes.items()
        for row in rows
        if row["refused"]
    )
    yield from dict.fromkeys(re.sub(r"Node number \d+", "A node", reason) for reason in reasons)


def _mcu(results: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield "## On a microcontroller"
    yield ""
    yield f"`{COMMANDS['mcu']}`"
    yield ""
    mcu = results["mcu"]
    if "missing" in mcu:
        yield f"Not measured: {mcu['missing']}"
        return
    cores = mcu["cores"]
    yield "Instructions per element, loop included, of the kernels of `tflite/mcu/sqp.h` and of the usual formulas with"
    yield "picolibc's libm: `-O2 -fno-math-errno`, counted under QEMU, where an instruction is a nanosecond. The counts"
    yield "repeat exactly. They are not cycles: on real cores loads, divisions and square roots take more than one."
    yield "M0 and M3 have no floating-point unit."
    yield ""
    rows = [
        [title, *(instructions(rows[kernel]["instructions"]) for rows in cores.values())]
        for kernel, title in KERNELS.items()
    ]
    yield from _table(["", *(f"Cortex-{core}" for core in cores)], rows)
    yield "What a kernel adds to a program without it and its libraries, bytes of flash + RAM, from the linked file:"
    yield ""
    rows = [
        [title, *(f"{rows[kernel]['flash']} + {rows[kernel]['ram']}" for rows in cores.values())]
        for kernel, title in KERNELS.items()
    ]
    yield from _table(["", *(f"Cortex-{core}" for core in cores)], rows)
    yield "The table of the int8 kernel is counted as RAM here; declared `const` it lies in flash."
    yield ""
    yield "Symbols of libm in the linked file (the same on every core unless listed twice):"
    yield ""
    for kernel, title in KERNELS.items():
        found = dict.fromkeys(
            ", ".join(f"`{name}`" for name in rows[kernel]["libm"]) or "none" for rows in cores.values()
        )
        yield f"- {title}: {'; or '.join(found)}"

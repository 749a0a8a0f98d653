"""Measures the peak memory of training a deep MLP with squareplus against the same net with ReLU.

Each net trains in a process of its own; the peak is that of the process (VmHWM) less what it held
before the first step. Large buffers go back to the system when they are freed, so that the peak is what is alive.
A second run with a small batch shows what the graph and the compiler take, which does not grow with the batch.

    python benchmarks/training_memory.py [--depth 40] [--width 64] [--batch 131072] [--write] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MODES = ("fit", "fit without jit", "eager")
ACTIVATIONS = ("relu", "squareplus", "keras squareplus", "softplus")
SMALL = 64
"""A batch whose tensors are negligible."""
DOCS = Path(__file__).parents[1] / "docs" / "numerics.md"
BEGIN, END = "<!-- memory: begin (benchmarks/training_memory.py --write) -->", "<!-- memory: end -->"


def resident(field: str) -> int:
    """Returns a memory figure of this process in bytes: VmRSS is now, VmHWM the most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}; this benchmark needs Linux")


def train(activation: str, mode: str, depth: int, width: int, batch: int) -> int:
    """Trains for three steps and returns the peak memory that they added."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import numpy as np

    stock = keras.activations.squareplus
    import sqp_keras

    used: Any = {"squareplus": sqp_keras.squareplus, "keras squareplus": stock}.get(activation, activation)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((width,)), *(keras.layers.Dense(width, used) for _ in range(depth))])
    model.compile(keras.optimizers.SGD(1e-4), "mse", jit_compile=mode == "fit", run_eagerly=mode == "eager")
    x = np.random.default_rng(0).normal(size=(batch, width)).astype(np.float32)
    before = resident("VmRSS")
    model.fit(x, x, batch_size=batch, epochs=3, verbose=0)
    return resident("VmHWM") - before


def table(rows: list[dict[str, Any]], sizes: list[int]) -> str:
    """Returns the peaks as a Markdown table, one line per mode and batch."""
    depth, width, _ = sizes
    lines = [
        f"{depth} dense layers of {width}, float32; peak memory of the process minus its memory before the first step.",
        "",
        "| mode | batch | relu, MiB |" + "".join(f" {name}, ratio |" for name in ACTIVATIONS[1:]),
        "|---|---:|---:|" + "---:|" * len(ACTIVATIONS[1:]),
    ]
    for mode, batch in dict.fromkeys((row["mode"], row["batch"]) for row in rows):
        group = {row["activation"]: row for row in rows if (row["mode"], row["batch"]) == (mode, batch)}
        ratios = "".join(f" {group[name]['ratio']:.3f} |" for name in ACTIVATIONS[1:])
        lines.append(f"| {mode} | {batch:,} | {group['relu']['bytes'] / 2**20:.0f} |{ratios}")
    return "\n".join(lines)


def measure(activation: str, mode: str, sizes: list[int]) -> int:
    """Returns the peak of a process that trains with `activation`, in bytes."""
    options = [f"--{name}={size}" for name, size in zip(("depth", "width", "batch"), sizes, strict=True)]
    command = [sys.executable, __file__, *options, "--one", activation, mode]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "262144"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=40)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=131072)
    parser.add_argument("--write", action="store_true", help="write the table into docs/numerics.md")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--one", nargs=2, metavar=("ACTIVATION", "MODE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = [arguments.depth, arguments.width, arguments.batch]
    if arguments.one:
        print(train(*arguments.one, *sizes))
        return
    rows: list[dict[str, Any]] = []
    for mode in MODES:
        for batch in (arguments.batch, SMALL):
            relu = 0
            for activation in ACTIVATIONS:
                peak = measure(activation, mode, [arguments.depth, arguments.width, batch])
                relu = relu or peak
                rows.append({"mode": mode, "batch": batch, "activation": activation, "bytes": peak})
                rows[-1]["ratio"] = peak / relu
                mib = peak / 2**20
                print(f"{mode:16} {batch:7} {activation:17} {mib:8.0f} MiB {peak / relu:6.3f} of relu", flush=True)
    if arguments.write:
        page = DOCS.read_text()
        text = f"\n{table(rows, sizes)}\n"
        DOCS.write_text(page[: page.index(BEGIN) + len(BEGIN)] + text + page[page.index(END) :])
    if arguments.json:
        arguments.json.write_text(json.dumps({"sizes": sizes, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Measures the peak memory of training a deep MLP with squareplus against the same net with ReLU.

Each net trains in a process of its own; the peak is that of the process (VmHWM) less what it held
before the first step.

    python benchmarks/training_memory.py [--depth 40] [--width 256] [--batch 16384] [--json FILE]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=40)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--one", nargs=2, metavar=("ACTIVATION", "MODE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = [arguments.depth, arguments.width, arguments.batch]
    if arguments.one:
        print(train(*arguments.one, *sizes))
        return
    options = [f"--{name}={size}" for name, size in zip(("depth", "width", "batch"), sizes, strict=True)]
    rows = []
    for mode in MODES:
        for activation in ACTIVATIONS:
            command = [sys.executable, __file__, *options, "--one", activation, mode]
            peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
            rows.append({"mode": mode, "activation": activation, "bytes": peak})
            ratio = peak / next(row["bytes"] for row in rows if row["mode"] == mode)
            rows[-1]["ratio"] = ratio
            print(f"{mode:16} {activation:17} {peak / 2**20:8.0f} MiB {ratio:6.3f} of relu", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"sizes": sizes, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Times activations against ReLU on this machine's CPU: eager, graph and XLA, forward and with the gradient.

All figures of a line come from one run in which the candidates take turns, so that a busy machine slows all alike; each
is the median over the rounds of the ratio to ReLU in the same round.

    python benchmarks/activations.py [--rounds 40] [--sizes 1000000 65536] [--json FILE]
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf

STOCK_SQUAREPLUS = keras.activations.squareplus

import sqp_keras  # noqa: E402

CANDIDATES = {
    "relu": keras.activations.relu,
    "squareplus": sqp_keras.squareplus,
    "keras squareplus": STOCK_SQUAREPLUS,
    "softplus": keras.activations.softplus,
    "elu": keras.activations.elu,
    "silu": keras.activations.silu,
}
MODES = ("eager", "graph", "xla")


def forward_and_backward(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def both(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, output_gradients=x)

    return both


def in_mode(function: Callable[[Any], Any], mode: str) -> Callable[[Any], Any]:
    if mode == "eager":
        return function
    return tf.function(function, jit_compile=mode == "xla", autograph=False)


def measure(size: int, mode: str, backward: bool, rounds: int) -> dict[str, dict[str, float]]:
    """Returns per candidate the median time in milliseconds and the median ratio to ReLU."""
    x = tf.constant(np.random.default_rng(0).normal(0, 3, size).astype(np.float32))
    calls = {n: in_mode(forward_and_backward(f) if backward else f, mode) for n, f in CANDIDATES.items()}
    repeats = max(1, 2_000_000 // size // 4)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 3):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats):
                call(x)
            if turn >= 3:  # The first turns trace, compile and warm the allocator.
                times[name].append((time.perf_counter() - start) / repeats)
    return {
        name: {
            "ms": 1e3 * statistics.median(seen),
            "ratio": statistics.median(a / b for a, b in zip(seen, times["relu"], strict=True)),
        }
        for name, seen in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 65_536])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    rows = []
    print(f"ratio to relu (ms) - {platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
          f"TensorFlow {tf.__version__}, Keras {keras.__version__}")  # fmt: skip
    print(f"{'size':>9} {'mode':6} {'pass':9}" + "".join(f"{name:>19}" for name in CANDIDATES))
    for size in arguments.sizes:
        for mode in arguments.modes:
            for backward in (False, True):
                figures = measure(size, mode, backward, arguments.rounds)
                label = "fwd+bwd" if backward else "forward"
                rows.append({"size": size, "mode": mode, "pass": label, "activations": figures})
                cells = "".join(f"{f['ratio']:>10.2f} ({f['ms']:6.3f})" for f in figures.values())
                print(f"{size:>9} {mode:6} {label:9}{cells}", flush=True)
    if arguments.json:
        versions = {"tensorflow": tf.__version__, "keras": keras.__version__, "cores": os.cpu_count()}
        arguments.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Times ways to write the forward pass of squareplus, and what bounds them, as ratios to ReLU in several processes.

    python -m benchmarks.forward_forms [--processes 5] [--rounds 150] [--size 1000000] [--write]

Within a process the forms take turns, call by call and in a new order each round; a figure is the median over the
processes of the ratio of the tenth percentiles, with the least and the largest. The error is over random bit patterns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf

STOCK_SQUAREPLUS = keras.activations.squareplus

import sqp_keras  # noqa: E402
from benchmarks.activations import in_mode, in_turns, quiet_moments, sample, write  # noqa: E402

B = 4.0
FAR = 2.0**62


def hidden(value: float) -> Any:
    """Returns a constant that the graph optimiser does not fold, as squareplus itself has it."""
    return tf.raw_ops.PlaceholderWithDefault(input=tf.constant(value, tf.float32), shape=[])


def merged(x: Any) -> Any:
    """One kernel less: max(x, 0) + (b/2) / (|x| + max(sqrt(min(x*x, M) + b), |x|))."""
    a = tf.abs(x)
    root = tf.maximum(tf.sqrt(tf.minimum(x * x, FAR * FAR) + hidden(B)), a)
    return tf.maximum(x, 0.0) + hidden(B / 2) / (a + root)


def selected(x: Any) -> Any:
    """The short form where it is right (x >= 0), the tail elsewhere."""
    z = tf.abs(x) * 0.5
    h = z + tf.maximum(tf.sqrt(tf.minimum(z * z, FAR * FAR) + hidden(B / 4)), z)
    return tf.where(x < 0, hidden(B / 4) / h, h)


def newton(x: Any) -> Any:
    """The quotient by the hardware's rsqrt with one Newton step: 1/h = rsqrt(h*h)."""
    z = tf.abs(x) * 0.5
    h = tf.minimum(z + tf.maximum(tf.sqrt(tf.minimum(z * z, FAR * FAR) + hidden(B / 4)), z), FAR)
    r = tf.math.rsqrt(h * h)
    return tf.maximum(x, 0.0) + hidden(B / 4) * (r * (2.0 - h * r))


def doubled(x: Any) -> Any:
    """The short form in float64."""
    w = tf.cast(x, tf.float64)
    return tf.cast((w + tf.sqrt(w * w + tf.cast(hidden(B), tf.float64))) * 0.5, tf.float32)


def unguarded(x: Any) -> Any:
    """Ours without the guards against overflow: wrong beyond 1.8e19."""
    z = tf.abs(x) * 0.5
    return tf.maximum(x, 0.0) + hidden(B / 4) / (z + tf.sqrt(z * z + hidden(B / 4)))


FORMS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "relu": (keras.activations.relu, False),
    "copy (x + constant)": (lambda x: x + hidden(1.0), False),
    "copy, square root": (lambda x: tf.sqrt(x + hidden(99.0)), False),
    "copy, division": (lambda x: hidden(1.0) / (x + hidden(99.0)), False),
    "copy, square root, division": (lambda x: hidden(1.0) / tf.sqrt(x + hidden(99.0)), False),
    "keras squareplus": (STOCK_SQUAREPLUS, True),
    "squareplus (ours)": (lambda x: sqp_keras.squareplus(x, B), True),
    "ours without guards": (unguarded, True),
    "one kernel less": (merged, True),
    "short form or tail, selected": (selected, True),
    "rsqrt and a Newton step": (newton, True),
    "float64 inside": (doubled, True),
}
"""Name -> function, and whether it is a form of squareplus."""


def measure(mode: str, size: int, rounds: int) -> dict[str, float]:
    """Returns each form's time over ReLU's."""
    calls = {name: in_mode(function, mode) for name, (function, _) in FORMS.items()}
    quiet = quiet_moments(in_turns(calls, [tf.constant(sample(size))], rounds))
    return {name: quiet[name] / quiet["relu"] for name in calls}


def error(function: Callable[[Any], Any]) -> float:
    """Returns the max error in units in the last place over random bits; infinity where a finite truth is not."""
    x = np.random.default_rng(0).integers(0, 2**32, 2_000_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], sample(1_000_000)])
    wide = x.astype(np.float64)
    h = (np.abs(wide) + np.hypot(wide, np.sqrt(B))) / 2
    truth = np.where(wide < 0, B / 4 / h, h)
    normal = (truth > 2.0**-125) & (truth < np.finfo(np.float32).max)
    got = np.array(in_mode(function, "graph")(tf.constant(x)), np.float64)
    off = np.abs(got - truth)[normal] / np.spacing(truth[normal].astype(np.float32)).astype(np.float64)
    return float(np.max(np.where(np.isfinite(off), off, np.inf)))


def table(runs: list[dict[str, Any]]) -> list[str]:
    lines = ["| form | XLA | plain graph | max error, ULP |", "|---|---:|---:|---:|"]
    for name, (_, squareplus) in FORMS.items():
        cells = []
        for mode in ("xla", "graph"):
            ratios = [run[mode][name] for run in runs]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        off = runs[0]["errors"].get(name)
        last = "" if not squareplus else "not finite" if off is None else f"{off:.3g}"
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {last} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help="write the table into docs/training_speed.md")
    parser.add_argument("--one", choices=("first", "later"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        found: dict[str, Any] = {mode: measure(mode, options.size, options.rounds) for mode in ("xla", "graph")}
        forms = FORMS.items() if options.one == "first" else ()
        errors = {name: error(function) for name, (function, squareplus) in forms if squareplus}
        print(json.dumps({**found, "errors": {name: off for name, off in errors.items() if np.isfinite(off)}}))
        return
    runs, loads = [], []
    for turn in range(options.processes):
        own = ["--one", "later" if turn else "first", "--rounds", str(options.rounds), "--size", str(options.size)]
        command = [sys.executable, "-m", "benchmarks.forward_forms", *own]
        loads.append(os.getloadavg()[0])
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    text = (
        f"{os.cpu_count()} cores, TensorFlow {tf.__version__}, {options.size:,} float32 elements, {len(runs)} "
        f"processes, load of the machine {min(loads):.1f} to {max(loads):.1f}; ratio to ReLU, median (least to largest)"
    )
    lines = [text, "", *table(runs)]
    print("\n".join(lines))
    if options.write:
        write("forms", lines, "forward_forms")


if __name__ == "__main__":
    main()

"""Times ways to write the forward pass of squareplus, and what bounds them, as ratios to ReLU in several processes.

    python -m benchmarks.forward_forms [--processes 5] [--rounds 150] [--size 1000000] [--write]

Within a process the forms take turns, call by call and in a new order each round; a figure is the median over the
processes of the ratio of the tenth percentiles, with the least and the largest. The error is over random bit
patterns, for several b.
"""

import argparse
import functools
import itertools
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
from benchmarks.activations import in_mode, in_turns, profile, quiet_moments, sample, write  # noqa: E402

B = 4.0
BS = (4.0, 100.0, 1e6)
"""For the errors; for the times the first."""
FAR = 2.0**62


def hidden(value: float) -> Any:
    """Returns a constant that the graph optimiser does not fold, as squareplus itself has it."""
    return tf.raw_ops.PlaceholderWithDefault(input=tf.constant(value, tf.float32), shape=[])


def _tail(x: Any, b: float) -> tuple[Any, Any]:
    """Returns z = |x|/2 and z + max(sqrt(min(z*z, M) + b/4), z)."""
    z = tf.abs(x) * 0.5
    return z, z + tf.maximum(tf.sqrt(tf.minimum(z * z, FAR * FAR) + hidden(b / 4)), z)


def former(x: Any, b: float) -> Any:
    """Ours with max(x, 0) + tail, which TensorFlow begins with the maximum."""
    return tf.maximum(x, 0.0) + hidden(b / 4) / _tail(x, b)[1]


def merged(x: Any, b: float) -> Any:
    """One kernel less: ours without the half, with the tail (b/2) / (|x| + max(sqrt(min(x*x, M) + b), |x|))."""
    a = tf.abs(x)
    tail = hidden(b / 2) / (a + tf.maximum(tf.sqrt(tf.minimum(a * a, FAR * FAR) + hidden(b)), a))
    return tf.maximum(x + tail, tail)


def in_place(x: Any, b: float) -> Any:
    """One kernel less, and relu from |x| in its own buffer, by the kernel of relu's gradient."""
    a = tf.abs(x)
    h = a + tf.maximum(tf.sqrt(tf.minimum(a * a, FAR * FAR) + hidden(b)), a)
    with tf.control_dependencies([h]):
        return hidden(b / 2) / h + tf.raw_ops.ReluGrad(gradients=a, features=x)


def hypotenuse(x: Any, b: float) -> Any:
    """The root as the absolute value of a complex number, which needs no guards."""
    z = tf.abs(x) * 0.5
    tail = hidden(b / 4) / (z + tf.abs(tf.complex(z, tf.broadcast_to(hidden((b / 4) ** 0.5), tf.shape(z)))))
    return tf.maximum(x + tail, tail)


def selected(x: Any, b: float) -> Any:
    """The short form where it is right (x >= 0), the tail elsewhere."""
    h = _tail(x, b)[1]
    return tf.where(x < 0, hidden(b / 4) / h, h)


def newton(x: Any, b: float) -> Any:
    """The quotient by the hardware's rsqrt with one Newton step: 1/h = rsqrt(h*h)."""
    h = tf.minimum(_tail(x, b)[1], FAR)
    r = tf.math.rsqrt(h * h)
    tail = hidden(b / 4) * (r * (2.0 - h * r))
    return tf.maximum(x + tail, tail)


def doubled(x: Any, b: float) -> Any:
    """The short form in float64."""
    w = tf.cast(x, tf.float64)
    return tf.cast((w + tf.sqrt(w * w + tf.cast(hidden(b), tf.float64))) * 0.5, tf.float32)


def unguarded(x: Any, b: float) -> Any:
    """Ours without the guards against overflow: wrong beyond 1.8e19."""
    z = tf.abs(x) * 0.5
    tail = hidden(b / 4) / (z + tf.sqrt(z * z + hidden(b / 4)))
    return tf.maximum(x + tail, tail)


def passes(x: Any, b: float) -> Any:
    """As many kernels and buffers as ours has, each a minimum or a maximum: what the passes over memory cost."""

    def one_more(y: Any) -> Any:  # Not two of a kind in a row, which would be folded into one.
        return tf.minimum(y, hidden(5.0)) if next(turn) % 2 else tf.maximum(y, hidden(-5.0))

    turn = itertools.count()
    z = one_more(one_more(x))
    root = tf.maximum(one_more(one_more(one_more(one_more(z)))), z)
    tail = one_more(tf.minimum(root, z))
    return tf.maximum(tf.minimum(x, tail), tail)


FORMS: dict[str, tuple[Callable[[Any, float], Any], bool]] = {
    "relu": (lambda x, b: keras.activations.relu(x), False),
    "copy (x + constant)": (lambda x, b: x + hidden(1.0), False),
    "copy, square root": (lambda x, b: tf.sqrt(x + hidden(99.0)), False),
    "copy, division": (lambda x, b: hidden(1.0) / (x + hidden(99.0)), False),
    "copy, square root, division": (lambda x, b: hidden(1.0) / tf.sqrt(x + hidden(99.0)), False),
    "ours, every kernel a minimum or maximum": (passes, False),
    "keras squareplus": (STOCK_SQUAREPLUS, True),
    "squareplus (ours)": (sqp_keras.squareplus, True),
    "ours, the maximum with 0 first": (former, True),
    "ours without guards": (unguarded, True),
    "one kernel less": (merged, True),
    "one kernel less, relu in place": (in_place, True),
    "complex absolute value": (hypotenuse, True),
    "short form or tail, selected": (selected, True),
    "rsqrt and a Newton step": (newton, True),
    "float64 inside": (doubled, True),
}
"""Name -> function of x and b, and whether it is a form of squareplus."""


def measure(mode: str, size: int, rounds: int) -> dict[str, float]:
    """Returns each form's time over ReLU's."""
    calls = {name: in_mode(functools.partial(function, b=B), mode) for name, (function, _) in FORMS.items()}
    quiet = quiet_moments(in_turns(calls, [tf.constant(sample(size))], rounds))
    return {name: quiet[name] / quiet["relu"] for name in calls}


def error(function: Callable[[Any, float], Any]) -> float:
    """Returns the max error in units in the last place over random bits and `BS`, infinity if not finite."""
    x = np.random.default_rng(0).integers(0, 2**32, 2_000_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], sample(1_000_000)])
    return max(_error(function, x, b) for b in BS)


def _error(function: Callable[[Any, float], Any], x: np.ndarray, b: float) -> float:
    wide = x.astype(np.float64)
    h = (np.abs(wide) + np.hypot(wide, np.sqrt(b))) / 2
    truth = np.where(wide < 0, b / 4 / h, h)
    normal = (truth > 2.0**-125) & (truth < np.finfo(np.float32).max)
    got = np.array(in_mode(functools.partial(function, b=b), "graph")(tf.constant(x)), np.float64)
    off = np.abs(got - truth)[normal] / np.spacing(truth[normal].astype(np.float32)).astype(np.float64)
    return float(np.max(np.where(np.isfinite(off), off, np.inf)))


def kernels(function: Callable[[Any, float], Any], size: int) -> str:
    """Returns how many kernels a plain graph runs, and how many of them need a new buffer."""
    seen = profile(functools.partial(function, b=B), False, size, rounds=1)
    return f"{len(seen)} ({sum(kernel['bytes'] > 0 for kernel in seen)})"


def table(runs: list[dict[str, Any]]) -> list[str]:
    lines = ["| form | kernels (new buffers) | XLA | plain graph | max error, ULP |", "|---|---:|---:|---:|---:|"]
    for name, (_, squareplus) in FORMS.items():
        cells = [runs[0]["kernels"][name]]
        for mode in ("xla", "graph"):
            ratios = [run[mode][name] for run in runs]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        off = runs[0]["errors"].get(name)
        cells.append("" if not squareplus else "not finite" if off is None else f"{off:.3g}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
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
        found["errors"] = {name: off for name, off in errors.items() if np.isfinite(off)}
        found["kernels"] = {name: kernels(function, options.size) for name, (function, _) in forms}
        print(json.dumps(found))
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

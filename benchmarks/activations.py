"""Times activations against ReLU on this machine's CPU: eager, graph and XLA, forward and with the gradient.

The candidates take turns, call by call and in a new order each round, so that a busy machine slows all alike and none
always finds the memory as the same other left it. A figure is the ratio to ReLU of the tenth percentiles of the times:
other programs only ever add time. The profile shows where plain graphs spend it.

    python benchmarks/activations.py [--rounds 300] [--sizes 1000000 65536] [--write] [--json FILE]
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
import time
from collections import defaultdict
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
PROFILED = ("relu", "keras squareplus", "squareplus")
MODES = ("eager", "graph", "xla")
DOCS = Path(__file__).parents[1] / "docs" / "training_speed.md"


def forward_and_backward(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def both(x: Any, dy: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, output_gradients=dy)

    return both


def in_mode(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    if mode == "eager":
        return function
    # Without other arguments: default values (ReLU's) would be bound anew in each call, and that takes time.
    return tf.function(lambda *tensors: function(*tensors), jit_compile=mode == "xla", autograph=False)


def sample(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, size).astype(np.float32)


def in_turns(calls: dict[str, Callable[..., Any]], tensors: list[tf.Tensor], rounds: int) -> dict[str, list[float]]:
    """Returns the seconds of each call and round; the calls take turns, in another order each round."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffled = list(calls), random.Random(0)
    for turn in range(rounds + 5):
        shuffled.shuffle(order)
        for name in order:
            start = time.perf_counter()
            calls[name](*tensors)
            if turn >= 5:  # The first turns trace, compile and warm the allocator.
                times[name].append(time.perf_counter() - start)
    return times


def quiet_moments(times: dict[str, list[float]]) -> dict[str, float]:
    """Returns the seconds that each call takes while little else runs."""
    return {name: float(np.quantile(seen, 0.1)) for name, seen in times.items()}


def measure(size: int, mode: str, backward: bool, rounds: int) -> dict[str, dict[str, float]]:
    """Returns per candidate the time in milliseconds in quiet moments, and two ratios to ReLU."""
    # The gradient that comes from above is a tensor of its own, as in a net.
    tensors = [tf.constant(sample(size, seed)) for seed in range(2 if backward else 1)]
    calls = {n: in_mode(forward_and_backward(f) if backward else f, mode) for n, f in CANDIDATES.items()}
    times = in_turns(calls, tensors, rounds)
    quiet = quiet_moments(times)
    return {
        name: {
            "ms": 1e3 * quiet[name],
            "ratio": quiet[name] / quiet["relu"],
            "median_ratio": statistics.median(a / b for a, b in zip(seen, times["relu"], strict=True)),
        }
        for name, seen in times.items()
    }


def profile(function: Callable[[Any], Any], backward: bool, size: int, rounds: int = 40) -> list[dict[str, Any]]:
    """Returns the kernels of a plain graph in order, with their time in quiet moments and the bytes they allocate."""
    v1 = tf.compat.v1
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    kinds = {}
    with tf.Graph().as_default(), v1.Session() as session:
        x, dy = (v1.placeholder(tf.float32, [size]) for _ in range(2))
        y = function(x)
        # Fetched as operations: nothing is copied out of the session.
        fetched = [y.op, *(gradient.op for gradient in (tf.gradients(y, x, grad_ys=dy) if backward else []))]
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
        for _ in range(rounds):
            seen = v1.RunMetadata()
            session.run(fetched, {x: sample(size), dy: sample(size, 1)}, options=options, run_metadata=seen)
            for node in (node for device in seen.step_stats.dev_stats for node in device.node_stats):
                took = node.op_end_rel_nanos - node.op_start_rel_nanos
                found[node.node_name].append((took / 1e3, sum(memory.total_bytes for memory in node.memory)))
        for graph in seen.partition_graphs:
            kinds.update({node.name: node.op for node in graph.node})
    return [
        {
            "op": kinds[name],
            "us": float(np.quantile([took for took, _ in steps], 0.1)),
            "bytes": steps[-1][1],
        }
        for name, steps in found.items()
        if kinds.get(name, "Const") not in ("Const", "_Arg", "IdentityN", "Identity", "NoOp", "_Retval")
    ]


def compiled(function: Callable[..., Any], size: int, tensors: int = 1) -> str:
    """Returns what XLA makes of a function of one or two tensors, after optimisation."""
    given = [tf.constant(sample(size, seed)) for seed in range(tensors)]
    return in_mode(function, "xla").experimental_get_compiler_ir(*given)(stage="optimized_hlo")


def fusions(function: Callable[[Any], Any], size: int) -> int:
    """Returns the number of kernels that XLA makes of value and gradient together."""
    text = compiled(forward_and_backward(function), size, tensors=2)
    entry = text[text.index("ENTRY") :]
    return entry.count(" fusion(") + entry.count(" call(")


def arithmetic(function: Callable[[Any], Any], size: int) -> list[str]:
    """Returns the operations per element of XLA's forward pass."""
    found = re.findall(rf"= f32\[{size}\]\S* ([a-z-]+)\(", compiled(function, size))
    return [name for name in found if name not in ("parameter", "broadcast", "fusion", "call")]


def speed_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| elements | mode | pass | relu, ms |" + "".join(f" {name} |" for name in list(CANDIDATES)[1:]),
        "|---:|---|---|---:|" + "---:|" * (len(CANDIDATES) - 1),
    ]
    for row in rows:
        figures = row["activations"]
        ratios = "".join(f" {figures[name]['ratio']:.2f} |" for name in list(CANDIDATES)[1:])
        lines.append(f"| {row['size']:,} | {row['mode']} | {row['pass']} | {figures['relu']['ms']:.3f} |{ratios}")
    return lines


def profile_table(profiles: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| pass | activation | kernels | new buffers | microseconds | kernel by kernel (microseconds, * new buffer) |",
        "|---|---|---:|---:|---:|---|",
    ]
    for row in profiles:
        each = " ".join(f"{k['op']} {k['us']:.0f}{'*' if k['bytes'] else ''}" for k in row["kernels"])
        new = sum(1 for k in row["kernels"] if k["bytes"])
        total = sum(k["us"] for k in row["kernels"])
        lines.append(f"| {row['pass']} | {row['name']} | {len(row['kernels'])} | {new} | {total:.0f} | {each} |")
    return lines


def fusion_sentence(counts: dict[str, int]) -> str:
    return "Kernels that XLA makes of value and gradient: " + ", ".join(f"{n} {k}" for n, k in counts.items()) + "."


def arithmetic_table(found: dict[str, list[str]]) -> list[str]:
    lines = ["| compiled forward pass | operations | operation by operation |", "|---|---:|---|"]
    return lines + [f"| {name} | {len(steps)} | {' '.join(steps)} |" for name, steps in found.items()]


def write(part: str, lines: list[str], program: str = "activations") -> None:
    """Puts the lines between the markers of `part` in the page."""
    page = DOCS.read_text()
    begin, end = f"<!-- {part}: begin (benchmarks/{program}.py --write) -->", f"<!-- {part}: end -->"
    DOCS.write_text(page[: page.index(begin) + len(begin)] + "\n" + "\n".join(lines) + "\n" + page[page.index(end) :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 65_536])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/training_speed.md")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    machine = (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}"
    )
    print(machine)
    rows = []
    for size in arguments.sizes:
        for mode in arguments.modes:
            for backward in (False, True):
                label = "both" if backward else "forward"
                figures = measure(size, mode, backward, arguments.rounds)
                rows.append({"size": size, "mode": mode, "pass": label, "activations": figures})
                print(speed_table(rows[-1:])[-1], flush=True)
    profiles = [
        {"pass": label, "name": name, "kernels": profile(CANDIDATES[name], label == "both", arguments.sizes[0])}
        for label in ("forward", "both")
        for name in PROFILED
    ]
    counts = {name: fusions(CANDIDATES[name], arguments.sizes[0]) for name in CANDIDATES}
    steps = {name: arithmetic(CANDIDATES[name], arguments.sizes[0]) for name in PROFILED}
    profile_lines = [*profile_table(profiles), "", fusion_sentence(counts), "", *arithmetic_table(steps)]
    print("\n".join(profile_lines))
    if arguments.json:
        found = {"machine": machine, "rows": rows, "profile": profiles, "xla_kernels": counts, "xla_steps": steps}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.write:
        write("speed", [machine, "", *speed_table(rows)])
        write("profile", profile_lines)


if __name__ == "__main__":
    main()

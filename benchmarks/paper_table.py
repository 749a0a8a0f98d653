"""Returns Table 1 of the paper for one framework on this machine: six activations, and a copy as the floor.

python -m benchmarks.paper_table --framework jax --device gpu [--json FILE]

With JAX nothing but jax and numpy has to be installed, so that a machine with a GPU can run it alone; the rows of Keras
and of this project appear where those can be imported.
"""

import argparse
import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper_timing import Timing, interleave

TITLES = {
    "softplus": "Softplus (the framework's)",
    "softplus_naive": "Softplus (naive, `log(1 + exp(x))`)",
    "elu": "ELU",
    "silu": "Swish/SiLU",
    "relu": "ReLU",
    "squareplus": "Squareplus (formula as published)",
    "squareplus_jax": "Squareplus (`jax.nn`)",
    "squareplus_keras": "Squareplus (Keras)",
    "squareplus_ours": "Squareplus (`sqp_keras`)",
    "copy": "Copy (floor)",
}
PUBLISHED = {  # milliseconds, CPU with 1 million inputs and GPU with 100 million
    "softplus": (3.777, 1.120),
    "softplus_naive": (2.836, 1.118),
    "elu": (2.040, 1.120),
    "silu": (1.234, 1.113),
    "relu": (0.598, 1.069),
    "squareplus": (0.631, 1.074),
}
CPU_COUNT, GPU_COUNT = 1_000_000, 100_000_000


def inputs(count: int) -> np.ndarray:
    """Returns standard normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(count, dtype=np.float32)


def with_keras(functions: dict[str, Callable], backend: str) -> dict[str, Callable]:
    """Returns `functions` and the rows of Keras and sqp_keras on this backend, if both are installed."""
    if importlib.util.find_spec("keras") is None or importlib.util.find_spec("sqp_keras") is None:
        return functions
    os.environ["KERAS_BACKEND"] = backend
    import keras

    import sqp_keras

    # sqp_keras changes what the string means; the function stays Keras's own.
    rows = {"squareplus_keras": keras.activations.squareplus, "squareplus_ours": sqp_keras.squareplus}
    return {**{name: f for name, f in functions.items() if name != "copy"}, **rows, "copy": functions["copy"]}


def jax_calls(device: str, count: int) -> dict[str, dict[str, Callable[[], Any]]]:
    """Returns the calls of JAX, each function compiled by itself."""
    import jax
    import jax.numpy as jnp

    functions = {
        "softplus": jax.nn.softplus,
        "softplus_naive": lambda x: jnp.log(1 + jnp.exp(x)),
        "elu": jax.nn.elu,
        "silu": jax.nn.silu,
        "relu": jax.nn.relu,
        "squareplus": lambda x: 0.5 * (x + jnp.sqrt(x * x + 4.0)),
        "copy": jnp.copy,
    }
    if hasattr(jax.nn, "squareplus"):
        functions["squareplus_jax"] = jax.nn.squareplus
    x = jax.device_put(inputs(count), jax.devices(device)[0])

    def call(function: Callable) -> Callable[[], Any]:
        compiled = jax.jit(function)
        return lambda: compiled(x).block_until_ready()

    return {"jax": {name: call(function) for name, function in with_keras(functions, "jax").items()}}


def tensorflow_calls(device: str, count: int) -> dict[str, dict[str, Callable[[], Any]]]:
    """Returns the calls of TensorFlow, compiled by XLA and op by op."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    functions = {
        "softplus": tf.nn.softplus,
        "softplus_naive": lambda x: tf.math.log(1 + tf.exp(x)),
        "elu": tf.nn.elu,
        "silu": tf.nn.silu,
        "relu": tf.nn.relu,
        "squareplus": lambda x: 0.5 * (x + tf.sqrt(x * x + 4.0)),
        "copy": lambda x: tf.raw_ops.DeepCopy(x=x),
    }
    functions = with_keras(functions, "tensorflow")
    x = tf.constant(inputs(count))

    def call(function: Callable) -> Callable[[], Any]:
        return lambda: function(x)

    # Compiled, an identity has to fill a buffer of its own and so is a copy; DeepCopy has no compiled form.
    bodies = {**functions, "copy": tf.identity}
    compiled = {name: tf.function(lambda x, f=f: f(x), jit_compile=True) for name, f in bodies.items()}
    return {
        "tensorflow_xla": {name: call(function) for name, function in compiled.items()},
        "tensorflow_eager": {name: call(function) for name, function in functions.items()},
    }


def numpy_calls(device: str, count: int) -> dict[str, dict[str, Callable[[], Any]]]:
    """Returns the calls of NumPy; SciPy and friends have no softplus of their own, so logaddexp is the framework's."""
    functions = {
        "softplus": lambda x: np.logaddexp(x, np.float32(0)),
        "softplus_naive": lambda x: np.log(1 + np.exp(x)),
        "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "silu": lambda x: x / (1 + np.exp(-x)),
        "relu": lambda x: np.maximum(x, 0),
        "squareplus": lambda x: np.float32(0.5) * (x + np.sqrt(x * x + np.float32(4))),
        "copy": np.copy,
    }
    x = inputs(count)
    return {"numpy": {name: lambda f=function: f(x) for name, function in with_keras(functions, "numpy").items()}}


def gpu_here() -> bool:
    """Returns whether JAX can use a GPU of this machine."""
    import jax

    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:  # what JAX raises for a platform that it does not have
        return False


FRAMEWORKS = {"jax": jax_calls, "tensorflow": tensorflow_calls, "numpy": numpy_calls}


def ratios(timings: dict[str, Timing]) -> dict[str, dict[str, float]]:
    """Returns for each row its times in milliseconds and its ratios to ReLU and to softplus."""
    rows = {}
    for name in TITLES:
        if name in timings:
            row = asdict(timings[name])
            row["to_relu"] = row["median"] / timings["relu"].median
            row["to_softplus"] = row["median"] / timings["softplus"].median
            rows[name] = row
    return rows


def measure(framework: str, device: str, count: int, seconds: float) -> dict[str, Any]:
    """Returns {section: rows} for one framework; each section gets `seconds`."""
    sections = FRAMEWORKS[framework](device, count)
    return {name: ratios(interleave(calls, seconds)) for name, calls in sections.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Times the activations of the paper's Table 1 in one framework.")
    parser.add_argument("--framework", choices=FRAMEWORKS, default="jax")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--find-gpu", action="store_true", help='print "yes" or "no": whether JAX can use a GPU')
    parser.add_argument("--count", type=int, help="number of inputs (1 million on a CPU, 100 million on a GPU)")
    parser.add_argument("--seconds", type=float, default=8.0, help="time for each section")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if options.find_gpu:
        print("yes" if gpu_here() else "no")
        return
    if options.device == "gpu" and options.framework != "jax":
        parser.error(f"The GPU is for --framework jax only. Received: {options.framework}. Leave --device out.")
    if options.device == "gpu" and not gpu_here():
        parser.error("JAX sees no GPU here. Run this on a machine that has one, or leave --device out.")
    count = options.count or (GPU_COUNT if options.device == "gpu" else CPU_COUNT)
    sections = measure(options.framework, options.device, count, options.seconds)
    for section, rows in sections.items():
        print(f"{section}, {options.device}, {count:,} inputs: ms (quartiles), ratio to ReLU, to softplus")
        for name, row in rows.items():
            print(
                f"  {TITLES[name]:38} {row['median']:8.3f} ({row['low']:.3f} ... {row['high']:.3f})"
                f" {row['to_relu']:7.2f} {row['to_softplus']:7.2f}"
            )
    if options.json:
        options.json.write_text(json.dumps({"device": options.device, "count": count, "sections": sections}, indent=1))


if __name__ == "__main__":
    main()

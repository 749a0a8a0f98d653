"""Measures the error of squareplus and its derivative in every dtype, and writes the table in docs/numerics.md.

Halves: all finite inputs. float32: ten million random bit patterns, two million of them where the function bends, and
the edges. float64: a million against mpmath's arithmetic. Three implementations: this package, Keras's built-in one and
JAX's formula (jax.nn.squareplus, evaluated in NumPy). One unit in the last place (ULP) is that of the true value.

    python benchmarks/accuracy.py [--count 10000000] [--doubles 1000000] [--write] [--json FILE]
"""

import argparse
import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import mpmath
import numpy as np
import tensorflow as tf

STOCK_SQUAREPLUS = keras.activations.squareplus

from sqp_keras import B_MINIMAX, B_VALUE, squareplus  # noqa: E402

BS = (1e-3, 1.0, B_MINIMAX, B_VALUE, 4.0, 100.0)
FORMATS = {"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126), "float64": (52, -1022)}
"""Stored bits of the significand and exponent of the smallest normal number."""
DOCS = Path(__file__).parents[1] / "docs" / "numerics.md"
BEGIN, END = "<!-- accuracy: begin (benchmarks/accuracy.py --write) -->", "<!-- accuracy: end -->"


class Errors(NamedTuple):
    """Largest errors of one implementation, in ULP; inf where a finite truth became inf or NaN."""

    value: float
    slope: float
    correctly_rounded: float


def inputs(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Returns float64 numbers that are exact in `dtype`: all finite ones of a half, else random bits and the edges."""
    if dtype in ("float16", "bfloat16"):
        x = tf.cast(tf.bitcast(tf.constant(np.arange(2**16, dtype=np.uint16)), dtype), tf.float64).numpy()
        return x[np.isfinite(x)]
    rng = np.random.default_rng(seed)
    bits, kind = (np.uint32, np.float32) if dtype == "float32" else (np.uint64, np.float64)
    limits = np.finfo(kind)
    x = np.concatenate([
        rng.integers(0, np.iinfo(bits).max, count - 2 * (count // 10), dtype=bits, endpoint=True).view(kind),
        rng.normal(0, 3, count // 10).astype(kind),
        (10.0 ** rng.uniform(-9, 6, count // 10) * rng.choice([-1, 1], count // 10)).astype(kind),
        np.asarray([0, limits.max, limits.tiny, limits.smallest_subnormal, 1, 2, 2.0**62, 2.0**63], kind),
        -np.asarray([0, limits.max, limits.tiny, limits.smallest_subnormal, 1, 2, 2.0**62, 2.0**63], kind),
    ])  # fmt: skip
    return x[np.isfinite(x)].astype(np.float64)


class Truth(NamedTuple):
    """A true number as the sum of a float64 and what it lacks."""

    high: np.ndarray
    low: np.ndarray


@functools.cache
def doubles(count: int, b: float) -> tuple[Truth, Truth]:
    """Returns value and slope for the float64 inputs, from arithmetic with 160 bits."""
    values, slopes = [], []
    with mpmath.workprec(160):
        for v in inputs("float64", count).tolist():
            root = mpmath.sqrt(mpmath.mpf(v) ** 2 + b)
            y = (v + root) / 2 if v >= 0 else b / (2 * (root - v))
            for number, found in ((y, values), (y / root, slopes)):
                found.append((float(number), float(number - float(number))))
    return Truth(*np.array(values).T), Truth(*np.array(slopes).T)


def truth(x: np.ndarray, b: float) -> tuple[Truth, Truth]:
    """Returns value and slope in float64, whose error is far below an ULP of float32."""
    b = float(np.float32(b))  # b is rounded to the dtype of the arithmetic.
    z = np.abs(x) / 2
    h = z + np.sqrt(z * z + b / 4)
    y = np.where(x < 0, b / 4 / h, h)
    return Truth(y, np.zeros_like(y)), Truth(1 / (1 + b / 4 / y / y), np.zeros_like(y))


def ulp(value: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the distance of neighbouring numbers of `dtype` at `value`."""
    bits, smallest = FORMATS[dtype]
    return 2.0 ** (np.maximum(np.frexp(np.abs(value))[1] - 1, smallest) - bits)


def largest(error: np.ndarray) -> float:
    return float(np.max(np.where(np.isnan(error), np.inf, error), initial=0.0))


def compare(got: np.ndarray, want: Truth, dtype: str) -> float:
    """Returns the largest error in ULP where the truth is a normal finite number.

    Smaller numbers may be flushed to zero, as TensorFlow does in bfloat16, float32 and float64 (in float16 it does
    not); a truth within a few ULP of the smallest normal number may come out below it and be flushed, too.
    """
    bits, smallest = FORMATS[dtype]
    normal = want.high >= 2.0**smallest * (1 + 2.0 ** (3 - bits))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs((got - want.high) - want.low)[normal] / ulp(want.high[normal], dtype)
        flushed = np.where(got[~normal] <= 2.0**smallest * (1 + 2.0 ** (4 - bits)), 0.0, np.inf)
    return max(largest(error), largest(flushed))


def measure(function: Callable[[Any], Any], x: np.ndarray, want: tuple[Truth, Truth], dtype: str) -> Errors:
    """Returns the errors of `function`, a TensorFlow function of one tensor, over `x`."""
    tensor = tf.cast(tf.constant(x), dtype)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = function(tensor)
    slope = tf.cast(tape.gradient(y, tensor), tf.float64).numpy()
    y = tf.cast(y, tf.float64).numpy()
    rounded = tf.cast(tf.cast(tf.constant(want[0].high), dtype), tf.float64).numpy()
    return Errors(compare(y, want[0], dtype), compare(slope, want[1], dtype), float(np.mean(y == rounded)))


def implementations(b: float) -> dict[str, Callable[[Any], Any]]:
    return {
        "sqp_keras": lambda x: squareplus(x, b),
        "Keras": lambda x: STOCK_SQUAREPLUS(x, b),
        "JAX's formula": lambda x: 0.5 * (x + tf.sqrt(tf.square(x) + tf.cast(b, x.dtype))),
    }


def rows(count: int, count64: int, bs: tuple[float, ...] = BS) -> list[dict[str, Any]]:
    """Returns one row per dtype, b and implementation."""
    found = []
    for dtype in FORMATS:
        x = inputs(dtype, count64 if dtype == "float64" else count)
        for b in bs:
            want = doubles(count64, b) if dtype == "float64" else truth(x, b)
            for name, function in implementations(b).items():
                found.append({"dtype": dtype, "b": b, "name": name, "inputs": len(x)})
                found[-1].update(measure(function, x, want, dtype)._asdict())
    return found


def table(found: list[dict[str, Any]]) -> str:
    """Returns the rows as a Markdown table: per dtype and implementation the worst over all b."""
    lines = [
        "| dtype | inputs | implementation | value, ULP | derivative, ULP | correctly rounded |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for dtype in FORMATS:
        for name in dict.fromkeys(row["name"] for row in found):
            group = [row for row in found if row["dtype"] == dtype and row["name"] == name]
            value, slope = (max(row[key] for row in group) for key in ("value", "slope"))
            share = min(row["correctly_rounded"] for row in group)
            # Down, so that 100 % means all.
            percent = f"{np.floor(share * 1e4) / 1e2:.2f} %"
            lines.append(
                f"| {dtype} | {group[0]['inputs']} | {name} | {shown(value)} | {shown(slope)} | {percent} |",
            )
    return "\n".join(lines)


def shown(error: float) -> str:
    return "not finite" if np.isinf(error) else f"{error:.2f}" if error < 1e3 else f"{error:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000_000, help="float32 inputs")
    parser.add_argument("--doubles", type=int, default=1_000_000, help="float64 inputs, 40 microseconds each per b")
    parser.add_argument("--write", action="store_true", help="write the table into docs/numerics.md")
    parser.add_argument("--json", type=Path, help="also write all rows to this file")
    arguments = parser.parse_args()
    found = rows(arguments.count, arguments.doubles)
    text = table(found)
    print(text)
    for row in found:
        if row["name"] == "sqp_keras":
            print(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.write:
        page = DOCS.read_text()
        DOCS.write_text(page[: page.index(BEGIN) + len(BEGIN)] + f"\n{text}\n" + page[page.index(END) :])


if __name__ == "__main__":
    main()

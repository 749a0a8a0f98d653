"""Measures the error of squareplus and its derivative in every dtype, and writes the table in docs/numerics.md.

Halves: all finite inputs. float32: ten million random bit patterns, two million of them where the function bends, and
the edges. float64: a million against mpmath's arithmetic. Three implementations: this package, Keras's built-in one and
JAX's formula (jax.nn.squareplus, evaluated in NumPy). One unit in the last place (ULP) is that of the true value.

    python benchmarks/accuracy.py [--count 10000000] [--doubles 1000000] [--write] [--json FILE]
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf

STOCK_SQUAREPLUS = keras.activations.squareplus

from sqp_keras import B_MINIMAX, B_VALUE, squareplus  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.ulp import FORMATS, doubles, inputs, measure, truth  # noqa: E402

BS = (1e-3, 1.0, B_MINIMAX, B_VALUE, 4.0, 100.0)
DOCS = Path(__file__).parents[1] / "docs" / "numerics.md"
BEGIN, END = "<!-- accuracy: begin (benchmarks/accuracy.py --write) -->", "<!-- accuracy: end -->"


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

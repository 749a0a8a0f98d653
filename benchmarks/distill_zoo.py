"""How far "fast", "fast" with `distill` and "accurate" are from networks of tools/zoo.py, all with defaults.

    python -m benchmarks.distill_zoo [--models Z07:silu Z11:elu] [--rows 512] [--write]

The distance is the root mean square error of the outputs over their standard deviation, on 256 rows that nothing saw.
The networks have seeded random weights: a trained one is in docs/algebraic.md beside the table.
"""

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

import sqp_keras
from tools import zoo

PAGE = Path(__file__).parents[1] / "docs" / "algebraic.md"
BEGIN, END = "<!-- distill-zoo (benchmarks/distill_zoo.py --write) -->", "<!-- /distill-zoo -->"
MODELS = ("Z01:tanh", "Z16:softplus", "Z22:mish", "Z11:elu", "Z21:silu", "Z03:silu", "Z09:gelu")
UNSEEN = 256


def distance(model: keras.Model, inputs: Any, expected: list[np.ndarray]) -> float:
    """Returns the largest distance of an output."""
    found = outputs(model, inputs)
    return max(float(np.sqrt(np.mean((a - b) ** 2)) / np.std(b)) for a, b in zip(found, expected, strict=True))


def outputs(model: keras.Model, inputs: Any) -> list[np.ndarray]:
    return [np.asarray(value, np.float64) for value in keras.tree.flatten(model.predict(inputs, verbose=0))]


def samples(model: keras.Model, count: int, seed: int = 0) -> Any:
    """Returns inputs of a model, an array if it has one."""
    found = zoo.samples(model, count, seed)
    return found if len(found) > 1 else next(iter(found.values()))


def row(named: str, rows: int) -> tuple[str, float]:
    """Returns a line of the table, and how many times farther a distilled "fast" is than "accurate"."""
    identifier, activation = named.split(":")
    model = zoo.build(identifier, activation=activation, head="original")
    train, unseen = samples(model, rows), samples(model, UNSEEN, seed=1)
    expected = outputs(model, unseen)
    accurate, _ = sqp_keras.replace_activations(model, "accurate", data=train)
    fast, report = sqp_keras.replace_activations(model, "fast", data=train)
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        distilled, _ = sqp_keras.distill(fast, model, train, verbose=0)
    seconds = time.monotonic() - start
    near, far, after = (distance(m, unseen, expected) for m in (accurate, fast, distilled))
    cells = (
        f"{zoo.ENTRIES[identifier].name} ({identifier}), {activation}",
        str(len(report.replacements)),
        *(f"{value:.2g}" for value in (far, after, near)),
        f"{after / near:.0f}",
        f"{seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |", after / near


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="MODEL:ACTIVATION")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--write", action="store_true", help="write the table into docs/algebraic.md")
    options = parser.parse_args()
    lines = [
        "| network, activation | exchanged | fast | fast, distilled | accurate | distilled over accurate | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    ratios = []
    for named in options.models:
        line, ratio = row(named, options.rows)
        lines.append(line)
        ratios.append(ratio)
        print(line, flush=True)
    within = sum(ratio <= 10 for ratio in ratios)
    lines += [
        "",
        f"{options.rows} rows; within 10 times of `accurate`: {within} of {len(ratios)}; "
        f"{min(ratios):.0f} to {max(ratios):.0f} times.",
    ]
    print(lines[-1])
    if options.write:
        page = PAGE.read_text("utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text("\n".join([before + BEGIN, *lines, END]) + rest.split(END)[1], "utf-8")


if __name__ == "__main__":
    main()

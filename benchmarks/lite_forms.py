"""Times ways to write squareplus on the interpreters: which form, and which lowering of int8, is each target's fastest.

    python -m benchmarks.lite_forms [--sizes 4096 65536 1048576] [--seconds 4] [--write]

Only the activation is in a file (and the network of `make demo` for float16 weights); one thread. The files of a table
take turns, call by call and in a new order each round, so that what slows the machine slows all alike. Figures are
ratios, within one run, of the lower quartiles; the load of the machine is noted. The float forms begin with z = x/2,
which a layer in front takes over; that of --safe-half begins with x.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "speed.md"
BEGIN, END = "<!-- lite forms: begin (benchmarks/lite_forms.py --write) -->", "<!-- lite forms: end -->"
SIZES = (4096, 65536, 1048576)
FLOAT, INT8, NETWORK = "float32", "int8", "demo CNN"
OURS = {FLOAT: "MUL ADD SQRT ADD (as exported)", INT8: "island (`algebraic`)", NETWORK: "float32"}
"""What the ratios of a table are to."""

LOWERINGS = {OURS[INT8]: "algebraic", "table (`table`)": "table", "int16 (`integer`)": "integer"}
LARGEST = {"tflm": 4096}
"""TFLM is for small tensors, and this is its kernels on a PC."""


def float_forms() -> dict[str, Callable[[Any], Any]]:
    """Returns the forms of squareplus at b = 4, and activations that the frameworks have."""
    import tensorflow as tf

    from sqp_tflite.source import safe_half

    def rsqrt(z: Any) -> Any:
        square = z * z + 1.0
        return z + square * tf.math.rsqrt(square)

    return {
        OURS[FLOAT]: lambda z: z + tf.sqrt(z * z + 1.0),
        "SQUARE ADD SQRT ADD": lambda z: z + tf.sqrt(tf.square(z) + 1.0),
        "MUL ADD RSQRT MUL ADD": rsqrt,
        "--safe-half": lambda x: safe_half.squareplus(x, 4.0),
        "softplus": tf.nn.softplus,
        "SiLU": lambda x: x * tf.sigmoid(x),
        "ELU": tf.nn.elu,
        "ReLU, not fused": tf.nn.relu,
    }


def files(sizes: tuple[int, ...]) -> Iterator[tuple[str, int, str, bytes]]:
    """Yields (table, size, form, file)."""
    import keras

    import sqp_keras
    import sqp_tflite
    from benchmarks.interpreter_models import demo_cnn, samples, stock

    for size in sizes:
        data = samples((size,))
        for name, function in float_forms().items():
            yield FLOAT, size, name, stock(function, (size,), "float32", data)
        inputs = keras.Input((size,))
        model = keras.Model(inputs, sqp_keras.Squareplus(b=4.0)(inputs))
        for name, lowering in LOWERINGS.items():
            given = {"quantize": "int8", "lowering": lowering, "data": {"x": data}}
            yield INT8, size, name, sqp_tflite.export(model, **given).model_bytes
    keras.utils.set_random_seed(3)
    model = demo_cnn("squareplus")
    # Of several sizes: an untrained network gives nearly one answer for all inputs of one size.
    data = {"x": samples(model.input_shape[1:], 32) * np.linspace(0.1, 1.3, 32, dtype="f4").reshape(-1, 1, 1, 1)}
    for quantize in ("float32", "float16"):
        yield NETWORK, 0, quantize, sqp_tflite.export(model, quantize=quantize, target="litert", data=data).model_bytes
    yield (
        NETWORK,
        0,
        "float32, --safe-half",
        sqp_tflite.export(model, safe_half=True, target="litert", data=data).model_bytes,
    )


def written(folder: Path, sizes: tuple[int, ...]) -> None:
    """Writes the files and the manifest that `interpreters.measure_here` reads."""
    cases = []
    for table, size, name, content in files(sizes):
        file = f"{len(cases):03d}.tflite"
        (folder / file).write_bytes(content)
        cases.append({"file": file, "group": f"{table} {size}", "name": name, "table": table, "size": size})
    (folder / "manifest.json").write_text(json.dumps(cases))


def measured(folder: Path, seconds: float) -> dict[str, list[dict[str, Any]]]:
    """Returns {runtime: rows}; each interpreter in a process of its own."""
    from benchmarks.interpreters import MODULES

    manifest = (folder / "manifest.json").read_text()
    found = {}
    for runtime, module in MODULES.items():
        if importlib.util.find_spec(module) is None:
            print(f"{runtime} is not installed: omitted.", file=sys.stderr)
            continue
        cases = [case for case in json.loads(manifest) if case["size"] <= LARGEST.get(runtime, case["size"])]
        (folder / "manifest.json").write_text(json.dumps(cases))
        out = folder / f"{runtime}.json"
        command = [sys.executable, "-m", "benchmarks.interpreters", "--runtime", runtime, "--folder", str(folder)]
        subprocess.run([*command, "--seconds", str(seconds), "--json", str(out)], check=True, cwd=ROOT)
        found[runtime] = json.loads(out.read_text())
        (folder / "manifest.json").write_text(manifest)
    return found


def lines(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Returns the tables: per runtime and size the time over that of the exported form, and that in microseconds."""
    made = []
    for table, ours in OURS.items():
        rows = [(runtime, row) for runtime, held in found.items() for row in held if row["table"] == table]
        columns = list(dict.fromkeys((runtime, row["size"]) for runtime, row in rows))
        times = {
            (runtime, row["size"], row["name"]): row["timing"]["low"] * 1000 for runtime, row in rows if row["timing"]
        }
        heads = [f"{runtime}{f' {size:,}' if size else ''}" for runtime, size in columns]
        made += [f"| {table} | {' | '.join(heads)} |", f"|---|{'---:|' * len(columns)}"]
        for name in dict.fromkeys(row["name"] for _, row in rows):
            cells = []
            for column in columns:
                time, base = times.get((*column, name)), times.get((*column, ours))
                if time is None:
                    cells.append("does not run")
                else:
                    cells.append(f"{time:.3g} us" if name == ours or base is None else f"{time / base:.2f}")
            made.append(f"| {name} | {' | '.join(cells)} |")
        made.append("")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each table of an interpreter")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/speed.md")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), tuple(options.sizes))
        found = measured(Path(folder), options.seconds)
    machine = platform.processor() or platform.machine()
    noted = f"{machine}, {os.cpu_count()} cores; load {before:.0f} before and {os.getloadavg()[0]:.0f} after."
    text = [noted, "", *lines(found)]
    print("\n".join(text))
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        start = page.index(BEGIN) + len(BEGIN)
        PAGE.write_text(page[:start] + "\n" + "\n".join(text) + page[page.index(END) :], encoding="utf-8")


if __name__ == "__main__":
    main()

"""Judges the verdicts: 60 small models in all types of numbers, measured again without the product's own code.

    python -m benchmarks.verdicts                       every cell (about half an hour); returns 1 if one disagrees
    python -m benchmarks.verdicts --kinds offset,state  some kinds of head
    python -m benchmarks.verdicts --write               also writes docs/verdicts.md

Each model is exported with `sqp_tflite.export`. What comes out is then run here with the interpreters themselves and
compared with the Keras model that was given to the export, by the rules that docs/report.md states. Verdict, max error,
range, share of the range and codes must be those of the product's report. The product's own functions for running,
comparing and judging are not used.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "verdicts.md"

QUANTIZE = ("float32", "float16", "int8", "int16x8")
LIMITS = {"float32": 1e-4, "float16": 0.02, "int8": 0.25, "int16x8": 0.2}
"""As docs/report.md states them."""

ROUNDING = 2.0**-18
APART = 10.0
KINDS = ("offset", "positive", "several", "state", "probability", "embedding")
PER_KIND = 10
SAMPLES = 64
RUNTIMES = {"float16": ("litert",)}
"""TensorFlow Lite Micro does not run float16 files; all others are run on both."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One output of a file on one interpreter, measured here."""

    error: float
    spread: float
    size: float
    codes: int | None
    columns: tuple[Measured, ...] = ()

    @property
    def share(self) -> float:
        """Returns the error over what it is measured against."""
        varies = self.spread > (0.0 if self.codes is None else ROUNDING * self.size)
        return self.error / ((self.spread if varies else self.size) or 1.0)

    def good(self, limit: float) -> bool:
        """Returns whether the stated rule lets it pass."""
        fine = self.share <= limit or (self.codes is None and self.error <= ROUNDING * self.size)
        return fine and all(column.good(limit) for column in self.columns)


def model_of(kind: str, number: int):
    """Returns (model, data): a small body and a head of one kind; `number` chooses body, width and seed."""
    import keras
    import numpy as np

    L = keras.layers
    keras.utils.set_random_seed(100 + number)
    generator = np.random.default_rng(number)
    activation = ("relu", "squareplus", "relu6")[number % 3]
    width = (4, 8, 16)[number % 3]
    if kind == "embedding":
        x = keras.Input((6,), dtype="int32", name="x")
        data = generator.integers(0, 12, (SAMPLES, 6)).astype("int32")
        hidden = L.GlobalAveragePooling1D()(L.Embedding(12, width)(x))
    elif number % 2:
        x = keras.Input((8, 8, 1), name="x")
        data = generator.normal(0, 1, (SAMPLES, 8, 8, 1)).astype("float32")
        hidden = L.Flatten()(L.Conv2D(width, 3, strides=2, activation=activation)(x))
    else:
        x = keras.Input((6,), name="x")
        data = generator.normal(0, 1 + number, (SAMPLES, 6)).astype("float32")
        hidden = L.Dense(width, activation=activation)(x)
    hidden = L.Dense(width, activation=activation)(hidden)
    inputs, arrays = [x], {"x": data}
    if kind == "offset":
        # From an offset that leaves all codes to the output to one that leaves none.
        outputs = L.Dense(1, bias_initializer=keras.initializers.Constant(4.0**number), name="y")(hidden)
    elif kind == "positive":
        outputs = L.Dense(1 + number % 2, activation="squareplus", name="y")(hidden)
    elif kind == "several":
        outputs = [L.Dense(1 + i, name=f"y{i}")(hidden) for i in range(2 + number % 3)]
    elif kind == "state":
        state = keras.Input((width,), name="h")
        inputs.append(state)
        arrays["h"] = generator.uniform(0, 3, (SAMPLES, width)).astype("float32")
        new = L.Dense(width, activation=activation, name="h_out")(L.Concatenate()([hidden, state]))
        outputs = [L.Dense(2, name="y")(new), new]
    elif kind == "probability":
        outputs = L.Dense(1 if number % 2 else 4, activation="hard_sigmoid", name="y")(hidden)
    else:
        outputs = L.Dense(3, name="y")(hidden)
    return keras.Model(inputs, outputs, name=f"{kind}_{number}"), arrays


def interpreted(runtime: str, content: bytes, arrays: list) -> list:
    """Returns, for each output, (numbers, codes or None) of an interpreter for all samples."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    told = Interpreter(model_content=content, num_threads=1)
    told.allocate_tensors()
    ins, outs = told.get_input_details(), told.get_output_details()
    micro = None
    if runtime == "tflm":
        from tflite_micro import runtime as tflm

        micro = tflm.Interpreter.from_bytes(content, arena_size=1 << 22)
    rows: list[list] = [[] for _ in outs]
    for sample in range(len(arrays[0])):
        for place, detail in enumerate(ins):
            value = arrays[place][sample : sample + 1]
            scale, zero = detail["quantization"]
            if scale:
                limits = np.iinfo(detail["dtype"])
                value = np.clip(np.round(value / np.float64(scale)) + zero, limits.min, limits.max)
            value = np.ascontiguousarray(value.astype(detail["dtype"]))
            micro.set_input(value, place) if micro else told.set_tensor(detail["index"], value)
        micro.invoke() if micro else told.invoke()
        for place, detail in enumerate(outs):
            rows[place].append(np.array(micro.get_output(place) if micro else told.get_tensor(detail["index"])))
    found = []
    for row, detail in zip(rows, outs, strict=True):
        codes = np.concatenate(row)
        scale, zero = detail["quantization"]
        numbers = (codes.astype(np.float64) - zero) * np.float64(np.float32(scale)) if scale else codes.astype(float)
        found.append((numbers, codes if scale else None))
    return found


def measure(content: bytes, model, arrays: dict, runtimes: tuple[str, ...]) -> dict[tuple[str, int], Measured]:
    """Returns {(interpreter, output): what was measured}, against the Keras model."""
    import keras
    import numpy as np

    ordered = [arrays[tensor.name] for tensor in model.inputs]
    truth = [np.asarray(t, np.float64) for t in keras.tree.flatten(model(ordered if len(ordered) > 1 else ordered[0]))]
    found = {}
    for runtime in runtimes:
        for place, (numbers, codes) in enumerate(interpreted(runtime, content, ordered)):
            whole = one(numbers, truth[place], codes)
            linear = model.get_layer(model.output_names[place]).activation is keras.activations.linear
            columns = []
            for i in range(truth[place].shape[-1] if linear and truth[place].shape[-1] > 1 else 0):
                part = one(numbers[..., [i]], truth[place][..., [i]], None if codes is None else codes[..., [i]])
                columns += [part] if part.spread * APART < whole.spread else []
            found[runtime, place] = dataclasses.replace(whole, columns=tuple(columns))
    return found


def one(numbers, true, codes) -> Measured:
    """Returns what is measured of numbers, their truth and, for integers, their codes."""
    import numpy as np

    used = None if codes is None else int(np.unique(codes).size)
    return Measured(float(np.abs(numbers - true).max()), float(np.ptp(true)), float(np.abs(true).max()), used)


def cell(kind: str, number: int, quantize: str) -> tuple[str, list[str]]:
    """Returns (the product's verdict, where it disagrees with what is measured here)."""
    import sqp_tflite

    model, arrays = model_of(kind, number)
    runtimes = RUNTIMES.get(quantize, ("litert", "tflm"))
    wanted = {"quantize": quantize, "data": arrays, "target": runtimes[-1]}
    try:
        exported = sqp_tflite.export(model, **wanted)
        report, content = exported.report, exported.model_bytes
    except sqp_tflite.ParityError as error:
        # The same file, which is only given out if its difference is accepted.
        report = error.report
        content = sqp_tflite.export(model, **wanted, max_change=1e9).model_bytes
    except sqp_tflite.RefusedError as error:
        return "refused", [] if error.findings else ["refused without a finding"]
    measured = measure(content, model, arrays, runtimes)
    wrong = []
    names = [row.name for row in report.outputs]
    for (runtime, place), found in measured.items():
        rows = [r for r in report.agreement if (r.runtime, r.output, r.against) == (runtime, names[place], "given")]
        if len(rows) != 1:
            wrong.append(f"{runtime} {names[place]}: {len(rows)} rows")
            continue
        (row,) = rows
        near = abs(row.max_abs_error - found.error) <= 1e-6 * found.size + 1e-3 * found.error
        if not near or abs(row.spread - found.spread) > 1e-5 * found.size:
            wrong.append(f"{runtime} {row.output}: error {row.max_abs_error}, range {row.spread}; here {found}")
        if row.codes != found.codes:
            wrong.append(f"{runtime} {row.output}: {row.codes} codes, here {found.codes}")
        if (row.status == "ok") != found.good(LIMITS[quantize]):
            wrong.append(f"{runtime} {row.output}: {row.status}, here {found.share:.3g} of {LIMITS[quantize]}")
    passes = all(found.good(LIMITS[quantize]) for found in measured.values())
    if (report.verdict == "ok") != passes:
        wrong.append(f"verdict {report.verdict}, here {'ok' if passes else 'not ok'}")
    return report.verdict, wrong


def main(arguments: list[str] | None = None) -> int:
    """Prints a line per kind and type of numbers; returns 1 if a cell disagrees."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--models", type=int, default=PER_KIND, help="per kind")
    parser.add_argument("--quantize", default=",".join(QUANTIZE))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    began, lines, bad = time.monotonic(), [], []
    for kind in options.kinds.split(","):
        for quantize in options.quantize.split(","):
            verdicts = []
            for number in range(options.models):
                verdict, wrong = cell(kind, number, quantize)
                verdicts.append(verdict)
                bad += [f"{kind}_{number} {quantize}: {line}" for line in wrong]
            counts = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(sorted(verdicts)))
            agree = options.models - len(
                {line.split(" ")[0] for line in bad if f" {quantize}: " in line and kind in line}
            )
            lines.append(f"| {kind} | {quantize} | {counts} | {agree} of {options.models} |")
            print(lines[-1], flush=True)
    print(*bad, sep="\n")
    if options.write:
        minutes = (time.monotonic() - began) / 60
        PAGE.write_text("\n".join([_HEAD.format(minutes=minutes), *lines, ""]), encoding="utf-8")
    return 1 if bad else 0


_HEAD = """# Are the verdicts right?

Written by `python -m benchmarks.verdicts --write` in {minutes:.0f} minutes; do not edit. Ten small models for each kind
of head, exported in each type of numbers. The files were run again by the interpreters and compared with the
original Keras models, by the rules of [report.md](report.md) and without the product's own code for that. A cell agrees
if verdict, max error, range and codes of each output on LiteRT and TensorFlow Lite Micro are those of the report.
"offset" has biases from 1 to 262,144 on an output: integer files of the larger ones must fail.

| head | --quantize | verdicts | agree |
|---|---|---|---|"""


if __name__ == "__main__":
    sys.exit(main())

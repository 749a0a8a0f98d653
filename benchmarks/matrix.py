"""Every type of numbers, lowering and target on the models of tools/zoo.py and the demo's CNN.

`python -m benchmarks.matrix` prints a table; `--write docs/quantization-matrix.md` stores it. `--models Z01,Z22` picks
some. A cell counts the models whose file passes the target's audit and agrees with Keras on its interpreter.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]

MODELS = tuple("Z01 Z02 Z03 Z05 Z06 Z07 Z08 Z09 Z10 Z11 Z12 Z14 Z16 Z19 Z21 Z22 Z23 Z27".split())
SAMPLES = 16
"""Samples that are compared per model: the unrolled and the image models are slow in reference kernels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """One model in one form, judged for one target."""

    model: str
    quantize: str
    lowering: str
    target: str
    verdict: str
    reason: str
    error: float
    size: int


def results(model_name: str, model, data: dict, worker) -> list[Result]:
    """Returns the model's results for every combination that is not refused."""
    from sqp_tflite.ops.combinations import Combination, broken, combinations
    from sqp_tflite.ops.policy import RUNTIMES
    from sqp_tflite.run.reference import reference
    from sqp_tflite.source.convert import convert
    from sqp_tflite.source.load import load
    from sqp_tflite.source.plan import plan
    from sqp_tflite.source.rsqrt import with_rsqrt
    from sqp_tflite.source.samples import Samples, samples
    from sqp_tflite.source.trace import trace

    loaded = load(model)
    given = samples(data, loaded.inputs)
    few = Samples(tuple(array[:SAMPLES] for array in given.inputs), None, given=True)
    expected = reference(loaded, few)
    traced = trace(plan(loaded))
    plain = convert(traced, worker)
    rooted = convert(dataclasses.replace(traced, graph_def=with_rsqrt(traced.graph_def)), worker)
    held: dict[bytes, tuple] = {}
    found = []
    for wanted in combinations():
        if broken(wanted) or wanted.target not in RUNTIMES:  # Others are in `older_tflm` and `ethos_u`.
            continue
        form = wanted if wanted.integer else Combination(wanted.quantize, "algebraic", wanted.target)
        source = rooted if form.lowering == "integer" else plain
        found.append(_result(model_name, wanted, form, source, traced, given, few, expected, worker, held))
    return found


def _result(name, wanted, form, source, traced, given, few, expected, worker, held) -> Result:
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.ops.audit import audit
    from sqp_tflite.quantize.quantize import Reduced, all_findings, quantize
    from sqp_tflite.quantize.recipe import Request
    from sqp_tflite.run.compare import compare, tolerance_of
    from sqp_tflite.run.judge import Reference

    key = dataclasses.astuple(form)
    request = Request(form, forms=traced.forms)
    if key not in held:
        reduced = Reduced(source)
        if form.quantize != "float32":
            reduced = quantize(source, given, request, traced.layers, worker)
        if reduced.content not in held:
            against = Reference("given", expected, tolerance_of(read(reduced.content)))
            held[reduced.content] = compare(reduced.content, few, against).rows
        held[key] = reduced, held[reduced.content]
    reduced, agreement = held[key]
    findings = all_findings(audit(read(reduced.content), form.target, traced.layers), reduced.findings, request)
    rows = [row for row in agreement if row.runtime == form.target]
    row = max(rows, key=lambda row: (row.status != "ok", row.error_of_range or 0.0))
    verdict = "refused" if findings else row.status
    reason = str(findings[0]) if findings else row.reason
    return Result(
        name, wanted.quantize, wanted.lowering, wanted.target, verdict, reason, row.error_of_range or 0.0,
        len(reduced.content),
    )  # fmt: skip


def markdown(found: list[Result], seconds: float) -> str:
    """Returns the page: a row for every combination, and the models behind it."""
    from sqp_tflite.ops.combinations import broken, combinations, nearest
    from sqp_tflite.ops.policy import RUNTIMES

    names = tuple(dict.fromkeys(row.model for row in found))
    lines = [_INTRODUCTION.format(models=", ".join(names), count=len(names), samples=SAMPLES, minutes=seconds / 60), ""]
    lines += [
        "| --quantize | --lowering | --target | result | max error | median size |",
        "|---|---|---|---|---|---|",
    ]
    for wanted in (one for one in combinations() if one.target in RUNTIMES):
        label = f"| {wanted.quantize} | {wanted.lowering} | {wanted.target} |"
        rule = broken(wanted)
        if rule:
            lines.append(f"{label} refused: {rule} Nearest: `{nearest(wanted)}` | | |")
            continue
        rows = [r for r in found if (r.quantize, r.lowering, r.target) == dataclasses.astuple(wanted)]
        good = [row for row in rows if row.verdict == "ok"]
        worst = max(good, key=lambda row: row.error, default=None)
        size = sorted(row.size for row in good)[len(good) // 2] if good else 0
        worst_text = f"{worst.error:.2g} ({worst.model})" if worst else "-"
        lines.append(f"{label} {len(good)} of {len(rows)} models pass | {worst_text} | {size:,} |")
    odd = [row for row in found if row.verdict != "ok"]
    if odd:
        lines += ["", "Not passed:", ""]
        lines += [f"- {r.model} {r.quantize} {r.lowering} {r.target}: {r.verdict}. {r.reason}" for r in odd]
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# All combinations

Written by `python -m benchmarks.matrix --write docs/quantization-matrix.md`; do not edit. {count} models ({models}):
the demo's CNN, trained, and models of tools/zoo.py with squareplus activations, logits as outputs and seeded random
weights. Each was exported, judged by the target's operator table, run on the target's interpreter and compared with
Keras on {samples} samples, in {minutes:.0f} minutes. The max error is that of any output, over the range of the
outputs including 0."""


def demo() -> tuple:
    """Returns the demo's CNN, trained on the digits, its data, and (inputs, labels) of the test set."""
    import keras

    sys.path.insert(0, str(ROOT / "examples"))
    import digits

    x, x_test, y, y_test = digits.digits()
    keras.utils.set_random_seed(1)
    model = digits.build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=loss)
    model.fit(x, y, batch_size=32, epochs=10, verbose=0)
    return model, {model.inputs[0].name: x[:256]}, (x_test, y_test)


def main(arguments: list[str] | None = None) -> int:
    """Runs the matrix; returns 1 if a combination that is not refused fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matrix")
    parser.add_argument("--models", default=",".join(("demo", *MODELS)))
    parser.add_argument("--write", metavar="FILE")
    options = parser.parse_args(arguments)
    from sqp_tflite.source.convert import IMPORTS
    from sqp_tflite.worker import Worker
    from tools import zoo

    began = time.monotonic()
    found: list[Result] = []
    with Worker((*IMPORTS, "litert_quantizer.quantizer")) as worker:
        for name in options.models.split(","):
            if name == "demo":
                model, data, _ = demo()
            else:
                model = zoo.build(name)
                data = zoo.samples(model)
            rows = results(name, model, data, worker)
            found += rows
            bad = [row for row in rows if row.verdict != "ok"]
            print(f"{name}: {len(rows) - len(bad)} of {len(rows)} pass, {time.monotonic() - began:.0f} s", flush=True)
            for row in bad:
                print(f"  {row.quantize} {row.lowering} {row.target}: {row.verdict} {row.reason}", flush=True)
    page = markdown(found, time.monotonic() - began)
    if options.write:
        Path(options.write).write_text(page, encoding="utf-8")
    else:
        print(page)
    return 1 if any(row.verdict != "ok" for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())

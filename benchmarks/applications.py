"""Large models of keras.applications without exp and log: exported, and compared with Keras on seeded inputs.

    python benchmarks/applications.py                             the whole table (many minutes: DenseNet121 alone takes
                                                                  two thirds), written to docs/existing_models.md
    python benchmarks/applications.py --models MobileNetV3Small   one row, printed

Random seeded weights, whose batch norm statistics are set on seeded inputs as training would; `--replace accurate
--head logits` and, where the table says so, `--max-error`. 200 seeded images go through TensorFlow Lite Micro.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import sqp_tflite

PAGE = Path(__file__).resolve().parents[1] / "docs" / "existing_models.md"
BEGIN, END = "<!-- applications -->", "<!-- /applications -->"
MODELS = {
    "MobileNetV3Small": (keras.applications.MobileNetV3Small, 64, None),
    # 16 blocks of swish with random weights amplify what each exchange changes: 1e-4 takes seven roots instead of five.
    "EfficientNetB0": (keras.applications.EfficientNetB0, 64, 1e-4),
    "DenseNet121": (keras.applications.DenseNet121, 64, None),
}
EXP_AND_LOG = frozenset("EXP LOG ELU GELU LOGISTIC TANH SOFTMAX LOG_SOFTMAX POW".split())
ENOUGH = 0.99
"""Share of the samples whose class must be the Keras model's."""
HEADER = (
    "| model | --max-error | exchanged | operators | SQRT | exp or log | same class | size (MB) | seconds |\n"
    "|---|---:|---:|---:|---:|---|---:|---:|---:|"
)


def build(name: str) -> keras.Model:
    """Returns the model with ten classes, seeded weights and batch norm statistics that fit its inputs."""
    keras.utils.set_random_seed(0)
    constructor, size, _ = MODELS[name]
    model = constructor(weights=None, input_shape=(size, size, 3), classes=10)
    inputs = images(model, 64, seed=1)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    for _ in range(2):
        model(inputs, training=True)
    return model


def images(model: keras.Model, count: int, seed: int = 0) -> np.ndarray:
    """Returns seeded images of smooth colours in 0..255, shape (count, height, width, 3)."""
    generator = np.random.default_rng(seed)
    height, width = model.input_shape[1:3]
    coarse = generator.uniform(0, 255, (count, 8, 8, 3))
    return np.kron(coarse, np.ones((1, height // 8, width // 8, 1))).astype(np.float32)


def measure(name: str, samples: int, target: str = "tflm", max_error: float | None = None) -> dict[str, object]:
    """Returns what the export of one model gave."""
    model = build(name)
    bound = max_error or MODELS[name][2]
    data = images(model, samples)
    exported = sqp_tflite.export(model, target=target, data=data, replace="accurate", head="logits", max_error=bound)
    report = exported.report
    given = [row for row in report.agreement if row.against == "given"]
    return {
        "model": name,
        "samples": samples,
        "target": target,
        "max_error": bound,
        "size_bytes": report.size_bytes,
        "ops": {row.op: row.count for row in report.ops},
        "replaced": len(report.replacements),
        "argmax_agreement": {row.runtime: row.argmax_agreement for row in given},
        "error_of_range": {row.runtime: row.error_of_range for row in given},
        "seconds": report.seconds,
    }


def cells(row: dict) -> str:
    """Returns the row of the table."""
    ops = row["ops"]
    left = ", ".join(sorted(EXP_AND_LOG & set(ops))) or "none"
    bound = "0.001" if row["max_error"] is None else f"{row['max_error']:g}"
    numbers = (
        f"{sum(ops.values()):,}",
        f"{ops.get('SQRT', 0):,}",
        left,
        f"{row['argmax_agreement'][row['target']]:.1%}",
    )
    size = f"{row['size_bytes'] / 1e6:.1f}"
    held = (row["model"], bound, str(row["replaced"]), *numbers, size, f"{row['seconds']:.0f}")
    return f"| {' | '.join(held)} |"


def write(lines: list[str]) -> None:
    """Puts the table into its place in the documentation."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> int:
    """Prints a row per model; returns 1 where exp or log is left or too many classes differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--max-error", type=float, help="instead of the model's own")
    parser.add_argument("--target", default="tflm")
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    print(HEADER, flush=True)
    rows = []
    for name in options.models:
        rows.append(measure(name, options.samples, options.target, options.max_error))
        print(cells(rows[-1]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=2), encoding="utf-8")
    if options.models == list(MODELS) and options.max_error is None:
        write([HEADER, *map(cells, rows)])
    good = all(not EXP_AND_LOG & set(row["ops"]) and row["argmax_agreement"][row["target"]] >= ENOUGH for row in rows)
    print(f"no exp, no log and the same class on {ENOUGH:.0%} of the samples:", "yes" if good else "no")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

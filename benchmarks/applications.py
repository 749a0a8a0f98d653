"""Large models of keras.applications without exp and log: exported, and compared with Keras on seeded inputs.

    python benchmarks/applications.py --samples 200

Random seeded weights, whose batch norm statistics are set on seeded inputs as training would; `--replace accurate
--head logits`. Prints one row per model.
"""

import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import sqp_tflite

MODELS = {
    "MobileNetV3Small": (keras.applications.MobileNetV3Small, 64),
    "EfficientNetB0": (keras.applications.EfficientNetB0, 64),
    "DenseNet121": (keras.applications.DenseNet121, 64),
}


def build(name: str) -> keras.Model:
    """Returns the model with ten classes, seeded weights and batch norm statistics that fit its inputs."""
    keras.utils.set_random_seed(0)
    constructor, size = MODELS[name]
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


def measure(name: str, samples: int, target: str = "tflm") -> dict[str, object]:
    """Returns what the export of one model gave."""
    model = build(name)
    exported = sqp_tflite.export(model, target=target, data=images(model, samples), replace="accurate", head="logits")
    report = exported.report
    return {
        "model": name,
        "size_bytes": report.size_bytes,
        "ops": {row.op: row.count for row in report.ops},
        "replaced": len(report.replacements),
        "argmax_agreement": {row.runtime: row.argmax_agreement for row in report.agreement},
        "error_of_range": {row.runtime: row.error_of_range for row in report.agreement},
        "seconds": report.seconds,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--target", default="tflm")
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    rows = []
    for model_name in options.models:
        rows.append(measure(model_name, options.samples, options.target))
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)

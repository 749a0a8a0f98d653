"""Size, accuracy and host latency of the demo's CNN in its integer forms, and of the stock converter's ReLU model.

`python -m benchmarks.integer_models` prints a table; `--write docs/integer-models.md` stores it. The ReLU model is the
same network with ReLU, trained the same way and converted to int8 by TensorFlow's converter. Latencies are the best of
several rounds on this machine, one thread, one image. TFLM runs its reference kernels here; on a device the order is
different.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]

FORMS = (
    ("float32", "algebraic"),
    ("int8", "algebraic"),
    ("int8", "table"),
    ("int8", "integer"),
    ("int16x8", "algebraic"),
    ("int16x8", "integer"),
)
EPOCHS = 25
ROUNDS = 7
CALLS = 100


def train(activation: str):
    """Returns the trained demo with an activation, and (train images, test images, test labels)."""
    import keras

    sys.path.insert(0, str(ROOT / "examples"))
    import digits

    x, x_test, y, y_test = digits.digits()
    keras.utils.set_random_seed(1)
    model = digits.build()
    for layer in model.layers:
        if getattr(layer, "activation", None) is keras.activations.get("squareplus"):
            layer.activation = keras.activations.get(activation)
    steps = EPOCHS * len(x) // 32
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(5e-3, steps)), loss=loss)
    model.fit(x, y, batch_size=32, epochs=EPOCHS, verbose=0)
    return model, (x, x_test, y_test)


def stock_int8(model, x: np.ndarray) -> bytes:
    """Returns the int8 file that TensorFlow's converter makes of a Keras model, its batch fixed to 1."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    spec = tf.TensorSpec((1, *x.shape[1:]), tf.float32)
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(spec)
    frozen = convert_variables_to_constants_v2(function)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([row[None]] for row in x)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def accuracy(content: bytes, runtime: str, x: np.ndarray, y: np.ndarray) -> float:
    """Returns the share of images that a file classifies as labelled."""
    from sqp_tflite.run.interpreters import run

    return float(np.mean(run(runtime, content, (x,)).values[0].argmax(axis=1) == y))


def latency_here(runtime: str, content: bytes, x: np.ndarray) -> float:
    """Returns microseconds per image; runs in a child."""
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.run import interpreters

    opened = interpreters._open_tflm(content) if runtime == "tflm" else interpreters._open_lite(runtime, content)
    opened.set(0, interpreters.encode(x[:1], read(content).inputs[0]))
    best = np.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            opened.invoke()
        best = min(best, (time.perf_counter() - began) / CALLS)
    return best * 1e6


def rows() -> list[tuple[str, int, dict[str, tuple[float, float]]]]:
    """Returns (form, bytes, {runtime: (accuracy, microseconds)}) of every form; Keras's own accuracy has 0 bytes."""
    from sqp_tflite.ops.policy import RUNTIMES
    from sqp_tflite.pipeline import export
    from sqp_tflite.run.interpreters import RuntimeFailedError
    from sqp_tflite.worker import Worker

    model, (x, x_test, y_test) = train("squareplus")
    keras_accuracy = float(np.mean(model.predict(x_test, verbose=0).argmax(axis=1) == y_test))
    files = {}
    for quantize, lowering in FORMS:
        data = {model.inputs[0].name: x[:400]}
        files[f"{quantize} {lowering}"] = export(model, data=data, quantize=quantize, lowering=lowering).model_bytes
    relu, _ = train("relu")
    relu_accuracy = float(np.mean(relu.predict(x_test, verbose=0).argmax(axis=1) == y_test))
    files["int8 ReLU, stock converter"] = stock_int8(relu, x[:400])
    found = [
        ("Keras, squareplus", 0, {"keras": (keras_accuracy, 0.0)}),
        ("Keras, ReLU", 0, {"keras": (relu_accuracy, 0.0)}),
    ]
    for form, content in files.items():
        cells = {}
        for runtime in RUNTIMES:
            try:
                score = accuracy(content, runtime, x_test, y_test)
            except RuntimeFailedError:
                continue
            with Worker() as worker:
                spent = worker.call("benchmarks.integer_models:latency_here", runtime, content, x_test)
            cells[runtime] = score, spent
        found.append((form, len(content), cells))
    return found


def markdown(found: list[tuple[str, int, dict[str, tuple[float, float]]]]) -> str:
    """Returns the page."""
    from sqp_tflite.ops.policy import NAMES, RUNTIMES

    lines = [_INTRODUCTION, "", f"| file | bytes | {' | '.join(NAMES[target] for target in RUNTIMES)} |"]
    lines.append("|---|---:|" + "---:|" * len(RUNTIMES))
    for form, size, cells in found:
        if not size:
            lines.append(f"| {form} | | {cells['keras'][0]:.2%} | | |")
            continue
        shown = [f"{cells[t][0]:.2%}, {cells[t][1]:.0f} µs" if t in cells else "cannot run it" for t in RUNTIMES]
        lines.append(f"| {form} | {size:,} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# Integer forms of the demo's CNN

Written by `python -m benchmarks.integer_models --write docs/integer-models.md`; do not edit. The CNN of
examples/digits.py, trained for 25 epochs, and the same network with ReLU; accuracy on 360 test images, time per image
on one thread of the machine that wrote this (best of 7 rounds of 100 calls). TensorFlow Lite Micro's package runs
reference kernels: its times say nothing about a device; docs/results.md has instruction counts."""


def main(arguments: list[str] | None = None) -> int:
    """Prints or stores the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.integer_models")
    parser.add_argument("--write", metavar="FILE")
    options = parser.parse_args(arguments)
    page = markdown(rows())
    if options.write:
        Path(options.write).write_text(page, encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())

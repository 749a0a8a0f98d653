"""How long a float32 export takes beside TensorFlow's own converter, as whole processes.

    python benchmarks/export_time.py demo-output/digits.keras --runs 5

Both commands start from nothing and end with a file; ours also proves the file on every installed runtime. They are
run in turn, and the ratio is taken pair by pair.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STOCK = """
import sys, tensorflow as tf
model = tf.keras.models.load_model(sys.argv[1], compile=False)
open(sys.argv[2], "wb").write(tf.lite.TFLiteConverter.from_keras_model(model).convert())
"""


def seconds(command: list[str]) -> float:
    """Returns how long a command takes; its output is thrown away."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    return time.perf_counter() - began


def measure(model: Path, runs: int) -> dict[str, object]:
    """Returns the seconds of both commands per run, after one run of each that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        ours = [str(Path(sys.executable).with_name("sqp-export")), str(model), "-o", f"{folder}/ours.tflite"]
        stock = [sys.executable, "-c", STOCK, str(model), f"{folder}/stock.tflite"]
        pairs = [(seconds(ours), seconds(stock)) for _ in range(runs + 1)][1:]
    ratios = [a / b for a, b in pairs]
    return {
        "model": str(model),
        "ours_s": [round(a, 2) for a, _ in pairs],
        "stock_s": [round(b, 2) for _, b in pairs],
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_min_max": [round(min(ratios), 3), round(max(ratios), 3)],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps(measure(options.model, options.runs), indent=2))

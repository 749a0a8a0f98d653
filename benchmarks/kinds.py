"""Kinds of layers and graphs that real models have, one small model each: our int8 beside stock int8.

    python -m benchmarks.kinds        measures all of them (five minutes) and writes docs/kinds.md

Each model has random weights and a dense layer behind what is looked at. Ours are exported in float32 and in int8
(`--lowering table`); "stock" is TensorFlow's own converter with the same 64 samples for calibration. A figure is the
max error over the range of Keras's output, on TensorFlow Lite Micro, or on LiteRT where the stock file does not run
there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.architectures import STOCK, Row, compared, fed, stock

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kinds.md"


def kinds() -> dict:
    """Returns {kind: function of keras that returns its model}."""
    import keras
    from keras import layers as L
    from keras import ops

    def seq(shape, *layers, dtype="float32"):
        return keras.Sequential([keras.Input(shape, dtype=dtype, name="x"), *layers, L.Flatten(), L.Dense(3)])

    def graph(shape, body):
        x = keras.Input(shape, name="x")
        return keras.Model(x, L.Dense(3)(L.Flatten()(body(x))))

    def dilated(x):
        gate, filter_ = (
            L.Conv1D(6, 3, dilation_rate=2, padding="causal", activation=a)(x) for a in ("sigmoid", "tanh")
        )
        return gate * filter_

    def split(x):
        first, second = ops.split(L.Conv2D(6, 3)(x), [2], axis=-1)
        return L.Concatenate()([L.ReLU()(second), first])

    return {
        "residual of one channel": lambda: graph((12, 1), lambda x: L.Add()([L.Dense(1)(x), x])),
        "two dilated convolutions": lambda: graph((16, 4), dilated),
        "split into unequal parts": lambda: graph((8, 8, 3), split),
        "up-sampling 1D": lambda: seq((8, 4), L.UpSampling1D(2), L.Conv1D(4, 3)),
        "up-sampling 2D": lambda: seq((4, 4, 3), L.UpSampling2D(2), L.Conv2D(4, 3)),
        "embedding": lambda: seq((10,), L.Embedding(50, 8), dtype="int32"),
        "uint8 pixels and Rescaling": lambda: seq((8, 8, 3), L.Rescaling(1 / 255), L.Conv2D(4, 3), dtype="uint8"),
        "PReLU per position": lambda: seq((6, 6, 2), L.Conv2D(4, 3), L.PReLU(alpha_initializer="glorot_uniform")),
        "GlobalMaxPooling2D": lambda: seq((6, 6, 3), L.Conv2D(6, 3), L.GlobalMaxPooling2D()),
        "softmax inside": lambda: seq((12,), L.Dense(6, activation="softmax")),
        "MultiHeadAttention": lambda: graph((6, 8), lambda x: L.MultiHeadAttention(2, 4)(x, x)),
        "LayerNormalization": lambda: seq((6, 8), L.Dense(8), L.LayerNormalization()),
        "GroupNormalization": lambda: seq((6, 6, 8), L.Conv2D(8, 3), L.GroupNormalization(2)),
        "UnitNormalization": lambda: seq((12,), L.Dense(8), L.UnitNormalization()),
        "Resizing": lambda: seq((6, 6, 3), L.Resizing(9, 9), L.Conv2D(4, 3)),
        "cropping and padding": lambda: seq((9, 9, 3), L.Cropping2D(1), L.ZeroPadding2D(2), L.Conv2D(4, 3)),
        "CenterCrop": lambda: seq((9, 9, 3), L.CenterCrop(6, 6), L.Conv2D(4, 3)),
        "LSTM": lambda: seq((6, 5), L.LSTM(8)),
        "GRU": lambda: seq((6, 5), L.GRU(8)),
        "flip": lambda: graph((8, 4), lambda x: ops.flip(L.Dense(4)(x), 1)),
        "running sum": lambda: graph((8, 4), lambda x: ops.cumsum(L.Dense(4)(x), 1)),
        "quotient": lambda: graph((8,), lambda x: L.Dense(4)(x) / (L.Dense(4, activation="relu")(x) + 1.0)),
    }


def data_of(model):
    """Returns 64 samples by input name: normal numbers, or integers that the input takes."""
    import numpy as np

    generator, found = np.random.default_rng(1), {}
    for tensor in model.inputs:
        shape, most = (64, *tensor.shape[1:]), {"int32": 50, "uint8": 256}.get(tensor.dtype)
        values = generator.normal(size=shape) if most is None else generator.integers(0, most, shape)
        found[tensor.name] = values.astype(tensor.dtype)
    return found


def model_of(name: str):
    """Returns (model, samples, Keras's outputs) of a kind, the same in every process."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    model = kinds()[name]()
    inputs = data_of(model)
    return model, inputs, [np.asarray(model.predict(fed(model, inputs), verbose=0))]


def ours(name: str) -> tuple[str, str]:
    """Returns the cells of our float32 and int8 files."""
    import sqp_tflite
    from sqp_tflite.run.interpreters import run

    model, inputs, truth = model_of(name)
    cells = []
    for quantize, lowering in (("float32", "algebraic"), ("int8", "table")):
        try:
            done = sqp_tflite.export(model, data=inputs, quantize=quantize, lowering=lowering, replace="accurate")
        except sqp_tflite.ExportError as error:
            print(f"{name} {quantize}: {' '.join(str(error).split())[:600]}", file=sys.stderr, flush=True)
            cells.append(error.report.verdict if error.report else "refused")
            continue
        made = run("tflm", done.model_bytes, tuple(inputs.values())).values
        cells.append(f"{compared(made, truth, classes=False)[0]:.2g}")
    return cells[0], cells[1]


def theirs(name: str) -> str:
    """Returns the cell of the stock file, made in a process that may crash."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.kinds", name], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return f"crash (signal {-done.returncode})" if done.returncode < 0 else "failed"
    return done.stdout.strip().splitlines()[-1]


def main() -> None:
    """Measures every kind and writes the page."""
    rows = []
    for name in kinds():
        row = (name, *ours(name), theirs(name))
        print(" | ".join(row), flush=True)
        rows.append(f"| {' | '.join(row)} |")
    head = ["| kind | float32 | int8 table | stock int8 |", "|---|---|---|---|"]
    text = " ".join((__doc__ or "").split("\n\n")[2].split())
    lines = ["# Kinds of layers", "", f"Made by `python -m benchmarks.kinds`. {text}", "", *head, *rows, ""]
    PAGE.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one, samples, wanted = model_of(sys.argv[1])
        row = stock(sys.argv[1], one, samples, wanted, False)
        assert isinstance(row, Row) and row.form == STOCK
        print(row.cell())
    else:
        main()

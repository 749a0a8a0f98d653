"""Kinds of layers and graphs that real models have, one small model each: our int8 beside stock int8.

    python -m benchmarks.kinds                 measures all of them (half an hour) and writes docs/kinds.md
    python -m benchmarks.kinds quotient flip   some of them, printed
    python -m benchmarks.kinds --rows FILE     all but those whose lines the file holds already; new ones are added

Each model has random weights and a dense layer behind what is looked at. Ours are exported in float32 and in int8
(`--lowering table`); "stock" is TensorFlow's own converter with the same 64 samples for calibration. Each is measured
in int8 with eight seeds, for weights and samples: the mean and the standard deviation of the max error over the range
of Keras's output, the root of the mean squared error, and the share of samples whose largest output is the same one.
Where stock has no file there are at least three seeds. The float32 figure is the max error of one. All run on
TensorFlow Lite Micro, stock files that do not run there on LiteRT. The models are opened from `.keras` files.

The last column compares ours with stock int8 seed by seed. Ours is behind in one of the three figures if it is worse on
average by more than two standard errors of these differences. Because one in thirty figures is so by chance, a row that
is behind is measured again with 24 other seeds, which alone decide; its row shows these.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.architectures import NAMES, TFLM, compared, deviation, fed, stock

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kinds.md"
SEEDS, MORE_SEEDS = range(8), range(100, 124)
FEW = 3
"""Seeds where there is nothing to compare with."""

ERRORS = 2.0
"""How many standard errors of the differences ours must be worse by to be behind."""
INTEGERS = {
    "int8": (-128, 128),
    "uint8": (0, 256),
    "int16": (-3000, 3000),
    "int32": (1, 50),
    "int64": (-500, 500),
}
"""From where to where the samples of an input go: no token is 0, which masks."""
TYPES = ("uint8", "int8", "int16", "int64", "float16", "float64")


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind in one form: max error, root mean square and share of equal classes per seed, or why there are none."""

    errors: tuple[float, ...] = ()
    rms: tuple[float, ...] = ()
    same: tuple[float, ...] = ()
    runtime: str = TFLM
    failure: str = ""

    @property
    def spread(self) -> float:
        """Returns the standard deviation of the errors."""
        return statistics.stdev(self.errors) if len(self.errors) > 1 else 0.0

    def text(self) -> str:
        """Returns the cell of an integer file."""
        if self.failure:
            return self.failure
        where = "" if self.runtime == TFLM else f" on {NAMES[self.runtime]}"
        mean, rms, same = map(statistics.mean, (self.errors, self.rms, self.same))
        return f"{mean:.4f} ± {self.spread:.4f}, {rms:.4f}, {same:.1%}{where}"


def kinds() -> dict:
    """Returns {kind: function of keras that returns its model}."""
    import keras
    from keras import layers as L
    from keras import ops

    from benchmarks.custom_layer import ScaledRectifier

    def seq(shape, *layers, dtype="float32"):
        return keras.Sequential([keras.Input(shape, dtype=dtype, name="x"), *layers, L.Flatten(), L.Dense(3)])

    def pixels(dtype):
        return lambda: seq((8, 8, 3), L.Rescaling(1 / 255), L.Conv2D(4, 3), dtype=dtype)

    def graph(shape, body, dtype="float32"):
        x = keras.Input(shape, dtype=dtype, name="x")
        return keras.Model(x, L.Dense(3)(L.Flatten()(body(x))))

    def dilated(x):
        gate, filter_ = (
            L.Conv1D(6, 3, dilation_rate=2, padding="causal", activation=a)(x) for a in ("sigmoid", "tanh")
        )
        return gate * filter_

    def split(x):
        first, second = ops.split(L.Conv2D(6, 3)(x), [2], axis=-1)
        return L.Concatenate()([L.ReLU()(second), first])

    def attended(tokens):
        x = L.Embedding(50, 8, mask_zero=True)(tokens)
        return L.MultiHeadAttention(2, 4)(x, x)

    return {
        "residual of one channel": lambda: graph((12, 1), lambda x: L.Add()([L.Dense(1)(x), x])),
        "two dilated convolutions": lambda: graph((16, 4), dilated),
        "split into unequal parts": lambda: graph((8, 8, 3), split),
        "up-sampling 1D": lambda: seq((8, 4), L.UpSampling1D(2), L.Conv1D(4, 3)),
        "up-sampling 2D": lambda: seq((4, 4, 3), L.UpSampling2D(2), L.Conv2D(4, 3)),
        "embedding": lambda: seq((10,), L.Embedding(50, 8), dtype="int32"),
        **{f"{dtype} inputs and Rescaling": pixels(dtype) for dtype in TYPES},
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
        "Masking into LSTM": lambda: seq((6, 5), L.Masking(), L.LSTM(8)),
        "masked Embedding into GRU": lambda: seq((6,), L.Embedding(50, 8, mask_zero=True), L.GRU(8), dtype="int32"),
        "masked Embedding into MultiHeadAttention": lambda: graph((6,), attended, "int32"),
        "a layer of one's own": lambda: seq((8, 8, 3), L.Conv2D(4, 3), ScaledRectifier()),
        "flip": lambda: graph((8, 4), lambda x: ops.flip(L.Dense(4)(x), 1)),
        "running sum": lambda: graph((8, 4), lambda x: ops.cumsum(L.Dense(4)(x), 1)),
        "quotient": lambda: graph((8,), lambda x: L.Dense(4)(x) / (L.Dense(4, activation="relu")(x) + 1.0)),
    }


def data_of(model, seed: int):
    """Returns 64 samples by input name: normal numbers, or integers that the input takes."""
    import numpy as np

    generator, found = np.random.default_rng(seed + 1), {}
    for tensor in model.inputs:
        shape, span = (64, *tensor.shape[1:]), INTEGERS.get(tensor.dtype)
        values = generator.normal(size=shape) if span is None else generator.integers(*span, shape)
        found[tensor.name] = values.astype(tensor.dtype)
    return found


def model_of(name: str, seed: int = 0):
    """Returns (model, samples, Keras's outputs) of a kind, the same in every process."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(seed)
    model = kinds()[name]()
    inputs = data_of(model, seed)
    return model, inputs, [np.asarray(model.predict(fed(model, inputs), verbose=0))]


TINY = 1e-6
"""A difference that only floats make."""


def ours(name: str, quantize: str, lowering: str, seeds: Sequence[int]) -> Cell:
    """Returns the cell of our files of a number type."""
    import sqp_tflite
    from sqp_tflite.run.interpreters import run

    found = []
    for seed in seeds:
        model, inputs, truth = model_of(name, seed)
        form = {"quantize": quantize, "lowering": lowering, "imports": ("benchmarks.custom_layer",)}
        try:
            with tempfile.TemporaryDirectory() as folder:
                model.save(path := Path(folder) / "model.keras")
                done = sqp_tflite.export(path, data=inputs, replace="accurate", **form)
        except sqp_tflite.ExportError as error:
            print(f"{name} {quantize}: {' '.join(str(error).split())[:600]}", file=sys.stderr, flush=True)
            return Cell(failure=error.report.verdict if error.report else "refused")
        made = run(TFLM, done.model_bytes, tuple(inputs.values())).values
        error, same = compared(made, truth, classes=True)
        found.append((error, deviation(made, truth), same))
    return Cell(*zip(*found, strict=True))


def theirs(name: str, seeds: Sequence[int]) -> Cell:
    """Returns the stock files' cell; they are made in a process that may crash."""
    numbers = ",".join(map(str, seeds))
    command = [sys.executable, "-m", "benchmarks.kinds", "--stock", name, numbers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return Cell(failure=f"crash (signal {-done.returncode})" if done.returncode < 0 else "failed")
    *figures, runtime = json.loads(done.stdout.strip().splitlines()[-1])
    return Cell(*map(tuple, figures), runtime)


def stock_here(name: str, seeds: Sequence[int]) -> None:
    """Prints what the stock files of a kind give."""
    rows = [stock(name, *model_of(name, seed), True) for seed in seeds]
    runtimes = sorted({row.runtime for row in rows})
    figures = zip(*((row.error, row.rms, row.same) for row in rows), strict=True)
    print(json.dumps([*figures, runtimes[0]]))


def behind(ours: Cell, stock: Cell) -> tuple[str, ...]:
    """Returns in which figures ours is behind, seed by seed; () for none, or if stock has no file.

    Args:
        ours: Our int8 files.
        stock: Stock int8 files with the same seeds.
    """
    if ours.failure or stock.failure:
        return (ours.failure,) if ours.failure else ()
    pairs = {
        "max error": (ours.errors, stock.errors),
        "RMS": (ours.rms, stock.rms),
        "same class": (stock.same, ours.same),
    }
    found = []
    for name, (higher, lower) in pairs.items():
        worse = [one - other for one, other in zip(higher, lower, strict=True)]
        mean, error = statistics.mean(worse), statistics.stdev(worse) / len(worse) ** 0.5
        if mean > max(ERRORS * error, TINY):
            found.append(f"{name} by {mean:.2g} ± {error:.1g}")
    return tuple(found)


def verdict(ours: Cell, stock: Cell) -> str:
    """Returns the last column of a row."""
    if stock.failure:
        return "" if not ours.failure else ours.failure
    return f"behind: {', '.join(found)}" if (found := behind(ours, stock)) else "not behind"


def row(name: str) -> str:
    """Measures a kind; returns its line of the page."""
    exact = ours(name, "float32", "algebraic", SEEDS[:1])
    stock_int8 = theirs(name, SEEDS)
    pair = ours(name, "int8", "table", SEEDS[:FEW] if stock_int8.failure else SEEDS), stock_int8
    if not pair[0].failure and behind(*pair):
        print(f"{name}: {verdict(*pair)}; measured again", file=sys.stderr, flush=True)
        pair = ours(name, "int8", "table", MORE_SEEDS), theirs(name, MORE_SEEDS)
    cells = (name, exact.failure or f"{max(exact.errors):.2g}", *(cell.text() for cell in pair), verdict(*pair))
    return f"| {' | '.join(cells)} |"


FIRST = (
    "Export the untrained model before you train it: `sqp-export model.keras` names each layer that does not "
    "get through, and what to do. Dense, Conv1D, Conv2D, DepthwiseConv2D, SeparableConv2D, Conv2DTranspose, "
    "pooling, normalization, Dropout, Embedding, Reshape, Flatten, Add, Concatenate, LSTM and GRU are in "
    "[published networks](architectures.md); here are the kinds of layers that often do not survive a "
    "conversion. Layers of your own: [existing "
    "models](existing_models.md#custom-layers-and-activations-of-your-own). Operators of each target: "
    "[operators](operators.md)."
)
"""What a reader of the page wants to know before the figures."""


def page(lines: list[str]) -> str:
    """Returns the page of all rows."""
    head = ["| kind | float32 | int8 table | stock int8 | int8 table is |", "|---|---|---|---|---|"]
    text = [" ".join(part.split()) for part in (__doc__ or "").split("\n\n")[2:]]
    text[0] = f"Made by `python -m benchmarks.kinds`. {text[0]}"
    worse = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.split(" | ")[-1].startswith("behind")]
    last = f"Behind stock int8: {', '.join(worse) or 'none'}."
    return "\n".join(
        ["# Supported layers: which can be exported", "", "\n\n".join((FIRST, *text)), "", *head, *lines, "", last, ""]
    )


def main(names: list[str], held: Path | None) -> None:
    """Measures kinds; with all of them, writes the page.

    Args:
        names: Some of them; [] for all.
        held: A file of lines that were measured already; new ones are added. None for no file.
    """
    known = held.read_text(encoding="utf-8").splitlines() if held and held.exists() else []
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in known}
    for name in names or kinds():
        if name in lines:
            continue
        print(made := row(name), flush=True)
        lines[name] = made
        if held:
            with open(held, "a", encoding="utf-8") as file:
                file.write(made + "\n")
    if not names:
        PAGE.write_text(page([lines[name] for name in kinds()]), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stock"]:
        stock_here(sys.argv[2], [int(number) for number in sys.argv[3].split(",")])
    elif sys.argv[1:2] == ["--rows"]:
        main(sys.argv[3:], Path(sys.argv[2]))
    else:
        main(sys.argv[1:], None)

"""Draws the pictures of the guides: the family of activations, error against size, where the memory goes.

python -m benchmarks.doc_figures [--folder docs/figures]

The network is that of `examples/digits.py`, trained anew (a minute); its files are exported, run and measured here.
"""

import argparse
import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from matplotlib import pyplot as plt

import sqp_keras
import sqp_tflite
from sqp_tflite.agreement import Agreement
from sqp_tflite.report import Report
from tools.plotting import BLACK, BLUE, GREY, RED, SETTINGS

ROOT = Path(__file__).parent.parent
FEWEST = {"softplus": 1, "silu": 1, "gelu": 1, "mish": 1, "tanh": 2, "sigmoid": 2}
"""The activations of the picture, with the smallest number of roots that a sum has."""
FORMS = {
    "float32": {},
    "float16": {"quantize": "float16", "target": "litert"},
    "dynamic": {"quantize": "dynamic", "target": "litert"},
    "int8": {"quantize": "int8"},
    "int8, tables": {"quantize": "int8", "lowering": "table"},
    "int16x8": {"quantize": "int16x8", "lowering": "integer"},
}
BESIDE = {"int8": (8, 4), "int8, tables": (8, -10), "dynamic": (-48, -3)}
"""Where a name stands, if not on the right of its point."""


@dataclass(frozen=True)
class Exported:
    """One form of the network: its size in bytes, its report, and its row on the test images."""

    size: int
    report: Report
    tested: Agreement


def family() -> Any:
    """Returns each activation with its sums of square roots, and below what they are off."""
    x = np.linspace(-8, 8, 801)
    figure, axes = plt.subplots(
        2, len(FEWEST), figsize=(11, 3.6), layout="constrained", sharex=True, height_ratios=(2, 1)
    )
    for (above, below), name in zip(axes.T, FEWEST, strict=True):
        true = np.asarray(keras.activations.get(name)(x))
        above.plot(x, true, color=BLACK, label="as in Keras")
        for terms, colour, dashes, label in (
            (FEWEST[name], BLUE, "--", "fewest roots"),
            (None, RED, "-.", "within 0.001"),
        ):
            got = keras.ops.convert_to_numpy(sqp_keras.algebraic(x, of=name, terms=terms))
            above.plot(x, got, dashes, color=colour, label=label)
            below.plot(x, np.abs(got - true) + 1e-9, dashes, color=colour)
        above.set_title(name)
        below.set(yscale="log", ylim=(1e-6, 1), xlabel="x")
    axes[1, 0].set_ylabel("off by")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def exports() -> dict[str, Exported]:
    """Returns the digits network in each form, with its accuracy on the 360 test images."""
    spec = importlib.util.spec_from_file_location("digits", ROOT / "examples" / "digits.py")
    assert spec is not None and spec.loader is not None
    digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    with tempfile.TemporaryDirectory() as folder:
        digits.train(Path(folder), 12)
        model = keras.saving.load_model(Path(folder) / "digits.keras")
    x, x_test, _, y_test = digits.digits()
    made = {}
    for name, options in FORMS.items():
        calibrated = options.get("quantize", "").startswith("int")
        exported = sqp_tflite.export(model, data={"image": x} if calibrated else None, **options)
        assert exported.model_bytes is not None
        rows = sqp_tflite.check(model, exported.model_bytes, {"image": x_test, "y": y_test})
        tested = next(row for row in rows if row.metric_after is not None)
        made[name] = Exported(len(exported.model_bytes), exported.report, tested)
    return made


def size_against_error(made: dict[str, Exported]) -> Any:
    """Returns a picture of each form's size and of how far its outputs are off on the test images."""
    figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for name, one in made.items():
        point = one.size / 1024, one.tested.error_of_range
        axis.plot(*point, "o", color=RED if "int" in name else BLUE)
        axis.annotate(name, point, BESIDE.get(name, (8, -3)), textcoords="offset points")
    axis.set(xlabel="file, KiB", ylabel="max error, share of the range", yscale="log", xlim=(0, 52), ylim=(1e-7, 1))
    return figure


def memory(made: dict[str, Exported]) -> Any:
    """Returns the bytes of the tensors that are needed while each operator runs."""
    figure, axis = plt.subplots(figsize=(8.4, 3.2), layout="constrained")
    for name, colour in (("float32", BLUE), ("int8", GREY), ("int8, tables", RED)):
        steps = made[name].report.memory.steps
        axis.step(range(len(steps)), [step.live_bytes / 1024 for step in steps], where="mid", color=colour, label=name)
    axis.set(xlabel="operator, in order", ylabel="tensors in use, KiB", ylim=(0, None))
    axis.legend()
    return figure


def draw(folder: Path) -> None:
    """Writes the pictures as SVG into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    plt.switch_backend("svg")
    with plt.rc_context(SETTINGS):
        figures = {"family": family()}
        made = exports()
        figures |= {"size-error": size_against_error(made), "memory": memory(made)}
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.svg", format="svg", metadata={"Date": None, "Creator": None})
            plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "figures")
    draw(parser.parse_args().folder)

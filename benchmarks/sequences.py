"""Models of sequences exported with --step: operators, bytes, seconds and drift; int8 beside stock int8.

    python -m benchmarks.sequences            measures everything and prints it
    python -m benchmarks.sequences --write    and puts it into docs/sequences.md
    python -m benchmarks.sequences --nets GRU some of the networks

The six networks of `tools/sequences.py` have random weights; each is exported with --step in three forms, on 24 seeded
sequences. Then small recurrent networks are trained on scikit-learn's digits, whose rows are the time steps, and their
int8 step files are compared with what TensorFlow's own converter makes of the same network, written out (`unroll=True`,
since its loops do not convert), calibrated on the same images. Seconds are those of the processor, of all processes of
an export together, without importing TensorFlow: other work on the machine does not lengthen them.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "sequences.md"
BEGIN, END = "<!-- figures (python -m benchmarks.sequences --write) -->", "<!-- /figures -->"
FORMS = (
    ("float32, accurate", {"replace": "accurate"}),
    ("int8, table", {"quantize": "int8", "lowering": "table", "head": "logits"}),
    ("int16x8, integer", {"quantize": "int16x8", "lowering": "integer", "replace": "accurate", "head": "logits"}),
)
SEQUENCES, SEED = 24, 3
TARGET = "tflm"
EPOCHS = 30


@dataclass(frozen=True, slots=True)
class Cell:
    """One network in one form: what its file is, the errors over the range at the drift's steps, and the seconds."""

    form: str
    operators: int = 0
    size: int = 0
    arena: int = 0
    drift: tuple[tuple[int, float], ...] = ()
    seconds: float = 0.0
    failure: str = ""


def processor_seconds() -> float:
    """Returns what this process and its living and ended children have computed (Linux)."""
    mine, ticks, total = str(os.getpid()), os.sysconf("SC_CLK_TCK"), 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.parent.name, stat.read_text().rpartition(")")[2].split()
        except OSError:  # It has just ended.
            continue
        if mine in (name, fields[1]):
            total += sum(int(field) for field in fields[11:15])
    return total / ticks


def cell(model, data, form: str, options: dict[str, str]) -> Cell:
    """Returns what an export with --step gives."""
    import sqp_tflite
    from sqp_tflite.agreement import GIVEN
    from sqp_tflite.errors import ExportError

    began = processor_seconds()
    try:
        made = sqp_tflite.export(model, step=True, data=data, **options)
    except ExportError as error:
        return Cell(form, failure=str(error).splitlines()[0])
    seconds, report = processor_seconds() - began, made.report
    rows = [row for row in report.agreement if row.runtime == TARGET and row.against == GIVEN and row.drift]
    worst = max(rows, key=lambda row: max(error for _, error in row.drift), default=None)
    drift = worst.drift if worst else ()
    operators = sum(row.count for row in report.ops)
    return Cell(form, operators, len(made.model_bytes), report.memory.arena_bytes or 0, drift, seconds)


def six(names: list[str]) -> list[str]:
    """Returns the table of the networks."""
    import numpy as np

    from tools import sequences

    heads = "| network | steps | operators, whole : one step | form | operators | bytes | arena | s |"
    lines = [f"{heads} error at 1, T/4, T/2, T, 4T |", "|---|---:|---:|---|---:|---:|---:|---:|---|"]
    for name in names:
        model, steps = sequences.build(name), sequences.NETS[name][1]
        whole, step = (sequences.operators(model, one, accurate=True) for one in (False, True))
        shape = (SEQUENCES, *model.inputs[0].shape[1:])
        data = {"x": np.random.default_rng(SEED).normal(size=shape).astype(np.float32)}
        for place, (form, options) in enumerate(FORMS):
            found = cell(model, data, form, options)
            first = f"| {name} | {steps} | {whole:,} : {step} ({whole / step:.0f}) " if not place else "| | | "
            errors = ", ".join(f"{error:.1g}" for _, error in found.drift)
            lines.append(
                f"{first}| {form} | {found.operators} | {found.size:,} | {found.arena:,} | {found.seconds:.0f} | "
                f"{found.failure or errors} |"
            )
            print(lines[-1], flush=True)
    return lines


def nets():
    """Returns {name: (time steps, learning rate, layers)} of what is trained; the head is a Dense of ten units."""
    import keras

    layers = keras.layers
    return {
        "LSTM of 24": (8, 0.001, lambda: [layers.LSTM(24, unroll=True)]),
        "GRU of 24": (8, 0.001, lambda: [layers.GRU(24, reset_after=False, unroll=True)]),
        "LSTM of 20, all steps": (
            8,
            0.001,
            lambda: [layers.LSTM(20, return_sequences=True, unroll=True), layers.Flatten()],
        ),
        "LSTM of 24, long": (32, 0.005, lambda: [layers.LSTM(24, unroll=True)]),
    }


def digits() -> list[str]:
    """Returns the table of the trained networks."""
    import keras
    import numpy as np

    import sqp_tflite
    from benchmarks.architectures import stock
    from tools.stock_files import images

    pixels, unseen, labels, wanted = images()
    lines = [
        "| network | steps | Keras | int8 step | same digit | stock int8, same digit |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, (steps, rate, build) in nets().items():
        keras.utils.set_random_seed(0)
        train, test = (part.reshape(-1, steps, 64 // steps) for part in (pixels, unseen))
        model = keras.Sequential([keras.Input(test.shape[1:], name="x"), *build(), keras.layers.Dense(10)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"], jit_compile=False)
        model.fit(train, labels, epochs=EPOCHS, batch_size=64, verbose=0)
        data = {"x": test, "y": wanted}
        made = sqp_tflite.export(model, step=True, quantize="int8", lowering="table", data=data, max_change=1.0)
        row = next(row for row in made.report.agreement if row.runtime == TARGET)
        truth = [np.asarray(model(test))]
        theirs = stock(name, model, {"x": test}, truth, True)
        same = "-" if theirs.same is None else f"{theirs.same:.1%} ({theirs.runtime})"
        lines.append(
            f"| {name} | {steps} | {row.metric_before:.1%} | {row.metric_after:.1%} | {row.argmax_agreement:.1%} "
            f"| {same} |"
        )
        print(lines[-1], flush=True)
    return lines


def put(networks: list[str], trained: list[str]) -> None:
    """Writes the tables into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    made = "\n".join([BEGIN, "", *networks, "", *_SAID, "", *trained, "", END])
    PAGE.write_text(before + made + rest.partition(END)[2], "utf-8")


def main() -> None:
    """Measures, prints, and writes the page if that is asked for."""
    from tools import sequences

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the tables into docs/sequences.md")
    parser.add_argument("--nets", nargs="*", help="parts of the names of networks; without one the trained ones only")
    chosen = parser.parse_args()
    began = time.monotonic()
    names = [name for name in sequences.NETS if chosen.nets is None or any(part in name for part in chosen.nets)]
    trained = digits() if not chosen.nets else []
    tables = six(names)
    print(f"{time.monotonic() - began:.0f} s")
    if chosen.write:
        put(tables, trained)


_SAID = (
    "Trained on scikit-learn's digits, 64 pixels in rows as the time steps, the share of 360 test images. Both int8",
    'files are calibrated on these images; "same digit" is the share in which the file and Keras agree.',
)


if __name__ == "__main__":
    main()

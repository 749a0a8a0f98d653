"""What Ethos-U NPUs make of activations and of whole networks, by Vela's estimates.

    python -m benchmarks.ethos_u --write docs/ethos-u.md

The demo's network, trained for a moment, once for each activation: as TensorFlow's converter writes it at int8, and as
this project writes it. Then networks of `tools/zoo.py` with squareplus, exported for a U55 with made-up inputs. Each
file is compiled for the variants of all three NPUs. Without --write the tables are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ACTIVATIONS = ("relu", "hard_silu", "gelu", "softplus", "silu", "squareplus")
"""The activations of stock files."""

OURS = {
    "squareplus, `table`": ("squareplus", {"lowering": "table"}),
    "squareplus, `integer`": ("squareplus", {"lowering": "integer"}),
    "squareplus, `integer`, int16x8": ("squareplus", {"lowering": "integer", "quantize": "int16x8"}),
    "squareplus, `algebraic`": ("squareplus", {"lowering": "algebraic"}),
    "silu as a sum of roots, `table`": ("silu", {"lowering": "table", "replace": "accurate"}),
    "silu as a sum of roots, `integer`": ("silu", {"lowering": "integer", "replace": "accurate"}),
    "gelu as a sum of roots, `table`": ("gelu", {"lowering": "table", "replace": "accurate"}),
    "softplus as a sum of roots, `table`": ("softplus", {"lowering": "table", "replace": "accurate"}),
}

ZOO = ("Z01", "Z02", "Z03", "Z06", "Z07", "Z08", "Z09", "Z10", "Z16", "Z19", "Z21", "Z23")
SAMPLES, EPOCHS = 64, 3
BEGIN, END = "<!-- begin: python -m benchmarks.ethos_u -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Row:
    """A file, and what Vela says of it: {accelerator: (operators on the NPU, on the CPU, cycles, SRAM and DRAM)}."""

    name: str
    found: dict[str, tuple[int, int, int, int]]
    about: str = ""


def demo(activation: str) -> Any:
    """Returns the demo's network with another activation, trained for a moment."""
    import keras

    import sqp_keras  # noqa: F401  registers the string "squareplus"
    from tools.stock_files import images

    keras.utils.set_random_seed(1)
    layers = keras.layers
    stack = [keras.Input((8, 8, 1), name="image"), layers.Conv2D(32, 3, padding="same", use_bias=False)]
    stack += [layers.BatchNormalization(), layers.Activation(activation, name="first")]
    stack += [layers.DepthwiseConv2D(3, padding="same"), layers.Activation(activation, name="second")]
    stack += [layers.Conv2D(48, 1, use_bias=False), layers.BatchNormalization()]
    stack += [layers.Activation(activation, name="third"), layers.MaxPooling2D(2), layers.Flatten()]
    model = keras.Sequential([*stack, layers.Dense(10, name="digit")], name="digits")
    model.compile(keras.optimizers.Adam(5e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, _, y, _ = images()
    model.fit(x, y, 32, EPOCHS, verbose=0)
    return model


def pixels() -> Any:
    """Returns the inputs that ranges are taken from."""
    from tools.stock_files import images

    return images()[0][: 4 * SAMPLES]


def stock(activation: str) -> bytes:
    """Returns what TensorFlow's converter writes at int8, with integers at both ends."""
    import tensorflow as tf

    x = pixels()
    with tempfile.TemporaryDirectory() as folder:
        demo(activation).export(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([x[place : place + 1]] for place in range(len(x)))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8, tf.lite.OpsSet.TFLITE_BUILTINS]
        converter.inference_input_type = converter.inference_output_type = tf.int8
        return converter.convert()


def measured(content: bytes, accelerators: tuple[str, ...], wanted: Any = None) -> dict[str, tuple[int, int, int, int]]:
    """Returns what Vela says of a file, with the file's tables in the NPU if it is ours (`wanted` is given)."""
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.npu.judge import judged

    graph, found = read(content), {}
    for accelerator in accelerators:
        npu = judged(content, graph, accelerator.rpartition("-")[0], accelerator, None, wanted).npu
        found[accelerator] = (npu.on_npu, npu.on_cpu, npu.cycles, npu.sram_bytes + npu.dram_bytes)
    return found


def activations(accelerators: tuple[str, ...]) -> Iterator[Row]:
    """Yields a row for each activation and form."""
    import sqp_tflite
    from sqp_tflite.ops.combinations import Combination

    for name in ACTIVATIONS:
        yield Row(f"{name}, stock", measured(stock(name), accelerators))
    for name, (activation, options) in OURS.items():
        made = sqp_tflite.export(demo(activation), target="ethos-u55", data=pixels(), **options)
        wanted = Combination(made.report.quantize, made.report.lowering, "ethos-u55")
        yield Row(name, measured(made.model_bytes or b"", accelerators, wanted))


def networks(accelerators: tuple[str, ...]) -> Iterator[Row]:
    """Yields a row for each network of the zoo, exported for a U55 with every default."""
    import sqp_tflite
    from sqp_tflite.ops.combinations import Combination
    from tools import zoo

    for identifier in ZOO:
        model = zoo.build(identifier)
        made = sqp_tflite.export(model, target="ethos-u55", data=zoo.samples(model, SAMPLES))
        row = made.report.worst("tflm")
        off = "" if row is None or row.error_of_range is None else f"{row.error_of_range:.2g}"
        found = measured(made.model_bytes or b"", accelerators, Combination("int8", "table", "ethos-u55"))
        yield Row(f"{identifier} {zoo.ENTRIES[identifier].name}", found, off)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a Markdown table; all columns but the first are numbers."""
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def places(row: Row, accelerators: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the operators on the NPU and on the CPU, for each accelerator that is named."""
    return tuple("{} / {}".format(*row.found[name][:2]) for name in accelerators)


def page(few: tuple[str, ...], every: tuple[str, ...], kinds: list[Row], nets: list[Row]) -> str:
    """Returns the tables with what they show."""
    from sqp_tflite.npu import vela

    def cycles(row: Row, name: str) -> str:
        # Cycles of a part say nothing about the whole.
        _, on_cpu, found, _ = row.found[name]
        return f"({found:,})" if on_cpu else f"{found:,}"

    short = [name.removeprefix("ethos-") for name in every]
    parts = [
        f"Vela {vela.version()}. Cycles in brackets leave out operators on the CPU.",
        table(
            ("the demo's network", *(f"{name.removeprefix('ethos-')} NPU / CPU" for name in few), f"memory {few[0]}"),
            [(row.name, *places(row, few), f"{row.found[few[0]][3]:,}") for row in kinds],
        ),
        table(
            ("cycles", *short),
            [(row.name, *(cycles(row, name) for name in every)) for row in kinds],
        ),
        table(
            (
                "network, squareplus",
                *(f"{name.removeprefix('ethos-')} NPU / CPU" for name in few),
                *(f"cycles {name.removeprefix('ethos-')}" for name in few),
                f"memory {few[0]}",
                "max error of range on TFLM",
            ),
            [
                (
                    row.name,
                    *places(row, few),
                    *(cycles(row, name) for name in few),
                    f"{row.found[few[0]][3]:,}",
                    row.about,
                )
                for row in nets
            ],
        ),
    ]
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Prints the tables, or puts them between the marks of a page."""
    from sqp_tflite.ops.policy import ACCELERATOR, ACCELERATORS

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="the page in which the tables are replaced")
    options = parser.parse_args(arguments)
    few, every = tuple(ACCELERATOR.values()), tuple(name for names in ACCELERATORS.values() for name in names)
    kinds, nets = [], []
    for rows, found in ((kinds, activations(every)), (nets, networks(few))):
        for row in found:
            rows.append(row)
            print(row.name, {name: row.found[name][:3] for name in few}, row.about, file=sys.stderr, flush=True)
    text = page(few, every, kinds, nets)
    if options.write is None:
        print(text)
        return 0
    before, _, rest = options.write.read_text("utf-8").partition(BEGIN)
    options.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

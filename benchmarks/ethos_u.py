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

ZOO = tuple("Z01 Z02 Z03 Z06 Z07 Z08 Z09 Z10 Z16 Z19 Z21 Z22 Z23 Z27".split())
SAMPLES, EPOCHS = 64, 3


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
    from tools import untrained, zoo

    for identifier in ZOO:
        model = zoo.build(identifier)
        data = zoo.samples(model, SAMPLES)
        try:
            made = sqp_tflite.export(model, target="ethos-u55", data=data)
            content, row = made.model_bytes or b"", made.report.worst("tflm")
            off = "-" if row is None or row.error_of_range is None else f"{row.error_of_range:.2g}"
        except sqp_tflite.ParityError:  # Of random weights an output may be a constant, which has no range.
            content, off = untrained.file_of(model, data, "int8 table"), "constant output"
        found = measured(content, accelerators, Combination("int8", "table", "ethos-u55"))
        yield Row(f"{identifier} {zoo.ENTRIES[identifier].name}", found, off)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a Markdown table; all columns but the first are numbers."""
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def places(row: Row, accelerators: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the operators on the NPU and on the CPU, for each accelerator that is named."""
    return tuple("{} / {}".format(*row.found[name][:2]) for name in accelerators)


def cycles(row: Row, name: str) -> str:
    """Returns the cycles; in brackets where they leave something out."""
    _, on_cpu, found, _ = row.found[name]
    return f"({found:,})" if on_cpu else f"{found:,}"


def about_activations(few: tuple[str, ...], every: tuple[str, ...]) -> str:
    """Returns the tables of activations."""
    rows = list(told(activations(every), few))
    head = ("the demo's network", *(f"{short(name)} NPU / CPU" for name in few), f"memory {short(few[0])}")
    first = table(head, [(row.name, *places(row, few), f"{row.found[few[0]][3]:,}") for row in rows])
    found = [(row.name, *(cycles(row, name) for name in every)) for row in rows]
    return f"{first}\n\n{table(('cycles', *map(short, every)), found)}"


def about_networks(few: tuple[str, ...], _: tuple[str, ...]) -> str:
    """Returns the table of whole networks."""
    head = ("network, squareplus", *(f"{short(name)} NPU / CPU" for name in few))
    head += (*(f"cycles {short(name)}" for name in few), f"memory {short(few[0])}", "max error of range on TFLM")
    rows = [
        (row.name, *places(row, few), *(cycles(row, name) for name in few), f"{row.found[few[0]][3]:,}", row.about)
        for row in told(networks(few), few)
    ]
    return table(head, rows)


def about_operators(few: tuple[str, ...], _: tuple[str, ...]) -> str:
    """Returns which admitted operators of integers are left to the CPU, each tried in a file of its own."""
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.npu import vela
    from sqp_tflite.npu.tables import COMMAND
    from sqp_tflite.ops.one_op import build
    from sqp_tflite.ops.policy import ADMITTED, NAMES, kernels
    from sqp_tflite.ops.probe import cases

    rows = []
    for accelerator in few:
        left: dict[str, list[str]] = {}
        fails: dict[str, list[str]] = {}
        for case in cases(None):
            if case.op not in ADMITTED or "float" in case.dtype or case.dtype not in kernels("tflm").get(case.op, ()):
                continue
            try:
                ops = read(vela.compiled(build(case), accelerator).content).main.ops
            except vela.CompilerFailedError:
                fails.setdefault(case.op, []).append(case.dtype)
                continue
            if any(op.name != COMMAND for op in ops):
                left.setdefault(case.op, []).append(case.dtype)
        named = [", ".join(f"{op} ({', '.join(types)})" for op, types in one.items()) for one in (left, fails)]
        rows.append((NAMES[accelerator.rpartition("-")[0]], *(text or "none" for text in named)))
    return table(("NPU", "left to the CPU", "Vela ends in an error"), rows)


def told(rows: Iterator[Row], few: tuple[str, ...]) -> Iterator[Row]:
    """Yields the rows, and prints each as it comes."""
    for row in rows:
        print(row.name, {name: row.found[name][:3] for name in few}, row.about, file=sys.stderr, flush=True)
        yield row


def short(accelerator: str) -> str:
    """Returns a variant without what all have in common."""
    return accelerator.removeprefix("ethos-")


PARTS = {"activations": about_activations, "networks": about_networks, "operators": about_operators}


def main(arguments: list[str] | None = None) -> int:
    """Prints the tables, or puts them between the marks of a page."""
    from sqp_tflite.ops.policy import ACCELERATOR, ACCELERATORS

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="the page in which the tables are replaced")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    options = parser.parse_args(arguments)
    few, every = tuple(ACCELERATOR.values()), tuple(name for names in ACCELERATORS.values() for name in names)
    for part in options.part or PARTS:
        text = PARTS[part](few, every)
        if options.write is None:
            print(f"{text}\n")
            continue
        mark, end = f"<!-- begin: {part}, python -m benchmarks.ethos_u -->", "<!-- end -->"
        before, _, rest = options.write.read_text("utf-8").partition(mark)
        options.write.write_text(f"{before}{mark}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

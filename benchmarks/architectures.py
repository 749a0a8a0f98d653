"""Whole architectures with the activations they were published with: exported in four forms, beside stock int8.

    python -m benchmarks.architectures --rows rows.jsonl     every model (hours on two cores); rows that the file holds
                                                             are not measured again; writes docs/architectures.md
    python -m benchmarks.architectures --models Z07,unet_1d  some models, printed
    python -m benchmarks.architectures --models Z13 --draws 5 --rows rows.jsonl
                                                             also with other samples, our int8 table and stock int8 only

Each model is trained briefly on made data, so that batch norm has statistics and outputs mean something. It is exported
with `--replace accurate --head logits`; what the file gives on TensorFlow Lite Micro is compared with the Keras model
as it was trained, its head left out. "Stock int8" is TensorFlow's own converter with the same calibration data; its
file runs on the same interpreter, because interpreters do not round alike, or on LiteRT where TensorFlow Lite Micro
does not run it. Every model is measured in processes of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architectures.md"
BEGIN, END = "<!-- rows -->", "<!-- /rows -->"

FORMS = {
    "float32": ("float32", "algebraic"),
    "int8 table": ("int8", "table"),
    "int8 algebraic": ("int8", "algebraic"),
    "int16x8": ("int16x8", "algebraic"),
}
"""Number type and lowering of each form, by what the page calls it."""
STOCK = "stock int8"
COMPARED = ["int8 table", STOCK]
"""What is compared over several sets of samples."""
TFLM, LITERT = "tflm", "litert"
NAMES = {TFLM: "TensorFlow Lite Micro", LITERT: "LiteRT"}
ACTIVATIONS = {"Z11": "elu", "Z12": "elu", "Z20": "hard_silu"}
"""What stands for the zoo's own activation; relu in the others, as published."""
APPLICATIONS = ("MobileNetV2", "MobileNetV3Small", "EfficientNetV2B0", "ConvNeXtTiny", "NASNetMobile", "ResNet50V2")
PIXELS = {"MobileNetV3Small", "EfficientNetV2B0", "ConvNeXtTiny", "Z12", "Z13"}
LOGITS = ("Z10",)
"""Classifiers without a head to tell them by."""
TRAIN, TEST = 384, 64
SECONDS = 1500
"""What one model may take in one form."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one form.

    `error` is the largest distance of any output to Keras's over the range of that output, 0 included; `same` the share
    of samples of the same class, None where no output is a class. `runtime` is the interpreter that ran the file,
    `rms` the root of the mean squared error over the range, `draw` the number of the samples.
    """

    model: str
    form: str
    result: str
    error: float | None = None
    same: float | None = None
    bytes: int | None = None
    operators: int | None = None
    arena: int | None = None
    seconds: float | None = None
    runtime: str = TFLM
    rms: float | None = None
    draw: int = 0

    def cell(self) -> str:
        """Returns how it agreed, in short."""
        if self.error is None:
            return self.result
        same = "" if self.same is None else f", {self.same:.0%}"
        where = "" if self.runtime == TFLM else f" on {NAMES[self.runtime]}"
        return f"{self.error:.2g}{same}{where}" + ("" if self.result == "ok" else f" ({self.result})")


def names() -> list[str]:
    """Returns every model of the page, in its order."""
    from tools import nets, zoo

    return [*zoo.ENTRIES, *nets.NETS, *APPLICATIONS]


def build(name: str):
    """Returns a model as it was published, untrained."""
    import keras

    from tools import nets, zoo

    if name in nets.NETS:
        return nets.build(name)
    if name in zoo.ENTRIES:
        return zoo.build(name, activation=ACTIVATIONS.get(name, "relu"), head="original")
    keras.utils.set_random_seed(0)
    kind = getattr(keras.applications, name)
    small = (224, 224, 3) if name == "NASNetMobile" else (64, 64, 3)
    return kind(weights=None, input_shape=small, classes=10)


def data_of(model, name: str, count: int, seed: int):
    """Returns (inputs by name, class of each sample): smooth patterns, one per class, with noise on them."""
    import numpy as np

    patterns, generator = np.random.default_rng(0), np.random.default_rng(seed)
    classes = generator.integers(0, 6, count)
    found = {}
    for tensor in model.inputs:
        shape = tuple(tensor.shape[1:])
        if "int" in tensor.dtype:
            found[tensor.name] = (classes[:, None] * 30 + generator.integers(0, 40, (count, *shape))).astype(np.int32)
            continue
        waves = patterns.normal(size=(6, *shape))
        for axis in range(1, len(shape)):  # Not over the channels.
            waves = (waves + np.roll(waves, 1, axis) + np.roll(waves, 2, axis)) / np.sqrt(3)
        values = waves[classes] + 0.7 * generator.normal(size=(count, *shape))
        values = np.clip(127.5 + 45 * values, 0, 255) if name in PIXELS else values
        found[tensor.name] = values.astype(np.float32)
    return found, classes


def fed(model, inputs):
    """Returns the inputs as the model is called with them."""
    return next(iter(inputs.values())) if len(model.inputs) == 1 else list(inputs.values())


def targets(model, inputs, classes):
    """Returns (targets, losses) for each output: classes for a softmax, the input again, or smooth functions of it."""
    import numpy as np

    first = np.asarray(next(iter(inputs.values())), np.float64).reshape(len(classes), -1)
    first = (first - first.mean()) / (first.std() + 1e-9)
    outputs = model.predict(fed(model, {k: v[:8] for k, v in inputs.items()}), verbose=0)
    wanted, losses = [], []
    for number, output in enumerate(outputs if isinstance(outputs, list) else [outputs]):
        shape = (len(classes), *output.shape[1:])
        if output.min() >= 0 and np.allclose(output.sum(-1), 1, atol=1e-3) and output.shape[-1] > 1:
            hot = np.eye(output.shape[-1])[classes % output.shape[-1]]
            wanted.append(np.broadcast_to(hot.reshape(len(classes), *[1] * (len(shape) - 2), -1), shape))
            losses.append("categorical_crossentropy")
            continue
        if shape[1:] == next(iter(inputs.values())).shape[1:]:
            made = first
        else:
            mix = np.random.default_rng(number).normal(size=(first.shape[1], int(np.prod(shape[1:]))))
            made = np.tanh(first @ mix / np.sqrt(first.shape[1]))
        positive = output.min() >= 0
        wanted.append(((np.tanh(made) + 1) / 2 if positive else made).reshape(shape))
        losses.append("mse")
    return wanted, losses


def trained(name: str):
    """Returns the model after a short training."""
    import keras

    model = build(name)
    large = model.count_params() > 1_000_000
    count, epochs = (96, 2) if large else (TRAIN, 3)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.8  # Few steps.
    inputs, classes = data_of(model, name, count, seed=1)
    wanted, losses = targets(model, inputs, classes)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=losses)
    model.fit(fed(model, inputs), wanted if len(wanted) > 1 else wanted[0], 16, epochs, verbose=0)
    return model


def truth_of(model, inputs):
    """Returns Keras's outputs, heads left out, and whether the first is one class per sample."""
    import numpy as np

    import sqp_keras

    original, heads = sqp_keras.drop_head(model)
    outputs = original.predict(fed(model, inputs), batch_size=16, verbose=0)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    softmax = any(dropped.was == "softmax" for dropped in heads[:1])
    return original, [np.asarray(one, np.float32) for one in outputs], softmax and outputs[0].ndim == 2


def compared(made, truth, classes: bool):
    """Returns (error over the range, share of equal classes) of outputs against Keras's."""
    import numpy as np

    errors = [float(np.abs(a - b).max() / (np.ptp(np.append(b, 0.0)) or 1.0)) for a, b in zip(made, truth, strict=True)]
    return max(errors), float(np.mean(made[0].argmax(-1) == truth[0].argmax(-1))) if classes else None


def deviation(made, truth) -> float:
    """Returns the root of the mean squared error over the range, of the output where it is largest."""
    import numpy as np

    pairs = zip(made, truth, strict=True)
    return max(float(np.sqrt(np.mean((a - b) ** 2.0)) / (np.ptp(np.append(b, 0.0)) or 1.0)) for a, b in pairs)


def exported(name: str, label: str, model, inputs, truth, classes: bool) -> Row:
    """Returns what one export gave; a refusal is a row, too."""
    import sqp_tflite
    from sqp_tflite.run.interpreters import run

    (quantize, lowering), began = FORMS[label], time.monotonic()
    try:
        done = sqp_tflite.export(
            model, data=inputs, quantize=quantize, lowering=lowering, replace="accurate", head="logits"
        )
    except sqp_tflite.ExportError as error:
        print(f"{name} {label}: {' '.join(str(error).split())[:900]}", file=sys.stderr)
        verdict = error.report.verdict if error.report else "refused"
        return Row(name, label, verdict, seconds=time.monotonic() - began)
    seconds = time.monotonic() - began
    for note in done.report.notes:
        if "sums of roots" in note:
            print(f"{name} {label}: {note}", file=sys.stderr)
    made = run("tflm", done.model_bytes, tuple(inputs.values())).values
    error, same = compared(made, truth, classes)
    memory = done.report.memory
    operators, size = sum(row.count for row in done.report.ops), done.report.size_bytes
    arena, rms = memory and memory.arena_bytes, deviation(made, truth)
    return Row(name, label, "ok", error, same, size, operators, arena, seconds, rms=rms)


def stock(name: str, original, inputs, truth, classes: bool) -> Row:
    """Returns what TensorFlow's converter gives for the model without its head, in int8 with float ends."""
    import keras
    import tensorflow as tf

    began = time.monotonic()
    specs = [tf.TensorSpec((1, *t.shape[1:]), t.dtype, name=t.name) for t in original.inputs]

    def call(*values):
        # One sample at a time and named outputs: the form in which the stock converter does best.
        outputs = original(values[0] if len(values) == 1 else list(values), training=False)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        return {f"output_{number:02d}": output for number, output in enumerate(outputs)}

    archive = keras.export.ExportArchive()
    archive.track(original)
    archive.add_endpoint("serve", call, input_signature=specs)
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        count = len(truth[0])
        converter.representative_dataset = lambda: ({k: v[i : i + 1] for k, v in inputs.items()} for i in range(count))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8, tf.lite.OpsSet.TFLITE_BUILTINS]
        content = converter.convert()
    runtime, made = stock_outputs(content, inputs)
    error, same = compared(made, truth, classes)
    seconds = time.monotonic() - began
    rms = deviation(made, truth)
    return Row(name, STOCK, "ok", error, same, len(content), seconds=seconds, runtime=runtime, rms=rms)


def stock_outputs(content: bytes, inputs):
    """Returns (interpreter, outputs in the model's order) of a stock file, whose signature names its inputs."""
    from ai_edge_litert.interpreter import Interpreter

    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.run.interpreters import RuntimeFailedError, run

    main, signature = read(content).main, Interpreter(model_content=content).get_signature_runner()
    places = {detail["index"]: name for name, detail in signature.get_input_details().items()}
    fed_in = tuple(inputs[places[index]] for index in main.inputs)
    order = [main.outputs.index(detail["index"]) for _, detail in sorted(signature.get_output_details().items())]
    try:
        runtime, values = TFLM, run(TFLM, content, fed_in).values
    except RuntimeFailedError:
        runtime, values = LITERT, run(LITERT, content, fed_in).values
    return runtime, [values[place] for place in order]


def measure(name: str, forms: list[str], folder: Path, draws: Sequence[int]) -> None:
    """Writes the rows of some forms of one model into the folder, each as it comes; trains the model if it must."""
    import keras

    path = folder / "model.keras"
    if not path.exists():
        trained(name).save(path)
    model = keras.saving.load_model(path, safe_mode=False)
    for draw in draws:
        inputs, _ = data_of(model, name, TEST, seed=2 + draw)
        original, truth, softmax = truth_of(model, inputs)
        classes = softmax or name in LOGITS
        for form in forms:
            row = (
                stock(name, original, inputs, truth, classes)
                if form == STOCK
                else exported(name, form, model, inputs, truth, classes)
            )
            with open(folder / "rows.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row) | {"draw": draw}) + "\n")


def measured(name: str, wanted: list[str], draws: Sequence[int] = (0,)) -> list[Row]:
    """Returns the wanted forms of one model; the stock converter, which may crash, has a process of its own."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        for forms in ([form for form in wanted if form != STOCK], [form for form in wanted if form == STOCK]):
            if not forms:
                continue
            numbers = ",".join(map(str, draws))
            why = _child(SECONDS * len(forms) * len(draws), "--measure", name, folder, numbers, *forms)
            held = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            path.unlink(missing_ok=True)
            rows += [Row(**json.loads(line)) for line in held]
            rows += [Row(name, form, why) for form in forms[len(held) :] if len(draws) == 1]
    return rows


def _child(seconds: float, *arguments: str) -> str:
    """Runs this module in a process; returns "" or why it ended."""
    command = [sys.executable, "-m", "benchmarks.architectures", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=seconds, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"stopped after {seconds:.0f} s"
    lines = [line for line in done.stderr.splitlines() if line.startswith(tuple(names()))]
    for line in lines:
        print(line, file=sys.stderr, flush=True)
    if done.returncode < 0:
        return f"crash (signal {-done.returncode})"
    if done.returncode:
        print(done.stderr[-1500:], file=sys.stderr, flush=True)
    return "failed" if done.returncode else ""


def tables(rows: list[Row]) -> str:
    """Returns the page's two tables: how the files agree, and what they need."""
    found = {(row.model, row.form): row for row in rows if not row.draw}
    forms = list(FORMS)
    titles = {name: _title(name) for name in names()}
    measured_ones = [name for name in names() if any((name, form) in found for form in forms)]
    lines = [f"| model | {' | '.join(forms)} | {STOCK} |", "|---|" + "---|" * (len(forms) + 1)]
    for name in measured_ones:
        cells = [found[name, form].cell() if (name, form) in found else "" for form in [*forms, STOCK]]
        lines.append(f"| {titles[name]} | {' | '.join(cells)} |")
    lines += ["", f"| model | {' | '.join(forms)} |", "|---|" + "---|" * len(forms)]
    for name in measured_ones:
        cells = [_needs(found.get((name, form))) for form in forms]
        lines.append(f"| {titles[name]} | {' | '.join(cells)} |")
    drawn = [name for name in names() if any(row.draw for row in rows if row.model == name)]
    lines += ["", f"| model | {' | '.join(COMPARED)} |", "|---|" + "---|" * len(COMPARED)] if drawn else []
    for name in drawn:
        cells = [_spread([row for row in rows if (row.model, row.form) == (name, form)]) for form in COMPARED]
        lines.append(f"| {titles[name]} | {' | '.join(cells)} |")
    missing = [titles[name] for name in names() if name not in measured_ones]
    lines += ["", f"Not measured yet: {', '.join(missing)}."] if missing else []
    return "\n".join(lines)


def _title(name: str) -> str:
    from tools import zoo

    return f"{zoo.ENTRIES[name].name} ({name})" if name in zoo.ENTRIES else name


def _spread(rows: list[Row]) -> str:
    """Returns the mean and the standard deviation of the max errors, and the mean of the root mean squares."""
    errors = [row.error for row in rows if row.error is not None and row.rms is not None]
    roots = [row.rms for row in rows if row.rms is not None]
    if len(errors) < 2:
        return "-"
    return f"{statistics.mean(errors):.4f} ± {statistics.stdev(errors):.4f}, {statistics.mean(roots):.4f}"


def _needs(row: Row | None) -> str:
    if row is None or row.bytes is None:
        return "-"
    operators = "-" if row.operators is None else f"{row.operators:,}"
    arena = "-" if row.arena is None else f"{row.arena / 1e3:,.0f}"
    return f"{operators}; {row.bytes / 1e3:,.0f}; {arena}; {row.seconds:.0f} s"


def main(arguments: list[str] | None = None) -> int:
    """Prints a row per form; returns 1 where a form of ours is not a file that agrees."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--measure"]:
        measure(given[1], given[4:], Path(given[2]), [int(number) for number in given[3].split(",")])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="some of them, separated by commas")
    parser.add_argument("--forms", help="some of the forms, separated by commas")
    parser.add_argument(
        "--draws", type=int, default=1, help="how many sets of samples; more compare int8 with stock int8"
    )
    parser.add_argument("--rows", type=Path, help="a file of rows that are measured already; new ones are added")
    options = parser.parse_args(given)
    held = options.rows.read_text().splitlines() if options.rows and options.rows.exists() else []
    rows = [Row(**json.loads(line)) for line in held]
    done = {(row.model, row.form) for row in rows if options.draws == 1 or row.draw}
    draws = range(options.draws) if options.draws == 1 else range(1, options.draws + 1)
    forms = options.forms.split(",") if options.forms else [*FORMS, STOCK] if options.draws == 1 else COMPARED
    for name in options.models.split(",") if options.models else names():
        wanted = [form for form in forms if (name, form) not in done]
        for row in measured(name, wanted, draws) if wanted else []:
            print(f"{row.model:28} {row.form:16} {row.cell():24} {_needs(row)}", flush=True)
            rows.append(row)
            if options.rows:
                with open(options.rows, "a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
    if options.rows:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{tables(rows)}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return 0 if all(row.result == "ok" for row in rows if row.form != STOCK) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Models of tools/zoo.py as they were published, exchanged on export and proven on TensorFlow Lite Micro.

    python benchmarks/replace_zoo.py                    every model, type and lowering (about an hour, most of it Z04,
                                                        Z05 and Z25, whose time steps are written out); the table
                                                        goes to docs/existing_models.md
    python benchmarks/replace_zoo.py --models Z11,Z22   some models, printed

ELU, tanh and sigmoid gates, softplus and swish stand in them as published, with random seeded weights; each is
exported with `--replace accurate --head logits`. What Keras computes with the original activations is the truth.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "docs" / "existing_models.md"
BEGIN, END = "<!-- zoo -->", "<!-- /zoo -->"
STAND_INS = {
    "Z11": "elu",
    "Z12": "elu",
    "SiLU": "silu",
}
"""What stands for the builders' activation; the others have relu beside their gates and heads, as published."""
MODELS = ("Z04", "Z05", "Z11", "Z12", "Z14", "Z22", "Z23", "Z25", "SiLU")
FORMS = (("float32", "algebraic"), ("int8", "algebraic"), ("int8", "table"))
SAMPLES = 32
EXP_AND_LOG = frozenset("EXP LOG ELU GELU LOGISTIC TANH SOFTMAX LOG_SOFTMAX POW SELECT WHILE".split())


@dataclass(frozen=True, slots=True)
class Row:
    """One export: what is in the file, how near it is to the model as it was, what it needs.

    `error` is the largest distance of any output on TensorFlow Lite Micro to the original Keras model, its head left
    out, over the range of the output; `argmax` the share of samples whose class is the original's, None where no
    output is a class.
    """

    model: str
    name: str
    quantize: str
    lowering: str
    verdict: str
    replaced: int
    roots: int
    ops: int
    kinds: str
    error: float | None
    argmax: float | None
    size_bytes: int
    arena_bytes: int | None
    seconds: float

    def cells(self) -> str:
        """Returns the row of the table."""
        error = "-" if self.error is None else f"{self.error:.2g}"
        argmax = "-" if self.argmax is None else f"{self.argmax:.0%}"
        arena = "-" if self.arena_bytes is None else f"{self.arena_bytes:,}"
        cells = (
            f"{self.name} ({self.model})",
            self.quantize if self.quantize == "float32" else f"{self.quantize} {self.lowering}",
            self.verdict,
            str(self.replaced),
            f"{self.ops:,}",
            f"{self.roots:,}",
            error,
            argmax,
            f"{self.size_bytes:,}",
            arena,
            f"{self.seconds:.0f}",
        )
        return f"| {' | '.join(cells)} |"


HEADER = (
    "| model | numbers | result | exchanged | operators | SQRT | error | same class | bytes | arena | seconds |\n"
    "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def build(identifier: str):
    """Returns (name, model) as published."""
    from tools import zoo

    if identifier == "SiLU":
        return "DS-CNN with SiLU", zoo.build("Z07", activation="silu", head="original")
    activation = STAND_INS.get(identifier, "relu")
    return zoo.ENTRIES[identifier].name, zoo.build(identifier, activation=activation, head="original")


def measure(identifier: str, quantize: str, lowering: str, samples: int = SAMPLES) -> Row:
    """Returns what one export gave; a refusal is a row, too."""
    import sqp_tflite
    from tools import zoo

    name, model = build(identifier)
    began = time.monotonic()
    try:
        exported = sqp_tflite.export(
            model,
            data=zoo.samples(model, samples),
            quantize=quantize,
            lowering=lowering,
            replace="accurate",
            head="logits",
        )
        report = exported.report
    except sqp_tflite.ExportError as error:
        print(error, file=sys.stderr)
        if error.report is None:
            raise
        report = error.report
    seconds = time.monotonic() - began
    counts = {row.op: 0 for row in report.ops}
    for row in report.ops:
        counts[row.op] += row.count
    verdict = report.verdict
    if EXP_AND_LOG & set(counts):
        verdict = f"{', '.join(sorted(EXP_AND_LOG & set(counts)))} left"
    error, argmax = distance(exported.model_bytes, model, samples) if report.verdict == "ok" else (None, None)
    classes = identifier not in ("Z12", "Z14", "Z22", "Z23")
    return Row(
        identifier,
        name,
        quantize,
        lowering,
        verdict,
        len(report.replacements),
        counts.get("SQRT", 0),
        sum(counts.values()),
        ", ".join(f"{op} {count}" for op, count in counts.items()),
        error,
        argmax if classes else None,
        report.size_bytes,
        report.memory.arena_bytes if report.memory else None,
        seconds,
    )


def distance(content: bytes, model, samples: int) -> tuple[float, float]:
    """Returns the max error on the device's interpreter over an output's range, and the share of equal classes."""
    import numpy as np

    import sqp_keras
    import sqp_tflite.run.interpreters
    from tools import zoo

    inputs = list(zoo.samples(model, samples).values())
    original, _ = sqp_keras.drop_head(model)
    # One function for all samples: step by step a recurrent layer takes minutes.
    truth = original.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0)
    truth = truth if isinstance(truth, list) else [truth]
    made = sqp_tflite.run.interpreters.run("tflm", content, tuple(inputs)).values
    errors = [float(np.abs(a - b).max() / np.ptp(np.append(b, 0.0))) for a, b in zip(made, truth, strict=True)]
    return max(errors), float(np.mean(made[0].argmax(-1) == truth[0].argmax(-1)))


def main(arguments: list[str] | None = None) -> int:
    """Prints the table, and writes it where all models were measured; returns 1 if one did not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help=f"some of {','.join(MODELS)}; printed only")
    parser.add_argument("--forms", help="some of float32,int8-algebraic,int8-table; with --models")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args(arguments)
    print(HEADER, flush=True)
    rows = []
    for identifier in options.models.split(",") if options.models else MODELS:
        for quantize, lowering in FORMS:
            label = quantize if quantize == "float32" else f"{quantize}-{lowering}"
            if options.forms and label not in options.forms.split(","):
                continue
            rows.append(measure(identifier, quantize, lowering, options.samples))
            print(rows[-1].cells(), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) for row in rows], indent=2), encoding="utf-8")
    if not options.models and not options.forms:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        table = "\n".join([HEADER, *(row.cells() for row in rows)])
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return 0 if all(row.verdict == "ok" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

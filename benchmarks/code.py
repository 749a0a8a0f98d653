"""What generated C of whole models costs on an emulated Cortex-M, beside the arena of TensorFlow Lite Micro.

    python -m benchmarks.code --files FOLDER     every model (an hour); files and rows stay in the folder, and what
                                                 it holds is not made again; writes docs/code.md
    python -m benchmarks.code --models Z07,digits   some models, printed

The digits network is trained, the others are not: what they compute means nothing, and costs the same. Every model's
golden vectors must be exact, on the emulated core too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "code.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- rows -->", "<!-- /rows -->"
CODE, CODE_END = "<!-- code -->", "<!-- /code -->"
OWN = ("digits", "dense")
UNROLLED = ("Z04", "Z05", "Z25", "residual_recurrent")
"""Recurrent networks, whose steps the file repeats: minutes of conversion and megabytes of source."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One model in one form; sizes in bytes.

    Attributes:
        model: Its name.
        form: Its numbers.
        macs: Multiplications with an addition.
        instructions: Of one run on a Cortex-M4F; 0 where the emulated board has no room.
        flash: Code and constants.
        arena: What the code needs.
        bound: What lives at the same time.
        tflm: What TensorFlow Lite Micro needs of a 32-bit core at least, and at most.
        wrong: Outputs that differ from the golden vectors on the core.
    """

    model: str
    form: str
    macs: int
    instructions: int
    flash: int
    arena: int
    bound: int
    tflm: tuple[int, int]
    wrong: int


def names() -> list[str]:
    """Returns every model of the page, in its order."""
    from tools import nets, zoo

    return [name for name in (*OWN, *zoo.ENTRIES, *nets.NETS) if name not in UNROLLED]


def model_of(name: str) -> tuple[Any, dict[str, Any]]:
    """Returns a Keras model and samples for its ranges."""
    import keras
    import numpy as np

    import sqp_keras  # noqa: F401  registers the string "squareplus"
    from benchmarks import integer_models
    from tools import untrained

    if name == "digits":
        model, (x, _, _) = integer_models.train("squareplus")
        return model, {model.inputs[0].name: x[:256]}
    if name == "dense":
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(32, "squareplus"), keras.layers.Dense(32, "squareplus"), keras.layers.Dense(4)]
        model = keras.Sequential([keras.Input((16,)), *layers])
        return model, {model.inputs[0].name: np.random.default_rng(0).normal(size=(256, 16)).astype(np.float32)}
    return untrained.model_of(name)


def files(name: str, folder: Path) -> dict[str, Path]:
    """Returns the files of a model by form, made where they are not there; what cannot be exported is left out."""
    from sqp_tflite.errors import ExportError
    from tools import untrained

    found = {form: folder / f"{name} {form}.tflite" for form in untrained.FORMS}
    if not all(path.exists() for path in found.values()):
        model, data = model_of(name)
        for form, path in found.items():
            try:
                if not path.exists():
                    path.write_bytes(untrained.file_of(model, data, form))
            except ExportError as error:
                print(f"{name} {form}: {str(error).splitlines()[0]}", flush=True)
    return {form: path for form, path in found.items() if path.exists()}


def measured(name: str, form: str, content: bytes, core: str = "M4F", *flags: str) -> Row:
    """Returns what the code of a file costs.

    Args:
        name: The model.
        form: Its numbers.
        content: The file.
        core: Name of an emulated core.
        *flags: Of the compiler.
    """
    from sqp_tflite.codegen.generate import generate
    from sqp_tflite.codegen.naming import CStyle
    from sqp_tflite.codegen.vectors import made_up
    from sqp_tflite.errors import BadInputError
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.run.memory import memory
    from tools.mcu import model

    graph = read(content)
    code = generate(graph, CStyle(), name)
    try:
        _, arena = memory(content, graph, "tflm")
    except BadInputError as error:  # Larger than what is tried.
        print(f"{name} {form}: {error}", flush=True)
        arena = None
    vectors = made_up(graph, content)
    if vectors is None:
        raise RuntimeError(f"{name} {form}: no golden vectors.")
    with tempfile.TemporaryDirectory() as place:
        model.write(graph, vectors, Path(place))
        run = model.measure(model.CORES[core], Path(place), *flags)
    needed = (0, 0) if arena is None else (arena.low or arena.needed, arena.high or arena.needed)
    sizes = (run.flash, code.memory.size, code.memory.bound)
    return Row(name, form, code.macs, run.instructions, *sizes, needed, run.wrong)


def table(rows: list[Row]) -> list[str]:
    """Returns the table of the page."""
    lines = [
        "| model | numbers | MACs | instructions | per MAC | flash | arena | live | TFLM's arena |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        exact = "" if row.wrong == 0 else f" ({row.wrong} outputs differ)"
        each = f"{row.instructions / row.macs:.1f}" if row.macs else ""
        lines.append(
            f"| {row.model}{exact} | {row.form} | {row.macs:,} | {row.instructions:,} | {each} | {row.flash:,} | "
            f"{row.arena:,} | {row.bound:,} | {f'{row.tflm[0]:,} to {row.tflm[1]:,}' if row.tflm[1] else 'not found'} |"
        )
    return lines


def cores(folder: Path) -> list[str]:
    """Returns the table of the digits network on each core, with and without the instructions for it."""
    from tools.mcu import model

    path = files("digits", folder)
    lines = ["| core | numbers | instructions | flash |", "|---|---|---:|---:|"]
    for core in model.CORES:
        for form, title, flags in (
            ("int8 table", "int8", ()),
            ("int8 table", "int8, portable C", ("-DNET_PORTABLE",)),
            ("float32", "float32", ()),
            ("float32", "float32, fused", ("-ffp-contract=fast",)),
        ):
            small = core == "M0" and form == "float32"
            if small or (core in ("M0", "M3") and flags):
                continue
            row = measured("digits", form, path[form].read_bytes(), core, *flags)
            exact = "" if row.wrong == 0 else f" ({row.wrong} outputs differ in their last bits)"
            lines.append(f"| {core} | {title}{exact} | {row.instructions:,} | {row.flash:,} |")
    return lines


def collected(chosen: list[str], folder: Path) -> list[Row]:
    """Returns the rows of some models; those that the folder holds are not measured again."""
    kept = folder / "rows.jsonl"
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    rows = {(one["model"], one["form"]): Row(**{**one, "tflm": tuple(one["tflm"])}) for one in known}
    for name in chosen:
        for form, path in files(name, folder).items():
            if (name, form) in rows:
                continue
            try:
                rows[name, form] = measured(name, form, path.read_bytes())
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"{name} {form}: {str(error)[:200]}", flush=True)
                continue
            with kept.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(rows[name, form])) + "\n")
            print(table([rows[name, form]])[-1], flush=True)
    return [row for name in chosen for (model, _), row in rows.items() if model == name]


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=Path, help="folder for files and rows; with it docs/code.md is written")
    parser.add_argument("--models", help="names, separated by commas (default: all)")
    options = parser.parse_args()
    chosen = options.models.split(",") if options.models else names()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.files or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = collected(chosen, folder)
        if options.files:
            head, _, rest = PAGE.read_text().partition(BEGIN)
            body = "\n".join([*table(rows), "", "## The digits network on each core", "", *cores(folder)])
            PAGE.write_text(f"{head}{BEGIN}\n{body}\n{END}{rest.partition(END)[2]}")
            own = table([row for row in rows if row.model == "digits"])
            head, _, rest = README.read_text().partition(CODE)
            README.write_text("\n".join([f"{head}{CODE}", *own, f"{CODE_END}{rest.partition(CODE_END)[2]}"]))


if __name__ == "__main__":
    main()

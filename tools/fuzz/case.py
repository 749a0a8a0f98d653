"""One case from its name: what is damaged, which command is called, and how."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tools.fuzz import calls
from tools.fuzz.archives import edit_keras, edit_npy, edit_npz, members
from tools.fuzz.corpus import Corpus, Files
from tools.fuzz.hdf5 import edit_hdf5
from tools.fuzz.records import INSIDE, Case, plain
from tools.fuzz.saved_models import edit_saved_model
from tools.fuzz.tflite_files import edit_tflite

STOCK = Path(__file__).parents[2] / "tests" / "data" / "stock"
FINISHED = (
    ["--lowering", "table"],
    ["--replace", "accurate"],
    ["--head", "logits"],
    ["--faithful"],
    ["--reference", "float.tflite"],
    ["--io", "float32"],
    ["--target", "litert"],
    ["-o", "out.tflite"],
)
"""Options about a finished file."""

KINDS = ("keras", "h5", "saved", "npz", "tflite", "hidden", "calls", "streams", "names")
"""What a case is about."""

_WEIGHTS = (22, 14, 16, 14, 16, 4, 10, 3, 3)

NAMES = (
    "modèle.keras", "a b.keras", "net", "net.KERAS", "net.zip", "net.hdf5", "net.h5", "net.tflite", "ne\udcfft.keras",
    "[red]x[/red].keras", "`x`.keras", "two\nlines.keras", "--json.keras", "\x1b[31mred.keras", ".keras",
    "net.keras.keras",
    "-.keras", "名前.keras", "'\".keras", "%s{x}.keras", "x" * 240 + ".keras", "class.keras", "9.keras",
)  # fmt: skip
"""Names of a good model's file."""

_STATES = ("closed", "full", "broken")


def make(name: str, corpus: Corpus, folder: Path, only: str = "") -> Case:
    """Writes the files of a case and returns it; the same name gives the same case.

    Args:
        name: "SEED-NUMBER".
        corpus: The good inputs.
        folder: The case's own folder.
        only: One of `KINDS`, "" for any.
    """
    rng = Random(name)
    kind = only or rng.choices(KINDS, _WEIGHTS)[0]
    work = folder / INSIDE
    work.mkdir(parents=True)
    case = _MAKERS[kind](rng, name, corpus, work)
    if kind == "streams" or rng.random() < 0.02:
        states = {rng.choice((1, 2)): rng.choice(_STATES)}
        if rng.random() < 0.4:
            states = {1: rng.choice(_STATES), 2: rng.choice(_STATES)}
        case = dataclasses.replace(case, streams=states)
    installed = rng.random() < (0.15 if kind in ("calls", "streams", "names") else 0.03)
    environment = {}
    if installed and rng.random() < 0.5:
        environment = rng.choice(
            ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "20"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"})
        )
    return dataclasses.replace(case, installed=installed, environment=environment)


def write(work: Path, files: Files) -> None:
    """Writes files by their relative path."""
    for path, content in files.items():
        place = work / os.fsdecode(os.fsencode(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _model(rng: Random, corpus: Corpus, *endings: str) -> str:
    return rng.choice([name for name in corpus.models if name.endswith(endings)])


def _damaged_model(ending: str, edit: Callable[[Random, bytes], tuple[bytes, str]]) -> Any:
    def made(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
        model = _model(rng, corpus, ending)
        content, what = edit(rng, corpus.models[model][model])
        write(work, {model: content})
        return _of_model(rng, name, corpus, work, model, what)

    return made


def _of_model(rng: Random, name: str, corpus: Corpus, work: Path, model: str, what: str, *, bad: bool = True) -> Case:
    """Returns a call about a model, which is exported or, less often, compared with a good file."""
    data = corpus.data_of(model)
    write(work, {data: corpus.data[data]})
    program = "sqp-check" if rng.random() < 0.15 else "sqp-export"
    positionals = [model]
    if program == "sqp-check":
        tflite = _tflite_of(rng, corpus, model)
        write(work, {tflite: corpus.tflite[tflite]})
        positionals.append(tflite)
    options = calls.sensible(rng, program, data, bad_files=bad)
    if bad and program == "sqp-export" and rng.random() < 0.5:
        options = [*options, "--dry-run"]  # Most damage shows early, and a whole export takes ten times as long.
    special = calls.SPECIAL if any("folder" in word or "link" in word for word in options) else ()
    return Case(name, program, (*positionals, *options), (f"{model}: {what}",), special)


def _tflite_of(rng: Random, corpus: Corpus, model: str) -> str:
    stem = corpus.data_of(model).removesuffix(".npz")
    return rng.choice([held for held in corpus.tflite if held.partition(".")[0].removesuffix("8") == stem])


def _saved(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
    model = _model(rng, corpus, "_saved")
    files, what = edit_saved_model(rng, corpus.models[model])
    write(work, files)
    return _of_model(rng, name, corpus, work, model, what)


def _hidden(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
    """Hidden code, mostly in a place that was moved: it must not run in any."""
    model = rng.choice(list(corpus.hidden))
    files, what = corpus.hidden[model], "with hidden code"
    if rng.random() < 0.8:
        if len(files) > 1:
            files, what = edit_saved_model(rng, files)
        else:
            content, what = (edit_keras if model.endswith(".keras") else edit_hdf5)(rng, files[model])
            files = {model: content}
    write(work, files)
    return _of_model(rng, name, corpus, work, model, what)


def _npz(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
    model = _model(rng, corpus, ".keras")
    data = corpus.data_of(model)
    content, what = edit_npz(rng, corpus.data[data])
    if rng.random() < 0.1:
        content, what = edit_npy(rng, members(corpus.data[data])[0][1])
    case = _of_model(rng, name, corpus, work, model, "good")
    write(work, {model: corpus.models[model][model], data: content})
    arguments = case.arguments if data in case.arguments else (*case.arguments, "--data", data)
    return dataclasses.replace(case, arguments=arguments, what=(f"{data}: {what}",))


def _tflite(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
    file = rng.choice(list(corpus.tflite))
    content, what = edit_tflite(rng, corpus.tflite[file])
    write(work, {file: content})
    data = corpus.data_of(file)
    program, positionals = "sqp-inspect", [file]
    if rng.random() < 0.4:
        return _finished(rng, name, work)
    if rng.random() < 0.4:
        program, model = "sqp-check", data.replace(".npz", ".keras")
        positionals = [model, file]
        write(work, {model: corpus.models[model][model], data: corpus.data[data]})
    options = calls.sensible(rng, program, data if program == "sqp-check" else "", bad_files=True)
    special = calls.SPECIAL if any("folder" in word or "link" in word for word in options) else ()
    return Case(name, program, (*positionals, *options), (f"{file}: {what}",), special)


def _finished(rng: Random, name: str, work: Path) -> Case:
    """A finished file of another program as the model of an export, mostly damaged."""
    stock = rng.choice(sorted(STOCK.glob("*.tflite")))
    content, what = edit_tflite(rng, stock.read_bytes()) if rng.random() < 0.8 else (stock.read_bytes(), "good")
    write(work, {"stock.tflite": content, "float.tflite": (STOCK / "elu_to_mish_float.tflite").read_bytes()})
    options = ["--dry-run"] if rng.random() < 0.3 else []
    for option in FINISHED:
        options += option if rng.random() < 0.35 else []
    return Case(name, "sqp-export", ("stock.tflite", *options), (f"{stock.name}: {what}",))


def _call(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
    """Good files and a strange command line."""
    program = rng.choice(("sqp-export", "sqp-export", "sqp-inspect", "sqp-check"))
    model = rng.choice(("net.keras", "net.keras", "net.h5", "net_saved"))
    write(work, {**corpus.models[model], "net.npz": corpus.data["net.npz"], "net.tflite": corpus.tflite["net.tflite"]})
    positionals = {"sqp-export": [model], "sqp-inspect": ["net.tflite"], "sqp-check": [model, "net.tflite"]}[program]
    if rng.random() < 0.1:
        positionals = [rng.choice(calls.WORDS).replace("\x00", "") for _ in positionals]
    arguments = calls.wild(rng, program, positionals, "net.npz")
    return Case(name, program, tuple(arguments), ("a strange call",), calls.SPECIAL)


def _streams(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
    case = _tflite(rng, name, corpus, work) if rng.random() < 0.3 else _names(rng, name, corpus, work)
    if rng.random() < 0.3:
        case = dataclasses.replace(
            case, arguments=(*case.arguments, rng.choice(("--version", "--help", "--json", "--quiet")))
        )
    return case


def _names(rng: Random, name: str, corpus: Corpus, work: Path) -> Case:
    """A good model whose file has a strange name."""
    model = rng.choice(("net.keras", "net.h5"))
    wanted = rng.choice(NAMES)
    case = _of_model(rng, name, corpus, work, model, f"named {plain(wanted)}", bad=False)
    write(work, {wanted: corpus.models[model][model]})
    shown = f"./{wanted}" if wanted.startswith("-") and rng.random() < 0.7 else wanted
    return dataclasses.replace(case, arguments=tuple(shown if word == model else word for word in case.arguments))


_MAKERS: dict[str, Callable[[Random, str, Corpus, Path], Case]] = {
    "keras": _damaged_model(".keras", edit_keras),
    "h5": _damaged_model(".h5", edit_hdf5),
    "saved": _saved,
    "npz": _npz,
    "tflite": _tflite,
    "hidden": _hidden,
    "calls": _call,
    "streams": _streams,
    "names": _names,
}

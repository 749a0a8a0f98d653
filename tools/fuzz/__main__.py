"""Runs cases until the time is over, keeps the finds, and says how to see each again.

    python -m tools.fuzz --seconds 1800 --seed 7     half an hour of cases 7-0, 7-1, 7-2 ...
    python -m tools.fuzz --again fuzz-finds/7-23     one find once more, as the installed program runs it
    python -m tools.fuzz --seed 7 --first 23 --cases 1    case 7-23 made anew

Exit code 1 if anything was found. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "build" / "fuzz-corpus"
FINDS = ROOT / "fuzz-finds"

_KEPT_OF_A_KIND = 3
"""Finds with one signature that are kept; the others are only counted."""

_EVERY = 60.0
"""Seconds between two lines about the progress."""


def main(arguments: list[str] | None = None) -> int:
    """Runs what the command line says; returns 1 if something was found."""
    options = _parser().parse_args(arguments)
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    # Only now, since a library reads these variables when it is imported.
    from tools.fuzz import engine

    if options.again:
        return again(options.again)
    corpus = _corpus()
    engine.warm()
    with engine.adopting():
        return _session(options, corpus)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="how long (default: 300)")
    parser.add_argument("--seed", default="", help="any word; the same seed makes the same cases (default: the time)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="most cases")
    parser.add_argument("--only", default="", help="cases of one kind: keras, h5, saved, npz, tflite, calls, ...")
    parser.add_argument("--finds", type=Path, default=FINDS, help="where finds are kept (default: fuzz-finds)")
    parser.add_argument("--again", type=Path, help="folder of a find to run once more")
    return parser


def _corpus() -> Path:
    """Returns the folder of the corpus, which is made when it is missing or its program has changed."""
    program = Path(__file__).with_name("corpus.py").read_bytes()
    folder = CORPUS / hashlib.sha256(program).hexdigest()[:12]
    if not folder.exists():
        print("The inputs are made first, once ...", flush=True)
        made = folder.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        command = [sys.executable, "-m", "tools.fuzz.corpus", str(made)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        if done.returncode:
            sys.exit(f"The inputs cannot be made:\n{done.stdout[-5000:]}")
        made.rename(folder)
    return folder


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    """Yields a folder for a case. A `TemporaryDirectory` would be removed by each copy of this process as it ends."""
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _session(options: argparse.Namespace, folder: Path) -> int:
    from tools.fuzz import case, corpus, engine, oracle

    seed = options.seed or time.strftime("%Y%m%d%H%M%S")
    inputs, began, spoke = corpus.read(folder), time.monotonic(), time.monotonic()
    signatures: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    number = options.first
    print(f"Seed {seed}, {options.seconds:.0f} s. Finds go to {options.finds}.", flush=True)
    while number < options.first + options.cases and time.monotonic() - began < options.seconds:
        name = f"{seed}-{number}"
        number += 1
        with _place() as place:
            made = case.make(name, inputs, place, options.only)
            kept = place / "kept"
            shutil.copytree(place / "deep", kept)
            ran = engine.run(made, place, engine.Limits())
            codes[f"{made.program} {ran.code}"] += 1
            found = oracle.faults(made, ran)
            new = [fault for fault in found if signatures[fault.signature] < _KEPT_OF_A_KIND]
            signatures.update(fault.signature for fault in found)
            if new:
                keep(options.finds / name, made, ran, found, kept)
        if time.monotonic() - spoke > _EVERY:
            spoke = time.monotonic()
            print(
                f"{spoke - began:.0f} s: {number - options.first} cases, {sum(signatures.values())} finds", flush=True
            )
    print(f"{number - options.first} cases, seed {seed}: {', '.join(f'{k}: {n}' for k, n in sorted(codes.items()))}")
    for signature, count in signatures.most_common():
        print(f"{count:5} x {signature}")
    return 1 if signatures else 0


def keep(folder: Path, made, ran, found, kept: Path) -> None:
    """Stores a find and prints it with the command that shows it again."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(kept, folder / "deep")
    (folder / "case.json").write_text(made.to_json(), "utf-8")
    (folder / "out.txt").write_text(ran.out, "utf-8", "replace")
    (folder / "err.txt").write_text(ran.err, "utf-8", "replace")
    words = "".join(f"  {fault.kind}: {fault.text}\n" for fault in found)
    call = ascii([made.program, *made.arguments])
    text = f"{made.name}: {call}\n  {'; '.join(made.what)!a}\n{words}  Again: python -m tools.fuzz --again {folder}\n"
    (folder / "find.txt").write_text(text, "utf-8", "replace")
    print(text.encode("ascii", "backslashreplace").decode(), end="", flush=True)


def again(folder: Path) -> int:
    """Runs a find as the installed program and prints what it does; returns 1 if it is still wrong."""
    import dataclasses

    from tools.fuzz import engine, oracle, records

    made = dataclasses.replace(records.stored(folder), installed=True)
    with _place() as place, engine.adopting():
        shutil.copytree(folder / "deep", place / "deep")
        ran = engine.run(made, place, engine.Limits())
    print(ran.out.encode("ascii", "backslashreplace").decode())
    print(ran.err.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    found = oracle.faults(made, ran)
    print(f"Exit code {ran.code}, {ran.cpu:.1f} s of processor time, {ran.peak >> 20} MiB.")
    for fault in found:
        print(f"{fault.kind}: {fault.text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs one-operator models on the real interpreters and stores what ran in `ops.json`.

`python -m sqp_tflite.ops.probe` shows what differs from the stored table; `--write` stores a new one; `--docs` prints
the table as Markdown. The targets are probed whose package is installed; the rest of the table stays. An older release
of TensorFlow Lite Micro does not fit beside the newer one. It is probed in an environment of its own, which also has
TensorFlow, Keras and flatbuffers:

    pip install tflite-micro==0.dev20231010131554
    python -m sqp_tflite.ops.probe --target tflm@2023 --write tflite/sqp_tflite/ops/ops.json
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.ops.one_op import Case, build
from sqp_tflite.ops.op_families import cases
from sqp_tflite.ops.op_table import differences, dumps, markdown, merged, stored
from sqp_tflite.ops.policy import PROBED, RELEASES, runtime_of
from sqp_tflite.worker import run

PACKAGES = {"tflm": "tflite-micro", "litert": "ai-edge-litert", "tflite-runtime": "tflite-runtime"}
ARENA_BYTES = 1 << 16
WRONG = {"tflm@2023": (("CAST", "bool"), ("TRANSPOSE_CONV", "int16"))}
"""What the probe's model runs and is still wrong, so not in the table: CAST from bool leaves its output as it was, and
TRANSPOSE_CONV of int16 ends the process if it has no bias. `benchmarks/older_tflm.py` finds it: it compares operators
and networks with the newer release."""

SECONDS_PER_MODEL = 20
SECONDS_TO_IMPORT = 300
"""For the interpreter, which the first model of a process imports: some releases import TensorFlow with it."""
MAX_VERSION = 16
"""Above the highest version of any operator in the current schema."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What one target ran.

    Attributes:
        types: {op: types}; operators that ran for no type are omitted.
        versions: {op: highest version that it accepts}; empty for TFLM, which ignores versions.
        hybrid: Operators that it runs with float activations and int8 weights.
    """

    types: dict[str, list[str]]
    versions: dict[str, int]
    hybrid: list[str]


def probe(target: str, ops: tuple[str, ...] | None = None) -> Probed:
    """Returns what a target's interpreter runs, from one-operator models in child processes.

    Args:
        target: One of `policy.PROBED`, its package installed in its release.
        ops: Operators to probe; None for all.
    """
    # In a new process: a fork of one that has loaded other interpreters crashes inside them.
    return run("sqp_tflite.ops.probe:probe_here", target, ops)


def probe_here(target: str, ops: tuple[str, ...] | None = None) -> Probed:
    """Does what `probe` says in copies of this process."""
    types: dict[str, list[str]] = {}
    highest: dict[str, int] = {}
    hybrid: list[str] = []
    micro = runtime_of(target) == "tflm"
    tried = (1,) if micro else range(1, MAX_VERSION + 1)
    for case, version in _ran(target, cases(ops), tried):
        if (case.op, case.dtype) not in WRONG.get(target, ()) and case.dtype not in types.setdefault(case.op, []):
            types[case.op].append(case.dtype)
        highest[case.op] = max(version, highest.get(case.op, 1))
    for case, _ in _ran(target, cases(ops, hybrid=True), tried):
        if case.op not in hybrid:
            hybrid.append(case.op)
    return Probed(dict(sorted(types.items())), {} if micro else dict(sorted(highest.items())), sorted(hybrid))


def _ran(target: str, case_list: Iterable[Case], tried: Iterable[int]) -> list[tuple[Case, int]]:
    asked = tuple(case_list)
    every = [(replace(case, version=version), version) for version in tried for case in asked]
    wanted = [case for case, _ in every]
    verdicts = _run_all(_RUNNERS[runtime_of(target)], [build(case) for case in wanted], wanted)
    return [pair for pair, ran in zip(every, verdicts, strict=True) if ran]


def table(targets: Sequence[str]) -> dict[str, Any]:
    """Returns the content of a new `ops.json`."""
    found = {target: probe(target) for target in targets}
    return {
        "versions": {target: f"{PACKAGES[runtime_of(target)]} {_version(target)}" for target in targets},
        "targets": {target: probed.types for target, probed in found.items()},
        "op_versions": {target: probed.versions for target, probed in found.items() if probed.versions},
        "hybrid": {target: probed.hybrid for target, probed in found.items()},
    }


def available() -> tuple[str, ...]:
    """Returns the targets that can be probed here: their package is installed, for an older release in its version."""
    found = []
    for target in PROBED:
        version = _version(target)
        older = version in RELEASES.values() and runtime_of(target) in map(runtime_of, RELEASES)
        if version and (version == RELEASES.get(target) or (target not in RELEASES and not older)):
            found.append(target)
    return tuple(found)


def _version(target: str) -> str:
    """The installed version of a target's package, "" if it is missing."""
    try:
        return importlib.metadata.version(PACKAGES[runtime_of(target)])
    except importlib.metadata.PackageNotFoundError:
        return ""


def _run_all(runner: Callable[[bytes, Case], None], files: Sequence[bytes], asked: Sequence[Case]) -> list[bool]:
    """Runs the files in children: if a file kills its child, the next child continues after that file."""
    verdicts: list[bool] = []
    while len(verdicts) < len(files):
        verdicts += _run_until_death(runner, files[len(verdicts) :], asked[len(verdicts) :])
    return verdicts


def _run_until_death(
    runner: Callable[[bytes, Case], None], files: Sequence[bytes], asked: Sequence[Case]
) -> list[bool]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _child(runner, files, asked, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answers = [byte == ord("1") for byte in pipe.read()]
    os.waitpid(child, 0)
    return answers if len(answers) == len(files) else [*answers, False]


def _child(runner: Callable[[bytes, Case], None], files: Sequence[bytes], asked: Sequence[Case], writing: int) -> None:
    """Writes one byte per file and ends the process: no code of the parent may run in it."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # Whatever the parent does at an alarm.
    for place, (content, case) in enumerate(zip(files, asked, strict=True)):
        signal.alarm(SECONDS_PER_MODEL if place else SECONDS_TO_IMPORT)
        try:
            runner(content, case)
        except Exception:  # Only the verdict matters, whatever an interpreter raises.
            os.write(writing, b"0")
        else:
            os.write(writing, b"1")
    os._exit(0)


def _fed(case: Case) -> list[NDArray[Any]]:
    computed = [operand for operand in case.inputs if operand is not None and operand.values is None]
    return [np.full(operand.shape, operand.code, operand.dtype) for operand in computed]


def _run_tflm(content: bytes, case: Case) -> None:
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA_BYTES)
    for place, array in enumerate(_fed(case)):
        interpreter.set_input(array, place)
    interpreter.invoke()
    interpreter.get_output(0)


def _run_litert(content: bytes, case: Case) -> None:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # Without the default delegate: the operator's own kernel is probed.
    _invoke(
        Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        ),
        case,
    )


def _run_tflite_runtime(content: bytes, case: Case) -> None:
    from tflite_runtime.interpreter import Interpreter, OpResolverType

    _invoke(
        Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        ),
        case,
    )


def _invoke(interpreter: Any, case: Case) -> None:
    interpreter.allocate_tensors()
    for details, array in zip(interpreter.get_input_details(), _fed(case), strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


_RUNNERS = {"tflm": _run_tflm, "litert": _run_litert, "tflite-runtime": _run_tflite_runtime}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares, stores or prints the table; returns 0, or 1 if the installed interpreters differ from it."""
    parser = argparse.ArgumentParser(prog="python -m sqp_tflite.ops.probe", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", metavar="FILE", help="probe and store the table")
    parser.add_argument("--docs", action="store_true", help="print the stored table as Markdown, without probing")
    parser.add_argument("--target", choices=PROBED, action="append", help="probe only this one (default: all here)")
    chosen = parser.parse_args(arguments)
    if chosen.docs:
        print(markdown(stored()), end="")
        return 0
    wanted = chosen.target or available()
    missing = [target for target in wanted if target not in available()]
    if missing:
        parser.error(f"{missing[0]} is not installed here{_how(missing[0])}.")
    content = table(wanted)
    if chosen.write:
        Path(chosen.write).write_text(dumps(merged(content, stored())), encoding="utf-8")
        return 0
    lines = differences(content, stored())
    print("\n".join(lines) or "The installed interpreters run what the stored table says.")
    return 1 if lines else 0


def _how(target: str) -> str:
    release = RELEASES.get(target)
    return f": pip install {PACKAGES[runtime_of(target)]}=={release} into an environment of its own" if release else ""


if __name__ == "__main__":
    sys.exit(main())

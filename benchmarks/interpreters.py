"""Returns the latency of activations and small networks on the real interpreters of this machine.

python -m benchmarks.interpreters [--json FILE] [--folder MODELS]

Every interpreter runs in a process of its own, on one thread, and only `invoke` is timed. A file that an interpreter
refuses, or dies of, is listed with the reason. TFLM here is the one of the Python wheel: its portable kernels on a PC,
good for comparing operators, not for guessing the time on a device.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper_timing import interleave

RUNTIMES = {
    "litert": "LiteRT with XNNPACK",
    "tflite-runtime": "tflite-runtime 2.14",
    "tflm": "TFLM (portable kernels, on this PC)",
}
MODULES = {"litert": "ai_edge_litert", "tflite-runtime": "tflite_runtime", "tflm": "tflite_micro"}
TFLM_ARENA = 96 << 20


def opened(runtime: str, content: bytes) -> Callable[[], None]:
    """Returns a call that invokes the file, whose inputs have been set."""
    if runtime == "tflm":
        from tflite_micro.python.tflite_micro import runtime as tflm

        interpreter = tflm.Interpreter.from_bytes(content, arena_size=TFLM_ARENA)
        detail = interpreter.get_input_details(0)
        interpreter.set_input(_input(detail), 0)
        return interpreter.invoke
    if runtime == "litert":
        from ai_edge_litert.interpreter import Interpreter
    else:
        from tflite_runtime.interpreter import Interpreter
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], _input(detail))
    return interpreter.invoke


def _input(detail: dict[str, Any]) -> np.ndarray:
    generator = np.random.default_rng(0)
    shape, dtype = tuple(int(size) for size in detail["shape"]), np.dtype(detail["dtype"])
    if dtype == np.float32:
        return generator.uniform(-6, 6, shape).astype(np.float32)
    return generator.integers(-128, 128, shape).astype(dtype)


def reason_against(runtime: str, content: bytes) -> str:
    """Returns why the interpreter does not run the file, "" if it does; tried in a forked child, which may die."""
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            code = 1
            try:
                opened(runtime, content)()
                code = 0
            except Exception as error:  # whatever it is, it is the answer
                os.write(2, f"\n{error}\n".encode())
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            return ""
        log.seek(0)
        return _readable(log.read().decode(errors="replace"), os.waitstatus_to_exitcode(status))


def _readable(text: str, code: int) -> str:
    """Returns the line of an interpreter's output that says what is wrong."""
    lines = [re.sub(r"^(ERROR: |.*?\.(cc|h):\d+:? )", "", line.strip()) for line in text.splitlines() if line.strip()]
    telling = r"[Dd]idn't find op|unsupported|not supported|does not support|Unknown|only support|!=|failed to"
    for line in lines:
        if re.search(telling, line):
            return line[:160]
    return lines[-1][:160] if lines else f"ended with code {code}"


def measure_here(runtime: str, folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Returns one row per file of the folder's manifest; the files of one group are timed in interleaved rounds."""
    manifest = json.loads((folder / "manifest.json").read_text())
    rows = []
    for group in dict.fromkeys(case["group"] for case in manifest):
        calls, listed = {}, [case for case in manifest if case["group"] == group]
        for case in listed:
            content = (folder / case["file"]).read_bytes()
            case["refused"] = reason_against(runtime, content)
            if not case["refused"]:
                calls[case["name"]] = opened(runtime, content)
        timings = interleave(calls, seconds)
        rows += [
            {**case, "timing": asdict(timings[case["name"]]) if case["name"] in timings else None} for case in listed
        ]
    return rows


def measure(folder: Path, seconds: float) -> dict[str, list[dict[str, Any]]]:
    """Returns {runtime: rows}, each runtime measured in a process of its own; missing ones are omitted."""
    figures = {}
    for runtime, module in MODULES.items():
        if importlib.util.find_spec(module) is None:
            print(f"{RUNTIMES[runtime]} is not installed: omitted.", file=sys.stderr)
            continue
        file = folder / f"{runtime}.json"
        command = [sys.executable, "-m", "benchmarks.interpreters", "--runtime", runtime, "--folder", str(folder)]
        command += ["--seconds", str(seconds), "--json", str(file)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"The run on {runtime} ended with code {done.returncode}: {done.stderr[-2000:]}")
        figures[runtime] = json.loads(file.read_text())
    return figures


def show(figures: dict[str, list[dict[str, Any]]]) -> None:
    """Prints one table per group of files."""
    groups = dict.fromkeys(row["group"] for rows in figures.values() for row in rows)
    for group in groups:
        print(f"\n{group}: milliseconds of one invocation")
        print(f"  {'':28}" + "".join(f"{runtime:>16}" for runtime in figures))
        table: dict[str, list[str]] = {}
        for rows in figures.values():
            for row in rows:
                if row["group"] == group:
                    cell = f"{row['timing']['median']:.4f}" if row["timing"] else "does not run"
                    table.setdefault(row["name"], []).append(cell)
        for name, cells in table.items():
            print(f"  {name:28}" + "".join(f"{cell:>16}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description="Times activations and small networks on the interpreters.")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, help="folder of models made by benchmarks.interpreter_models")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each group of files")
    parser.add_argument("--runtime", choices=RUNTIMES, help="only this one, in this process (needs --folder)")
    options = parser.parse_args()
    if options.runtime:
        if options.folder is None:
            parser.error("--runtime needs models. Received: no --folder. Make one: benchmarks.interpreter_models.")
        figures: Any = measure_here(options.runtime, options.folder, options.seconds)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or Path(temporary)
            if options.folder is None:
                subprocess.run([sys.executable, "-m", "benchmarks.interpreter_models", str(folder)], check=True)
            figures = measure(folder, options.seconds)
        show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

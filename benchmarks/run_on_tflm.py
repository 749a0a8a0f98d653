"""Runs files on the TensorFlow Lite Micro of this Python, which may be an older one: `python run_on_tflm.py FOLDER`.

For each `NAME.tflite` with its `NAME.npz` (arrays `in0`, `in1`, ... in the file's own types, one tensor per sample) it
writes `NAME.out.npz`: `out0`, ... and, asked for with a second argument, `arena`, the smallest arena in bytes that was
enough; or `error`. It needs nothing but tflite-micro with what that needs. Each file runs in a child, which it may
crash.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ARENA = 1 << 21
STEP = 16


def main() -> None:
    """Runs every file of the folder."""
    from tflite_micro import runtime

    for path in sorted(Path(sys.argv[1]).glob("*.tflite")):
        given = np.load(path.with_suffix(".npz"))
        inputs = [given[f"in{place}"] for place in range(len(given.files))]
        _run(runtime, path.read_bytes(), inputs, path.with_suffix(".out.npz"))


def _run(runtime, content: bytes, inputs: list[np.ndarray], output: Path) -> None:
    if not _in_child(lambda: np.savez(output, **_outputs(runtime, content, inputs))):
        np.savez(output, error="it ended the process")
    elif "arena" in sys.argv:
        made = dict(np.load(output))
        np.savez(output, arena=_smallest(runtime, content, [array[0] for array in inputs]), **made)


def _in_child(work: Callable[[], object]) -> bool:
    """Whether work succeeds in a copy of this process, which it may end."""
    child = os.fork()
    if not child:
        try:
            work()
        except Exception:  # Whatever it raises.
            os._exit(1)
        os._exit(0)
    return not os.waitpid(child, 0)[1]


def _outputs(runtime, content: bytes, inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
    try:
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA)
        rows = [_invoke(interpreter, [array[row] for array in inputs]) for row in range(len(inputs[0]))]
        return {f"out{place}": np.stack(column) for place, column in enumerate(zip(*rows, strict=True))}
    except Exception as error:  # Whatever it raises is the result.
        return {"error": np.array(str(error).splitlines()[0] if str(error) else type(error).__name__)}


def _invoke(interpreter, row: list[np.ndarray]) -> list[np.ndarray]:
    for place, array in enumerate(row):
        interpreter.set_input(array, place)
    interpreter.invoke()
    outputs = []
    while True:
        try:
            outputs.append(np.array(interpreter.get_output(len(outputs))))
        except Exception:  # There is no way to ask how many there are.
            return outputs


def _smallest(runtime, content: bytes, row: list[np.ndarray]) -> int:
    """The smallest arena with which it runs: too small a one may end the process."""
    low, high = 0, ARENA // STEP
    while high - low > 1:
        middle = (low + high) // 2
        size = middle * STEP
        enough = _in_child(lambda: _invoke(runtime.Interpreter.from_bytes(content, arena_size=size), row))  # noqa: B023
        low, high = (low, middle) if enough else (middle, high)
    return high * STEP


if __name__ == "__main__":
    main()

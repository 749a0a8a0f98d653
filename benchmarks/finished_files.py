"""How time and memory of a finished file's exchange grow with its size, without the interpreters' runs.

    python -m benchmarks.finished_files

Networks of dense layers of 1024 units with SiLU, in float32, 4 MB a layer, are cleaned and exchanged (`--replace
accurate`), each in a process of its own. Prints the file's size, CPU seconds, and how much the peak memory grew.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

LAYERS = (3, 6, 12, 25)
UNITS = 1024


def network(layers: int) -> bytes:
    """Returns a file of that many dense layers."""
    import numpy as np

    from sqp_tflite.flatbuffer.edit import Editor, NewOp, blank

    editor, generator = Editor(blank("a benchmark")), np.random.default_rng(0)
    first = last = editor.add_tensor("x", "float32", (1, UNITS))
    for number in range(layers):
        kernel = generator.normal(size=(UNITS, UNITS)).astype(np.float32) / np.float32(UNITS**0.5)
        weights = editor.add_constant(f"kernel{number}", kernel)
        names = [f"dense{number}/{what}" for what in ("MatMul", "Sigmoid", "mul")]
        dense, gate, product = (editor.add_tensor(name, "float32", (1, UNITS)) for name in names)
        editor.add_op(NewOp("FULLY_CONNECTED", (last, weights, -1), (dense,), "FullyConnectedOptions"))
        editor.add_op(NewOp("LOGISTIC", (dense,), (gate,)))
        editor.add_op(NewOp("MUL", (dense, gate), (product,), "MulOptions"))
        last = product
    editor.set_ends([first], [last])
    return editor.bytes()


def measure(layers: int) -> None:
    """Prints size, seconds and the growth of the peak memory for one size."""
    import numpy as np

    from sqp_tflite.finished.cleaning import cleaned
    from sqp_tflite.finished.exchange import exchanged
    from sqp_tflite.finished.model import described
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.source.samples import Samples

    content = network(layers)
    samples = Samples((np.zeros((1, UNITS), np.float32),), None, given=False)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    plain, _ = cleaned(described(content, read(content), "net"), "float32")
    made = exchanged(plain, samples, "accurate", 1e-3)
    seconds = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert len(made.replacements) == layers
    print(f"{len(content) / 2**20:.0f} {seconds:.2f} {grown:.0f}")


def main() -> None:
    """Measures every size, each in its own process."""
    print(f"load {os.getloadavg()[0]:.1f}")
    for layers in LAYERS:
        call = [sys.executable, "-m", "benchmarks.finished_files", str(layers)]
        done = subprocess.run(call, capture_output=True, text=True, check=True)
        size, seconds, grown = map(float, done.stdout.split())
        print(f"{size:.0f} MB: {seconds:.2f} s of CPU, {grown:.0f} MB more memory at the peak ({grown / size:.1f} x)")


if __name__ == "__main__":
    measure(int(sys.argv[1])) if len(sys.argv) > 1 else main()

"""Reads exported files with other projects' strict readers, each installed in an environment of its own.

    python -m tools.check_readers

bakenn's importer takes int8 files only whose operators are in the versions and with the options that the schema's rules
ask for; ethos-u-vela reads and compiles them for an Ethos-U55. bakenn has no CAST and no ADD of a constant, so that it
is given a network of ReLU, and wants a bias. Takes two minutes and 500 MB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.check_package import environment

READERS = ("bakenn==1.0.0", "ethos-u-vela==5.2.0", "tflite==2.18.0")
BAKENN = "import sys, bakenn; bakenn.import_tflite(open(sys.argv[1], 'rb').read())"
PLAIN = (
    "import sys, tflite; model = tflite.Model.GetRootAsModel(open(sys.argv[1], 'rb').read(), 0); "
    "graph = model.Subgraphs(0); assert graph.OperatorsLength() > 3"
)


def files() -> dict[str, bytes]:
    """Returns exported files by name, those of ReLU first."""
    import keras
    import numpy as np
    from keras import layers

    import sqp_keras  # noqa: F401  registers the string "squareplus"
    import sqp_tflite

    x = np.random.default_rng(0).normal(size=(64, 8, 8, 1)).astype(np.float32)
    made = {}
    for activation in ("relu", "squareplus"):
        stack = [keras.Input((8, 8, 1)), layers.Conv2D(8, 3, padding="same", activation=activation)]
        stack += [layers.DepthwiseConv2D(3, activation=activation), layers.MaxPooling2D(2), layers.Flatten()]
        biased = {"bias_initializer": "ones"}
        model = keras.Sequential([*stack, layers.Dense(16, activation=activation, **biased), layers.Dense(4, **biased)])
        for lowering in ("algebraic", "table", "integer"):
            done = sqp_tflite.export(model, quantize="int8", lowering=lowering, data=x)
            made[f"{activation}_{lowering}"] = done.model_bytes
    return made


def main() -> None:
    """Prints what each reader says; the exit code is 1 if one refuses a file."""
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        programs = environment(Path(folder, "readers"), *READERS)
        for name, content in files().items():
            path = Path(folder, f"{name}.tflite")
            path.write_bytes(content)
            vela = [programs / "vela", path, "--accelerator-config", "ethos-u55-128", "--output-dir", folder]
            calls = {"ethos-u-vela": vela, "tflite": [programs / "python", "-c", PLAIN, path]}
            if name.startswith("relu"):
                calls["bakenn"] = [programs / "python", "-c", BAKENN, path]
            for reader, call in calls.items():
                done = subprocess.run(call, capture_output=True, text=True)
                refused += done.returncode != 0
                said = "reads it" if not done.returncode else done.stderr.strip().splitlines()[-1]
                print(f"{name}: {reader}: {said}", flush=True)
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()

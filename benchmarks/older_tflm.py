"""What older releases of TensorFlow Lite Micro make of exported files, against Keras and against the installed release.

`python -m benchmarks.older_tflm --python OLD/bin/python [--python ...]`, where each OLD is an environment of its own:

    python3.11 -m venv OLD
    OLD/bin/pip install 'numpy<2' tensorflow tflite-micro==0.dev20231010131554

First every operator of the table of tflm@2023 alone, on random codes: its outputs on the older release must be those
on the installed one. Then networks: the demo's CNN, a dense network and a GRU on the same digits, and untrained
convolutions, exported for tflm@2023 and, with a scale per unit, for tflm. Exits with 1 if an operator or a file for
tflm@2023 differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
FORMS = (
    ("float32", "algebraic"),
    ("int8", "algebraic"),
    ("int8", "table"),
    ("int8", "integer"),
    ("int16x8", "algebraic"),
)
TARGETS = ("tflm@2023", "tflm")
SAMPLES = 64
TRIES = 8
ROW = "{:<34} {:>10} {:>10} {:>9} {:>9} {:>8} {:>8}"
HERE = Path(__file__).resolve()


def networks():
    """Yields (name, trained model, inputs) of three networks on handwritten digits."""
    import keras

    from benchmarks.integer_models import train

    model, (_, x_test, _) = train("squareplus")
    yield "cnn", model, x_test
    from sklearn.datasets import load_digits

    labels = load_digits().target
    rows = load_digits().data.astype("float32").reshape(-1, 8, 8) / 16
    layers = keras.layers
    gates = {"activation": "squareplus", "recurrent_activation": "hard_sigmoid"}
    for name, inside in (
        ("dense", [layers.Flatten(), layers.Dense(32, "squareplus"), layers.Dense(10)]),
        ("gru", [layers.GRU(16, **gates), layers.Dense(10)]),
    ):
        keras.utils.set_random_seed(1)
        net = keras.Sequential([keras.Input((8, 8), name="image"), *inside])
        net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        net.fit(rows[:1400], labels[:1400], epochs=15, verbose=0)
        yield name, net, rows[1400:]
    keras.utils.set_random_seed(2)
    kinds = [layers.DepthwiseConv2D(3), layers.Conv2DTranspose(6, 3), layers.Conv2D(4, 3), layers.Flatten()]
    yield "convolutions", keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(8, 3), *kinds]), _images()


def _images() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(SAMPLES, 8, 8, 3)).astype("float32")


def write_networks(folder: Path) -> dict[str, np.ndarray]:
    """Writes the files with their inputs; returns {name: Keras's outputs}."""
    import sqp_tflite
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.run.interpreters import encode

    expected = {}
    for network, model, x in networks():
        for quantize, lowering in FORMS:
            for target in TARGETS if quantize != "float32" else TARGETS[:1]:
                name = f"{network} {quantize} {lowering} {target}"
                try:
                    made = sqp_tflite.export(model, quantize=quantize, lowering=lowering, target=target, data=x)
                except sqp_tflite.ExportError as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    continue
                place = read(made.model_bytes).inputs[0]
                (folder / f"{name}.tflite").write_bytes(made.model_bytes)
                np.savez(folder / f"{name}.npz", in0=np.stack([encode(row[None], place) for row in x[:SAMPLES]]))
                expected[name] = np.asarray(model(x[:SAMPLES]))
    return expected


def write_operators(folder: Path) -> list[str]:
    """Writes a file for each operator and type of the table with random codes; returns their names."""
    from sqp_tflite.ops.one_op import build
    from sqp_tflite.ops.op_families import cases
    from sqp_tflite.ops.policy import kernels

    random = np.random.default_rng(0)
    names = []
    for case in cases():
        if case.dtype not in kernels("tflm@2023").get(case.op, ()):
            continue
        names.append(f"{case.op} {case.dtype}")
        computed = [operand for operand in case.inputs if operand is not None and operand.values is None]
        fed = [_codes(operand, random, case.op == "RSQRT") for operand in computed]
        (folder / f"{names[-1]}.tflite").write_bytes(build(case))
        np.savez(folder / f"{names[-1]}.npz", **{f"in{place}": array for place, array in enumerate(fed)})
    return names


def _codes(operand, random: np.random.Generator, positive: bool) -> np.ndarray:
    shape = (TRIES, *operand.shape)
    if operand.dtype == "float32":
        return random.uniform(0.1, 2, shape).astype("float32")
    if operand.scale:
        limits = np.iinfo(operand.dtype)
        return random.integers(operand.zero_point + 1 if positive else limits.min, limits.max + 1, shape).astype(
            operand.dtype
        )
    return np.full(shape, operand.code, operand.dtype)


def ran(python: str, folder: Path, *more: str) -> tuple[str, dict[str, dict[str, np.ndarray]]]:
    """Returns the release of a Python's TensorFlow Lite Micro, and what it made of each file in a folder."""
    for stale in folder.glob("*.out.npz"):
        stale.unlink()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with open(os.devnull, "wb") as nothing:
        call = [python, str(HERE.with_name("run_on_tflm.py")), str(folder), *more]
        subprocess.run(call, check=True, stdout=nothing, stderr=nothing, env=environment)
    asked = "import importlib.metadata; print(importlib.metadata.version('tflite-micro'))"
    version = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True, env=environment).stdout
    found = {path.name.removesuffix(".out.npz"): dict(np.load(path)) for path in folder.glob("*.out.npz")}
    return version.strip(), found


def show_networks(folder: Path, pythons: list[str]) -> int:
    """Prints how far each network is off on each release; returns how many files for tflm@2023 are not right there."""
    from sqp_tflite.flatbuffer.read import read
    from sqp_tflite.run.interpreters import decode

    expected = write_networks(folder)
    wrong = 0
    _, newest = ran(sys.executable, folder, "arena")
    for python in pythons:
        version, found = ran(python, folder, "arena")
        print(f"\nTensorFlow Lite Micro {version}, against Keras, and against the installed release\n")
        print(ROW.format("file", "max error", "of range", "argmax", "codes", "arena", "here"))
        for name, wanted in expected.items():
            if "error" in found[name]:
                print(f"{name:<34} {found[name]['error']}")
                wrong += "@" in name
                continue
            made = found[name]["out0"]
            values = np.reshape(decode(made, read((folder / f"{name}.tflite").read_bytes()).outputs[0]), wanted.shape)
            error, same = np.abs(values - wanted).max(), (values.argmax(-1) == wanted.argmax(-1)).mean()
            apart = np.abs(made.astype(np.float64) - newest[name]["out0"]).max()
            sizes = int(found[name]["arena"]), int(newest[name]["arena"])
            figures = f"{error:.3g}", f"{error / np.ptp(wanted):.3g}", f"{same:.1%}", f"{apart:.2g}", *map(str, sizes)
            print(ROW.format(name, *figures))
            wrong += "@" in name and bool(apart > (1 if made.dtype.kind == "i" else 1e-4))
    return wrong


def show_operators(folder: Path, pythons: list[str]) -> int:
    """Prints the operators whose outputs differ between an older release and the installed one; returns how many."""
    names = write_operators(folder)
    _, newest = ran(sys.executable, folder)
    wrong = 0
    for python in pythons:
        version, found = ran(python, folder)
        lines = [line for name in names if (line := _differs(name, found[name], newest[name]))]
        print(f"\nTensorFlow Lite Micro {version}: {len(names) - len(lines)} of {len(names)} operators as installed")
        print("\n".join(lines))
        wrong += len(lines)
    return wrong


def _differs(name: str, old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> str:
    if "error" in old or "error" in new:
        return f"{name}: older {old.get('error', 'ran')}, installed {new.get('error', 'ran')}"
    apart = max(np.abs(old[key].astype(np.float64) - new[key]).max() for key in old if key.startswith("out"))
    return f"{name}: up to {apart:.3g} apart" if apart > 1e-5 else ""


def main() -> int:
    """Prints both parts; returns 1 if a file for tflm@2023 or an operator is not as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", action="append", required=True, help="of an environment with an older release")
    parser.add_argument("--only", choices=("networks", "operators"), help="one of the two parts")
    given = parser.parse_args()
    wrong = 0
    for part, show in (("operators", show_operators), ("networks", show_networks)):
        if given.only in (None, part):
            with tempfile.TemporaryDirectory() as folder:
                wrong += show(Path(folder), given.python)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

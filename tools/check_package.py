"""Installs a built wheel and sdist into clean environments: the first must export a model, the second pass its tests.

python tools/check_package.py [DIST] [--tests TEST ...]

Each environment takes about 2 GB and a few minutes; both are removed afterwards.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

TESTS = ("layout", "packaging", "functional", "combinations", "load")
"""The test files that are run from the sdist unless others are named: none of them needs tflite-runtime."""

MODEL = """
import keras
import sqp_keras

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="squareplus"), keras.layers.Dense(2)])
model.save("net.keras")
"""


def environment(folder: Path, *what: str) -> Path:
    """Returns the folder of programs of a new environment in which `what` is installed."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *what], check=True)
    return programs


def check_wheel(wheel: Path, folder: Path) -> None:
    """Exports a small model for the default target, right after a plain install."""
    programs = environment(folder / "wheel-env", str(wheel))
    subprocess.run([programs / "python", "-c", MODEL], check=True, cwd=folder)
    subprocess.run([programs / "sqp-export", "net.keras"], check=True, cwd=folder)
    included = subprocess.run(
        [programs / "sqp-export", "--c-include"], check=True, cwd=folder, capture_output=True, text=True
    )
    if not (folder / "net.tflite").is_file() or not Path(included.stdout.strip(), "sqp.h").is_file():
        sys.exit(f"{wheel.name}: `sqp-export net.keras` must write net.tflite, and --c-include must lead to sqp.h.")


def check_sdist(sdist: Path, folder: Path, tests: Sequence[str]) -> None:
    """Runs tests in the unpacked sdist, in an environment that was made from it."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    root = folder / sdist.name.removesuffix(".tar.gz")
    programs = environment(folder / "sdist-env", f"{root}[test]")
    files = [f"tests/test_{name}.py" for name in tests]
    subprocess.run([programs / "python", "-m", "pytest", *files], check=True, cwd=root)


def main() -> None:
    """Checks the newest build in a folder."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("dist", nargs="?", type=Path, default=Path("dist"), help="where `make package` built both")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="TEST", help="NAME of tests/test_NAME.py")
    options = parser.parse_args()
    (wheel,), (sdist,) = options.dist.glob("*.whl"), options.dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        check_wheel(wheel.resolve(), Path(folder))
        check_sdist(sdist.resolve(), Path(folder), options.tests)


if __name__ == "__main__":
    main()

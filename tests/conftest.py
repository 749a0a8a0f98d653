"""Fixtures that several modules use: the demo, run once as a user runs it, and quiet third-party libraries."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def run_command(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Ran:
    """Runs a command in a process of its own; the package's commands stand beside this Python."""
    name, *rest = map(str, arguments)
    program = sys.executable if name == "python" else str(Path(sys.executable).with_name(name))
    done = subprocess.run(
        [program, *rest], capture_output=True, text=True, cwd=cwd, timeout=600, env={**os.environ, **environment}
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def command():
    """Returns `run_command`."""
    return run_command


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo's folder and what it printed."""

    folder: Path
    ran: Ran

    @property
    def model(self) -> Path:
        return self.folder / "digits.keras"

    @property
    def data(self) -> Path:
        return self.folder / "digits_test.npz"

    @property
    def tflite(self) -> Path:
        return self.folder / "digits.tflite"


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Demo:
    """The demo, trained and exported once for all tests that need a real model."""
    folder = tmp_path_factory.mktemp("demo")
    ran = run_command("python", ROOT / "examples" / "digits.py", "--output", folder)
    assert ran.code == 0, ran.err[-2000:]
    return Demo(folder, ran)

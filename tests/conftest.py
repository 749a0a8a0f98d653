"""Fixtures that several modules use: commands run here or in a process, and what is made once per run."""

import os

# Set before anything is imported: workers run side by side, a core and a thread each.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import contextlib
import fcntl
import gc
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

gc.disable()  # Until all is imported: looking through the libraries' millions of objects takes seconds.

QUICK = "import gc, sys; gc.disable(); sys.modules['matplotlib'] = sys.modules['sklearn'] = None\n"
"""Begins the code of a process that imports Keras: it looks for no garbage, and imports no plots and no wrappers."""

ROOT = Path(__file__).parent.parent
MAINS = {"sqp-export": "export_main", "sqp-inspect": "inspect_main", "sqp-check": "check_main", "sqp-cc": "cc_main"}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def run_process(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Ran:
    """Runs a command in its own process; the package's commands are next to this Python."""
    name, *rest = map(str, arguments)
    program = sys.executable if name == "python" else str(Path(sys.executable).with_name(name))
    done = subprocess.run(
        [program, *rest], capture_output=True, text=True, cwd=cwd, timeout=600, env={**os.environ, **environment}
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def run_here(name: str, *arguments: str | Path, cwd: Path | None = None) -> Ran:
    """Runs one of the package's commands, or a script, in this process: without the seconds that imports take.

    What native code prints on the file descriptors is caught, too.
    """
    given = list(map(str, arguments))
    with _caught() as streams, _in_folder(cwd):
        try:
            if name in MAINS:
                from sqp_tflite.cli import commands

                code = getattr(commands, MAINS[name])(given)
            else:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(sys, "argv", [name, *given])
                    runpy.run_path(name, run_name="__main__")
                code = 0
        except SystemExit as ended:
            code = ended.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        texts = [_text(stream) for stream in streams]
    return Ran(code, *texts)


@contextlib.contextmanager
def _caught() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Yields two files to which standard output and error lead, for Python and for native code."""
    saved = [os.dup(1), os.dup(2)]
    with contextlib.ExitStack() as stack:
        files = tuple(stack.enter_context(tempfile.TemporaryFile()) for _ in saved)
        texts = [stack.enter_context(open(os.dup(file.fileno()), "w", encoding="utf-8")) for file in files]
        with contextlib.redirect_stdout(texts[0]), contextlib.redirect_stderr(texts[1]):
            for number, file in enumerate(files, start=1):
                os.dup2(file.fileno(), number)
            try:
                yield files
            finally:
                for number, descriptor in enumerate(saved, start=1):
                    os.dup2(descriptor, number)
                    os.close(descriptor)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")


@contextlib.contextmanager
def _in_folder(folder: Path | None) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder or before)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture(scope="session")
def process():
    """Returns `run_process`, for tests about a whole process: its exit, its environment, what stays behind."""
    return run_process


@pytest.fixture(scope="session")
def command():
    """Returns `run_here`."""
    return run_here


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of the demo first, together: one worker makes it while the others have something else to do."""
    gc.freeze()  # What was imported stays: it is not looked through again.
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    items.sort(key=lambda item: "demo" not in getattr(item, "fixturenames", ()))


def pytest_collectreport() -> None:
    """Makes the child process that converts a copy of this one, as the commands do: its imports take seconds.

    `may_fork` says no beside the threads of pytest's workers, which only wait for messages.
    """
    from sqp_tflite import private, worker

    if sys.platform == "linux" and "sqp_tflite.source.convert" in sys.modules and not worker._IDLE.get("convert"):
        from sqp_tflite.source.convert import IMPORTS

        if not private.tensorflow_computes():
            with worker.lent("convert", IMPORTS, fork=True):
                pass


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Returns a folder that `make` has filled, once per run of the tests, whichever worker came first.

    The folder of a failed `make` is not kept: the next worker tries again and fails with its own message.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # Shared by the workers of one run.
    folder, done = base / f"once-{name}", base / f"once-{name}.done"
    with open(base / f"once-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def once(tmp_path_factory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Returns `made_once` with this run's folder."""
    return lambda name, make: made_once(tmp_path_factory, name, make)


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


def _commands_here(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `subprocess.run` with the package's commands as calls of their functions."""

    def run(command: list[str], **named: Any) -> Any:
        name = Path(command[0]).name
        if name not in MAINS:
            return stock(command, **named)
        from sqp_tflite.cli import commands

        return subprocess.CompletedProcess(command, getattr(commands, MAINS[name])(command[1:]))

    return run


@pytest.fixture(scope="session")
def demo(once) -> Demo:
    """The demo, trained and exported once for all tests that need a real model, with the commands in this process.

    `make demo` runs the same in processes; a test of the large ones does, too.
    """

    def make(folder: Path) -> None:
        import keras

        keras.utils.clear_session(free_memory=False)  # Layers are numbered as in a new process.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "run", _commands_here(subprocess.run))
            ran = run_here(f"{ROOT}/examples/digits.py", "--output", folder, "--epochs", "12")
        assert ran.code == 0, ran.err[-2000:]
        (folder / "out.txt").write_text(ran.out, encoding="utf-8")
        (folder / "err.txt").write_text(ran.err, encoding="utf-8")

    folder = once("demo", make)
    printed = [(folder / name).read_text(encoding="utf-8") for name in ("out.txt", "err.txt")]
    return Demo(folder, Ran(0, *printed))

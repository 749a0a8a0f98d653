"""Runs tests on several versions of Python, Keras, TensorFlow and numpy, each in an environment of its own.

    python -m tools.version_matrix [--only "Python 3.13"] [--write]

A row is one combination: its environment is made (2 GB, minutes), the tests of `TESTS` run there, and it is removed.
What cannot be installed is a row that says so. `--write` puts each row into docs/versions.md as soon as it is
known; rows that were not run keep their earlier result and date. Needs only Python itself.
"""

import argparse
import datetime
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- versions: begin (make matrix) -->", "<!-- versions: end -->"

LATEST = ""
PACKAGES = ("keras", "tensorflow", "numpy")
TOOLS = ("pytest", "pytest-timeout", "pyyaml", "hypothesis", "mpmath", "scikit-learn", "jsonschema")
"""What the tests import besides the package's own dependencies."""

TESTS = "functional gradients layer saving registry private symbolic algebraic_layer replace".split()
"""Training in every dtype, derivative and mode, saving, exchanging activations: what versions change."""

EXPORT = """
import keras, numpy, sqp_keras, sqp_tflite
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, "squareplus"), keras.layers.Dense(2)])
data = numpy.random.default_rng(0).normal(size=(64, 8)).astype("float32")
for quantize in ("float32", "int8"):
    report = sqp_tflite.export(model, quantize=quantize, data=data).report
    assert report.verdict == "ok", report.findings
"""
"""One model, exported and compared on the target's own interpreter, in float and in integers."""

SECONDS = 1500
"""What one step of a row may take."""


@dataclass(frozen=True, slots=True)
class Row:
    """A combination of versions; "" is the latest one that the index has."""

    python: str
    keras: str = LATEST
    tensorflow: str = LATEST
    numpy: str = LATEST

    def __str__(self) -> str:
        """Returns the combination as the table shows it."""
        asked = [f"{name} {getattr(self, name.lower()) or 'latest'}" for name in ("Keras", "TensorFlow", "numpy")]
        return ", ".join([f"Python {self.python}", *asked])


ROWS = (
    Row("3.10", "3.12", "2.20", "1.26"),
    Row("3.10"),
    Row("3.11", "3.12", "2.20", "1.26"),
    Row("3.11", "3.12", "2.20"),
    Row("3.11", "3.12", LATEST, "1.26"),
    Row("3.11", LATEST, "2.20", "1.26"),
    Row("3.11", LATEST, "2.20"),
    Row("3.11", LATEST, LATEST, "1.26"),
    Row("3.11"),
    Row("3.12", "3.12", "2.20", "1.26"),
    Row("3.12"),
    Row("3.13", "3.12", "2.20"),
    Row("3.13"),
    Row("3.14"),
)


def interpreter(version: str) -> str | None:
    """Returns the program of a version of Python: among pyenv's, or on the path; None if there is none."""
    held = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"), reverse=True)
    for program in [*map(str, held), shutil.which(f"python{version}")]:
        # One of pyenv's stand-ins on the path fails if no version is chosen.
        if program and not _ran(program, "-c", "import venv").returncode:
            return program
    return None


def wanted(row: Row) -> list[str]:
    """Returns what pip is asked for, besides the package itself."""
    held = {name: getattr(row, name) for name in PACKAGES}
    return [*(f"{name}=={version}.*" if version else name for name, version in held.items()), *TOOLS]


def run(row: Row) -> tuple[str, str]:
    """Returns the installed versions and the result of a row, both in words."""
    python = interpreter(row.python)
    if python is None:
        return "", f"not run: no python{row.python} on this machine"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = str(Path(folder, "bin", "python"))
        # Wheels only: what would have to be compiled is not what users install.
        done = _ran(own, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-e", str(ROOT), *wanted(row))
        if done.returncode:
            return "", f"cannot be installed: {cause(done.stdout + done.stderr)}"
        return versions(own), tested(own)


def versions(python: str) -> str:
    """Returns the versions in an environment."""
    names = ("keras", "tensorflow", "numpy")
    code = f"import platform, importlib.metadata as m; print(platform.python_version(), *map(m.version, {names}))"
    return ", ".join(_ran(python, "-c", code).stdout.split())


def tested(python: str) -> str:
    """Returns what the tests and an export gave."""
    files = [f"tests/test_{name}.py" for name in TESTS]
    done = _ran(python, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", *files)
    print(done.stdout[-3000:] if done.returncode else "", file=sys.stderr, flush=True)
    exported = _ran(python, "-c", EXPORT)
    print(exported.stderr[-2000:] if exported.returncode else "", file=sys.stderr, flush=True)
    return f"{counted(done.stdout)}; export {'failed' if exported.returncode else 'proven'}"


def counted(output: str) -> str:
    """Returns the counts of pytest's last line."""
    found = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", (output.strip().splitlines() or [""])[-1])
    return ", ".join(found) or "no tests ran"


def cause(output: str) -> str:
    """Returns the cause that pip gives, in one short line for a table."""
    lines = [line.partition("ERROR: ")[2].strip() for line in output.splitlines() if "ERROR: " in line]
    named = [line for line in lines if "No matching distribution" in line or "requires" in line] or lines
    return re.sub(r"\s+", " ", (named or ["pip failed"])[-1]).replace("|", "/")[:160]


def written(page: str, rows: dict[str, str]) -> str:
    """Returns the page with these lines of the table, by combination; other lines stay."""
    before, rest = page.split(BEGIN)
    old, after = rest.split(END)
    held = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| Python")} | rows
    order = [str(row) for row in ROWS]
    head = [
        "| asked for | installed: Python, Keras, TensorFlow, numpy | tests; export | date |",
        "|---|---|---|---|",
    ]
    return before + "\n".join([BEGIN, *head, *(held[name] for name in order if name in held), END]) + after


def _ran(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"ERROR: stopped after {SECONDS} s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the rows that were named, or all."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="rows whose name has one of these")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    failed = False
    for row in [row for row in ROWS if any(text in str(row) for text in options.only)]:
        installed, result = run(row)
        failed = failed or "failed" in result or "error" in result or "no tests" in result
        line = f"| {row} | {installed or '-'} | {result} | {datetime.date.today().isoformat()} |"
        print(line, flush=True)
        if options.write:
            PAGE.write_text(written(PAGE.read_text("utf-8"), {str(row): line}), "utf-8")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()

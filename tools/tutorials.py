"""Runs the tutorials and writes their pages.

    python -m tools.tutorials                 all of them
    python -m tools.tutorials digits          one; five-minutes is one, too

A tutorial is a script in the py:percent form, which VS Code and Jupyter open as a notebook. Its page has the same
cells, what they printed, and the pictures of `plt.show()`. The page `docs/five-minutes.md` is its own source: its
blocks of Python ("python") and commands ("sh") are run, its outputs ("text") are replaced.
"""

import contextlib
import dataclasses
import io
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest import mock

from tools.plotting import SETTINGS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "figures" / "tutorials"
SOURCES = {path.stem: path for path in sorted((ROOT / "examples" / "tutorials").glob("*.py"))}
SOURCES["five-minutes"] = DOCS / "five-minutes.md"
_MARK = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$|^!\[[^\]]*\]\([./]*figures/tutorials/[^)]*\)$", re.M | re.S)


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A "markdown", "python" or "sh" part of a tutorial; once it was run, its output and pictures, as (file, title)."""

    kind: str
    text: str
    printed: str = ""
    pictures: tuple[tuple[str, str], ...] = ()


def page_of(name: str) -> Path:
    return DOCS / "tutorials" / f"{name}.md" if SOURCES[name].suffix == ".py" else SOURCES[name]


def cells(path: Path) -> list[Cell]:
    """Returns the cells of a script in the py:percent form, or of a page, without what a page shows of their run."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        _, *parts = _MARK.split(text)
        pairs = zip(parts[::2], map(str.strip, parts[1::2]), strict=True)
        return [Cell("markdown", re.sub("(?m)^# ?", "", it)) if mark else Cell("python", it) for mark, it in pairs]
    words, *parts = _BLOCK.split(text)
    found = [Cell("markdown", words.strip())]
    for kind, block, words in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        found += [Cell(kind, block.strip())] if kind in ("python", "sh") else []
        found.append(Cell("markdown", words.strip()))
    return [cell for cell in found if cell.text]


def page_text(done: Iterable[Cell], page: Path) -> str:
    """Returns the page of cells that were run."""
    parts, pictures = [], os.path.relpath(PICTURES, page.parent)
    for cell in done:
        parts.append(cell.text if cell.kind == "markdown" else f"```{cell.kind}\n{cell.text}\n```")
        if printed := "\n".join(line.rstrip() for line in cell.printed.strip("\n").splitlines()):
            parts.append(f"```text\n{printed}\n```")
        parts += [f"![{title}]({pictures}/{file})" for file, title in cell.pictures]
    return "\n\n".join(parts) + "\n"


def shell(commands: str) -> str:
    """Returns what commands print; the package's own are those beside this Python."""
    found = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-ec", commands], check=True, stdout=subprocess.PIPE, env=found)
    return ran.stdout.decode()


def run(name: str, path: Path, call: Callable[[str], str] = shell) -> list[Cell]:
    """Returns a tutorial's cells with what they showed, run in the current folder; a false claim raises."""
    import keras
    from matplotlib import pyplot as plt

    pictures: list[tuple[str, str]] = []

    def show() -> None:
        for figure in map(plt.figure, plt.get_fignums()):
            pictures.append((f"{name}-{len(pictures) + 1}.svg", figure.get_suptitle()))
            figure.savefig(pictures[-1][0], metadata={"Date": None, "Creator": None})
        plt.close("all")

    keras.utils.clear_session(free_memory=False)  # Layers are numbered as in a new process.
    plt.switch_backend("svg")  # Needs no display.
    space, done = {"__name__": "__main__"}, []
    with mock.patch.object(plt, "show", show), plt.rc_context({**SETTINGS, "axes.axisbelow": True}):
        for cell in cells(path):
            printed, before, where = io.StringIO(), len(pictures), f"{path.name}, cell {len(done) + 1}"
            if cell.kind == "python":
                linecache.cache[where] = len(cell.text), None, cell.text.splitlines(keepends=True), where
                with contextlib.redirect_stdout(printed):
                    exec(compile(cell.text, where, "exec"), space)
            elif cell.kind == "sh":
                printed.write(call(cell.text))
            done.append(dataclasses.replace(cell, printed=printed.getvalue(), pictures=tuple(pictures[before:])))
    return done


if __name__ == "__main__":
    for name in sys.argv[1:] or SOURCES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            done = run(name, SOURCES[name])
            for file in Path().glob(f"{name}-*.svg"):
                shutil.copy(file, PICTURES)
        page_of(name).write_text(page_text(done, page_of(name)), "utf-8")
        print(page_of(name))

"""Every tutorial runs, what it claims holds, it writes nothing outside of its folder, and its page is up to date."""

import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import keras  # noqa: F401  it and matplotlib write settings into the home folder when they are first imported
import pytest
from matplotlib import pyplot  # noqa: F401

from tools import tutorials

SHORT = "# %%\nprint('a sum: 4')\n\n# %% [markdown]\n# # Sums\n#\n# Two and two.\n\n# %%\nassert 2 + 2 == {}\n"
"""A tutorial, up to what it claims."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@pytest.fixture(scope="session")
def written():
    """Returns a list of the paths that this process opens to write, which begins when it is cleared."""
    paths = []

    def hear(event, arguments):
        if event == "open" and isinstance(arguments[0], (str, bytes)) and (arguments[2] or 0) & WRITES:
            paths.append(Path(os.fsdecode(arguments[0])).absolute())

    sys.addaudithook(hear)
    return paths


def outside(paths, *folders):
    """Returns the files among paths that are in none of the folders; compiled modules are Python's own affair."""
    inside = [Path(folder).resolve() for folder in (*folders, "/dev", "/proc")]
    own = [path for path in paths if "__pycache__" not in path.parts]
    return [path for path in own if not any(path.resolve().is_relative_to(folder) for folder in inside)]


def shape(cells):
    """Returns what was printed as words, without numbers, hashes and paths, which differ from run to run."""
    words = " ".join(cell.printed for cell in cells)
    return re.sub(r"\S*/\S+|\b[0-9a-f]{16}\b|[-+]?\d[\d.,%e+-]*", " ", words).split()


def stale(source, page):
    """Returns how a page differs from its source, "" if it does not."""
    ours, theirs = tutorials.cells(source), tutorials.cells(page)
    pairs = [(mine, other) for mine, other in zip(ours, theirs, strict=False) if mine != other]
    if pairs or len(ours) != len(theirs):
        return f"{page.name} is older than {source.name}: run `python -m tools.tutorials {source.stem}`. {pairs[:1]}"
    return ""


@pytest.fixture
def call(command):
    """Runs a block of commands: the package's own in this process, all others in bash."""

    def run(block):
        if not block.startswith("sqp-"):
            return tutorials.shell(block)
        ran = command(*shlex.split(block))
        assert ran.code == 0, ran.err
        return ran.out

    return run


@pytest.mark.parametrize("name", tutorials.SOURCES)
def test_a_tutorial_keeps_its_claims_and_its_page(name, tmp_path, monkeypatch, written, call):
    source, page = tutorials.SOURCES[name], tutorials.page_of(name)
    if name == "five-minutes" and not shutil.which("gcc"):
        pytest.skip("needs gcc")
    assert stale(source, page) == ""
    monkeypatch.chdir(tmp_path)
    written.clear()
    done = tutorials.run(name, source, call)
    assert outside(written, tmp_path, tempfile.gettempdir()) == []
    shown = re.findall(r"^!\[(.*)\]\(.*/(.*)\)$", page.read_text("utf-8"), re.MULTILINE)
    assert [(title, file) for cell in done for file, title in cell.pictures] == shown
    assert all((tutorials.PICTURES / file).is_file() and title for title, file in shown)
    printed = re.findall(r"^```text\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert shape([tutorials.Cell("", "", text) for text in printed]) == shape(done)


def test_each_script_ends_in_claims_and_each_page_is_in_the_menu():
    menu = (tutorials.ROOT / "tools" / "site" / "mkdocs.yml").read_text("utf-8")
    for name, source in tutorials.SOURCES.items():
        assert f"- {tutorials.page_of(name).relative_to(tutorials.DOCS)}\n" in menu
        if source.suffix == ".py":
            claims = [cell for cell in tutorials.cells(source) if cell.kind == "python"][-1].text.splitlines()
            assert len(claims) >= 4 and all(line.startswith("assert ") for line in claims)


def test_a_claim_that_does_not_hold_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "sums.py"
    script.write_text(SHORT.format(4))
    done = tutorials.run("sums", script)
    assert [(cell.kind, cell.printed) for cell in done] == [("python", "a sum: 4\n"), ("markdown", ""), ("python", "")]
    script.write_text(SHORT.format(5))
    with pytest.raises(AssertionError):
        tutorials.run("sums", script)


@pytest.mark.parametrize(
    "change", [("'a sum", "'The sum"), ("Two and", "Twice"), ("2 + 2", "3 + 1"), ("# %%\nassert", "assert")]
)
def test_a_page_older_than_its_script_is_seen(change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script, page = tmp_path / "sums.py", tmp_path / "sums.md"
    script.write_text(SHORT.format(4))
    page.write_text(tutorials.page_text(tutorials.run("sums", script), page))
    assert stale(script, page) == ""
    script.write_text(script.read_text().replace(*change))
    assert "sums.md is older than sums.py: run `python -m tools.tutorials sums`" in stale(script, page)


def test_a_file_written_elsewhere_is_seen(tmp_path, written):
    (tmp_path / "here").mkdir()
    written.clear()
    for path in (tmp_path / "here" / "a.txt", tmp_path / "b.txt"):
        path.write_text("")
    assert outside(written, tmp_path / "here") == [tmp_path / "b.txt"]

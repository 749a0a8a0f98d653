"""The Python of the guides runs, and every command line of the documentation is one that the commands take."""

import re
import shlex
from pathlib import Path

import keras
import pytest

from sqp_tflite.cli import arguments

ROOT = Path(__file__).parent.parent
GUIDES = ("train", "export")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"(?:^|[`(]|\$ )(sqp-(?:export|check|inspect|cc)\b[^`\n]*)", re.MULTILINE)


def commands_of(text):
    """Yields the command lines of a page, without their comments."""
    for line in COMMAND.findall(text.replace("\\\n", " ")):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # A sentence with an apostrophe.
            continue
        if len(words) > 1:
            yield words


def unknown_options(text):
    """Returns the options of a page's command lines that their commands do not have."""
    wrong = []
    for name, *words in commands_of(text):
        known = {option for action in arguments.PARSERS[name]()._actions for option in action.option_strings}
        options = [word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)]
        wrong += [f"{name} {option}" for option in options if option not in known]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_only_options_that_exist(page):
    assert unknown_options(page.read_text("utf-8")) == []


def test_an_option_that_does_not_exist_is_seen():
    assert unknown_options("```\nsqp-export m.keras --fast  # quick\n```") == ["sqp-export --fast"]
    assert unknown_options("Run `sqp-check m.keras f.tflite --emit c`.") == ["sqp-check --emit"]


def test_command_lines_are_found():
    assert sum(len(list(commands_of(page.read_text("utf-8")))) for page in PAGES) > 50


@pytest.mark.parametrize("name", GUIDES)
def test_the_python_of_a_guide_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / f"{name}.md").read_text("utf-8"), re.M | re.S)
    assert blocks
    try:
        exec("\n".join(blocks), {})
    finally:
        keras.config.set_dtype_policy("float32")

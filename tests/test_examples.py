"""Every example runs, and the README shows what the demo really prints."""

import re
from pathlib import Path

import keras
import pytest

import sqp_tflite

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")

RUN_ELSEWHERE = {
    "digits.py": "the fixture `demo`",
    "firmware.py": "tests/test_firmware_example.py",
    "anomaly_autoencoder.py": "tests/test_replace_examples.py",
    "mean_sigma_regression.py": "tests/test_replace_examples.py",
}
"""What runs each example."""


def test_every_example_is_run_by_a_test():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(RUN_ELSEWHERE)
    for name in RUN_ELSEWHERE.values():
        assert "fixture" in name or (ROOT / name).is_file()


def shape(text: str) -> list[str]:
    """The words of a text without its numbers, paths and hashes, which differ from run to run."""
    words = re.sub(r"\S*/\S+|[0-9a-f]{16}\b|[-+]?[\d][\d.,%e+-]*", " ", text)
    return words.split()


def test_readme_shows_what_the_demo_prints(demo):
    (shown,) = re.findall(r"<!-- demo -->\n```\n(.*?)```", README, flags=re.DOTALL)
    printed = shape(demo.ran.out)
    missing = [line for line in shown.splitlines() if shape(line) and not contains(printed, shape(line))]
    assert missing == []


@pytest.mark.large
def test_the_demo_in_processes_prints_the_same(demo, process, tmp_path):
    ran = process("python", ROOT / "examples" / "digits.py", "--output", tmp_path, "--epochs", "12")
    assert ran.code == 0
    assert shape(ran.out) == shape(demo.ran.out)


def contains(words: list[str], part: list[str]) -> bool:
    return any(words[i : i + len(part)] == part for i in range(len(words) - len(part) + 1))


def test_a_changed_line_is_seen(demo):
    assert not contains(shape(demo.ran.out), shape("REFUSED digits.keras"))


OWN = re.compile(
    r"https://(?:sqp-keras\.github\.io/sqp-keras/([^)#]*?)/?"
    r"|(?:github\.com/sqp-keras/sqp-keras/(?:blob|tree)|raw\.githubusercontent\.com/sqp-keras/sqp-keras)/main/([^)#]*))"
    r"(?:#[^)]*)?"
)
"""A page of the site, or a file of the repository."""
MADE_PAGES = {"reference/commands", "develop/contributing", "develop/conduct", "develop/security", "develop/changes"}


def wrong_links(text):
    """Returns the links that the package index would not follow, and those that lead to nothing here."""
    links = set(re.findall(r"\]\(([^)\s]+)\)", text))
    wrong = {link for link in links if not link.startswith(("https://", "#"))}
    for link in links - wrong:
        if own := OWN.fullmatch(link):
            page, file = own.groups()
            there = page in MADE_PAGES or (ROOT / (file or f"docs/{page}.md")).exists()
            wrong |= set() if there else {link}
    return wrong


def test_links_of_the_readme_hold_on_the_package_index_too():
    assert wrong_links(README) == set()
    assert len(OWN.findall(README)) > 20


@pytest.mark.parametrize(
    "link",
    [
        "docs/speed.md",
        "https://sqp-keras.github.io/sqp-keras/no-such-page/",
        "https://github.com/sqp-keras/sqp-keras/blob/main/no/such.py",
    ],
)
def test_a_link_of_the_readme_that_leads_nowhere_is_seen(link):
    assert wrong_links(f"[x]({link})") == {link}


def test_the_readmes_first_example_says_what_becomes_of_a_softmax_head():
    """Kept on purpose: without its head an output is no probability, which only the user may decide."""
    lines = re.search(r"```\n(sqp-export model.keras .*?)```", README, flags=re.DOTALL)[1].splitlines()
    assert "--head logits" in lines[1] and "refused unless it is dropped" in lines[1]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax", name="head")])
    with pytest.raises(sqp_tflite.RefusedError, match="`head`.*SOFTMAX.*`--head logits`"):
        sqp_tflite.export(model, target="litert")
    exported = sqp_tflite.export(model, target="litert", head="logits")
    assert exported.report.verdict == "ok"

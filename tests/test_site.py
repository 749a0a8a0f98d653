"""The site of the documentation builds without a warning, and what would mislead a reader fails the build."""

import contextlib
import logging
import re
import shutil
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, PluginError

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "tools" / "site" / "mkdocs.yml"


@pytest.fixture(autouse=True)
def heard(monkeypatch):
    """MkDocs counts warnings only where its loggers are on."""
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)


def built(folder, **changed):
    """Builds the site, or one with the same rules from other pages, into a folder."""
    build(load_config(str(CONFIG), site_dir=str(folder), **changed))
    return folder


def test_the_site_builds_with_every_page_and_no_warning(tmp_path):
    site = built(tmp_path)
    pages = {path.stem for path in (ROOT / "docs").rglob("*.md")} - {"README"}
    assert pages <= {path.parent.name for path in site.rglob("index.html")}
    commands = (site / "reference" / "commands" / "index.html").read_text("utf-8")
    assert "--c-section" in commands and "sqp-cc" in commands
    training = (site / "reference" / "training" / "index.html").read_text("utf-8")
    assert 'id="sqp_keras.replace_activations"' in training
    links = set(
        re.findall(r'href="([^"]*CONTRIBUTING[^"]*|[^"]*contributing/[^"]*)"', (site / "index.html").read_text())
    )
    assert any("develop/contributing/" in link for link in links)


PLANTED = {
    "a page that is not there": "[more](no-such-page.md)",
    "a heading that is not there": "[more](#no-such-heading)",
    "a file that is not there": "[code](../tflite/no_such_file.py)",
    "a picture that is not there": "![curve](figures/no-such.svg)",
}


@pytest.fixture
def pages(tmp_path):
    """A copy of the pages, to plant faults in."""
    return shutil.copytree(ROOT / "docs", tmp_path / "docs")


@pytest.mark.parametrize("fault", [None, *PLANTED])
def test_a_broken_link_fails_the_build(fault, pages, tmp_path):
    page = pages / "sequences.md"
    page.write_text(f"{page.read_text('utf-8')}\n\n{PLANTED.get(fault, 'No fault.')}\n", "utf-8")
    fails = pytest.raises((Abort, PluginError)) if fault else contextlib.nullcontext()
    with fails:
        built(tmp_path / "site", docs_dir=str(pages), plugins=[])


def test_a_page_that_no_menu_leads_to_fails_the_build(pages, tmp_path):
    (pages / "lost.md").write_text("# Lost\n", "utf-8")
    with pytest.raises(Abort):
        built(tmp_path / "site", docs_dir=str(pages), plugins=[])

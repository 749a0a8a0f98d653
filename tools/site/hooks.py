"""What the site is made of besides `docs/`: pages from the root of the repository, the commands' help, links to files.

MkDocs calls the `on_` functions. A link that leaves `docs/` is right in the repository; on the site it becomes a link
to the page made from that file, or to the file on GitHub. A target that does not exist fails the build.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/sqp-keras/sqp-keras"
PICTURES = "https://raw.githubusercontent.com/sqp-keras/sqp-keras/main/"
SITE = "https://sqp-keras.github.io/sqp-keras/"
PAGES = {
    "CONTRIBUTING.md": "develop/contributing.md",
    "CODE_OF_CONDUCT.md": "develop/conduct.md",
    "SECURITY.md": "develop/security.md",
    "CHANGELOG.md": "develop/changes.md",
    "README.md": "index.md",
    "examples/firmware/digits/README.md": "firmware/example.md",
    "examples/code/digits/README.md": "firmware/example-code.md",
}
"""Files of the root that are pages of the site."""
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are not in `docs/`."""
    made = {page: _moved((ROOT / name).read_text("utf-8"), name, page) for name, page in PAGES.items()}
    made["reference/commands.md"] = commands()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads links out of `docs/` to where they go on the site."""
    if page.file.generated_by:
        return markdown
    return _moved(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def commands() -> str:
    """Returns the page about the commands: what each prints for its full help."""
    sys.path[:0] = [str(ROOT / "tflite"), str(ROOT)]
    from sqp_tflite.cli.arguments import PARSERS

    parts = ["# Commands", "What each command prints for `--help` (of sqp-export: `--help-all`)."]
    for name, make in PARSERS.items():
        parts += [f"## {name}", f"```\n{make().format_help(every=True).rstrip()}\n```"]  # type: ignore[call-arg]
    return "\n\n".join(parts) + "\n"


def _moved(markdown: str, source: str, page: str) -> str:
    """Returns a text of the file `source` (from the root) with links that hold on `page` of the site."""

    def link(found: re.Match[str]) -> str:
        target, anchor = found[2], found[3] or ""
        if target.startswith(SITE):  # As in README, whose links must hold everywhere.
            name = f"{target.removeprefix(SITE).rstrip('/')}.md"
            path = next((root for root, made in PAGES.items() if made == name), f"docs/{name}")
        elif target.startswith(PICTURES):
            path = target.removeprefix(PICTURES)
        elif ":" in target:
            return found[0]
        else:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        inside = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if inside:  # MkDocs itself looks whether it is there.
            return f"{found[1]}{posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor}{found[4]}"
        if not (ROOT / path).exists():
            raise PluginError(f"{source}: the link to {target} leads nowhere.")
        kind = "blob" if (ROOT / path).is_file() else "tree"
        return f"{found[1]}{REPOSITORY}/{kind}/main/{path}{anchor}{found[4]}"

    parts = _CODE.split(markdown)
    return "".join(part if part.startswith("`") else _LINK.sub(link, part) for part in parts)

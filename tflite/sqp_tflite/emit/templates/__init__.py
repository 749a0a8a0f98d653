"""The templates of generated files, and how they are found."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from sqp_tflite.wording import harmless

if TYPE_CHECKING:
    import jinja2


@functools.cache
def template(name: str) -> jinja2.Template:
    """Returns a template by its path in this folder. HTML templates escape values; an undefined name fails."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sqp_tflite.emit", "templates"),
        autoescape=jinja2.select_autoescape(("html",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["grouped"] = lambda number: f"{number:,}"
    environment.filters["code"] = _code
    environment.filters["harmless"] = harmless
    return environment.get_template(name)


def _code(name: str) -> str:
    """Returns a name as code in a table of Markdown, which nothing in it can end."""
    return "`" + harmless(name).replace("`", "'").replace("|", "\\|") + "`"

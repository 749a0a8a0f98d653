"""Names and numbers as C spells them, safe in literals and comments."""

from __future__ import annotations

import numpy as np


def float_text(value: float) -> str:
    """Returns a float32 as a C literal that reads back as the same bits."""
    if not np.isfinite(value):
        raise ValueError(f"A C literal must be finite. Received: {value}.")
    text = f"{np.float32(value):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def comment_text(text: str) -> str:
    """Returns a text that can't end a C comment."""
    return string_text(text).replace("*/", "* /").replace("/*", "/ *")


def string_text(text: str) -> str:
    """Returns a text that is valid between the quotes of a C string: ASCII, nothing to escape, no trigraph."""
    kept = "".join(char if " " <= char <= "~" else "_" for char in text)
    return kept.replace("\\", "/").replace('"', "'").replace("??", "? ?")

"""Words that come from files, made fit for a message: no line grows long, and nothing but text reaches the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 600
"""Characters of a line of a message."""

MOST_LINES = 50
"""Lines of a message that lists something."""

LONGEST_NAME = 80
"""Characters of one name in a list."""

LONGEST_SAID = 300
"""Characters of another package's message."""

_NOISE = re.compile(r"\x1b\[[0-9;]*m|\{\{function_node [^}]*\}\}|(?<!\w)(Stateful)?PartitionedCall(_\d+)?/")
"""Colours, and TensorFlow's names of the functions around an operator."""

_MOST_DIGITS = 18
"""Of a float64, less one: two that differ differ in 17 digits."""

_CUT = " ... "
_END = 0.4
"""The share of a shortened line that is its end: a message ends with what to do."""


def harmless(text: str) -> str:
    r"""Returns a text with its control characters, line breaks and the like written as escapes, such as `\x1b`.

    A name with a line break could otherwise pass for a line of ours, and one with an escape sequence could change the
    terminal.
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)


def harmless_lines(text: str) -> str:
    """Returns a text of several lines with everything as escapes that is neither printable nor a line break."""
    return "\n".join(map(harmless, text.split("\n")))


def shortened(text: str, most: int = LONGEST) -> str:
    """Returns a text of at most `most` characters: what is too much is left out in the middle."""
    if len(text) <= most:
        return text
    end = int((most - len(_CUT)) * _END)
    return text[: most - len(_CUT) - end].rstrip() + _CUT + text[len(text) - end :].lstrip()


def said(message: object, most: int = LONGEST_SAID) -> str:
    """Returns another package's message on one line, without colours and without the final full stop.

    Args:
        message: An error, or its text. Of an error without a text the kind is returned.
        most: Characters that are shown.
    """
    line = " ".join(_NOISE.sub("", str(message)).split())
    if not line and isinstance(message, BaseException):
        return type(message).__name__
    return shortened(line.rstrip("."), most)


def readable(text: str, most_lines: int = 1) -> str:
    """Returns a message that is safe to print: at most so many lines, none of them long.

    Args:
        text: The message; with one line, a line break in it is written as an escape.
        most_lines: How many lines it may have.
    """
    if most_lines == 1:
        return shortened(harmless(text))
    lines = text.split("\n")
    kept = lines if len(lines) <= most_lines else lines[: most_lines - 1]
    more = [f"... and {len(lines) - len(kept):,} more"] if len(kept) < len(lines) else []
    return "\n".join([*(shortened(harmless(line)) for line in kept), *more])


def listed(names: Iterable[object], most: int = 6) -> str:
    """Returns names as "`a`, `b`, `c` and 997 more".

    Args:
        names: In order.
        most: How many are named.
    """
    return joined((f"`{shortened(harmless(str(name)), LONGEST_NAME)}`" for name in names), most)


def digits(one: float, other: float, least: int = 2) -> int:
    """Returns with how many digits two numbers must be shown to tell them apart.

    Args:
        one: A number that is compared with another one.
        other: The other one.
        least: How many are enough where they differ, or where the two are equal.
    """
    differs = (count for count in range(least, _MOST_DIGITS) if f"{one:.{count}g}" != f"{other:.{count}g}")
    return next(differs, least)


def apart(one: float, other: float, least: int = 2) -> tuple[str, str]:
    """Returns two numbers as text, with as many digits as it takes to tell them apart; see `digits`."""
    count = digits(one, other, least)
    return f"{one:.{count}g}", f"{other:.{count}g}"


def joined(parts: Iterable[str], most: int = 6, what: str = "more") -> str:
    """Returns texts as "a, b, c and 997 more".

    Args:
        parts: In order.
        most: How many are shown.
        what: What the others are called.
    """
    every = list(parts)
    return ", ".join(every[:most]) + (f" and {len(every) - most:,} {what}" if len(every) > most else "")

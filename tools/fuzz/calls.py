"""Command lines: valid ones with some options, and ones that are wrong in every way."""

from __future__ import annotations

import argparse
from random import Random

from sqp_tflite.cli.arguments import PARSERS

WORDS = (
    "", " ", "-", "--", "-1", "0", "1", "nan", "inf", "-inf", "1e999", "1e-400", "0x10", "1_000", "64k", "64 kB",
    "1.5M", "9" * 40, "٣", "é", "名前", "\udcff", "a\nb", "\x1b[31m", "=", "a=", "=b", "a=b", "a=b=c", ",", "c,", ",,c",
    "c,c",
    "c,nothing", "accurate", "fast", "accurate,fast", "softplus=accurate", "softplus=fast,softplus=fast", "dense=slow",
    "relu=softplus", "int8", "INT8", "float32 ", "none", "None", "True", "x" * 300, "../up", "no/such/folder/x.tflite",
    "report.pdf", "report.html", "report.json", "REPORT.HTML", ".json", "out.tflite", "out", ".", "..", "folder",
    "pipe", "link", "dangling", "socket", "folder/out.tflite", "folder/r.html", "net.npz", "net.keras", "[red]", "%s",
    "{x}",
    "const", "", "static", ";", "*/", "int main", "9lives", "class", "__x", "a-b", "-x", "@file", "~", "$HOME",
)  # fmt: skip
"""Values for any option."""

SPECIAL = (
    ("folder", "folder", ""),
    ("pipe", "pipe", ""),
    ("socket", "socket", ""),
    ("link", "link", "linked.tflite"),
    ("dangling", "link", "no/such/folder/out.tflite"),
)
"""Entries of the current folder that `WORDS` names."""

_LEAVING = {"--help", "--help-all", "--version", "--completion", "--c-include"}
_NOT_WITH_BAD_FILES = {"--trust-code", "--debug"}

_USEFUL = {
    "--output": ("out.tflite", "folder/out.tflite", "link", "net.tflite"),
    "--emit": ("c", "resolver", "golden", "project", "c,resolver,golden,project"),
    "--ram": ("1", "4k", "64k", "1M"),
    "--flash": ("100", "64k", "1M"),
    "--c-prefix": ("net", "my_model"),
    "--c-section": (".rodata", ""),
    "--c-qualifier": ("const", "", "static const"),
    "--replace": ("accurate", "fast", "softplus=accurate", "softplus=fast,sigmoid=accurate"),
    "--max-error": ("0.001", "0.1", "1e-5"),
    "--map": ("mine=softplus",),
    "--tolerance": ("0", "0.1", "1e-9"),
    "--report": ("report.html", "report.json"),
}
"""Values that make sense, for options that have no list of choices."""


def options(program: str) -> list[argparse.Action]:
    """Returns the options of a command, from its own parser."""
    return [action for action in PARSERS[program]()._actions if action.option_strings]


def sensible(rng: Random, program: str, data: str, *, bad_files: bool) -> list[str]:
    """Returns a few options that fit together often enough.

    Args:
        rng: Decides.
        program: Name of the command.
        data: Name of the data file, "" for none.
        bad_files: Whether an input is damaged: then nothing is trusted, and a traceback counts.
    """
    given: list[str] = []
    known = [action for action in options(program) if not _LEAVING & set(action.option_strings)]
    if bad_files:
        known = [action for action in known if not _NOT_WITH_BAD_FILES & set(action.option_strings)]
    for action in rng.sample(known, rng.choice((0, 0, 1, 2, 3))):
        name = action.option_strings[-1]
        if name != "--data":
            given += [name, *_useful(rng, action)]
    if data and ("--quantize" in given or rng.random() < 0.5):
        given += ["--data", data]
    return given


def wild(rng: Random, program: str, positionals: list[str], data: str) -> list[str]:
    """Returns a command line with anything in it, in any order."""
    words: list[list[str]] = [[word] for word in positionals]
    for action in rng.choices(options(program), k=rng.choice((1, 2, 3, 5, 9))):
        name = rng.choice(action.option_strings)
        if name in ("--trust-code", "--debug") or (name in _LEAVING and rng.random() < 0.7):
            continue
        roll = rng.random()
        value = _useful(rng, action) if roll < 0.45 else [rng.choice(WORDS)] if roll < 0.9 else []
        if name == "--data" and roll < 0.45:
            value = [data]
        words.append([f"{name}={value[0]}"] if value and rng.random() < 0.3 else [name, *value])
    roll = rng.random()
    if roll < 0.1:
        words.append([rng.choice(WORDS)])
    elif roll < 0.2 and words:
        words.pop(rng.randrange(len(words)))
    elif roll < 0.3:
        words[rng.randrange(len(words))] = [rng.choice(WORDS)]
    elif roll < 0.35:
        words.append([rng.choice(("--no-such-option", "--quant", "--Json", "-q", "-oo", "-", "--", "---"))])
    if rng.random() < 0.5:
        rng.shuffle(words)
    return [word.replace("\x00", "") for part in words for word in part]


def _useful(rng: Random, action: argparse.Action) -> list[str]:
    if action.nargs == 0:
        return []
    if action.choices:
        return [str(rng.choice(list(action.choices)))]
    return [rng.choice(_USEFUL.get(action.option_strings[-1], WORDS))]

"""How a call is read: argparse with a short and a full help, one line for a bad call, and the nearest option.

Imports nothing slow.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
from collections.abc import Iterator
from typing import Any, NoReturn

from sqp_tflite.cli.actions import HelpAll
from sqp_tflite.cli.examples import Examples
from sqp_tflite.wording import LONGEST, harmless, shortened


class Parser(argparse.ArgumentParser):
    """Answers a bad call in one line, suggests the nearest option, and shows an empty call what to type.

    Args:
        program: Its name.
        description: What it does, in a sentence.
        examples: What the help ends with; its `common` options are those that --help lists.
    """

    def __init__(self, program: str, description: str, examples: Examples):
        super().__init__(
            program,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._examples = examples
        if examples.common:
            self.add_argument("--help-all", action=HelpAll)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reads a call; an empty one is answered with the most common calls."""
        if not args:
            self.exit(2, f"{self.prog}: what should be done? {self._examples.first()}\nAll calls: {self.prog} --help\n")
        return super().parse_known_args(args, namespace)

    def format_help(self, every: bool = False) -> str:
        """Returns the help, with the options that most people need or with `every` one."""
        if every or not self._examples.common:
            return f"{super().format_help()}\n{self._examples.full()}\n"
        with self._only_common():
            text = super().format_help()
        return f"{text}\n{self._examples.short()}\n\nAll options, more examples: {self.prog} --help-all\n"

    @contextlib.contextmanager
    def _only_common(self) -> Iterator[None]:
        """Hides the other options from argparse, which can only show all that have a help."""
        shown = {action: action.help for action in self._actions if self._rare(action)}
        for action in shown:
            action.help = argparse.SUPPRESS
        try:
            yield
        finally:
            for action, text in shown.items():
                action.help = text

    def _rare(self, action: argparse.Action) -> bool:
        return bool(action.option_strings) and not self._examples.common.intersection(action.option_strings)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # argparse takes the value out of `--target=--`, and returns an empty list in its place.
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument")
        return super()._get_values(action, arg_strings)

    def print_help(self, file: Any = None) -> None:
        """Prints the help, and raises where it cannot: argparse itself says nothing then."""
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message: str) -> NoReturn:
        """Ends the process with one line on standard error and exit code 2."""
        known = [option for action in self._actions for option in action.option_strings]
        words = message.partition("unrecognized arguments: ")[2].split()
        near = [
            nearest[0]
            for word in words
            if word.startswith("-") and (nearest := difflib.get_close_matches(word.partition("=")[0], known, 1))
        ]
        meant = f"Did you mean {' and '.join(dict.fromkeys(near))}? " if near else ""
        said = shortened(harmless(message.rstrip(".")), LONGEST // 2)
        full = "--help-all" if self._examples.common else "--help"
        self.exit(2, f"{self.prog}: {said}. {meant}All options: {self.prog} {full}\n")

"""How a call is read: argparse with one line for a bad call, and the nearest option. Imports nothing slow."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, NoReturn

from sqp_tflite.wording import LONGEST, harmless, shortened


class Parser(argparse.ArgumentParser):
    """Answers a bad call in one line, and suggests the nearest option if one is unknown."""

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
        self.exit(2, f"{self.prog}: {said}. {meant}All options: {self.prog} --help\n")


def parser(program: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Returns the parser of a command."""
    return Parser(
        program,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )

"""Options that print something and end: the full help, versions, the folder of the C sources, a completion script."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqp_tflite.mcu import include_dir

SHELLS = ("bash", "zsh", "fish")

Parsers = Mapping[str, Callable[[], argparse.ArgumentParser]]


class HelpAll(argparse.Action):
    """Prints the help with all options."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any):
        super().__init__(option_strings, dest, nargs=0, help="show all options and more examples, and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Prints it and ends."""
        print(parser.format_help(every=True), end="", flush=True)  # type: ignore[call-arg]
        parser.exit(0)


class Version(argparse.Action):
    """Prints the versions of everything that affects an export."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any):
        super().__init__(
            option_strings, dest, nargs=0, help="print the versions of everything that affects an export, and exit"
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Prints them and ends."""
        from sqp_tflite.versions import versions

        listed = versions()
        print(f"{parser.prog} {listed[0][1]}\n" + "\n".join(f"  {name} {at}" for name, at in listed[1:]))
        parser.exit(0)


class Include(argparse.Action):
    """Prints the folder of the C sources."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any):
        super().__init__(option_strings, dest, nargs=0, help="print the folder of sqp.h, for a compiler's -I, and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Prints it and ends."""
        print(include_dir())
        parser.exit(0)


class Completion(argparse.Action):
    """Prints a completion script.

    Args:
        parsers: What makes the parser of each program, by its name.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, parsers: Parsers, **_: Any):
        super().__init__(
            option_strings,
            dest,
            choices=SHELLS,
            metavar="SHELL",
            help=f"print a completion script ({', '.join(SHELLS)})",
        )
        self._parsers = parsers

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, __: Any = None) -> None:
        """Prints it and ends."""
        from sqp_tflite.cli.completion import script

        print(script(shell, {name: make() for name, make in self._parsers.items()}))
        parser.exit(0)

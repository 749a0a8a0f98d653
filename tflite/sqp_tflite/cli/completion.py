"""Completion scripts for the shells, made from the commands' parsers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from sqp_tflite import private

_FILES = {"MODEL": "keras|h5", "FILE.tflite": "tflite", "OUT.tflite": "tflite", "FILE.npz": "npz", "FILE": "html|json"}


def script(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """Returns a script that the shell sources: `source <(sqp-export --completion bash)`.

    Args:
        shell: "bash", "zsh" or "fish".
        parsers: The parser of each command.
    """
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](parsers)


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in private.actions(parser) if action.option_strings and action.help != argparse.SUPPRESS]


def _long(action: argparse.Action) -> str:
    return next((name for name in action.option_strings if name.startswith("--")), action.option_strings[0])


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _bash(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    lines = ["# Completion for bash: source <(sqp-export --completion bash)", ""]
    for name, parser in parsers.items():
        function = "_" + name.replace("-", "_")
        lines += [f"{function}() {{", '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"']
        lines.append('    case "$before" in')
        for action in _options(parser):
            if _takes_value(action):
                choices = " ".join(map(str, action.choices or ()))
                reply = f'compgen -W "{choices}" -- "$word"' if choices else 'compgen -f -- "$word"'
                lines.append(f"        {'|'.join(action.option_strings)}) COMPREPLY=($({reply})); return ;;")
        words = " ".join(word for action in _options(parser) for word in action.option_strings)
        lines += [
            "    esac",
            '    if [[ "$word" == -* ]]; then',
            f'        COMPREPLY=($(compgen -W "{words}" -- "$word"))',
        ]
        lines += ["    else", '        COMPREPLY=($(compgen -f -- "$word"))', "    fi", "}"]
        lines += [f"complete -o filenames -F {function} {name}", ""]
    return "\n".join(lines)


def _zsh(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    lines = [f"#compdef {' '.join(parsers)}", "# Completion for zsh: source <(sqp-export --completion zsh)", ""]
    for name, parser in parsers.items():
        lines.append(f"_{name.replace('-', '_')}() {{\n    _arguments \\")
        for action in _options(parser):
            value = ""
            if action.choices:
                value = f":{action.dest}:({' '.join(map(str, action.choices))})"
            elif _takes_value(action):
                value = f":{action.dest}:_files" if str(action.metavar) in _FILES else f":{action.dest}:"
            repeat = "*" if isinstance(action, argparse._AppendAction) else ""
            lines += [f"        '{repeat}{word}[{_plain(action.help)}]{value}' \\" for word in action.option_strings]
        lines += ["        '*:file:_files'", "}", f"compdef _{name.replace('-', '_')} {name}", ""]
    return "\n".join(lines)


def _fish(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    lines = ["# Completion for fish: sqp-export --completion fish | source", ""]
    for name, parser in parsers.items():
        for action in _options(parser):
            parts = [f"complete -c {name}"]
            parts += [f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in action.option_strings]
            if action.choices:
                parts.append(f"-x -a '{' '.join(map(str, action.choices))}'")
            elif _takes_value(action):
                parts.append("-r" if str(action.metavar) in _FILES else "-x")
            lines.append(" ".join([*parts, f"-d '{_plain(action.help)}'"]))
        lines.append("")
    return "\n".join(lines)


def _plain(text: str | None) -> str:
    """A help text that is safe in single quotes and brackets in all three shells."""
    kept = (text or "").replace("%%", "%")
    for mark in "'[]:\\`$":
        kept = kept.replace(mark, "")
    return " ".join(kept.split())

"""Completion knows every option, in every shell."""

import shutil
import subprocess

import pytest

from sqp_tflite.cli import actions, arguments, commands, completion


def test_completion_is_printed_where_the_shell_reads_it(capsys):
    with pytest.raises(SystemExit) as ended:
        commands.export_main(["--completion", "bash"])
    assert ended.value.code == 0
    assert "complete -o filenames -F _sqp_export sqp-export" in capsys.readouterr().out


@pytest.mark.parametrize("shell", actions.SHELLS)
def test_completion_knows_every_option(shell):
    parsers = {name: make() for name, make in arguments.PARSERS.items()}
    text = completion.script(shell, parsers)
    for name, parser in parsers.items():
        assert name in text
        for option in (option for action in parser._actions for option in action.option_strings):
            assert (option.lstrip("-") if shell == "fish" else option) in text
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sqp-export", "--targ"], ["--target"]),
        (["sqp-export", "m.keras", "--target", "tf"], ["tflm", "tflite-runtime", "tflm@2023"]),
        (["sqp-inspect", "--js"], ["--json"]),
    ],
)
def test_bash_completes(words, expected):
    script = completion.script("bash", {name: make() for name, make in arguments.PARSERS.items()})
    listed = " ".join(words)
    ask = f"\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _{words[0].replace('-', '_')}"
    ask += "; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected

"""Whatever becomes of the standard streams, the exit code and what is on the disk say the same."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from sqp_tflite.cli import commands, running
from sqp_tflite.cli.noise import quiet

COMMANDS = {"sqp-export": "export_main", "sqp-inspect": "inspect_main", "sqp-check": "check_main"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small model, one with NaN in a weight, and the first one's file."""
    made = tmp_path_factory.mktemp("streams")
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2, name="out")])
    model.save(made / "net.keras")
    model.layers[0].set_weights([np.full((3, 2), np.nan), np.zeros(2)])
    model.save(made / "nan.keras")
    assert commands.export_main([str(made / "net.keras"), "-o", str(made / "net.tflite"), "--quiet"]) == 0
    return made


def run(folder, name, *given, closed=(), full=(), broken=(), **environment):
    """Runs a command whose streams are closed, or open but not for writing, as a full disk is, or without a reader."""
    code = f"import sys; from sqp_tflite.cli.commands import {COMMANDS[name]} as main; sys.argv[0] = {name!r}; "
    blocked = os.open(folder / "net.keras", os.O_RDONLY)

    reader, pipe = os.pipe()
    os.close(reader)

    def before() -> None:
        for number in broken:
            os.dup2(pipe, number)
        for number in full:
            os.dup2(blocked, number)
        for number in closed:
            os.close(number)

    done = subprocess.run(
        [sys.executable, "-c", code + "sys.exit(main())", *given],
        capture_output=True, text=True, cwd=folder, preexec_fn=before, timeout=300,
        env={**os.environ, **environment},
    )  # fmt: skip
    os.close(blocked)
    os.close(pipe)
    return done


@pytest.mark.parametrize(
    ("streams", "says"),
    [
        pytest.param({"closed": (0, 1, 2)}, "", id="all closed", marks=pytest.mark.large),
        pytest.param(
            {"full": (1,)}, "standard output cannot be written.*`out.tflite` was written and may ship", id="output full"
        ),
    ],
)
def test_an_export_that_wrote_its_file_ends_with_0_whatever_backend_the_user_trains_with(folder, streams, says):
    (folder / "out.tflite").unlink(missing_ok=True)
    done = run(folder, "sqp-export", "net.keras", "-o", "out.tflite", KERAS_BACKEND="no_such_backend", **streams)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert (folder / "out.tflite").read_bytes() == (folder / "net.tflite").read_bytes()
    if says:
        import re

        assert re.search(says, done.stderr)


@pytest.mark.parametrize("streams", [{"closed": (2,)}, {"full": (2,)}, {"closed": (1, 2)}])
def test_a_bad_call_keeps_its_exit_code(folder, streams):
    done = run(folder, "sqp-export", "no_such.keras", **streams)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("streams", [{"full": (1,)}, {"closed": (1,)}, {"closed": (0, 1)}])
@pytest.mark.parametrize("given", ["--version", "--help", "--c-include", "--completion bash"])
def test_words_that_cannot_be_printed_are_an_error(folder, given, streams):
    done = run(folder, "sqp-export", *given.split(), **streams)
    assert done.returncode == 2
    assert done.stderr.startswith("sqp-export: standard output cannot be written: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize("given", [["net.tflite"], ["net.tflite", "--json"]])
@pytest.mark.parametrize("streams", [{"full": (1,)}, {"closed": (1,)}])
def test_an_inspection_that_cannot_be_printed_is_an_error(folder, given, streams):
    done = run(folder, "sqp-inspect", *given, **streams)
    assert done.returncode == 2
    assert done.stderr.startswith("sqp-inspect: standard output cannot be written: ") and done.stderr.count("\n") == 1


def test_what_prints_nothing_needs_no_standard_output(folder):
    assert run(folder, "sqp-inspect", "net.tflite", "--quiet", closed=(1,)).returncode == 0


def test_an_inspection_that_wrote_its_report_ends_as_if_it_were_printed(folder):
    done = run(folder, "sqp-inspect", "net.tflite", "--report", "net.json", full=(1,))
    assert (done.returncode, (folder / "net.json").exists()) == (0, True)
    assert "standard output cannot be written" in done.stderr and "The report was written." in done.stderr


def test_a_reader_that_stops_changes_no_exit_code(folder):
    done = run(folder, "sqp-inspect", "net.tflite", broken=(1,))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("given", "code"), [(["net.tflite", "--debug"], 0), (["no_such.tflite", "--debug"], 2)])
def test_readers_that_stop_change_no_exit_code_with_debug(folder, given, code):
    """What is left in the buffers of streams without a reader would make it 120 at the end."""
    assert run(folder, "sqp-inspect", *given, broken=(1, 2)).returncode == code


def test_the_unforeseen_is_one_line_and_no_refusal(folder, monkeypatch, capfd):
    """The planted fault: something inside fails in a way that nobody thought of."""

    def fails(*_):
        raise KeyError("x" * 5000)

    monkeypatch.setattr("sqp_tflite.pipeline.run", fails)
    given = [str(folder / "net.keras"), "-o", str(folder / "none.tflite")]
    assert commands.export_main(given) == 2
    printed = capfd.readouterr()
    assert printed.err.count("\n") == 1 and len(printed.err) < 500
    assert "unexpected KeyError" in printed.err and "--debug" in printed.err
    assert not (folder / "none.tflite").exists()
    assert commands.export_main([*given, "--debug"]) == 2
    assert "Traceback" in capfd.readouterr().err


def test_a_traceback_changes_no_exit_code(folder, capfd):
    """1 would mean that the file was refused."""
    given = [str(folder / "nan.keras"), "-o", str(folder / "none.tflite")]
    assert commands.export_main([*given, "--debug"]) == commands.export_main(given) == 2
    printed = capfd.readouterr().err
    assert printed.count("Traceback") == 1 and "must be finite" in printed
    assert len([line for line in printed.splitlines() if line.startswith("  File ")]) > 3  # whole, a line per frame


def test_a_model_with_nan_in_its_weights_is_refused(folder, capfd):
    out = folder / "nan.tflite"
    assert commands.export_main([str(folder / "nan.keras"), "-o", str(out)]) == 2
    printed = capfd.readouterr().err
    assert "must be finite. Received: NaN in 6 of 6 values of `out: kernel`" in printed
    assert "load an earlier checkpoint" in printed and not out.exists()


def test_flags_that_end_tensorflow_are_left_out(monkeypatch):
    """With an unknown flag its native code exits with 1, and says nothing on a stream that reaches the user."""
    monkeypatch.setenv("TF_XLA_FLAGS", "--unknown")
    with quiet(debug=True):
        assert "TF_XLA_FLAGS" not in os.environ


def test_a_line_that_its_stream_does_not_take_is_not_tried_again_at_the_end():
    """Python ends with exit code 120 if a standard stream still holds what cannot be written."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    running._say(stream, "nobody reads this")
    stream.close()  # It would raise BrokenPipeError.

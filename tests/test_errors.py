"""A refusal always says why, also after a trip between processes."""

import errno
import io
import os
import pickle
import re
import subprocess
import sys

import pytest

import sqp_tflite
from sqp_tflite import errors
from sqp_tflite.errors import BadInputError, EnvironmentMissingError, RefusedError, unforeseen
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.limits import limit
from sqp_tflite.report import Finding, Kind, Report
from sqp_tflite.source.arrays import read_arrays
from written import perceptron

FINDING = Finding("a", "EXP", "int8", "No EXP.", "Drop it.", Kind.OP)


def test_a_refusal_without_a_finding_cannot_be_made():
    with pytest.raises(ValueError, match="at least one finding"):
        RefusedError("Refused.", ())
    with pytest.raises(TypeError, match="findings"):
        RefusedError("Refused.")


@pytest.mark.parametrize(
    "error",
    [
        BadInputError("Bad."),
        RefusedError("Refused.", (FINDING,), Report("refused", "m", "tflm", "int8", "table", findings=(FINDING,))),
    ],
)
def test_an_error_keeps_its_findings_and_its_report_when_it_is_pickled(error):
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error) and str(copied) == str(error)
    assert (copied.findings, copied.report) == (error.findings, error.report)


@pytest.mark.parametrize(
    ("op", "dtype", "said"),
    [
        ("EXP", "int8", "`a`: No EXP. Received: EXP, int8. Drop it."),
        ("", "int8", "`a`: No EXP. Received: int8. Drop it."),
        ("", "", "`a`: No EXP. Drop it."),
    ],
)
def test_a_finding_says_only_what_it_has(op, dtype, said):
    assert str(Finding("a", op, dtype, "No EXP.", "Drop it.", Kind.OP)) == said


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_what_the_machine_lacks_is_no_fault_of_the_program(number):
    error = RuntimeError("a library's words")
    error.__cause__ = OSError(number, os.strerror(number))
    for one in (error, error.__cause__):
        assert os.strerror(number) in errors.unforeseen(one) and "fault" not in errors.unforeseen(one)
    assert "fault of the program" in errors.unforeseen(OSError(errno.EINVAL, "invalid"))
    assert "Cannot allocate memory" in errors.unforeseen(MemoryError())
    unmapped = ImportError("libtensorflow_cc.so.2: failed to map segment from shared object")
    assert "Cannot allocate memory" in errors.unforeseen(unmapped)


def test_a_current_folder_that_is_gone_is_no_fault_of_the_program(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError) as caught:
        os.getcwd()
    assert errors.unforeseen(caught.value).endswith("one that was removed. Change to another folder (cd).")
    monkeypatch.chdir(tmp_path)
    assert "fault of the program" in errors.unforeseen(caught.value)


def test_a_file_without_permission_is_no_fault_of_the_program():
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "s/variables/variables.index")
    assert errors.unforeseen(denied) == (
        "`s/variables/variables.index` cannot be used. Received: Permission denied. Check its permissions, and those "
        "of the folders above it."
    )
    assert "fault of the program" in errors.unforeseen(PermissionError(errno.EPERM, "of nothing"))


def test_text_in_the_place_of_a_model_is_no_path(tmp_path):
    (tmp_path / "m.tflite").write_bytes(perceptron())
    for call in (sqp_tflite.check, sqp_tflite.export):
        with pytest.raises(BadInputError, match="File name too long|path of at most"):
            call("{" + "x" * 3000 + "}", tmp_path / "m.tflite")


@pytest.mark.parametrize("name", ["m.keras", "m.h5", "d.npz", "sm/saved_model.pb", "m.tflite"])
def test_a_file_that_may_not_be_read_is_told_so(name, tmp_path, monkeypatch):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"never read")
    stock = io.open

    def denied(file, *rest, **named):
        if file == path or file == str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return stock(file, *rest, **named)

    monkeypatch.setattr(io, "open", denied)
    monkeypatch.setattr("builtins.open", denied)
    with pytest.raises(
        BadInputError, match=r"cannot be (used|read).*Permission denied.*Check its permissions"
    ) as caught:
        if path.suffix == ".npz":
            read_arrays(path, limit())
        elif path.suffix == ".tflite":
            read(path)
        else:
            sqp_tflite.export(path if path.parent == tmp_path else path.parent, target="litert")
    assert "Save" not in str(caught.value) and "damaged" not in str(caught.value)


@pytest.mark.parametrize("name", ["sqp-export", "sqp-inspect", "sqp-check"])
@pytest.mark.parametrize("most", [5, 10, 20])
def test_few_open_files_are_one_line(name, most, tmp_path):
    (tmp_path / "net.tflite").write_bytes(b"abcdTFL3")
    main = f"{name.removeprefix('sqp-')}_main"
    code = (
        "import resource, sys; from sqp_tflite.cli import noise, piped, running, signals; "
        f"from sqp_tflite.cli.commands import {main} as main; sys.argv[:] = {[name, 'net.tflite', 'net.tflite']!r}; "
        f"del sys.argv[{3 if name == 'sqp-check' else 2}:]; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most})); sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Traceback" not in done.stderr and "fault of the program" not in done.stderr


def test_a_limit_that_tensorflow_does_not_fit_into_is_said_before_it_is_imported(monkeypatch):
    import resource

    from sqp_tflite.limits import require_libraries

    require_libraries()
    for kind, option in ((resource.RLIMIT_AS, "-v"), (resource.RLIMIT_DATA, "-d")):
        with monkeypatch.context() as patch:
            patch.setattr(resource, "getrlimit", lambda one, kind=kind: (400 << 20, -1) if one == kind else (-1, -1))
            with pytest.raises(EnvironmentMissingError, match=f"409,600 KiB. Allow .*ulimit {option} unlimited"):
                require_libraries()


@pytest.mark.parametrize("kib", [80_000, 100_000, 200_000])
def test_a_limit_that_numpy_does_not_fit_into_is_said_and_the_process_ends(kib, tmp_path):
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({kib} << 10, -1))\n"
        "from sqp_tflite.cli.commands import inspect_main; raise SystemExit(inspect_main(['m.tflite']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 2 and re.search(r"NumPy needs memory.*Received: [0-9,]+ KiB\. Allow", done.stderr)


def test_a_module_that_was_half_imported_for_want_of_memory_is_no_fault_of_the_program(monkeypatch):
    import resource

    error = AttributeError("partially initialized module 'jax' has no attribute 'version'")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (-1, -1))
    assert "fault of the program" in unforeseen(error)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (3 << 30, -1))
    assert "ran out of what the call needs: Cannot allocate memory" in unforeseen(error)
    assert "needs: threads. Allow more processes or memory" in unforeseen(RuntimeError("can't start new thread"))

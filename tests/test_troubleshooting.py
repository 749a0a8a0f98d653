"""Each code has its entry, each entry its code, and what the page quotes of other programs is what they print."""

import ast
import errno
import importlib.util
import re
from pathlib import Path

import pytest

from sqp_tflite import errors, files, troubleshooting
from sqp_tflite.cli import commands
from sqp_tflite.places import Place
from sqp_tflite.report import Kind

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
ENTRIES = set(re.findall(r"^### (SQP-E\d+)$", PAGE, re.MULTILINE))
QUOTED = re.findall(r"^### `([^`]+)`\n<!-- in (.+) -->$", PAGE, re.MULTILINE)


def codes_of(kind):
    """Returns the codes of a class of errors and of those below it."""
    return {kind.code}.union(*map(codes_of, kind.__subclasses__()))


def test_every_code_has_an_entry_and_every_entry_a_code():
    assert codes_of(errors.ExportError) | set(troubleshooting.FINDINGS.values()) == ENTRIES


def test_every_kind_of_finding_has_a_code():
    assert set(troubleshooting.FINDINGS) == {kind.value for kind in Kind}


def test_every_entry_says_something():
    for entry in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        assert len(entry.split("##")[0].split()) > 8, entry


def test_most_errors_have_a_subject_of_their_own():
    general = []
    for path in (ROOT / "tflite" / "sqp_tflite").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                general += [path.name] * (ast.unparse(node.exc.func) == "BadInputError")
    assert len(general) <= 12, general


@pytest.mark.parametrize(("words", "packages"), QUOTED, ids=[words for words, _ in QUOTED])
def test_what_is_quoted_is_in_the_program_that_prints_it(words, packages):
    assert any(holds(package, words.encode()) for package in packages.split())


def holds(package, words):
    """Whether a file of an installed package holds the words; its largest libraries are read in pieces."""
    home = importlib.util.find_spec(package.split("/")[0]).submodule_search_locations[0]
    folder = Path(home).parent / package
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.so*")), key=lambda path: path.stat().st_size):
        with path.open("rb") as file:
            rest = b""
            while piece := file.read(1 << 24):
                if words in rest + piece:
                    return True
                rest = piece[-len(words) :]
    return False


def test_a_refusal_leads_to_its_entry(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert commands.export_main(["none.keras"]) == 2
    assert capfd.readouterr().err.startswith("sqp-export: SQP-E013: ")
    file = ROOT / "tests" / "data" / "two_inputs_int8.tflite"
    assert commands.inspect_main([str(file), "--target", "tflite-runtime", "--max-memory", "1"]) == 2
    assert capfd.readouterr().err.startswith("sqp-inspect: SQP-E014: ")


@pytest.mark.parametrize(("given", "code"), [("-", "SQP-E013"), ("cut", "SQP-E021")])
def test_a_module_with_several_subjects_names_the_right_one(given, code, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cut").mkdir()
    Path("cut/saved_model.pb").write_bytes(b"\x08\x01\x12\xff")
    assert commands.export_main([given]) == 2
    assert capfd.readouterr().err.startswith(f"sqp-export: {code}: ")


def test_a_full_disk_is_about_the_output(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_stage", full)
    with pytest.raises(errors.OutputError, match="No space left") as caught:
        files.write_all({Place(tmp_path / "o.tflite"): b"x"}, ())
    assert caught.value.code == "SQP-E012" and list(tmp_path.iterdir()) == []

"""Everything that will be written has a place of its own, which is known and free before any work."""

import os
import re
from pathlib import Path

import pytest

import sqp_tflite
from sqp_tflite.cli import commands
from sqp_tflite.emit import CStyle
from sqp_tflite.emit.emit import MADE_BY
from sqp_tflite.errors import BadInputError
from sqp_tflite.files import write_all
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.options import ARTEFACTS, ExportOptions
from sqp_tflite.places import Place, check_places
from sqp_tflite.run import interpreters
from sqp_tflite.validate import places, validate


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a model, a SavedModel and data that are never opened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sqp_tflite.pipeline.run", lambda *_: pytest.fail("the export began"))
    for name in ("m.keras", "d.npz", "sm/saved_model.pb", "sm/variables/variables.index", "layers.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(name.encode())
    return tmp_path


def held(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(given: list[str], capfd, main=commands.export_main) -> str:
    """Returns what a call says that is refused before any work, with all files as they were."""
    before = held(Path.cwd())
    assert main(given) == 2
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and len(printed.err) < 500
    assert held(Path.cwd()) == before
    return printed.err


def link(at: str, to: str) -> None:
    Path(at).parent.mkdir(exist_ok=True)
    Path(at).symlink_to(to)


OVER_INPUTS = {
    "data under an artefact's name": (
        lambda: os.rename("d.npz", "m_golden.npz"),
        "m.keras --emit golden --data m_golden.npz",
    ),
    "data under the name of a prefix": (
        lambda: os.rename("d.npz", "d_golden.npz"),
        "m.keras -o q.tflite --c-prefix d --emit golden --data d_golden.npz",
    ),
    "an artefact that is a link to the data": (
        lambda: link("m_data.c", "d.npz"),
        "m.keras --emit c --data d.npz",
    ),
    "an artefact that is the data": (lambda: os.link("d.npz", "m_data.h"), "m.keras --emit c --data d.npz"),
    "a file of the project that is the model": (
        lambda: link("m/README.md", "../m.keras"),
        "m.keras --emit project",
    ),
    "a folder of the project that is the SavedModel": (lambda: None, "sm --emit project"),
    "a link to the SavedModel as the project's folder": (lambda: link("m", "sm"), "sm -o m.tflite --emit project"),
    "an artefact that is part of the SavedModel": (
        lambda: os.link("sm/variables/variables.index", "m_op_resolver.h"),
        "sm -o m.tflite --emit resolver",
    ),
    "a report that is part of the SavedModel": (
        lambda: os.link("sm/saved_model.pb", "r.json"),
        "sm --report r.json",
    ),
    "an output that a link in the SavedModel leads to": (
        lambda: (os.rename("sm/variables", "elsewhere"), link("sm/variables", "../elsewhere")),
        "sm -o elsewhere/variables.index",
    ),
    "a new file in the SavedModel": (lambda: None, "sm -o sm/new.tflite"),
    "an imported module": (lambda: None, "m.keras -o layers.py --import layers:Own"),
}


@pytest.mark.parametrize("case", OVER_INPUTS)
def test_nothing_that_is_read_is_replaced(case, folder, capfd):
    arrange, given = OVER_INPUTS[case]
    arrange()
    said = refused(given.split(), capfd)
    assert "may not replace what is read" in said and "Choose another name" in said


def test_a_circle_of_links_in_a_folder_that_is_read_ends(folder):
    link("sm/again", ".")
    Path("out.tflite").write_bytes(b"older")
    check_places([Place(Path("out.tflite"))], [Path("sm")])


SAME_NAME = {
    "the output and an artefact": "m.keras -o x_data.h --emit c --c-prefix x",
    "two reports": "m.keras --report r.json --report sm/../r.json",
    "a report and the output": "m.keras -o r.json --report r.json",
    "the output under another spelling": "m.keras -o ./sm/../x_golden.npz --emit golden --c-prefix x",
    "the output and the project's folder": "m.keras -o m --emit project",
}


@pytest.mark.parametrize("case", SAME_NAME)
def test_two_outputs_of_one_name_are_refused(case, folder, capfd):
    assert "Each output must be a separate file" in refused(SAME_NAME[case].split(), capfd)


def test_an_artefact_is_refused_before_any_work_where_it_cannot_be_written(folder, capfd):
    os.mkfifo("m_data.h")
    Path("m_data.c").mkdir()
    assert "a pipe. Nothing was written" in refused(["m.keras", "--emit", "c"], capfd)
    os.unlink("m_data.h")
    assert "a folder. Nothing was written" in refused(["m.keras", "--emit", "c"], capfd)
    Path("m").write_bytes(b"a file")
    assert "`m` is a file" in refused(["m.keras", "--emit", "project"], capfd)


@pytest.mark.parametrize("given", [["-o", "a" * 250 + ".tf", "--emit", "project"], ["-o", "a" * 300]])
def test_a_name_that_is_too_long_is_refused_before_any_work(given, folder, capfd):
    assert re.search("Choose a shorter (name|one with -o)", refused(["m.keras", *given], capfd))


@pytest.mark.parametrize("given", [["a" * 3000], ["m.keras", "--data", "a" * 300]])
def test_so_is_an_input(given, folder, capfd):
    assert "File name too long" in refused(given, capfd) and "fault" not in refused(given, capfd)


@pytest.mark.parametrize("link_to_it", [False, True])
@pytest.mark.parametrize("option", ["-o", "--report"])
def test_an_open_stream_is_no_output(option, link_to_it, folder, capfd):
    with open("held.json", "wb") as held_open:
        name = f"/proc/self/fd/{held_open.fileno()}"
        if link_to_it:
            link("r.json", "s.json")
            link("s.json", name)
        if option == "--report" and not link_to_it:
            return  # Its name has no ending.
        said = refused(["m.keras", option, "r.json" if link_to_it else name], capfd)
    assert "an open stream of a process" in said and "for standard output -o - or --report -" in said
    with pytest.raises(BadInputError, match="an open stream"):
        write_all({Place(Path("r.json") if link_to_it else Path("/proc/self/fd/1")): b"x"})


@pytest.mark.parametrize("given", ["-o nd/", "-o sm/", "--report rep.html/", "--report sm/.", "-o .."])
def test_a_slash_at_the_end_names_a_folder(given, folder, capfd):
    for main, what in ((commands.export_main, "m.keras"), (commands.inspect_main, "m.keras")):
        if main is commands.inspect_main and "-o" in given:
            continue
        with pytest.raises(SystemExit) as ended:
            main([what, *given.split()])
        assert ended.value.code == 2 and "must be the path of a file, not of a folder" in capfd.readouterr().err
    with pytest.raises(BadInputError, match="`output` must be the path of a file, not of a folder"):
        sqp_tflite.export("m.keras", given.split()[1])


def test_the_folder_of_the_project_is_made_and_no_other(folder, capfd):
    options = ExportOptions("m.keras", Path("m.tflite"), emit=("project",))
    validate(options)
    with pytest.raises(BadInputError, match="Create `no` first"):
        check_places([Place(Path("no/m/README.md"), own_folders=1)])
    with pytest.raises(BadInputError, match="Create `no` first"):
        check_places([Place(Path("no/m/self_test/main.cc"), own_folders=2)])
    assert not Path("m").exists()


@pytest.mark.parametrize("name", ["README.md", "self_test/main.cc", "m_data.c", "m_golden.npz", "m.tflite"])
def test_the_users_own_files_in_the_project_stay(name, folder, capfd):
    Path("m", name).parent.mkdir(parents=True)
    Path("m", name).write_text("mine")
    said = refused(["m.keras", "--emit", "project"], capfd)
    assert f"`m/{name}`, which exists and has no header" in said and "another place or --c-prefix" in said
    # The remedies.
    validate(ExportOptions("m.keras", Path("m.tflite"), emit=("project",), c_style=CStyle("other")))
    Path("m", name).unlink()
    validate(ExportOptions("m.keras", Path("m.tflite"), emit=("project",)))


def test_the_users_own_file_beside_the_output_stays(folder, capfd):
    Path("m_data.c").write_text("int mine;")
    assert "Only files that this program has made are replaced" in refused(["m.keras", "--emit", "c"], capfd)


def test_artefacts_replace_themselves(folder):
    options = ExportOptions("m.keras", Path("m.tflite"), emit=tuple(kind for kind in ARTEFACTS if kind != "vela"))
    for place in places(options):
        place.path.parent.mkdir(parents=True, exist_ok=True)
        binary = place.path.suffix in (".npz", ".tflite", ".json")
        place.path.write_bytes(b"bytes" if binary else f"/* {MADE_BY} */".encode())
    validate(options)


def test_python_refuses_the_same(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    os.rename("d.npz", "m_golden.npz")
    with pytest.raises(BadInputError, match="may not replace what is read"):
        sqp_tflite.export("m.keras", "m.tflite", emit="golden", data="m_golden.npz")


def test_what_is_written_is_checked_again(folder):
    """Hours may lie between the first look and the writing."""
    link("m_data.c", "d.npz")
    with pytest.raises(BadInputError, match="may not replace what is read"):
        write_all({Place(Path("m_data.c")): b"x"}, [Path("d.npz")])
    same = {Place(Path("x_data.h")): b"x", Place(Path("x_data.h"), "--emit"): b"y"}
    with pytest.raises(BadInputError, match=r"`x_data.h` \(-o\) and `x_data.h` \(--emit\), the same file"):
        write_all(same)
    assert Path("d.npz").read_bytes() == b"d.npz"


LATE = {
    "integers without data": (["--quantize", "int8"], "needs representative inputs.*no data. Pass --data FILE.npz"),
    "an interpreter that is not installed": (["--target", "litert"], "which is not installed"),
}


@pytest.mark.parametrize("case", LATE)
def test_what_is_missing_is_said_before_any_work(case, folder, capfd, monkeypatch):
    given, words = LATE[case]
    monkeypatch.setitem(interpreters._MODULES, "litert", "a_module_that_is_not_there")
    assert re.search(words, refused(["m.keras", *given], capfd))


def test_a_plan_needs_neither_data_nor_an_interpreter(folder, monkeypatch):
    monkeypatch.setitem(interpreters._MODULES, "tflm", "a_module_that_is_not_there")
    validate(ExportOptions("m.keras", wanted=Combination("int8"), dry_run=True))

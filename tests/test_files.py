"""Files are written together: all of them, or none."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from sqp_tflite import files, places
from sqp_tflite.errors import BadInputError
from sqp_tflite.places import Place, report_places


def test_files_are_written_together(tmp_path):
    files.write_all({Place(tmp_path / "a"): b"1", Place(tmp_path / "deep" / "er" / "b"): b"2"})
    assert (tmp_path / "deep" / "er" / "b").read_bytes() == b"2"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "deep", "er"]


class Interrupting(dict):
    """Files of which the last one is never delivered: someone presses Ctrl-C."""

    def items(self):
        yield from super().items()
        raise KeyboardInterrupt


@pytest.mark.parametrize("fault", ["a folder in a file's place", "a file in a folder's place", "Ctrl-C"])
def test_files_are_written_all_or_none(tmp_path, fault):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "plain").write_bytes(b"plain")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").write_bytes(b"")
    wanted = {Place(tmp_path / name): b"new" for name in ("old", "new", "fresh/file")}
    before = snapshot(tmp_path)
    if fault == "Ctrl-C":
        with pytest.raises(KeyboardInterrupt):
            files.write_all(Interrupting(wanted))
    else:
        bad = tmp_path / "taken" if fault.startswith("a folder") else tmp_path / "plain" / "file"
        with pytest.raises(BadInputError, match="Nothing was written"):
            files.write_all({**wanted, Place(bad): b"x"})
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("place", "move"), [(Place(Path("o.tflite")), "-o"), (report_places([Path("r.json")])[0], "--report")]
)
def test_a_full_disk_names_the_option_of_the_file_that_failed(place, move, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    staged = files._stage

    def full(path, content):
        if path.name == place.path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return staged(path, content)

    monkeypatch.setattr(files, "_stage", full)
    with pytest.raises(BadInputError, match=f"{place.path}`, No space left.*another place with {move}"):
        files.write_all({Place(Path("first")): b"1", place: b"2"})
    assert list(tmp_path.iterdir()) == []


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def special(kind: str, folder: Path) -> Path:
    """Makes something that is not a regular file, in its own temporary folder."""
    path = folder / "special"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(str(path))
    elif kind == "a device":
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    else:
        path.mkdir()
    return path


KINDS = ["a folder", "a pipe", "a socket", "a device"]


@pytest.mark.parametrize("link", [False, True], ids=["itself", "a link to it"])
@pytest.mark.parametrize("kind", KINDS)
def test_only_a_new_or_a_regular_file_is_written(kind, link, tmp_path):
    try:
        path = special(kind, tmp_path)
    except PermissionError:  # Only root makes device nodes: a stand-in says of itself that it is one.
        path = Device(tmp_path / "special")
    if link:
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    before = path.stat().st_mode
    for write in (lambda: places.check_places((Place(path),)), lambda: files.write_all({Place(path): b"x"})):
        with pytest.raises(BadInputError, match=f"new or a regular file.*{kind}.*Nothing was written"):
            write()
    assert path.stat().st_mode == before
    files.write_all({Place(tmp_path / "model.tflite"): b"x"})
    assert (tmp_path / "model.tflite").read_bytes() == b"x"


class Device(type(Path())):
    """A path whose file is said to be a character device."""

    def resolve(self, strict=False):
        return self

    def stat(self, **_):
        return os.stat_result((stat.S_IFCHR | 0o600, *[0] * 9))


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old").write_bytes(b"old")
    for name in ("old", "new"):
        link = tmp_path / f"{name}.link"
        link.symlink_to(tmp_path / "real" / name)
        places.check_places((Place(link),))
        files.write_all({Place(link): b"now"})
        assert link.is_symlink() and (tmp_path / "real" / name).read_bytes() == b"now"


def test_a_link_in_a_circle_is_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(BadInputError, match=r"leads nowhere.*another place"):
        places.check_places((Place(tmp_path / "a"),))


def test_outputs_do_not_replace_inputs_or_each_other(tmp_path):
    data, model, other = tmp_path / "d.npz", tmp_path / "saved", tmp_path / "hard.npz"
    data.write_bytes(b"data")
    model.mkdir()
    (model / "saved_model.pb").write_bytes(b"graph")
    os.link(data, other)
    (tmp_path / "soft.npz").symlink_to(data)
    for output in (data, other, tmp_path / "soft.npz", tmp_path / "saved" / ".." / "d.npz", model / "saved_model.pb"):
        for write in (
            lambda path=output: places.check_places((Place(path),), (model, data)),
            lambda path=output: files.write_all({Place(path): b"x"}, (model, data)),
        ):
            with pytest.raises(BadInputError, match="may not replace what is read.*another name"):
                write()
    with pytest.raises(BadInputError, match="a separate file"):
        places.check_places((Place(tmp_path / "a.json"), Place(tmp_path / "saved" / ".." / "a.json")))
    assert data.read_bytes() == b"data" and (model / "saved_model.pb").read_bytes() == b"graph"
    places.check_places((Place(tmp_path / "a.json"), Place(tmp_path / "b.json")), (model, data))


@pytest.mark.parametrize("letter", ["y", "é"])
def test_the_longest_name_that_the_system_has_can_be_written(letter, tmp_path):
    longest = os.pathconf(tmp_path, "PC_NAME_MAX") // len(letter.encode())
    path = tmp_path / (letter * longest)
    for content in (b"first", b"second"):  # The second time the old file is kept beside the new one until the end.
        files.write_all({Place(path): content})
        assert path.read_bytes() == content and list(tmp_path.iterdir()) == [path]

"""Files are written together: all of them, or none."""

from pathlib import Path

import pytest

from sqp_tflite import files
from sqp_tflite.errors import BadInputError


def test_files_are_written_together(tmp_path):
    files.write_all({tmp_path / "a": b"1", tmp_path / "deep" / "er" / "b": b"2"})
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
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").write_bytes(b"")
    wanted = {tmp_path / "old": b"new", tmp_path / "new": b"new", tmp_path / "fresh" / "file": b"new"}
    before = snapshot(tmp_path)
    if fault == "Ctrl-C":
        with pytest.raises(KeyboardInterrupt):
            files.write_all(Interrupting(wanted))
    else:
        bad = tmp_path / "taken" if fault.startswith("a folder") else tmp_path / "old" / "file"
        with pytest.raises(BadInputError, match="Nothing was written"):
            files.write_all({**wanted, bad: b"x"})
    assert snapshot(tmp_path) == before


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}

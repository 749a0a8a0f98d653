"""HDF5 files are read to their end in a child first: a damaged one may keep the library busy for ever."""

import struct
import time
import zipfile

import h5py
import pytest

import sqp_tflite
from sqp_tflite.limits import Limit
from sqp_tflite.source import hdf5

TIGHT = Limit(64 << 20, "--max-memory")


@pytest.fixture
def endless(tmp_path):
    """A file whose heap of texts has an entry of size 0, from which the library never comes to the next one."""
    path = tmp_path / "endless.h5"
    with h5py.File(path, "w") as file:
        file.attrs["model_config"], file.attrs["other"] = "{}", "text"
    content = bytearray(path.read_bytes())
    first = content.index(b"GCOL") + 16
    content[first + 8 : first + 16] = struct.pack("<Q", 0)
    path.write_bytes(content)
    return path


def test_a_file_that_has_no_end_is_given_up(endless, monkeypatch):
    monkeypatch.setattr(hdf5, "_SECONDS", 2.0)
    began = time.monotonic()
    with pytest.raises(sqp_tflite.BadInputError, match="damaged HDF5 file.*not come to an end in 2 s.*copy or save"):
        sqp_tflite.export(str(endless))
    assert time.monotonic() - began < 60


def test_so_are_such_weights_in_an_archive(endless, tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "_SECONDS", 2.0)
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.write(endless, "model.weights.h5")
    with pytest.raises(sqp_tflite.BadInputError, match="m.keras: model.weights.h5` is a damaged HDF5 file"):
        sqp_tflite.export(str(path))


def test_a_damaged_archive_is_said_before_its_weights_are_read(tmp_path):
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", b"wanted")
    path.write_bytes(path.read_bytes().replace(b"wanted", b"wasted"))
    with pytest.raises(sqp_tflite.BadInputError, match="damaged .keras archive. Received: Bad CRC-32"):
        sqp_tflite.export(str(path))


def test_the_next_file_finds_a_reader_again(endless, tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "_SECONDS", 2.0)
    with pytest.raises(sqp_tflite.BadInputError):
        hdf5.require(endless, TIGHT)
    with h5py.File(tmp_path / "good.h5", "w") as file:
        file.create_dataset("w", data=[1.0, 2.0], chunks=(1,))
        file.create_dataset("empty", (0, 3), "float32")
        file.attrs["none"] = h5py.Empty("f")
    monkeypatch.undo()
    hdf5.require(tmp_path / "good.h5", TIGHT)


def test_links_in_a_circle_are_followed_once(tmp_path):
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a/w", (4,), "float32")
        file["a/again"], file["twin"], file["soft"] = file["/"], file["a/w"], h5py.SoftLink("/a")
    hdf5.require(path, TIGHT)


def test_complex_weights_are_refused(tmp_path):
    """Keras would drop their imaginary parts."""
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("layers/dense/vars/0", data=[1 + 2j], dtype="complex64")
    with pytest.raises(sqp_tflite.BadInputError, match="must be real numbers.*`/layers/dense/vars/0` is complex64"):
        hdf5.require(path, TIGHT)

"""The program that runs exported files and single operators on older releases of TensorFlow Lite Micro."""

import os
import sys

import numpy as np
import pytest

import sqp_tflite
from benchmarks import older_tflm
from models import dense
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters

OLDER = os.environ.get("SQP_OLDER_TFLM", "")
"""A Python with an older release, as the docstring of `benchmarks/older_tflm.py` says."""

pytestmark = pytest.mark.skipif(not interpreters.installed("tflm"), reason="it compares with tflite-micro")


def test_a_file_runs_in_another_process_as_it_does_here(tmp_path):
    content = sqp_tflite.export(dense()).model_bytes
    x = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
    (tmp_path / "m.tflite").write_bytes(content)
    np.savez(tmp_path / "m.npz", in0=x[:, None])
    (tmp_path / "broken.tflite").write_bytes(content[:200])
    np.savez(tmp_path / "broken.npz", in0=x[:, None])
    version, found = older_tflm.ran(sys.executable, tmp_path, "arena")
    assert version == interpreters.version("tflm")
    np.testing.assert_array_equal(found["m"]["out0"][:, 0], interpreters.run("tflm", content, (x,)).values[0])
    assert 0 < found["m"]["arena"] < 10_000
    assert "error" in found["broken"]


def test_a_difference_between_two_releases_is_seen():
    """The planted fault."""
    one = {"out0": np.zeros((2, 1, 4), np.int8)}
    assert older_tflm._differs("ADD int8", one, one) == ""
    assert "1 apart" in older_tflm._differs("ADD int8", one, {"out0": one["out0"] + np.int8(1)})
    assert "older ran, installed no" in older_tflm._differs("ADD int8", one, {"error": np.array("no")})


@pytest.mark.large
@pytest.mark.skipif(not OLDER, reason="SQP_OLDER_TFLM names no Python with an older release")
def test_the_older_release_computes_what_the_newer_one_does(tmp_path):
    """And not with a scale per unit: the fault that the target is there for."""
    assert older_tflm.show_operators(tmp_path, [OLDER]) == 0
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    folder = tmp_path / "files"
    folder.mkdir()
    wanted = {}
    for target in ("tflm@2023", "tflm"):
        content = sqp_tflite.export(dense(), quantize="int8", data=x, target=target).model_bytes
        wanted[target] = interpreters.run("tflm", content, (x,)).codes[0]
        (folder / f"{target}.tflite").write_bytes(content)
        codes = [interpreters.encode(row[None], read(content).inputs[0]) for row in x]
        np.savez(folder / f"{target}.npz", in0=np.stack(codes))
    _, found = older_tflm.ran(OLDER, folder)
    off = {target: np.abs(found[target]["out0"][:, 0].astype(int) - codes).max() for target, codes in wanted.items()}
    assert off["tflm@2023"] == 0 and off["tflm"] > 1

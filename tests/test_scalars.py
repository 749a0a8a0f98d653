"""Files whose inputs and outputs have no batch dimension, single numbers among them, run as they are."""

import pytest

import sqp_tflite
from sqp_tflite.flatbuffer.edit import NewOp
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.inspection import inspection
from sqp_tflite.run.interpreters import try_once
from written import Written

SHAPES = {"a number": (), "one of a vector": (1,), "a vector": (4,), "two axes": (3, 4), "a batch of one": (1, 4)}
RUNTIMES = ("litert", "tflm", "tflite-runtime")


def doubled(shape, scale=None) -> bytes:
    """y = x + x, and the same again."""
    written = Written()
    dtype = "int8" if scale else "float32"
    x, y, z = (written.editor.add_tensor(name, dtype, shape, scale) for name in "xyz")
    written.editor.add_op(NewOp("ADD", (x, x), (y,), "AddOptions", {}))
    written.editor.add_op(NewOp("ADD", (y, x), (z,), "AddOptions", {}))
    return written.ends([x], [y, z])


@pytest.mark.parametrize("scale", [None, 0.1], ids=["float32", "int8"])
@pytest.mark.parametrize("case", SHAPES)
def test_every_interpreter_runs_it_and_it_agrees_with_itself(case, scale, tmp_path):
    path = tmp_path / "f.tflite"
    path.write_bytes(doubled(SHAPES[case], scale))
    for target in RUNTIMES:
        try_once(target, path.read_bytes())
        assert inspection(path, target)[1].runs == "yes"
    rows = sqp_tflite.check(path, path.read_bytes(), ends=True)
    assert {(row.runtime, row.status) for row in rows} == {(runtime, "ok") for runtime in RUNTIMES}


def test_a_file_without_a_batch_is_paired_with_its_own_export(tmp_path):
    path = tmp_path / "f.tflite"
    path.write_bytes(doubled(()))
    made = sqp_tflite.export(path, replace="accurate").model_bytes
    assert read(made).inputs[0].shape == ()
    assert {row.status for row in sqp_tflite.check(path, made)} == {"ok"}


@pytest.mark.parametrize(("shape", "given"), [((), (2,)), ((4,), (5,)), ((3, 4), (1, 3, 5)), ((1, 4), (2, 4))])
def test_another_shape_is_still_refused(shape, given, tmp_path):
    path = tmp_path / "f.tflite"
    path.write_bytes(doubled(shape))
    with pytest.raises(sqp_tflite.BadInputError, match="The file's inputs must be the model's|batch must be 1"):
        sqp_tflite.check(path, doubled(given))

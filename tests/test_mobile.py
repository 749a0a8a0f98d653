"""What docs/mobile.md says was run: LiteRT's C library from C++, and which operators XNNPACK takes."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import sqp_tflite
from models import dense, two_in_two_out

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "examples" / "litert" / "run.cc"
PAGE = (ROOT / "docs" / "mobile.md").read_text("utf-8")


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """The example, linked with the library of the wheel."""
    folder = Path(importlib.util.find_spec("ai_edge_litert").origin).parent
    if shutil.which("g++") is None or not (folder / "libLiteRt.so").exists():
        pytest.skip("needs g++ and a wheel of ai-edge-litert with libLiteRt.so")
    made = tmp_path_factory.mktemp("litert") / "run"
    strict = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]
    linked = ["-L", str(folder), "-lLiteRt", f"-Wl,-rpath,{folder}"]
    subprocess.run(["g++", *strict, str(SOURCE), "-o", str(made), *linked], check=True)
    return made


@pytest.mark.parametrize(
    ("model", "options"),
    [(dense, {}), (two_in_two_out, {}), (dense, {"quantize": "float16"}), (dense, {"safe_half": True})],
)
def test_the_cpp_example_computes_what_keras_does(program, tmp_path, model, options):
    built = model()
    sqp_tflite.export(built, tmp_path / "m.tflite", target="litert", **options)
    generator = np.random.default_rng(0)
    inputs = [generator.normal(size=(1, *tensor.shape[1:])).astype("f4") for tensor in built.inputs]
    ran = subprocess.run(
        [program, tmp_path / "m.tflite"], input=b"".join(x.tobytes() for x in inputs), capture_output=True, check=True
    )
    expected = built(inputs if len(inputs) > 1 else inputs[0])
    flat = np.concatenate([np.asarray(y).ravel() for y in (expected if isinstance(expected, list) else [expected])])
    # float16 weights move a sum of a few products by about 2**-11 of it; float32 by a few of its last places.
    near = 5e-3 if "quantize" in options else 1e-5
    np.testing.assert_allclose(np.frombuffer(ran.stdout, "f4"), flat, rtol=near, atol=near)


def test_the_cpp_example_says_what_failed(program, tmp_path):
    (tmp_path / "no.tflite").write_bytes(b"no model")
    ran = subprocess.run([program, tmp_path / "no.tflite"], capture_output=True, text=True)
    assert ran.returncode == 1 and "LiteRtCreateModelFromFile" in ran.stderr


def delegates(content: bytes) -> list[str]:
    """What LiteRT's interpreter added to the operators of a file."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    own = len(sqp_tflite.inspect(content).main.ops)
    return [op["op_name"] for op in interpreter._get_ops_details()[own:]]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1),
        ({"safe_half": True}, 1),
        ({"quantize": "int8"}, 1),  # The island.
        ({"quantize": "int8", "lowering": "table"}, 2),  # The dense layers on both sides of the table.
    ],
)
def test_xnnpack_takes_the_operators_that_the_page_says(options, count):
    data = {"x": np.random.default_rng(0).normal(size=(16, 4)).astype("f4")}
    content = sqp_tflite.export(dense(), target="litert", data=data, **options).model_bytes
    assert delegates(content) == ["DELEGATE"] * count


def test_the_page_names_every_delegate_and_says_what_was_run():
    for name in ("XNNPACK", "OpenCL", "Metal", "ML Drift", "NNAPI", "Core ML", "Hexagon", "QNN"):
        assert name in PAGE
    assert "No phone was at hand" in PAGE and "2026-11-29" in PAGE

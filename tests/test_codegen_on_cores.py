"""Generated C on emulated Cortex-M cores: golden vectors exact, nothing of libm or libc, instructions and size held."""

from pathlib import Path

import pytest

from sqp_tflite.codegen.vectors import made_up
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops import one_op
from sqp_tflite.ops.op_families import cases
from tools.mcu import emulator, model

DIGITS = (Path(__file__).parents[1] / "examples" / "firmware" / "digits" / "digits.tflite").read_bytes()
HELD = {
    "M0": (88_812, 5_280),
    "M3": (36_640, 4_536),
    "M4F": (28_960, 4_320),
    "M33": (28_950, 4_324),
    "M55": (27_656, 4_376),
}
"""Instructions of one run of the example's network, and bytes of its code and constants, with GCC 12."""
SHARE = 0.02
"""Another release of the compiler moves a few instructions; a lost optimisation moves more."""


@pytest.fixture(scope="module")
def toolchain():
    pytest.importorskip("tflite_micro")
    try:
        emulator.ensure_toolchain()
    except emulator.ToolchainMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def digits(toolchain, tmp_path_factory):
    folder, graph = tmp_path_factory.mktemp("digits"), read(DIGITS)
    model.write(graph, made_up(graph, DIGITS), folder)
    return folder


@pytest.mark.parametrize("core", HELD)
def test_a_network_is_exact_and_costs_what_it_did(digits, core):
    run = model.measure(model.CORES[core], digits)
    assert (run.wrong, run.foreign) == (0, ())
    instructions, flash = HELD[core]
    assert run.instructions == pytest.approx(instructions, rel=SHARE)
    assert run.flash == pytest.approx(flash, rel=SHARE)


@pytest.mark.parametrize("core", ["M0", "M4F"])
def test_square_roots_need_no_library(toolchain, tmp_path, core):
    (case,) = [case for case in cases(("RSQRT",)) if case.dtype == "float32"]
    content = one_op.build(case)
    graph = read(content)
    model.write(graph, made_up(graph, content), tmp_path)
    run = model.measure(model.CORES[core], tmp_path)
    assert (run.wrong, run.foreign) == (0, ())


def test_a_call_of_the_library_is_seen(digits, tmp_path):
    for file in digits.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    source = (tmp_path / "net.c").read_text()
    planted = "float sqrtf(float);\nfloat kept = 2;\nvoid net_run("
    source = source.replace("void net_run(", planted, 1).replace("(void)a;", "kept = sqrtf(kept);")
    (tmp_path / "net.c").write_text(source)
    assert "sqrtf" in model.measure(model.CORES["M3"], tmp_path).foreign

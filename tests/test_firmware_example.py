"""The folder in examples/firmware is what the exporter makes today, and it works."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from sqp_tflite.emit import curves
from test_emit import self_test

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "firmware" / "digits"


@pytest.fixture(scope="module")
def remade(tmp_path_factory):
    """The example exported again, elsewhere."""
    pytest.importorskip("tflite_micro", reason="golden outputs come from the interpreter of the tflite-micro wheel")
    spec = importlib.util.spec_from_file_location("firmware_example", ROOT / "examples" / "firmware.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    folder = tmp_path_factory.mktemp("firmware")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(FOLDER.parent)
        return script.make(folder, report=False), folder


def files(folder: Path) -> dict[str, bytes]:
    """Contents by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_making_it_again_changes_nothing(remade):
    _, folder = remade
    old, new = files(FOLDER), files(folder / "digits")
    assert sorted(new) == sorted(old)
    changed = [name for name in old if new[name] != old[name]]
    assert changed == [], "run `python examples/firmware.py` and look at the difference"


def test_the_example_is_an_integer_network_that_reads_digits(remade):
    exported, _ = remade
    (row,) = [row for row in exported.report.agreement if row.runtime == "tflm"]
    # The file may lose a point of accuracy on 360 images to its 8-bit numbers: 3 or 4 images.
    assert row.status == "ok" and row.metric_after >= row.metric_before - 0.01 >= 0.9
    assert "| floating point | none in the model |" in (FOLDER / "README.md").read_text()


def test_the_report_draws_the_tables_of_the_file(remade):
    exported, _ = remade
    drawn = curves.curves(exported.report, exported.model_bytes)
    assert {layer for curve in drawn for layer in curve.layers} == {"strokes", "parts"}
    for curve in drawn:
        assert curve.title == "squareplus (b=4)"
        step = float(curve.now.split()[-1])
        # A table holds the nearest code: half a step, and the step is quoted with two digits.
        assert 0 < np.abs(curve.error).max() <= 0.5 * step * 1.05


def test_its_self_test_passes_on_the_real_interpreter(tmp_path):
    pytest.importorskip("tflite_micro")
    copied = Path(shutil.copytree(FOLDER, tmp_path / "digits"))
    done = self_test(copied, "digits")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "PASS"


APPLICATION = """
#include <stdio.h>
#include "digits_golden.h"
#include "digits_runner.h"

int main() {
  if (digits_prepare() != 0) return 1;
  for (int v = 0; v < DIGITS_GOLDEN_COUNT; ++v) {
    int8_t* image = digits_input_image();
    for (int i = 0; i < DIGITS_INPUT_IMAGE_ELEMENTS; ++i) image[i] = digits_golden_input_image[v][i];
    if (digits_run() != 0) return 2;
    const int8_t* digit = digits_output_digit();
    int best = 0;
    for (int i = 1; i < DIGITS_OUTPUT_DIGIT_ELEMENTS; ++i) if (digit[i] > digit[best]) best = i;
    fprintf(stderr, "%d ", best);
  }
  return 0;
}
"""


def test_an_application_written_from_the_readme_reads_the_digits(tmp_path):
    pytest.importorskip("tflite_micro")
    copied = Path(shutil.copytree(FOLDER, tmp_path / "digits"))
    (copied / "self_test" / "main.cc").write_text(APPLICATION)
    done = self_test(copied, "digits")
    assert done.returncode == 0, done.stderr
    golden = np.load(FOLDER / "digits_golden.npz")["output_digit"]
    assert [int(word) for word in done.stderr.split()] == golden.reshape(len(golden), -1).argmax(axis=1).tolist()

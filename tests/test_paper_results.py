"""The paper's benchmarks: how they time, what they cover, and that texts quote what was measured."""

import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from benchmarks import paper, paper_report, paper_table, paper_values
from benchmarks.mcu.count import KERNELS
from benchmarks.paper_timing import interleave

DOCS = paper.DOCS


@pytest.fixture
def plain_rows(monkeypatch):
    """Leaves out the rows of Keras, which would settle this process on the backend of the framework under test."""
    monkeypatch.setattr(paper_table, "with_keras", lambda functions, backend: functions)


@pytest.fixture(scope="module")
def results():
    return json.loads((DOCS / "results.json").read_text())


def quoting_texts():
    return [path.relative_to(paper.ROOT).as_posix() for path in paper.quoting_texts()]


@pytest.mark.parametrize("text", quoting_texts())
def test_quoted_figures_are_the_measured_ones(text, results):
    assert paper_values.stale((paper.ROOT / text).read_text(), results["values"]) == []


def test_the_speed_page_quotes_results():
    assert "docs/speed.md" in quoting_texts()


def test_results_page_is_what_the_figures_give(results):
    assert (DOCS / "results.md").read_text() == paper_report.render(results)
    assert results["values"] == paper_values.values(results)


def test_a_wrong_an_unknown_and_an_unpaired_quotation_are_seen():
    known = {"a.ms": "1.5"}
    good = "takes <!-- result:a.ms -->1.5<!-- /result --> ms"
    assert paper_values.stale(good, known) == []
    assert "quoted '1.4', measured '1.5'" in paper_values.stale(good.replace("1.5", "1.4"), known)[0]
    assert "b.ms: no such result" in paper_values.stale(good.replace("a.ms", "b.ms"), known)[0]
    assert "1 comments open a result, 0 close one" in paper_values.stale(good.replace("<!-- /result -->", ""), known)[0]


def test_rewriting_brings_a_quotation_up_to_date_and_refuses_unknown_keys():
    text = "takes <!-- result:a.ms -->old<!-- /result --> ms, <!-- result:a.ms --><!-- /result -->"
    assert paper_values.rewrite(text, {"a.ms": "2"}).count("-->2<!--") == 2
    with pytest.raises(ValueError, match=r"Received: a\.ms"):
        paper_values.rewrite(text, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0014, "0.00140"),
        (0.4554, "0.455"),
        (1.0, "1.00"),
        (12.34, "12.3"),
        (0.9996, "1.00"),
        (1234.5, "1230"),
        (0, "0"),
    ],
)
def test_figures_keep_three_significant_digits(value, text):
    assert paper_values.significant(value) == text


def test_table_1_has_every_row_with_a_ratio_in_every_framework(results):
    sections = results["cpu"]["sections"]
    assert list(sections) == ["jax", "tensorflow_xla", "tensorflow_eager", "numpy"]
    for name, rows in sections.items():
        expected = [row for row in paper_table.TITLES if row != "squareplus_jax" or name == "jax"]
        assert list(rows) == expected
        for row in rows.values():
            assert row["to_relu"] == pytest.approx(row["median"] / rows["relu"]["median"])
            assert row["to_softplus"] == pytest.approx(row["median"] / rows["softplus"]["median"])
    assert "missing" in results["gpu"] or list(results["gpu"]["sections"]["jax"]) == list(sections["jax"])


def test_every_kernel_was_counted_on_every_core(results):
    assert list(results["mcu"]["cores"]) == ["M0", "M3", "M4F", "M7F", "M33"]
    for rows in results["mcu"]["cores"].values():
        assert list(rows) == list(KERNELS)
        assert all(rows[name]["libm"] == [] for name in rows if name.startswith("sqp_"))


def test_timing_interleaves_and_tells_a_slow_call_from_a_fast_one():
    order = []
    timings = interleave(
        {"slow": lambda: (order.append("slow"), time.sleep(0.02)), "fast": lambda: order.append("fast")},
        seconds=0,
        least=8,
        warm_up=1,
    )
    assert timings["slow"].rounds == timings["fast"].rounds == 8
    for start in range(0, len(order), 2):
        assert set(order[start : start + 2]) == {"slow", "fast"}
    # A sleep never returns early, and a call that only appends cannot reach its length: no clock is judged here.
    assert timings["slow"].median >= 20
    assert timings["slow"].low <= timings["slow"].median <= timings["slow"].high


def test_measuring_a_framework_gives_the_rows_of_the_page(plain_rows):
    sections = paper_table.measure("numpy", "cpu", 1000, seconds=0)
    expected = [
        name for name in paper_table.TITLES if name not in ("squareplus_jax", "squareplus_keras", "squareplus_ours")
    ]
    assert list(sections["numpy"]) == expected
    assert paper_report.render(_with_sections(sections)).count("| Swish/SiLU |") == 2  # on the CPU, and published


def _with_sections(sections):
    machine = {
        "processor": "p",
        "cores": "1",
        "memory": "1 GiB",
        "system": "s",
        "python": "3",
        "load": "0.1",
        "date": "d",
        "versions": {},
    }
    return {
        "machine": machine,
        "cpu": {"sections": sections},
        "gpu": {"missing": "no GPU."},
        "mcu": {"missing": "no QEMU."},
        "interpreters": {"runtimes": {}},
    }


def test_frameworks_compute_the_same_functions(plain_rows):
    calls = paper_table.jax_calls("cpu", 1000)["jax"]
    expected = paper_table.numpy_calls("cpu", 1000)["numpy"]
    for name in expected:
        got = np.asarray(calls[name]())
        # float32 formulas of a few operations on values below 5: a few units of 2^-22.
        np.testing.assert_allclose(got, np.asarray(expected[name]()), atol=2e-6, err_msg=name)


def test_the_jax_part_needs_nothing_but_jax_and_numpy(tmp_path):
    site = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs", "jax", "jaxlib", "ml_dtypes", "opt_einsum", "scipy", "scipy.libs"):
        if (site / name).exists():
            (tmp_path / name).symlink_to(site / name)
    # -S: no site-packages, only numpy, jax and what jax itself requires.
    command = [sys.executable, "-S", "-m", "benchmarks.paper_table", "--count", "1000", "--seconds", "0"]
    done = subprocess.run(
        command, cwd=paper.ROOT, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert "Squareplus (`jax.nn`)" in done.stdout and "Squareplus (Keras)" not in done.stdout


@pytest.mark.large
def test_figures_are_drawn_alike_twice_and_hold_all_curves(tmp_path):
    from benchmarks import paper_figures

    first, second = paper_figures.draw(tmp_path / "1"), paper_figures.draw(tmp_path / "2")
    assert [path.name for path in first] == [f"{name}.svg" for name in paper_report.FIGURES]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert ElementTree.fromstring(one.read_text()).tag.endswith("svg")
        assert (DOCS / "figures" / one.name).is_file()


def test_derivatives_in_the_figures_are_those_of_the_formula():
    import sqp_keras
    from benchmarks import paper_figures

    x = np.linspace(-6, 6, 25)
    y, slope, bend = paper_figures.derivatives(sqp_keras.squareplus, x)
    s = np.sqrt(x * x + 4)
    for got, true in ((y, (x + s) / 2), (slope, (1 + x / s) / 2), (bend, 2 / s**3)):
        np.testing.assert_allclose(
            got, true, rtol=1e-13
        )  # float64: some 2^-52 for each operation, cancellation in x + s


def test_a_file_that_an_interpreter_refuses_is_listed_with_its_reason(tmp_path):
    import tensorflow as tf

    from benchmarks import interpreter_models, interpreters

    data = interpreter_models.samples((64,))
    files = [("relu", tf.nn.relu, "float32"), ("softplus", tf.nn.softplus, "int8")]
    manifest = []
    for name, function, dtype in files:
        (tmp_path / f"{name}.tflite").write_bytes(interpreter_models.stock(function, (64,), dtype, data))
        manifest.append({"file": f"{name}.tflite", "group": "g", "name": name, "ops": [], "bytes": 0})
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    rows = {row["name"]: row for row in interpreters.measure(tmp_path, 0.0)["tflm"]}
    assert rows["relu"]["refused"] == "" and rows["relu"]["timing"]["rounds"] > 0
    assert "FLOAT32" in rows["softplus"]["refused"].upper() and rows["softplus"]["timing"] is None


def test_a_failing_part_shows_what_it_printed():
    with pytest.raises(paper.PartFailedError, match="unrecognized arguments: --nonsense"):
        paper.child("benchmarks.paper_table", "--nonsense")


def test_only_the_named_part_is_measured_anew(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(
        paper, "PARTS", {name: lambda folder, n=name: ran.append(n) or {"new": n} for name in paper.PARTS}
    )
    old = {name: {"old": name} for name in paper.PARTS}
    results = paper.measure(tmp_path, ["mcu"], old)
    assert ran == ["mcu"] and results["mcu"]["new"] == "mcu" and results["mcu"]["seconds"] >= 0
    assert results["cpu"] == {"old": "cpu"}

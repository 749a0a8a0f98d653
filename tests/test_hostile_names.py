"""Whatever a model and its file are called, what is written about them is text and nothing else."""

import dataclasses
import json
import os
import re
import subprocess
import unicodedata
from pathlib import Path

import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.device import Memory
from sqp_tflite.emit import emit
from test_emit import material
from written import Written

NAMES = ["\x1b[31mred", "\u202edesrever", "a\x00b", "two\u2028lines", "two\nlines", "*/ int x; /*", "a`b|c", "\udcff"]
EVERY = "".join(NAMES)
WRONG = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that are no text: controls, formats (bidi among them), surrogates, line separators."""


def strange(content: bytes) -> set[str]:
    return {mark for mark in content.decode("utf-8") if unicodedata.category(mark) in WRONG and mark != "\n"}


@pytest.fixture(scope="module")
def hostile():
    """What an export of a model whose layers, inputs and file have such names would hand over."""
    pytest.importorskip("tflite_micro", reason="golden outputs come from the interpreter of the tflite-micro wheel")
    plain = material("two_inputs_float32.tflite")
    main = plain.graph.main
    tensors = tuple(dataclasses.replace(one, name=f"{EVERY}{one.name}") for one in main.tensors)
    graph = dataclasses.replace(plain.graph, subgraphs=(dataclasses.replace(main, tensors=tensors),))
    ops = tuple(dataclasses.replace(row, layers=(EVERY,)) for row in plain.report.ops)
    report = dataclasses.replace(
        plain.report, source=f"/tmp/{EVERY}.keras", memory=Memory(peak_layer=EVERY), ops=ops, notes=(EVERY,)
    )
    return dataclasses.replace(plain, graph=graph, report=report)


def test_no_artefact_holds_more_than_text(hostile, tmp_path):
    for path, content in emit(["c", "resolver", "golden", "project"], hostile).items():
        if Path(path).suffix not in (".npz", ".tflite"):
            assert strange(content) == set(), path
        if path.endswith("arena.h"):
            (tmp_path / "arena.c").write_bytes(content + b"int whatever;\n")
        if path.endswith("README.md"):
            rows = [line for line in content.decode().splitlines() if line.startswith("| input")]
            assert len(rows) == len(hostile.inputs)
            assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}
    gcc = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(tmp_path / "arena.c")]
    done = subprocess.run(gcc, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_files_of_any_name_and_layers_of_any_name_are_reported(command, tmp_path):
    file = Written()
    x = file.value(name="\u202ex\x1b[31m")
    content = file.ends([x], [file.op("ABS", x, name="y\u2028\x07")])
    source = tmp_path / os.fsdecode(b"\xff\x1b[31m.tflite")
    source.write_bytes(content)
    page, data = tmp_path / os.fsdecode(b"\xfe.html"), tmp_path / "r.json"
    ran = command("sqp-inspect", source, "--report", page, "--report", data)
    assert (ran.code, ran.err) == (0, "")
    assert strange(page.read_bytes()) == strange(ran.out.encode()) == set()
    found = json.loads(data.read_bytes())
    assert found["source"] == str(source) and found["inputs"][0]["name"] == "\u202ex\x1b[31m"
    assert data.read_bytes().isascii() and b"\\u202e" in data.read_bytes()


def test_an_export_from_and_to_a_name_that_is_not_utf_8_works(command, tmp_path):
    net = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2, name="dense")])
    source = tmp_path / os.fsdecode(b"\xff.keras")
    net.save(tmp_path / "net.keras")
    (tmp_path / "net.keras").rename(source)
    page = tmp_path / "r.html"
    ran = command("sqp-export", source, "--report", page, "--emit", "project", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["source"] == str(source)
    assert os.fsencode(source).replace(b".keras", b".tflite") in map(os.fsencode, tmp_path.iterdir())
    assert strange(page.read_bytes()) == set() and r"\udcff" in page.read_text("utf-8")
    made = sqp_tflite.export(os.fsdecode(source), emit="c", reports=tmp_path / "api.html", data={"x": np.ones((2, 3))})
    assert made.files and strange((tmp_path / "api.html").read_bytes()) == set()

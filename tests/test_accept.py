"""Whatever a user passes to a public function: it works, or one line says which parameter is wrong and how."""

import contextlib
import inspect
import types
from pathlib import Path

import keras
import numpy as np
import pytest

import sqp_tflite
from models import dense
from sqp_tflite import accept, parity, pipeline
from sqp_tflite.emit import CStyle
from sqp_tflite.emit.curves import curves
from sqp_tflite.errors import BadInputError
from sqp_tflite.report import Report
from strange import faults
from written import perceptron

OTHER_WORDS = {
    "model": ("a Keras model",),
    "names": ("--map",),
    "imports": ("--import",),
    "replace": ("`rule`", "--replace", "A rule "),
    "emit": ("--emit",),
    "reports": ("--report", "An output"),
    "output": ("An output",),
    "data": ("An input must be",),
    "step": ("--step",),
}
"""How messages of later steps call a parameter."""

ITS_OWN = {"progress": ("a class",)}
"""Values that are accepted and then fail by themselves: `dict("load")`."""


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return dense("silu", (4, 4))


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """No child processes and no interpreters: everything before them is what arguments have to pass."""
    monkeypatch.setattr(pipeline, "_worker", lambda options: contextlib.nullcontext())
    monkeypatch.setattr(parity, "compare", lambda *_, **__: types.SimpleNamespace(rows=()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


EXPORT = tuple(inspect.signature(sqp_tflite.export).parameters)
CHECK = tuple(inspect.signature(sqp_tflite.check).parameters)


@pytest.mark.parametrize("name", EXPORT)
def test_export_takes_any_value_or_says_what_is_wrong(name, model, quick):
    def call(value):
        return sqp_tflite.export(**{"model": model, "dry_run": True, name: value})

    assert faults(name, call, quick, (BadInputError,), OTHER_WORDS.get(name, ()), ITS_OWN.get(name, ())) == []
    assert list(quick.iterdir()) == []


@pytest.mark.parametrize("name", CHECK)
def test_check_takes_any_value_or_says_what_is_wrong(name, model, quick):
    content = perceptron()

    def call(value):
        return sqp_tflite.check(**{"model": model, "tflite": content, name: value})

    assert faults(name, call, quick, (BadInputError,), OTHER_WORDS.get(name, ()), ITS_OWN.get(name, ())) == []


def test_the_other_functions_do_the_same(quick):
    report = Report("ok", "m", "tflm", "int8", "table")
    content = perceptron()
    calls = {
        "source": sqp_tflite.inspect,
        "max_memory": lambda value: sqp_tflite.inspect(content, max_memory=value),
        "report": curves,
        "content": lambda value: curves(report, value),
        "prefix": lambda value: CStyle(value),
        "section": lambda value: CStyle(section=value),
        "qualifier": lambda value: CStyle(qualifier=value),
    }
    words = {"prefix": ("C prefix",), "section": ("linker section",), "qualifier": ("C qualifier",)}
    found = [faults(name, call, quick, (BadInputError,), words.get(name, ())) for name, call in calls.items()]
    assert [line for lines in found for line in lines] == []


def test_a_fault_is_seen(tmp_path):
    """The planted faults: a traceback, a message about nothing, a long one."""
    errors = (BadInputError,)
    seen = [faults("tol", call, tmp_path, errors) for call in (len, lambda value: accept.flag("`other`", value))]
    assert any("TypeError" in line for line in seen[0]) and any("does not name it" in line for line in seen[1])

    def long(value):
        raise ValueError("tol" * 999)

    assert any("2997 characters" in line for line in faults("tol", long, tmp_path, (ValueError,)))


SAME = {
    "a path-like": ("output", Path("a.tflite"), "a.tflite"),
    "a size with a unit": ("ram", "64k", 65536),
    "a size with a large unit": ("max_memory", "2G", 2 << 30),
    "numpy's integer": ("flash", np.int32(7), 7),
    "one artefact": ("emit", "golden", ("golden",)),
    "artefacts with commas": ("emit", "c, golden", ("c", "golden")),
    "a generator of artefacts": ("emit", (kind for kind in ("c",)), ("c",)),
    "no artefacts": ("emit", None, ()),
    "one report": ("reports", "r.html", [Path("r.html")]),
    "a meaning": ("names", "mine=gelu", {"mine": "gelu"}),
    "meanings": ("names", ["mine=gelu", "b=silu"], {"mine": "gelu", "b": "silu"}),
    "rules": ("replace", "silu=fast,tanh=accurate", {"silu": "fast", "tanh": "accurate"}),
    "a share as text": ("max_error", "0.01", 0.01),
    "numpy's flag": ("trust_code", np.bool_(True), True),
}


@pytest.mark.parametrize("case", SAME)
def test_two_spellings_ask_for_the_same(case, monkeypatch):
    name, spelled, plain = SAME[case]
    asked = []
    monkeypatch.setattr(pipeline, "run", lambda options, progress: asked.append(options))
    for value in (spelled, plain):
        pipeline.export("m.keras", **{name: value})
    assert asked[0] == asked[1]


REFUSED = {
    "a dash": ("output", "-", "Standard output is for the command line; './-' is a file"),
    "a number": ("output", 5, "`output` must be a path. Received: 5. Pass the name of a file"),
    "a negative size": ("ram", -1, "`ram` must be a whole number of bytes above 0, .*Received: -1. For example 200k"),
    "more bytes than there are": ("ram", "9" * 30 + "G", "a whole number of bytes above 0, below 2\\*\\*63"),
    "no bound": ("max_change", float("inf"), "`max_change` must be a finite number above 0. Received: inf"),
    "a long name": ("output", "x" * 6010, "a path of at most 4,096 characters. Received: .*6012 characters"),
    "half a byte": ("ram", "0.5", "above 0"),
    "no unit": ("ram", "64q", "Received: '64q'"),
    "a limit of nothing": ("max_memory", 0, "`max_memory` must be a whole number of bytes above 0, .*Received: 0"),
    "a flag as size": ("flash", True, "Received: True"),
    "a word as flag": ("trust_code", "no", "`trust_code` must be True or False. Received: 'no'"),
    "a number of names": ("names", 5, "`names` must be a mapping, or NAME=ACTIVATION. Received: 5"),
    "a name twice": ("names", ["a=silu", "a=gelu"], "once. Received: 'a' twice"),
    "a mapping of artefacts": ("emit", {"c": 1}, "`emit` must be a list.*Received: dict of length 1. Pass a list"),
    "a prefix as style": ("c_style", "net", r"CStyle. Received: 'net'. For example CStyle\(prefix='net'\)"),
    "a list in a list of artefacts": (
        "emit",
        [[]],
        "must list one .*Received: list of length 0. For example c,res",
    ),
    "a number as state": ("state", 5, "`state` must be a mapping, or OUT=IN. Received: 5. For example lstm_h=h"),
    "a report of another kind": ("reports", "r.txt", "Received: `r.txt`. For example report.html"),
    "half a character in a path": ("output", "\ud800", r"`output` must be a path. Received: '\\ud800'. Pass the name"),
    "no samples": ("data", [[]], r"shape \(samples, 4\). Received: \(1, 0\). Give each sample the shape"),
    "text as data": ("data", {"x": "a"}, "must hold numbers. Received: dtype <U1. Pass an array"),
    "ragged data": ("data", [[1], [1, 2]], "`data` must be an array of numbers, all rows of one shape.*Pad or cut"),
    "ragged data in a mapping": ("data", {"x": [[1], [1, 2]]}, "`x` in `data` must be an array.*list of length 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_with_a_remedy(case, model, quick):
    name, value, words = REFUSED[case]
    with pytest.raises(BadInputError, match=words):
        sqp_tflite.export(model, **{"dry_run": True, name: value})


def test_lists_of_numbers_are_data(model, quick):
    rows = [[0.0, 1.0, 2.0, 3.0]] * 2
    for data in (rows, {"x": rows}, np.array(rows)):
        sqp_tflite.export(model, dry_run=True, data=data)

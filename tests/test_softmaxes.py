"""Softmax and log-softmax in finished files, as operators and as programs spell them."""

import numpy as np
import pytest

from sqp_tflite.finished.exchange import exchanged
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.heads import drop_heads
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.softmaxes import softmaxes
from sqp_tflite.run.interpreters import run_here
from sqp_tflite.source.samples import Samples
from written import Written

X = np.random.default_rng(0).normal(0, 3, (20, 6)).astype(np.float32)


class Rows:
    """Writes operators of a tensor of shape (1, 6), and what reduces it to (1, 1)."""

    def __init__(self):
        self.model = Written()
        self.x = self.model.value(1, 6, name="x")

    def op(self, name, *operands):
        table = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions", "DIV": "DivOptions"}.get(name, "")
        return self.model.op(name, *operands, shape=(1, 6), table=table)

    def column(self, name, operand, axis=1):
        axes = self.model.constant([axis], dtype="int32")
        return self.model.op(name, operand, axes, shape=(1, 1), table="ReducerOptions", keepDims=True)

    def single(self, name, *operands):
        return self.model.op(name, *operands, shape=(1, 1))

    def below(self):
        return self.op("SUB", self.x, self.column("REDUCE_MAX", self.x))


def jax(rows):
    power = rows.op("EXP", rows.below())
    return rows.op("DIV", power, rows.column("SUM", power))


def plain(rows):
    power = rows.op("EXP", rows.x)
    return rows.op("DIV", power, rows.column("SUM", power, axis=-1))


def inverse(rows):
    power = rows.op("EXP", rows.x)
    return rows.op("MUL", power, rows.single("DIV", rows.model.constant([[1.0]]), rows.column("SUM", power)))


def log_jax(rows):
    below = rows.below()
    return rows.op("SUB", below, rows.single("LOG", rows.column("SUM", rows.op("EXP", below))))


def log_of_softmax(rows):
    return rows.op("LOG", jax(rows))


def operator(rows):
    return rows.model.op("SOFTMAX", rows.x, shape=(1, 6), table="SoftmaxOptions", beta=1.0)


SPELLINGS = [
    (jax, "softmax"),
    (plain, "softmax"),
    (inverse, "softmax"),
    (operator, "softmax"),
    (log_jax, "log_softmax"),
    (log_of_softmax, "log_softmax"),
]


@pytest.mark.parametrize(("spell", "name"), SPELLINGS)
def test_a_softmax_is_known_however_it_is_spelled(spell, name):
    rows = Rows()
    y = spell(rows)
    (found,) = softmaxes(read(rows.model.ends([rows.x], [y])).main).values()
    assert (found.name, found.source, found.result) == (name, rows.x, y)


@pytest.mark.parametrize(("spell", "name"), SPELLINGS)
def test_one_at_the_end_is_dropped(spell, name):
    rows = Rows()
    inner = rows.op("NEG", rows.x)
    rows.x, x = inner, rows.x
    editor = Editor(rows.model.ends([x], [spell(rows)]))
    assert drop_heads(editor) == (name,)
    assert [op.name for op in read(editor.bytes()).main.ops] == ["NEG"]


@pytest.mark.parametrize(("spell", "name"), [one for one in SPELLINGS if one[1] == "softmax"])
def test_one_is_exchanged_whole(spell, name):
    rows = Rows()
    content = rows.model.ends([rows.x], [spell(rows)])
    made = exchanged(content, Samples((X,), None, given=True), "accurate", 1e-3)
    assert [row.was for row in made.replacements] == ["softmax"]
    assert {"EXP", "SOFTMAX", "DIV"}.isdisjoint(op.name for op in read(made.content).main.ops)
    before, after = (run_here("litert", one, (X,)).values[0] for one in (content, made.content))
    assert np.abs(before - after).max() < 5e-4


def test_what_is_nearly_a_softmax_is_none():
    """The planted fault: the sum of something else."""
    rows = Rows()
    power = rows.op("EXP", rows.x)
    y = rows.op("DIV", power, rows.column("SUM", rows.op("ABS", rows.x)))
    assert softmaxes(read(rows.model.ends([rows.x], [y])).main) == {}


def test_a_head_that_something_else_reads_stays_there():
    rows = Rows()
    y = operator(rows)
    editor = Editor(rows.model.ends([rows.x], [y, rows.op("NEG", y)]))
    before = run_here("litert", editor.bytes(), (X,)).values
    assert drop_heads(editor) == ("softmax", "")
    after = run_here("litert", editor.bytes(), (X,)).values
    assert np.array_equal(after[0], X)
    assert np.array_equal(after[1], before[1])

"""Tables in finished int8 files: of what a function means, from end to end, whatever scales lie between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellings import truth
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.lookups import all_codes, alone, entries_of, functions, replace, spelled, wrong
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run.interpreters import decode, run_here
from written import Written

CODES = np.arange(-128, 128)


class Codes:
    """Writes operators of int8 tensors, each with a scale and a zero point of its own."""

    def __init__(self, scale=0.05, zero_point=3, shape=(1, 4)):
        self.model, self.shape = Written(), shape
        self.x = self.model.editor.add_tensor("x", "int8", shape, scale, zero_point)

    def op(self, name, *operands, scale=0.05, zero_point=-7, **options):
        place = len(self.model.editor.main().tensors)
        result = self.model.editor.add_tensor(f"t{place}", "int8", self.shape, scale, zero_point)
        indices = tuple(self.constant(one) if isinstance(one, float) else one for one in operands)
        table = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions"}.get(name, "")
        self.model.editor.add_op(NewOp(name, indices, (result,), table, options))
        return result

    def constant(self, number):
        index = self.model.editor.add_constant("c", np.array([100], np.int8))
        self.model.editor.set_scale(index, number / 100.0)
        return index

    def file(self, *outputs):
        return self.model.ends([self.x], outputs)


def softplus(codes, **ends):
    """Softplus as a converter quantises it: the scales of EXP and ADD are far too coarse for what LOG needs."""
    wide = {"scale": 2.0, "zero_point": -128}
    added = codes.op("ADD", codes.op("EXP", codes.x, **wide), 1.0, **wide)
    return codes.op("LOG", added, **({"scale": 0.03, "zero_point": -128} | ends))


def expected(function, scale, zero_point, made, point):
    """The right table: the function of every code in float64, rounded once, halves away from zero."""
    steps = function((CODES - zero_point) * np.float64(np.float32(scale))) / np.float64(np.float32(made))
    rounded = np.sign(steps) * np.floor(np.abs(steps) + 0.5)
    return np.clip(rounded + point, -128, 127).astype(np.int8)


def test_a_chain_of_coarse_scales_becomes_one_right_table():
    codes = Codes()
    content = codes.file(softplus(codes))
    (chain,) = functions(read(content).main)
    assert spelled(read(content).main, chain) == ("EXP", "ADD", "LOG")
    editor = Editor(content)
    (table,) = replace(editor, (chain,))
    assert [op.name for op in read(editor.bytes()).main.ops] == ["CAST", "ADD", "GATHER"]
    right = expected(lambda x: np.logaddexp(x, 0.0), 0.05, 3, 0.03, -128)
    assert np.array_equal(table.entries, right)
    given = run_here("litert", content, (decode(all_codes((1, 4)), read(content).inputs[0]),)).codes[0]
    made = run_here("litert", editor.bytes(), (decode(all_codes((1, 4)), read(content).inputs[0]),)).codes[0]
    assert np.array_equal(made.reshape(-1), right[all_codes((1, 4)).reshape(-1).astype(int) + 128])
    assert np.abs(given.astype(int) - made.astype(int)).max() > 10  # What the given file computes is another function.


@pytest.mark.parametrize("name", ["LOGISTIC", "TANH", "GELU", "ELU", "HARD_SWISH", "SQRT", "EXP", "LOG"])
def test_a_single_operator_becomes_a_table(name):
    codes = Codes(scale=0.04, zero_point=-20)
    content = codes.file(codes.op(name, codes.x, scale=1 / 64, zero_point=0))
    (chain,) = functions(read(content).main)
    (table,) = replace(Editor(content), (chain,))
    with np.errstate(all="ignore"):
        right = expected(
            {
                "LOGISTIC": lambda x: truth("sigmoid", x),
                "TANH": np.tanh,
                "GELU": lambda x: truth("gelu", x),
                "ELU": lambda x: truth("elu", x),
                "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
                "SQRT": lambda x: np.where(x < 0, 0.0, np.sqrt(np.abs(x))),
                "EXP": np.exp,
                "LOG": lambda x: np.where(x < 0, 0.0, np.log(np.abs(x))),
            }[name],
            0.04,
            -20,
            1 / 64,
            0,
        )
    assert np.abs(table.entries.astype(int) - right).max() <= (1 if name == "HARD_SWISH" else 0)


_STEPS = st.sampled_from(["EXP", "LOGISTIC", "TANH", "SQUARE+", "TIMES", "PLUS", "GATE", "ABS", "RELU"])


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(_STEPS, min_size=1, max_size=6),
    scales=st.lists(st.floats(1e-3, 2.0), min_size=16, max_size=16),
    points=st.lists(st.integers(-128, 127), min_size=16, max_size=16),
    per_channel=st.booleans(),
)
def test_any_chain_becomes_the_table_of_what_it_means(steps, scales, points, per_channel):
    codes = Codes(scales[0] / 4, points[0], shape=(1, 3, 5) if per_channel else (1, 4))
    x = (CODES - points[0]) * np.float64(np.float32(scales[0] / 4))
    y, values = codes.x, x
    for number, step in enumerate(["TANH", *steps], 1):
        ends = {"scale": scales[number], "zero_point": points[number]}
        inner = {"scale": scales[-number], "zero_point": points[-number]}
        half = np.float64(np.float32(0.005)) * 100
        if step == "SQUARE+":
            y = codes.op("ADD", codes.op("MUL", y, y, **inner), 0.5, **ends)
            values = values * values + half
        elif step == "GATE":
            y = codes.op("MUL", y, codes.op("LOGISTIC", y, **inner), **ends)
            values = values * truth("sigmoid", values)
        elif step in ("TIMES", "PLUS"):
            y = codes.op("MUL" if step == "TIMES" else "ADD", y, 0.5, **ends)
            values = values * half if step == "TIMES" else values + half
        else:
            y = codes.op("LOGISTIC" if step == "LOGISTIC" else step, y, **ends)
            one = {"EXP": np.exp, "TANH": np.tanh, "ABS": np.abs, "RELU": lambda v: np.maximum(v, 0.0)}
            with np.errstate(over="ignore"):
                values = truth("sigmoid", values) if step == "LOGISTIC" else one[step](values)
    content = codes.file(y)
    (chain,) = functions(read(content).main)
    (table,) = replace(Editor(content), (chain,))
    last = read(content).outputs[0].quantization
    steps_of = values / np.float64(last.scales[0])
    rounded = np.clip(np.sign(steps_of) * np.floor(np.abs(steps_of) + 0.5) + last.zero_points[0], -128, 127)
    near_a_tie = np.abs(np.abs(steps_of) % 1.0 - 0.5) < 1e-6 * np.maximum(1.0, np.abs(steps_of))
    assert np.array_equal(table.entries[~near_a_tie], rounded[~near_a_tie].astype(np.int8))


def test_straight_lines_stay():
    codes = Codes()
    content = codes.file(codes.op("RELU", codes.op("ADD", codes.op("MUL", codes.x, 2.0), 1.0)))
    assert functions(read(content).main) == ()


def test_a_function_ends_where_something_else_reads_it():
    codes = Codes(shape=(1, 2, 2, 4))
    inner = codes.op("TANH", codes.x)
    reshaped = codes.op("MAX_POOL_2D", inner)
    found = functions(read(codes.file(codes.op("EXP", inner), reshaped)).main)
    assert [len(chain.ops) for chain in found] == [1, 2]


def test_a_product_of_two_tensors_is_no_function_of_one():
    codes = Codes()
    other = codes.model.editor.add_tensor("other", "int8", (1, 4), 0.1)
    gate = codes.op("LOGISTIC", codes.x)
    content = codes.model.ends([codes.x, other], [codes.op("MUL", gate, other)])
    assert [chain.result for chain in functions(read(content).main)] == [gate]


def test_a_table_can_be_measured_on_the_kernels():
    codes = Codes()
    content = codes.file(softplus(codes))
    (chain,) = functions(read(content).main)
    given = all_codes((1, 4))
    values = (decode(given, read(content).inputs[0]),)
    measured = entries_of(given, run_here("litert", alone(content, chain), values).codes[0])
    editor = Editor(content)
    replace(editor, (chain,), lambda one: measured)
    before, after = (run_here("litert", one, values).codes[0] for one in (content, editor.bytes()))
    assert np.array_equal(before, after)


def test_one_code_with_two_results_has_no_table():
    given = all_codes((1, 4))
    results = given.copy()
    assert np.array_equal(entries_of(given, results), CODES)
    results.reshape(-1)[300] ^= 1
    assert entries_of(given, results) is None


def test_what_cannot_be_measured_stays():
    codes = Codes()
    content = codes.file(softplus(codes))
    editor = Editor(content)
    assert replace(editor, functions(read(content).main), lambda chain: None) == ()
    assert editor.bytes() == content


def test_a_wrong_lookup_is_found():
    codes = Codes()
    content = codes.file(softplus(codes))
    editor = Editor(content)
    (table,) = replace(editor, functions(read(content).main))
    looked_up = table.entries[all_codes((1, 4)).astype(int) + 128]
    assert wrong((table,), {table.source: all_codes((1, 4)), table.result: looked_up}) == ()
    looked_up[0, 0, 0] += 1
    assert "1 of" in wrong((table,), {table.source: all_codes((1, 4)), table.result: looked_up})[0]

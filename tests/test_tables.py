"""Tables instead of float chains: exact, the same on every interpreter, checked before and after."""

import dataclasses

import mpmath
import numpy as np
import pytest

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.read import ends, read
from sqp_tflite.flatbuffer.tables import lower, verify
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.quantize.recipe import Request, quantize_here
from sqp_tflite.run.layer_errors import observe_here
from tools import activation_grid

RANGES = ((-6.0, 6.0), (-3.0, 21.7))


def lowered_file(content):
    """A quantised file with tables, and the tables."""
    editor = Editor(content)
    tables = lower(editor)
    return editor.bytes(), tables


def with_own_names(content):
    editor = Editor(content)
    editor.give_own_names()
    return editor.bytes()


@pytest.fixture(scope="module")
def softplus():
    """An int8 softplus with its chain in float, before the lowering."""
    content, source, result = activation_grid.converted("softplus")
    ranges = {tensor.name: (-1.0, 1.0) for tensor in read(content).main.tensors}
    ranges |= {source: (-6.0, 6.0), result: (0.0, 6.0)}
    return quantize_here(content, Request(Combination("int8", "table")), ranges).content


def test_every_code_of_every_activation_is_exact_on_all_interpreters(capsys):
    names = ("squareplus:1.5238", "softplus", "sigmoid", "silu", "gelu", "elu", "mish")
    outcomes = list(activation_grid.run(names, RANGES, "table"))
    with capsys.disabled():
        print(f"\ntable: {activation_grid.summary(outcomes)}")
    assert len(outcomes) == len(names) * len(RANGES) * 3
    assert all(outcome.different == 0 for outcome in outcomes)


def test_the_algebraic_island_is_exact_but_for_ties(capsys):
    names = ("squareplus:0.25", "squareplus:4", "squareplus:100")
    outcomes = list(activation_grid.run(names, activation_grid.RANGES[:6], "algebraic"))
    with capsys.disabled():
        print(f"\nalgebraic: {activation_grid.summary(outcomes)}")
    # At most 1 in 10,000, by one step: float32 decides a tie otherwise than float64.
    assert sum(outcome.different for outcome in outcomes) * 10_000 <= 256 * len(outcomes)
    assert max(outcome.steps for outcome in outcomes) <= 1


def test_the_chain_becomes_cast_add_gather(softplus):
    assert [op.name for op in read(softplus).main.ops] == ["DEQUANTIZE", "EXP", "ADD", "LOG", "QUANTIZE"]
    content, (table,) = lowered_file(softplus)
    assert [(op.name, op.dtype) for op in read(content).main.ops] == [
        ("CAST", "int8"),
        ("ADD", "int32"),
        ("GATHER", "int8"),
    ]
    assert read(content).main.ops[0].options == {"inDataType": "INT8", "outDataType": "INT32"}
    assert table.entries.shape == (256,)


def test_the_table_is_within_half_a_step_of_softplus(softplus):
    _, (table,) = lowered_file(softplus)
    (given,), (made,) = read(softplus).inputs, read(softplus).outputs
    for code in (-128, -77, -1, 0, 1, 63, 127):
        x = (code - given.quantization.zero_points[0]) * mpmath.mpf(given.quantization.scales[0])
        true = mpmath.log1p(mpmath.exp(x))
        scale, point = made.quantization.scales[0], made.quantization.zero_points[0]
        assert abs((int(table.entries[code + 128]) - point) * scale - true) <= scale / 2


def _verified(before, content, tables):
    names = tuple(name for table in tables for name in (table.source, table.result))
    observed = observe_here(content, (np.linspace(-6, 6, 256)[None],), names, codes=True)
    return verify(read(before), ends(content), tables, observed)


def test_a_right_lowering_is_verified(softplus):
    assert _verified(softplus, *lowered_file(softplus)) == ()


def test_a_wrong_entry_in_the_file_is_found(softplus):
    content, (table,) = lowered_file(softplus)
    entries = table.entries.copy()
    entries[200] += 1
    broken = content.replace(table.entries.tobytes(), entries.tobytes())
    assert broken != content
    assert any("differs from its table in" in line for line in _verified(softplus, broken, (table,)))


def test_a_wrong_entry_in_the_record_is_found(softplus):
    content, (table,) = lowered_file(softplus)
    entries = table.entries.copy()
    entries[200] += 1
    wrong = _verified(softplus, content, (dataclasses.replace(table, entries=entries),))
    assert any("is not that of the chain" in line for line in wrong)


def test_changed_ends_are_found(softplus):
    """The planted fault: another name of the output."""
    content, tables = lowered_file(softplus)
    editor = Editor(content)
    (end,) = editor.graph.main.outputs
    editor.rename(end, "other")
    renamed = ends(editor.bytes())
    names = tuple(name for table in tables for name in (table.source, table.result))
    observed = observe_here(content, (np.linspace(-6, 6, 256)[None],), names, codes=True)
    assert any("inputs and outputs were" in line for line in verify(read(softplus), renamed, tables, observed))


def test_declined_chains_stay(softplus):
    editor = Editor(softplus)
    assert lower(editor, lambda names: False) == ()
    assert editor.bytes() == softplus


def test_equal_tables_are_shared():
    import keras

    from sqp_tflite.source.convert import convert_graph
    from sqp_tflite.source.load import load
    from sqp_tflite.source.plan import plan
    from sqp_tflite.source.trace import trace

    i = keras.Input((5,), name="x")
    squareplus, bound = keras.activations.squareplus, keras.layers.Rescaling(1.0)
    outputs = [keras.layers.Activation(squareplus, name=name)(bound(i) if name == "c" else i) for name in "ab"]
    traced = trace(plan(load(keras.Model(i, [*outputs, keras.layers.Activation("softplus", name="c")(i)]))))
    content = with_own_names(convert_graph(traced.graph_def, ("x",), traced.outputs))
    ranges = {tensor.name: (-4.0, 4.5) for tensor in read(content).main.tensors}
    made = quantize_here(content, Request(Combination("int8", "table"), forms=traced.forms), ranges).content
    content, tables = lowered_file(made)
    ops = [op.name for op in read(content).main.ops]
    assert len(tables) >= 2
    # One index for all of a source's tables, one constant for equal tables.
    assert ops.count("CAST") == 1
    distinct = {table.entries.tobytes() for table in tables}
    held = [t for t in read(content).main.tensors if t.name.startswith("sqp.table")]
    assert len(held) == len(distinct) == 2


def test_a_constant_per_channel_gets_a_table_per_channel():
    import keras

    import sqp_keras
    from sqp_tflite.run.interpreters import run
    from sqp_tflite.source.convert import convert_graph
    from sqp_tflite.source.load import load
    from sqp_tflite.source.plan import plan
    from sqp_tflite.source.trace import trace

    keras.utils.set_random_seed(0)
    act = sqp_keras.Squareplus(b=4.0, learn_b="channel", name="act")
    i = keras.Input((3, 4), name="x")
    model = keras.Model(i, act(i))
    act.set_weights([np.array([0.5, 2.0, 8.0, 32.0])])
    x = np.random.default_rng(0).uniform(-6, 6, (20, 3, 4)).astype(np.float32)
    expected = np.asarray(model(x))
    traced = trace(plan(load(model)))
    content = with_own_names(convert_graph(traced.graph_def, ("x",), traced.outputs))
    ranges = {tensor.name: (-6.0, 6.0) for tensor in read(content).main.tensors}
    ranges[traced.outputs[0]] = 0.0, float(expected.max())
    request = Request(Combination("int8", "table"), forms=traced.forms)
    content, tables = lowered_file(quantize_here(content, request, ranges).content)
    assert tables[0].entries.shape == (4 * 256,)
    (made,) = read(content).outputs
    for runtime in ("litert", "tflite-runtime", "tflm"):
        found = run(runtime, content, (x,)).values[0]
        # Half a step of the input, whose slope is at most 1, and half a step of the output.
        assert np.abs(found - expected).max() <= 0.5 * (12 / 255 + made.quantization.scales[0]) * 1.001

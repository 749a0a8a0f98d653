"""Sums of roots in finished float files: right on the interpreters, in the shortest form, named as activations."""

import numpy as np
import pytest

from spellings import SPELLINGS, Speller, truth
from sqp_keras.family import coefficients
from sqp_tflite.finished.exchange import curved
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.functions import activations
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.softmaxes import softmaxes
from sqp_tflite.flatbuffer.sums import Bend, can_halve, replace
from sqp_tflite.layer_names import in_scope
from sqp_tflite.ops.policy import ADMITTED
from sqp_tflite.run.interpreters import run, run_here
from written import Written

X = np.linspace(-9.0, 9.0, 40).astype(np.float32).reshape(-1, 1, 4)


def exchanged(content, bound=1e-3):
    """The file with a sum in the place of each activation."""
    editor = Editor(content)
    found = activations(editor.graph.main, curved)
    assert found
    replace(
        editor,
        {
            one: Bend(one.known.parameter)
            if one.known.name == "squareplus"
            else coefficients.find(
                one.known.name,
                coefficients.enough(one.known.name, bound, one.known.parameter),
                one.known.parameter,
            )
            for one in found
        },
    )
    return editor.bytes()


@pytest.mark.parametrize(("name", "who"), SPELLINGS, ids=[" of ".join(one) for one in SPELLINGS])
def test_every_spelling_becomes_a_sum_that_agrees(name, who):
    speller = Speller()
    result = SPELLINGS[name, who](speller, speller.x)
    content = exchanged(speller.model.ends([speller.x], [result]))
    ops = [op.name for op in read(content).main.ops]
    assert set(ops) <= ADMITTED - {"DIV", "SELECT_V2"}
    made = run_here("litert", content, (X[:, 0],)).values[0]
    bound = 2e-5 if name.startswith("squareplus") else 2.2e-3 if "elu" in name else 1.1e-3
    assert np.abs(made - truth(name, X[:, 0].astype(np.float64))).max() <= bound


def test_squareplus_has_five_operators_without_a_layer_in_front():
    speller = Speller()
    y = SPELLINGS["squareplus 0.5", "stable"](speller, speller.x)
    content = exchanged(speller.model.ends([speller.x], [y]))
    assert [op.name for op in read(content).main.ops] == ["MUL", "MUL", "ADD", "SQRT", "ADD"]


def dense(shared=False, fused="NONE", read_twice=False):
    """A dense layer and squareplus as PyTorch spells it."""
    generator, speller = np.random.default_rng(0), Speller()
    model = speller.model
    kernel = model.constant(generator.normal(size=(4, 4)), "kernel")
    bias = model.constant(generator.normal(size=4), "bias")
    options = {"table": "FullyConnectedOptions", "fusedActivationFunction": fused}
    inner = model.op("FULLY_CONNECTED", speller.x, kernel, bias, name="hidden", **options)
    y = SPELLINGS["squareplus 4", "PyTorch"](speller, inner)
    ends = [y]
    if shared:
        ends.append(model.op("FULLY_CONNECTED", speller.x, kernel, bias, table="FullyConnectedOptions"))
    if read_twice:
        ends.append(model.op("NEG", inner))
    return model.ends([speller.x], ends)


def test_the_half_goes_into_the_layer_in_front():
    before = dense()
    after = exchanged(before)
    assert [op.name for op in read(after).main.ops] == ["FULLY_CONNECTED", "MUL", "ADD", "SQRT", "ADD"]
    given, made = (run_here("litert", one, (X[:, 0],)).values[0] for one in (before, after))
    assert np.allclose(given, made, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", [{"shared": True}, {"fused": "RELU"}, {"read_twice": True}])
def test_the_half_stays_where_something_else_needs_the_layer(how):
    before = dense(**how)
    graph = read(before).main
    (found,) = activations(graph, curved)
    assert not can_halve(graph, found.chain)
    after = exchanged(before)
    given, made = (run_here("litert", one, (X[:, 0],)).values for one in (before, after))
    assert all(np.allclose(one, other, rtol=1e-5, atol=1e-5) for one, other in zip(given, made, strict=True))


@pytest.mark.parametrize("runtime", ["litert", "tflm", "tflite-runtime"])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_softmax_becomes_a_sum_on_every_interpreter(runtime, beta):
    pytest.importorskip({"litert": "ai_edge_litert", "tflm": "tflite_micro"}.get(runtime, "tflite_runtime"))
    model = Written()
    x = model.value(1, 10, name="x")
    y = model.op("SOFTMAX", x, shape=(1, 10), table="SoftmaxOptions", beta=beta)
    before = model.ends([x], [y])
    editor = Editor(before)
    made = replace(editor, {}, tuple(softmaxes(read(before).main).values()))
    assert "EXP" not in made[y]
    values = np.random.default_rng(0).normal(0, 6, (50, 10)).astype(np.float32)
    got = run(runtime, editor.bytes(), (values,)).values[0]
    power = np.exp(beta * (values - values.max(-1, keepdims=True)))
    assert np.abs(got - power / power.sum(-1, keepdims=True)).max() < 5e-4
    assert np.allclose(got.sum(-1), 1.0, atol=1e-5)


def test_tensors_of_a_sum_are_named_as_an_activation_form():
    speller = Speller()
    inner = SPELLINGS["silu", "JAX"](speller, speller.x)
    content = exchanged(speller.model.ends([speller.x], [speller.model.op("NEG", inner)]))
    main = read(content).main
    assert all(in_scope(main.tensors[op.outputs[0]].name) for op in main.ops[:-1])


def test_clips_are_part_of_the_last_addition():
    speller = Speller()
    content = exchanged(speller.model.ends([speller.x], [speller("TANH", speller.x)]))
    last = read(content).main.ops[-1]
    assert (last.name, last.fused) == ("ADD", "RELU_N1_TO_1")

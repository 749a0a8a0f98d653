"""Functions of one tensor in finished files: where they begin and end, and which activation they are."""

import numpy as np
import pytest

from spellings import SPELLINGS, Speller, truth
from sqp_tflite.finished.exchange import curved
from sqp_tflite.flatbuffer.chains import Walker
from sqp_tflite.flatbuffer.functions import activations, between, roots
from sqp_tflite.flatbuffer.read import read

X = np.linspace(-15.0, 15.0, 601)


def spelled(name, who):
    """The graph of an activation, and the index of its result."""
    speller = Speller()
    result = SPELLINGS[name, who](speller, speller.x)
    return read(speller.model.ends([speller.x], [result])).main, result


@pytest.mark.parametrize(("name", "who"), SPELLINGS, ids=[" of ".join(one) for one in SPELLINGS])
def test_an_activation_is_known_by_its_values_however_it_is_spelled(name, who):
    graph, result = spelled(name, who)
    (found,) = activations(graph, curved)
    word, _, parameter = name.partition(" ")
    assert (found.chain.source, found.chain.result) == (0, result)
    assert found.known.name == word
    assert found.known.parameter == pytest.approx(float(parameter or 1.0), rel=1e-4)
    assert np.allclose(Walker(graph).evaluate(found.chain, X[:, None])[:, 0], truth(name, X), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("change", [1.001, 0.98])
def test_what_is_nearly_an_activation_is_none(change):
    """The planted fault: softplus(x) with another number in it."""
    speller = Speller()
    y = speller("LOG", speller("ADD", speller("EXP", speller.x), change))
    assert activations(read(speller.model.ends([speller.x], [y])).main, curved) == ()


def test_the_longest_function_wins_and_its_parts_are_not_counted_again():
    graph, _ = spelled("mish", "TensorFlow")
    (found,) = activations(graph, curved)
    assert [graph.ops[place].name for place in found.chain.ops] == ["EXP", "ADD", "LOG", "TANH", "MUL"]


def test_a_scale_in_front_and_behind_belongs_to_no_activation():
    speller = Speller()
    inner = speller("MUL", speller.x, 1.7)
    y = speller("MUL", speller("LOGISTIC", inner), 3.0)
    (found,) = activations(read(speller.model.ends([speller.x], [y])).main, curved)
    assert (found.known.name, found.chain.source, len(found.chain.ops)) == ("sigmoid", inner, 1)


def test_two_activations_of_one_tensor_are_two():
    speller = Speller()
    ends = [speller("TANH", speller.x), speller("LOGISTIC", speller.x)]
    found = activations(read(speller.model.ends([speller.x], ends)).main, curved)
    assert {one.known.name for one in found} == {"tanh", "sigmoid"}


def test_a_constant_per_channel_ends_a_function():
    speller = Speller()
    scaled = speller.model.op("MUL", speller.x, speller.model.constant([1, 2, 3, 4]), table="MulOptions")
    y = speller("TANH", scaled)
    graph = read(speller.model.ends([speller.x], [y])).main
    assert roots(graph) == {y: scaled}


def test_a_function_of_two_tensors_is_none():
    speller = Speller()
    other = speller.model.value(name="other")
    y = speller("MUL", speller.x, speller("LOGISTIC", other))
    graph = read(speller.model.ends([speller.x, other], [y])).main
    assert y not in roots(graph)
    assert between(graph, graph.makers(), speller.x, y) is None


def test_equal_spellings_are_computed_once(monkeypatch):
    from sqp_tflite.flatbuffer import functions

    speller, calls, own = Speller(), [], functions.known
    y = SPELLINGS["softplus", "TensorFlow"](speller, speller.x)
    for _ in range(3):
        y = SPELLINGS["softplus", "TensorFlow"](speller, speller.model.op("RELU", speller.model.op("RESHAPE", y)))
    monkeypatch.setattr(functions, "known", lambda walker, chain: calls.append(chain) or own(walker, chain))
    found = activations(read(speller.model.ends([speller.x], [y])).main, curved)
    assert len(found) == 4
    assert len(calls) <= 6

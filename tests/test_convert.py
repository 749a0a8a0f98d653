"""The converter's file has Keras's names and order; what it refuses is told in words of the model."""

import keras
import pytest
import tensorflow as tf

from models import two_in_two_out
from sqp_tflite.errors import CrashedError, RefusedError
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.source.convert import convert, convert_graph
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.trace import Traced, trace
from sqp_tflite.worker import ChildError

L = keras.layers


class Refusing:
    """A child whose converter says what a test gives it to say."""

    def __init__(self, words: str):
        self.words = words

    def call(self, function: str, *arguments: object) -> bytes:
        raise ChildError("ConverterError", self.words)


class Inverse(L.Layer):
    """An operation that TFLite does not have."""

    def call(self, x):
        return tf.math.erfinv(x)


@pytest.fixture(scope="module")
def unconvertible() -> Traced:
    return trace(plan(load(keras.Sequential([keras.Input((4,)), Inverse(name="inverse")]))))


def test_inputs_and_outputs_have_keras_order_and_names():
    traced = trace(plan(load(two_in_two_out())))
    graph = read(convert_graph(traced.graph_def, tuple(spec.name for spec in traced.inputs), traced.outputs))
    assert [tensor.name for tensor in graph.inputs] == ["z_in", "a_in"]
    assert [tensor.name for tensor in graph.outputs] == ["z_out", "a_out"]


@pytest.mark.parametrize(
    "words",
    [
        "<unknown>:0: error: 'tf.Erfinv' op is neither a custom op nor a flex op",
        "Some ops in the model are custom ops.\nCustom ops: Erfinv\nDetails: ...",
        "Some ops are not supported by the native TFLite runtime.\nFlex ops: Erfinv, Betainc",
    ],
)
def test_known_words_become_a_finding_with_its_layer(unconvertible, words):
    with pytest.raises(RefusedError, match="no TFLite counterpart") as caught:
        convert(unconvertible, Refusing(words))
    (finding,) = caught.value.findings
    assert (finding.layer, finding.op) == ("inverse", "Erfinv")


def test_other_words_still_lead_to_the_layer(unconvertible):
    """The planted change: a converter that words its refusal in a way that nobody has seen."""
    with pytest.raises(CrashedError, match=r"Received: Cannot lower \(Erfinv\).*names `Erfinv` in `inverse`.*--debug"):
        convert(unconvertible, Refusing("Cannot lower (Erfinv) at Identity"))


@pytest.mark.parametrize(("words", "first"), [("Out of luck.\nmore", "Out of luck"), ("", "no message")])
def test_words_without_an_operation_are_quoted(unconvertible, words, first):
    with pytest.raises(CrashedError, match=f"Received: {first}") as caught:
        convert(unconvertible, Refusing(words))
    assert "names" not in str(caught.value)

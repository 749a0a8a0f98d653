"""What a layer raises reaches the user as its name and its reason, on one line."""

import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.report import Finding, Kind
from sqp_tflite.source import keras_errors
from sqp_tflite.source.load import load
from sqp_tflite.wording import LONGEST_SAID, said

L = keras.layers


class Raising(L.Layer):
    """A layer that raises an error as soon as it gets numbers."""

    def __init__(self, error, **keywords):
        super().__init__(**keywords)
        self.error = error

    def call(self, x):
        raise self.error

    def compute_output_shape(self, shape):
        return shape


def run(*layers, shape=(4,)):
    model = keras.Sequential([keras.Input(shape), *layers], name="net")
    return load(model).call([np.zeros((1, *shape), np.float32)])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("first line\n  second line"), r"`odd` \(Raising\): first line second line. Call the model"),
        (KeyError("scale"), r"`odd` \(Raising\): KeyError: 'scale'. Call"),
        (ValueError(), r"`odd` \(Raising\): ValueError. Call"),
        (RecursionError("maximum depth"), r"`odd` \(Raising\): nested deeper than Python can follow"),
        (MemoryError("for 1e12 numbers"), r"out of memory \(for 1e12 numbers\). Use fewer or smaller samples"),
        (ValueError("x" * 5000), r"x \.\.\. x+\. Call"),
    ],
)
def test_the_layer_and_its_reason_are_one_line(error, words):
    with pytest.raises(BadInputError, match=words) as caught:
        run(L.Dense(3), Raising(error, name="odd"))
    text = str(caught.value)
    assert text.startswith("Keras must be able to run `net`") and len(text.splitlines()) == 1 and len(text) < 600
    assert caught.value.__cause__ is error


def test_a_refusal_from_inside_a_layer_stays_a_refusal():
    refused = RefusedError("Said inside.", (Finding("a", "", "", "Rule.", "Remedy.", Kind.OP),))
    with pytest.raises(RefusedError, match="Said inside"):
        run(Raising(refused))


def test_keras_shortens_its_tracebacks_again_afterwards():
    assert keras.config.is_traceback_filtering_enabled()
    with keras_errors.whole_tracebacks():
        assert not keras.config.is_traceback_filtering_enabled()
    assert keras.config.is_traceback_filtering_enabled()


@pytest.mark.parametrize("layer", [L.RandomFlip, L.RandomZoom])
def test_a_layer_for_images_on_a_vector_is_named_and_taking_it_out_helps(layer, tmp_path, command):
    kept = [L.Dense(2, name="out")]
    odd = layer(0.1, name="odd") if layer is L.RandomZoom else layer(name="odd")
    model = keras.Sequential([keras.Input((4,)), odd, *kept], name="net")
    model.save(tmp_path / "net.keras")
    ran = command("sqp-export", tmp_path / "net.keras", "--target", "litert")
    assert ran.code == 2 and len(ran.err.splitlines()) == 1
    assert f"`odd` ({layer.__name__}): " in ran.err and "take it out" in ran.err
    assert sqp_tflite.export(keras.Sequential([keras.Input((4,)), *kept]), target="litert").report.verdict == "ok"


class Returning(keras.Model):
    """A model whose call returns something that is no tensor."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def call(self, x):
        return self.value


@pytest.mark.parametrize(("value", "kind"), [(None, "NoneType"), ("text", "str")])
def test_what_is_no_tensor_is_named(value, kind):
    model = Returning(value)
    model(np.zeros((1, 4), np.float32))
    with pytest.raises(BadInputError, match=f"it returned {kind} where a tensor is expected"):
        load(model).call([np.zeros((1, 4), np.float32)])


@pytest.mark.parametrize("replace", [None, "accurate"])
def test_a_layer_that_cannot_run_is_named_whatever_is_asked(replace):
    model = keras.Sequential([keras.Input((6,), name="x"), L.Dense(3, activation="glu", name="odd"), L.Dense(2)])
    words = r"must be able to run .*`odd` \(Dense\): axis size must be divisible by 2.*repair that layer"
    with pytest.raises(BadInputError, match=words):
        sqp_tflite.export(model, replace=replace, data=np.zeros((8, 6), "float32"))


def test_messages_are_shortened_without_colours():
    assert said("\x1b[1mOne\x1b[0m\n\n two.  {{function_node __wrapped__Add}} three.") == "One two. three"
    assert len(said("x" * 5000)) < LONGEST_SAID + 10

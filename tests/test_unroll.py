"""Recurrent layers are written out for a fixed number of steps, or refused with the reason; nothing crashes."""

import keras
import numpy as np
import pytest

from sqp_tflite.errors import RefusedError
from sqp_tflite.pipeline import export
from sqp_tflite.run.interpreters import run
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.trace import trace
from sqp_tflite.source.unroll import MOST_STEPS

L = keras.layers
GATES = {"activation": "squareplus", "recurrent_activation": "hard_sigmoid"}


def model(*layers, steps=4):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((steps, 3), name="x"), *layers, L.Flatten(), L.Dense(2)])


def data(steps=4):
    return {"x": np.random.default_rng(0).normal(size=(40, steps, 3)).astype(np.float32)}


@pytest.mark.parametrize(
    ("layer", "quantize", "lowering"),
    [
        (lambda: L.LSTM(5, **GATES), "float32", "algebraic"),
        pytest.param(lambda: L.LSTM(5, **GATES), "int8", "algebraic", marks=pytest.mark.large),
        (lambda: L.GRU(5, reset_after=False, **GATES), "int8", "table"),
        (lambda: L.SimpleRNN(5, activation="squareplus"), "int16x8", "integer"),
        (lambda: L.Bidirectional(L.GRU(4, return_sequences=True, **GATES)), "int8", "integer"),
        # Gates with exp in them have a table in an int8 model.
        (lambda: L.LSTM(5), "int8", "table"),
    ],
)
def test_a_fixed_number_of_steps_is_written_out(layer, quantize, lowering):
    built = model(layer())
    before = [rnn.unroll for rnn in built._flatten_layers() if isinstance(rnn, L.RNN)]
    report = export(built, data=data(), quantize=quantize, lowering=lowering).report
    assert report.verdict == "ok"
    assert "WHILE" not in {row.op for row in report.ops}
    for note in (notes := [note for note in report.notes if "is written out for its 4 time steps" in note]):
        assert "operators" in note and f"an arena of {report.memory.arena_bytes:,} bytes" in note
        # A layer that runs backwards has no step.
        assert ("--step" in note) == (len(notes) == 1)
    assert notes
    after = [rnn.unroll for rnn in built._flatten_layers() if isinstance(rnn, L.RNN)]
    assert before == after


def test_gates_with_exp_are_refused_with_the_way_out():
    with pytest.raises(RefusedError, match="TANH") as refusal:
        export(model(L.LSTM(2), steps=1), data=data(steps=1), quantize="int8", lowering="algebraic")
    assert any("--lowering table" in finding.remedy for finding in refusal.value.findings)


def test_too_many_steps_are_refused():
    built = model(L.LSTM(2, **GATES), steps=MOST_STEPS + 1)
    with pytest.raises(
        RefusedError, match=f"at most {MOST_STEPS} of them.*Received: LSTM, {MOST_STEPS + 1} time steps"
    ):
        trace(plan(load(built)))
    assert "call" not in vars(built.layers[0])


def test_open_time_steps_inside_the_model_are_refused():
    keras.utils.set_random_seed(0)
    i = keras.Input((4, 3), name="x")

    class Cut(L.Layer):
        def call(self, x):
            import tensorflow as tf

            # As many rows as there are positive numbers: unknown before it runs.
            return tf.boolean_mask(x[0], x[0, :, 0] > 0)[None]

        def compute_output_shape(self, shape):
            return (shape[0], None, shape[2])

    built = keras.Model(i, L.Dense(2)(L.SimpleRNN(3, activation="squareplus", name="rnn")(Cut()(i))))
    with pytest.raises(RefusedError, match="`rnn`.*time dimension must be fixed.*an open number.*keras.Input"):
        trace(plan(load(built)))


class Around(L.LSTM):
    def call(self, sequences, initial_state=None, mask=None, training=False):
        return 2.0 * super().call(keras.ops.flip(sequences, 1), initial_state, mask, training) + 1.0


class Pooled(L.GRU):
    def call(self, sequences, initial_state=None, mask=None, training=False):
        return super().call(sequences[:, ::2], initial_state, mask, training)


class WithOwnLoop(L.LSTM):
    def call(self, sequences, initial_state=None, mask=None, training=False):
        states = self.get_initial_state(1)
        for step in range(sequences.shape[1]):
            last, states = self.cell(sequences[:, step] * (step + 1.0), states)
        return last


class Scaled(L.GRU):
    def inner_loop(self, sequences, initial_state, mask, training=False):
        return super().inner_loop(3.0 * sequences, initial_state, mask, training)


@keras.saving.register_keras_serializable(package="mine", name="LSTM")
class SameName(L.LSTM):
    def call(self, sequences, initial_state=None, mask=None, training=False):
        return super().call(sequences, initial_state, mask, training) - 0.5


@pytest.mark.parametrize("kind", [Around, Pooled, WithOwnLoop, Scaled, SameName])
def test_what_a_subclass_does_in_its_call_is_in_the_file(kind, tmp_path):
    """Beside a layer of Keras's own class, which has other weights."""
    keras.utils.set_random_seed(0)
    x = keras.Input((4, 3), name="x")
    built = keras.Model(x, L.Concatenate()([kind(2, **GATES, name="own")(x), L.LSTM(2, **GATES)(x)]))
    source = built
    if kind is SameName:
        built.save(source := tmp_path / "model.keras")
    done = export(source, data=data())
    assert done.report.verdict == "ok"
    plain = kind.__base__(2, **GATES)
    plain.build((None, 4, 3))
    plain.set_weights(built.get_layer("own").get_weights())
    wanted = built.predict(data()["x"], verbose=0)
    (made,) = run("litert", done.model_bytes, (data()["x"],)).values
    # The sums of a dozen products in float32, four steps deep.
    np.testing.assert_allclose(made, wanted, atol=1e-5)
    assert np.abs(plain(data()["x"]) - wanted[:, :2]).max() > 0.01

"""One time step of a model of sequences: what becomes a state, what is refused, and that it gives what Keras gives."""

import dataclasses
import re

import keras
import numpy as np
import pytest

import tools.sequences
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.parity import check
from sqp_tflite.pipeline import export
from sqp_tflite.run.by_step import by_step, require_same
from sqp_tflite.run.interpreters import decode, encode, open_here
from sqp_tflite.source.load import load
from sqp_tflite.source.samples import samples
from sqp_tflite.source.step.lengths import for_sequences
from sqp_tflite.source.step.step import stepped

L = keras.layers
T, F = 12, 3
GATES = {"activation": "squareplus", "recurrent_activation": "hard_sigmoid"}


def sequential(*layers, shape=(T, F)):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input(shape, name="x"), *layers])


def functional(build, shape=(T, F), dtype="float32"):
    keras.utils.set_random_seed(0)
    x = keras.Input(shape, dtype=dtype, name="x")
    return keras.Model(x, build(x))


def residual(x):
    y = L.LSTM(4, return_sequences=True, name="low")(x)
    z = L.Multiply()([L.Dense(4)(L.Concatenate()([y, x])), keras.ops.tanh(y)])
    low = [np.full((1, 2), 0.3, "float32"), np.full((1, 2), -0.3, "float32")]
    last, _, carry = L.LSTM(2, return_state=True, name="high")(z, initial_state=low)
    return [(z + y)[:, -1], L.Dense(1)(z), last, carry]


def shared(x):
    layer = L.GRU(F, return_sequences=True, name="twice")
    return layer(layer(x))


NESTED = keras.Sequential([keras.Input((T, F)), L.Dense(4, activation="relu"), L.GRU(2, name="inner")], name="nested")
VALID = [L.Conv1D(4, 3, name="one"), L.Cropping1D((1, 0)), L.SeparableConv1D(5, 2, dilation_rate=3, name="two")]

STEPPED = {
    "LSTM": (lambda: sequential(L.LSTM(4, name="lstm")), "lstm/h lstm/c", 0),
    "stacked": (
        lambda: sequential(
            L.GRU(4, return_sequences=True, reset_after=False, name="one"),
            L.Dropout(0.3),
            L.LayerNormalization(),
            L.BatchNormalization(),
            L.TimeDistributed(L.Dense(3, activation="relu")),
            L.SimpleRNN(3, return_sequences=True, name="two"),
            L.GRU(2, name="three"),
            L.Dense(2),
        ),
        "one/h two/h three/h",
        0,
    ),
    "cells": (
        lambda: sequential(L.RNN([L.LSTMCell(3), L.GRUCell(2)], return_sequences=True, name="rnn")),
        "rnn/0/h rnn/0/c rnn/1/h",
        0,
    ),
    "residual, initial states": (lambda: functional(residual), "low/h low/c high/h high/c", 0),
    "called twice": (lambda: functional(shared), "twice/h twice_1/h", 0),
    "nested": (lambda: functional(lambda x: NESTED(x)), "nested/inner/h", 0),
    "stateful": (
        lambda: keras.Sequential([keras.Input(batch_shape=(1, T, F)), L.LSTM(3, stateful=True, name="lstm")]),
        "lstm/h lstm/c",
        0,
    ),
    "dilated": (
        lambda: sequential(
            L.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="relu", name="one"),
            L.PReLU(shared_axes=[1]),
            L.DepthwiseConv1D(2, padding="valid", name="two"),
        ),
        "one/past two/past",
        1,
    ),
    "valid": (lambda: sequential(*VALID), "one/past two/past", 6),
    "padded": (lambda: sequential(L.ZeroPadding1D((2, 0)), L.Conv1D(4, 3, groups=1, name="c")), "c/past", 0),
    "flattened": (
        lambda: sequential(L.LSTM(2, return_sequences=True, name="a"), L.Flatten(name="b")),
        "a/h a/c b/past",
        11,
    ),
    "words": (lambda: functional(lambda x: L.GRU(2, name="g")(L.Embedding(5, 4)(x)), (T,), "int32"), "g/h", 0),
    "numbers": (lambda: functional(lambda x: L.GRU(2, name="g")(L.Reshape((T, 1))(x)), (T,)), "g/h", 0),
    "frames": (
        lambda: functional(lambda x: L.GRU(2, name="g")(L.TimeDistributed(L.Flatten())(x)), (T, 2, 2)),
        "g/h",
        0,
    ),
}


def inputs_of(loaded, count=5):
    rng = np.random.default_rng(1)
    (spec,) = loaded.inputs
    return (
        rng.integers(0, 5, (count, *spec.shape)).astype(spec.dtype)
        if "int" in spec.dtype
        else rng.normal(size=(count, *spec.shape)).astype("float32")
    )


@pytest.mark.parametrize("name", STEPPED)
def test_a_step_gives_what_the_model_gives_for_sequences(name):
    build, states, late = STEPPED[name]
    loaded = for_sequences(load(build()), 0)
    step = stepped(loaded)
    assert [state.name for state in step.states] == states.split()
    assert max(step.late) == late
    x = inputs_of(loaded)
    wanted, found = loaded.call([x]), by_step(step, (x,))
    assert list(wanted) == list(found) == list(step.outputs)
    for place, (key, value) in enumerate(wanted.items()):
        ours = found[key][:, step.late[place] :] if step.sequences[place] else found[key][:, -1]
        np.testing.assert_allclose(ours, value, rtol=0, atol=1e-5)  # Sums of float32 in another order.


REFUSED = {
    "Bidirectional": (L.Bidirectional(L.LSTM(2)), "runs backwards too.*forward layer only"),
    "backwards": (L.LSTM(2, go_backwards=True), "goes backwards.*go_backwards=False"),
    "pooling": (L.GlobalAveragePooling1D(), "gathers many steps into one.*return_sequences=False"),
    "same": (L.Conv1D(2, 3, padding="same"), "padding='same'.*padding='causal'"),
    "strides": (L.Conv1D(2, 3, strides=2), "strides=2.*strides=1"),
    "Permute": (L.Permute((2, 1)), "mixes time steps with features"),
    "Reshape": (L.Reshape((6, 6)), "mixes time steps with features"),
    "PReLU": (L.PReLU(), r"weights for each time step.*shared_axes=\[1\]"),
    "softmax over time": (L.Softmax(axis=1), "gives another result for a step alone"),
}


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_steps_is_refused_with_the_reason_and_the_way_out(name):
    layer, words = REFUSED[name]
    with pytest.raises(RefusedError, match=words) as refusal:
        stepped(load(sequential(L.GRU(3, return_sequences=True), layer)))
    assert refusal.value.findings[0].remedy


def test_attention_over_time_and_other_meetings_are_refused():
    with pytest.raises(RefusedError, match="compares all steps with each other"):
        stepped(load(functional(lambda x: L.GRU(2)(L.MultiHeadAttention(2, 2)(x, x)))))
    with pytest.raises(RefusedError, match="padding='valid' that has no result for the first ones.*'causal'"):
        stepped(load(sequential(L.Conv1D(3, 3), L.LSTM(2))))
    x, h = keras.Input((T, F), name="x"), keras.Input((T, 4), name="h")
    with pytest.raises(RefusedError, match="takes its initial state from a tensor.*constants"):
        stepped(load(keras.Model([x, h], L.GRU(4)(x, initial_state=L.GRU(4)(h)))))


def test_a_model_without_known_calls_and_other_inputs_are_refused():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.lstm = L.LSTM(2)

        def call(self, x):
            return self.lstm(x)

    own = Own()
    own(np.zeros((1, T, F), "float32"))
    with pytest.raises(BadInputError, match="Sequential or functional"):
        stepped(load(own))
    with pytest.raises(BadInputError, match="has neither. Export it without --step"):
        stepped(load(sequential(L.Dense(2))))
    x, h = keras.Input((T, F)), keras.Input((4,))
    with pytest.raises(BadInputError, match="of one length for all"):
        stepped(load(keras.Model([x, h], L.GRU(4)(x, initial_state=h))))


def test_a_step_that_forgets_is_found():
    """The planted fault: a step whose state stays as it was."""
    loaded = load(sequential(L.LSTM(4, name="lstm")))
    step, data = stepped(loaded), samples({"x": inputs_of(loaded)}, loaded.inputs)
    require_same(step, loaded, data)

    def forgets(tensors):
        outputs = step.loaded.call(tensors)
        return {**outputs, "lstm/c": tensors[-1]}

    broken = dataclasses.replace(step, loaded=dataclasses.replace(step.loaded, call=forgets))
    with pytest.raises(RefusedError, match="off by .* when the model is run step by step"):
        require_same(broken, loaded, data)


def test_a_model_is_made_for_the_length_of_the_data_or_says_why_not():
    loaded = for_sequences(load(sequential(L.LSTM(2, return_sequences=True), shape=(1, F))), 20)
    assert loaded.inputs[0].shape == (20, F)
    fixed = sequential(L.LSTM(2, return_sequences=True), L.Flatten(), L.Dense(1))
    with pytest.raises(BadInputError, match="Received: 20 steps.*which takes 12"):
        for_sequences(load(fixed), 20)


MASKED = {
    "Masking": (lambda: sequential(L.Masking(name="mask"), L.LSTM(4, name="lstm", **GATES), L.Dense(2)), 0.0),
    "Embedding": (
        lambda: functional(
            lambda x: L.GRU(4, return_sequences=True, name="gru", **GATES)(
                L.Embedding(5, 3, mask_zero=True, name="mask")(x)
            ),
            (T,),
            "int32",
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_steps_are_refused_and_left_out_on_the_device(name):
    build, masked = MASKED[name]
    model = build()
    loaded = load(model)
    x = np.maximum(inputs_of(loaded), 1) if name == "Embedding" else inputs_of(loaded)
    gap = x.copy()
    gap[0, 3:5] = masked
    words = r"`mask` masks steps of 1 of the 5 samples"
    with pytest.raises(RefusedError) as refusal:
        export(model, step=True, data={"x": gap}, dry_run=True)
    (finding,) = refusal.value.findings
    assert re.search(words, finding.rule) and "full sequences only" in finding.remedy
    # What it says to do: pass full sequences, and do not call the file for a masked step.
    made = export(model, step=True, data={"x": x})
    assert any("Keras masks steps in `mask`" in note and "leave out the call" in note for note in made.report.notes)
    with pytest.raises(RefusedError):
        check(model, made.model_bytes, {"x": gap})
    kept = np.delete(gap[0], [3, 4], axis=0)
    wanted = np.asarray(model(gap[:1]))[0]
    found = fed_bytes("litert", made.model_bytes, made.report, kept)
    np.testing.assert_allclose(found[-1], wanted[-1] if wanted.ndim > 1 else wanted, rtol=0, atol=1e-5)


def test_made_up_sequences_have_no_masked_step():
    for build, _ in MASKED.values():
        assert export(build(), step=True).report.verdict == "ok"


@pytest.fixture(scope="module")
def net():
    """A small model with every kind of state, and sequences for it."""
    keras.utils.set_random_seed(2)
    x = keras.Input((16, F), name="x")
    y = L.Conv1D(4, 2, padding="causal", dilation_rate=2, activation="squareplus", name="conv")(x)
    y = L.Concatenate()([L.GRU(4, return_sequences=True, name="gru", **GATES)(y), y])
    model = keras.Model(x, L.Dense(3, name="out")(L.LSTM(5, name="lstm", **GATES)(y)))
    xs = np.random.default_rng(3).uniform(-1, 1, (24, 16, F)).astype(np.float32)
    return model, {"x": xs}


@pytest.fixture(scope="module")
def exported(net):
    model, data = net
    return export(model, step=True, data=data)


def test_a_float_file_follows_keras_on_every_runtime_without_drift(exported):
    report = exported.report
    assert {row.runtime for row in report.agreement} >= {"litert", "tflm"}
    for row in report.agreement:
        assert row.status == "ok" and row.error_of_range < 1e-4
        assert [step for step, _ in row.drift] == [1, 4, 8, 16, 64]
        assert max(error for _, error in row.drift) < 1e-3
    names = ["conv/past", "gru/h", "lstm/h", "lstm/c"]
    assert [row.name for row in report.inputs] == ["x", *names]
    assert [row.name for row in report.outputs] == ["out", *names]
    assert [(pair.output, pair.input) for pair in report.states] == [(name, name) for name in names]
    assert any("is at every step what the model gives for the sequence up to that step" in n for n in report.notes)


def test_a_check_runs_the_file_over_whole_sequences(net, exported):
    model, data = net
    rows = check(model, exported.model_bytes, data)
    assert {row.status for row in rows} <= {"ok", "not checked"}
    assert all(row.samples == 24 and row.drift for row in rows if row.status == "ok")
    other = keras.models.clone_model(model)  # The planted fault: other weights.
    assert "differs" in {row.status for row in check(other, exported.model_bytes, data)}


def test_options_that_contradict_a_step_are_refused(tmp_path, command):
    sequential(L.LSTM(2)).save(tmp_path / "m.keras")
    call = ["sqp-export", tmp_path / "m.keras", "--step"]
    both = command(*call, "--state", "h=h", "--dry-run")
    assert both.code == 2 and "Leave --state out" in both.err


def codes_of(report):
    """Returns type, scale and zero point of each state, at its output and at its input."""
    ends = [(report.outputs[pair.output_index], report.inputs[pair.input_index]) for pair in report.states]
    return {out.name: tuple((end.dtype, end.scale, end.zero_point) for end in (out, into)) for out, into in ends}


def fed_bytes(runtime, content, report, x):
    """Returns the first output of each step, the states copied as bytes, never looked at."""
    graph, opened = read(content), open_here(runtime, content)
    places = [pair.input_index for pair in report.states]
    states = {place: encode(np.zeros(graph.inputs[place].shape), graph.inputs[place]).tobytes() for place in places}
    rows = []
    for step in x:
        opened.set(0, encode(step.reshape(graph.inputs[0].shape), graph.inputs[0]))
        for place, held in states.items():
            end = graph.inputs[place]
            opened.set(place, np.frombuffer(held, end.dtype).reshape(end.shape))
        opened.invoke()
        states = {pair.input_index: opened.get(pair.output_index).tobytes() for pair in report.states}
        rows.append(decode(opened.get(0), graph.outputs[0])[0])
    return np.stack(rows)


FORMS = [("int8", "table"), ("int16x8", "integer"), ("int8", "algebraic"), ("int8", "integer")]


@pytest.mark.parametrize(
    ("quantize", "lowering"), [FORMS[0], *(pytest.param(*form, marks=pytest.mark.large) for form in FORMS[1:])]
)
def test_the_states_of_an_integer_file_are_copied_as_bytes_on_every_runtime(net, quantize, lowering):
    model, data = net
    made = export(model, step=True, quantize=quantize, lowering=lowering, data=data)
    codes = codes_of(made.report)
    assert all(out == into for out, into in codes.values())
    # What an LSTM adds up in c, and a GRU in h, is finer than a step of int8.
    wide = {name: out[0] for name, (out, _) in codes.items()}
    assert wide["lstm/c"] == wide["gru/h"] == "int16"
    assert wide["lstm/h"] == wide["conv/past"] == ("int8" if quantize == "int8" else "int16")
    long = np.concatenate([*data["x"]] * 3)[:1000]
    step = stepped(load(model))
    wanted = by_step(step, (long[None],))["out"][0]
    for row in made.report.agreement:
        assert row.status in ("ok", "not checked") or row.runtime == "tflite-runtime"
        if row.status == "ok":
            found = fed_bytes(row.runtime, made.model_bytes, made.report, long)
            # Twice the largest share of the range that was measured: 0.013 in int8, 0.012 over 1000 steps in int16x8.
            assert np.abs(found - wanted).max() / np.ptp(wanted) < (0.026 if quantize == "int8" else 0.024)


def test_a_float_stream_of_1000_steps_on_tflm_does_not_drift(net, exported):
    long = np.concatenate([*net[1]["x"]] * 3)[:1000]
    wanted = by_step(stepped(load(net[0])), (long[None],))["out"][0]
    off = np.abs(fed_bytes("tflm", exported.model_bytes, exported.report, long) - wanted) / np.ptp(wanted)
    assert off[-100:].max() < 1e-3 and off.max() < 1e-3


def test_states_are_wide_on_an_interpreter_that_widens_by_float_only(net):
    made = export(net[0], step=True, quantize="int8", lowering="table", target="tflite-runtime", data=net[1])
    codes = codes_of(made.report)
    assert codes["lstm/c"] == (codes["lstm/c"][0],) * 2 and codes["lstm/c"][0][0] == codes["gru/h"][0][0] == "int16"
    rows = {row.runtime: row.status for row in made.report.agreement if row.status != "not checked"}
    assert "tflite-runtime" in rows and set(rows.values()) == {"ok"}
    # The planted fault: an int8 to int16 QUANTIZE, which it refuses.
    plain = export(net[0], step=True, quantize="int8", lowering="table", data=net[1]).report.agreement
    assert {row.status for row in plain if row.runtime == "tflite-runtime"} == {"failed"}


@pytest.mark.parametrize("name", ["two GRUs", "residual one-channel LSTM"])
def test_a_step_has_a_twentieth_of_the_operators_that_are_written_out(name):
    model = tools.sequences.NETS[name][0](32)
    step, whole = (tools.sequences.operators(model, step) for step in (True, False))
    assert step <= whole / 20

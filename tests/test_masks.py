"""Masks of time steps: left out where the data show full sequences, with a warning; else refused with the way out."""

import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.source.load import load
from sqp_tflite.source.masks import Masks, masks, none_masked, watched
from sqp_tflite.source.samples import samples

L = keras.layers
STEPS, SAMPLES = 3, 16


def recurrent(cell=L.SimpleRNN, activation="relu"):
    return cell(3, activation=activation, name="loop")


def functional(first, dtype="float32", shape=(STEPS, 2), cell=recurrent):
    keras.utils.set_random_seed(0)
    x = keras.Input(shape, dtype=dtype, name="x")
    return keras.Model(x, L.Dense(2)(cell()(first(x))))


@keras.saving.register_keras_serializable(package="tests")
class Masked(keras.Model):
    """A model whose graph only its `call` knows."""

    def __init__(self, **named):
        super().__init__(**named)
        self.mask, self.loop, self.last = L.Masking(name="mask"), recurrent(), L.Dense(2)

    def call(self, x):
        return self.last(self.loop(self.mask(x)))


def subclassed():
    keras.utils.set_random_seed(0)
    model = Masked()
    model(np.zeros((1, STEPS, 2), np.float32))
    return model


def rows():
    return np.float32(np.random.default_rng(0).normal(size=(SAMPLES, STEPS, 2)))


def tokens():
    return np.random.default_rng(0).integers(1, 9, (SAMPLES, STEPS)).astype(np.int32)


def embedding(x):
    return L.Embedding(9, 3, mask_zero=True, name="mask")(x)


MODELS = {
    "Masking": (lambda: functional(L.Masking(name="mask")), rows, {}),
    "Masking in int8": (lambda: functional(L.Masking(name="mask")), rows, {"quantize": "int8"}),
    "Embedding": (lambda: functional(embedding, "int32", (STEPS,)), tokens, {}),
    "a subclassed model": (subclassed, rows, {}),
    "a copy with other activations": (
        lambda: functional(L.Masking(name="mask"), cell=lambda: recurrent(L.SimpleRNN, "tanh")),
        rows,
        {"replace": "accurate"},
    ),
    "the mean of a sequence": (
        lambda: functional(L.Masking(name="mask"), cell=lambda: L.GlobalAveragePooling1D()),
        rows,
        {"quantize": "int8", "lowering": "table"},
    ),
}


def masked_in(data, *places):
    """Returns the data with the last step of some samples masked."""
    data = data.copy()
    data[list(places), -1] = 0
    return data


@pytest.mark.parametrize("name", MODELS)
def test_full_sequences_need_no_masks_and_the_report_warns(name):
    make, data, options = MODELS[name]
    report = sqp_tflite.export(make(), data={"x": data()}, **options).report
    assert report.verdict == "ok"
    assert not {row.op for row in report.ops} & {"REDUCE_ANY", "NOT_EQUAL", "SELECT", "SELECT_V2", "DIV"}
    assert "bool" not in {row.dtype for row in report.ops}
    (warning,) = [one for one in report.warnings if "`mask` masks no time step" in one]
    assert f"the {SAMPLES} samples" in warning and "Inputs with masked steps (padding) give other results" in warning


@pytest.mark.parametrize("name", ["Masking", "Embedding", "a subclassed model"])
def test_data_with_masked_steps_are_refused_with_a_remedy_that_works(name):
    make, data, options = MODELS[name]
    given = masked_in(data(), 1, 4, 5)
    words = rf"pass --data without the samples in which it masks steps \(3 of {SAMPLES}\)"
    with pytest.raises(sqp_tflite.RefusedError, match=words) as caught:
        sqp_tflite.export(make(), data={"x": given}, **options)
    assert {finding.layer for finding in caught.value.findings} == {"mask"}
    full = np.delete(given, [1, 4, 5], axis=0)
    assert sqp_tflite.export(make(), data={"x": full}, **options).report.verdict == "ok"


def test_without_data_nothing_is_promised():
    with pytest.raises(sqp_tflite.RefusedError, match="pass --data with full sequences"):
        sqp_tflite.export(MODELS["Masking"][0]())


def test_a_mask_that_is_wrongly_left_out_fails_the_comparison(monkeypatch):
    monkeypatch.setattr(Masks, "full", property(lambda self: True))
    make, data, _ = MODELS["Masking"]
    with pytest.raises(sqp_tflite.ParityError, match="does not agree"):
        sqp_tflite.export(make(), data={"x": masked_in(data(), *range(8))})


@pytest.mark.parametrize(
    ("first", "cell", "wanted", "seen"),
    [
        (embedding, recurrent, Combination(), True),
        (embedding, recurrent, Combination(target="litert"), False),  # LiteRT has the operators.
        (embedding, lambda: L.GlobalAveragePooling1D(), Combination(), False),  # So has TFLM for these.
        (lambda x: L.Embedding(9, 3)(x), recurrent, Combination(), False),
    ],
)
def test_masks_that_the_file_can_hold_stay(first, cell, wanted, seen):
    loaded = load(functional(first, "int32", (STEPS,), cell))
    given = samples({"x": tokens()}, loaded.inputs)
    assert masks(loaded, given, wanted).full == seen


def test_the_users_model_masks_as_before_after_an_export():
    make, data, _ = MODELS["Masking"]
    model = make()
    given = masked_in(data(), 0)
    before = np.array(model(given))
    with watched(none_masked(model)):
        assert not np.array_equal(model(given), before)
    np.testing.assert_array_equal(model(given), before)

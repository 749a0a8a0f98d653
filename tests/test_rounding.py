"""What rounding moves in sums of square roots is no difference; what is wrong in a file still is one."""

import keras
import numpy as np
import pytest

import sqp_keras
import sqp_tflite
from sqp_keras.family.coefficients import find
from sqp_tflite.agreement import WRITTEN
from sqp_tflite.run.compare import FLOAT_TOLERANCE, compare
from sqp_tflite.run.interpreters import Outputs
from sqp_tflite.run.judge import Reference, judge
from sqp_tflite.run.reference import reference
from sqp_tflite.run.rounding import rounding
from sqp_tflite.source.load import load
from sqp_tflite.source.samples import samples

L = keras.layers
RUNTIMES = {"tflm", "litert", "tflite-runtime"}


def tanh(seed: int, exchanged: bool = True) -> keras.Model:
    keras.utils.set_random_seed(seed)
    activation = sqp_keras.Algebraic("tanh") if exchanged else "tanh"
    return keras.Sequential([keras.Input((8,), name="x"), L.Dense(8, activation=activation, name="out")])


def recurrent() -> keras.Model:
    keras.utils.set_random_seed(1)
    x = keras.Input((3, 3), name="x")
    return keras.Model(x, [L.LSTM(2, name="lstm")(x), L.Bidirectional(L.GRU(2), name="both")(x)])


@pytest.fixture(scope="module")
def setting():
    """A file of one layer, seeded samples up to thousands, and Keras's outputs with what rounding moves."""
    model = tanh(1)
    loaded = load(model)
    inputs = samples(None, loaded.inputs)
    against = Reference(WRITTEN, reference(loaded, inputs), FLOAT_TOLERANCE, rounding=rounding(loaded, inputs))
    return sqp_tflite.export(model).model_bytes, inputs, against


def statuses(rows) -> dict[str, str]:
    """The worst status of each interpreter over the sets of inputs."""
    return {row.runtime: row.status for row in sorted(rows, key=lambda row: row.status != "ok")}


@pytest.mark.parametrize("build", [lambda: tanh(1, False), pytest.param(recurrent, marks=pytest.mark.large)])
def test_seeded_samples_are_no_false_alarm(build):
    rows = sqp_tflite.export(build(), replace="accurate").report.agreement
    assert {row.runtime for row in rows} == RUNTIMES and {row.status for row in rows} == {"ok"}
    assert all(row.error_of_range <= row.limit for row in rows)


def test_check_says_the_same(tmp_path):
    exported = sqp_tflite.export(tanh(1))
    assert {row.status for row in sqp_tflite.check(tanh(1), exported.model_bytes)} == {"ok"}


def test_each_sample_has_its_own_allowance(setting):
    """Rounding moves what a large input gives, not what an ordinary one gives."""
    _, inputs, against = setting
    (moved,) = against.rounding()
    sizes = np.abs(inputs.inputs[0]).max(axis=1)
    assert moved[sizes < 10].max() < 1e-4 < moved[sizes > 1000].min()


def planted(setting, was: np.ndarray, now: np.ndarray):
    content, inputs, against = setting
    old = was.astype("<f4").tobytes()
    assert content.count(old) == 1
    return compare(content.replace(old, now.astype("<f4").tobytes()), inputs, against).rows


def test_a_wrong_coefficient_is_seen(setting):
    (part,) = find("tanh").parts
    weight = np.float32(max(abs(root.weight) for root in part.roots))
    content = setting[0]
    weight = weight if content.count(weight.astype("<f4").tobytes()) == 1 else -weight
    assert set(statuses(planted(setting, weight, weight * np.float32(1.001))).values()) == {"differs"}


def test_a_wrong_bend_is_seen(setting):
    (part,) = find("tanh").parts
    bend = np.float32(part.roots[0].b)
    assert set(statuses(planted(setting, bend, bend * np.float32(1.01))).values()) == {"differs"}


def test_swapped_weights_are_seen(setting):
    weights = tanh(1).layers[0].get_weights()[0].T
    swapped = weights.copy()
    swapped[[0, 1]] = weights[[1, 0]]
    assert set(statuses(planted(setting, weights, swapped)).values()) == {"differs"}


def test_the_sample_that_is_too_far_is_judged_not_the_one_that_may_be():
    """An error that rounding explains does not hide a smaller one that it does not."""
    theirs = np.linspace(0, 1, 4, dtype=np.float32).reshape(4, 1)
    against = Reference(WRITTEN, {"y": theirs}, 1e-4, rounding=lambda: (np.float64([0, 1e-2, 0, 0]),))
    for ours, status in (([0, 5e-3, 0, 0], "ok"), ([0, 5e-3, 0, 1e-3], "differs"), ([0, 5e-2, 0, 0], "differs")):
        values = theirs + np.float32(ours).reshape(4, 1)
        (row,) = judge("tflm", Outputs((values,), (values,), (None,)), against).rows
        assert row.status == status
        assert (row.error_of_range <= row.limit) is (status == "ok")


def test_a_model_without_sums_has_no_allowance():
    loaded = load(tanh(0, False))
    inputs = samples(None, loaded.inputs)
    assert all(not moved.any() for moved in rounding(loaded, inputs)())


def test_rounding_excuses_no_more_than_a_hundredth_of_the_range():
    theirs = np.linspace(0.0, 1.0, 4)[:, None]
    for off, status in ((0.009, "ok"), (0.02, "differs")):
        against = Reference(WRITTEN, {"y": theirs}, 1e-4, rounding=lambda: (np.full(4, 5.0),))
        values = theirs + off
        assert judge("litert", Outputs((values,), (values,), (None,)), against).rows[0].status == status

"""Fine-tuning a changed model towards the original: it gets nearer, stops early, undoes what costs too much."""

import importlib
import warnings

import keras
import numpy as np
import pytest
from keras import layers

import sqp_keras
from sqp_keras.models.sites import sites

distill = importlib.import_module("sqp_keras.models.distill")  # The package has the function of that name.
X = np.random.default_rng(5).normal(size=(256, 6)).astype("float32")


def teacher(head="softmax"):
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(16, "tanh", name="first"),
            layers.Dense(16, "silu", name="second"),
            layers.Dense(3, head, name="head"),
        ]
    )


def state(model):
    return [site.activation for site in sites(model)], [w.copy() for w in model.get_weights()]


@pytest.fixture(scope="module")
def distilled():
    original = teacher()
    student, _ = sqp_keras.replace_activations(original, "fast", data=X)
    before = state(original), state(student)
    new, report = sqp_keras.distill(student, original, X, 5, learning_rate=5e-3, verbose=0)
    return original, student, new, report, before


def test_the_student_comes_nearer_by_far(distilled):
    *_, report, _ = distilled
    assert report.after < 0.6 * report.before
    assert 1 <= report.epochs[0] <= 8
    assert 1 <= report.epochs[1] <= 8
    assert report.restored == ()


def test_teacher_and_student_stay_as_they_were(distilled):
    original, student, new, _, before = distilled
    for model, (activations, weights) in zip((original, student), before, strict=True):
        now, held = state(model)
        assert now == activations
        assert all(np.array_equal(a, b) for a, b in zip(weights, held, strict=True))
    assert original.trainable
    assert [s.activation.name for s in sites(new)] == [s.activation.name for s in sites(student)]


def test_the_fine_tuned_model_can_be_saved(distilled, tmp_path):
    *_, new, _, _ = distilled
    new.save(tmp_path / "m.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "m.keras")(X[:9]), new(X[:9]))


def test_a_layer_that_costs_too_much_gets_its_activation_back():
    original = teacher()
    wrong, _ = sqp_keras.replace_activations(original, {"first": "relu", "second": "accurate"})
    new, report = sqp_keras.distill(wrong, original, X, 0, budget=0.05, verbose=0)
    assert [r.layer for r in report.restored] == ["first"]
    assert report.restored[0].cost > 0.05
    assert [s.activation.name for s in sites(new)] == ["tanh", "algebraic", "softmax"]
    assert report.after < 0.01 < report.before
    assert "restored: first" in str(report)


def test_a_measure_of_ones_own_decides():
    original = teacher()
    student, _ = sqp_keras.replace_activations(original, {"first": "relu"})
    _, report = sqp_keras.distill(student, original, X, 0, budget=0.5, measure=lambda model: 1.0, verbose=0)
    assert (report.before, report.after, report.restored) == (1.0, 1.0, ())


def test_no_improvement_stops_early():
    original = teacher("linear")
    same, _ = sqp_keras.replace_activations(original, "accurate")
    # A rate of almost 0 improves nothing that float32 can see.
    with pytest.warns(UserWarning, match="no step brought it nearer"):
        _, report = sqp_keras.distill(
            same, original, X, 40, layer_epochs=0, learning_rate=1e-30, patience=2, batch_size=200, verbose=0
        )
    assert report.epochs[0] == 0
    assert report.epochs[1] <= 4


@pytest.mark.parametrize("rate", [0.05, pytest.param(1e-3, marks=pytest.mark.large)])
def test_a_good_start_is_kept_where_steps_leave_it(rate):
    original = teacher("linear")
    student, _ = sqp_keras.replace_activations(original, "accurate")
    with pytest.warns(UserWarning, match="`distill` returns .* as it was.*Use it as it is"):
        new, report = sqp_keras.distill(student, original, X[:64], 1, learning_rate=rate, verbose=0)
    assert report.after == report.before < 1e-3
    assert all(np.array_equal(a, b) for a, b in zip(new.get_weights(), student.get_weights(), strict=True))


def test_the_step_size_fits_the_start():
    assert distill._rates(2e-4) == pytest.approx((4e-6, 4e-7))
    assert distill._rates(0.3)[0] == distill._rates(float("nan"))[0] == distill._rates(float("inf"))[0] == 1e-3


@pytest.mark.large
def test_defaults_never_leave_a_good_start():
    original = teacher("linear")
    student, _ = sqp_keras.replace_activations(original, "accurate")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, report = sqp_keras.distill(student, original, X, verbose=0)
    assert report.after <= report.before


def test_the_distance_is_that_of_rows_held_out(monkeypatch):
    original, seen = teacher(), []
    student, _ = sqp_keras.replace_activations(original, "fast", data=X)
    outputs = distill._outputs
    monkeypatch.setattr(distill, "_outputs", lambda model, batches: seen.append(batches) or outputs(model, batches))
    sqp_keras.distill(student, original, X, 0, verbose=0)
    held = np.concatenate(seen[0])
    assert held.shape == (25, 6)
    trained = set(np.random.default_rng(0).permutation(len(X))[25:].tolist())
    assert not trained & {int(np.flatnonzero((row == X).all(axis=1))[0]) for row in held}


def test_the_check_of_a_good_start_sees_a_planted_fault(monkeypatch):
    original = teacher("linear")
    student, _ = sqp_keras.replace_activations(original, "accurate")
    monkeypatch.setattr(
        distill, "_gain", lambda stage, model, epochs, rates, measure: stage(model, epochs, rates[0]) if epochs else 0
    )
    with pytest.warns(UserWarning, match="as it was"):
        _, report = sqp_keras.distill(student, original, X[:64], 1, layer_epochs=0, learning_rate=0.05, verbose=0)
    assert report.after > 10 * report.before


def test_several_inputs_and_nested_models_work():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    inner = keras.Sequential([keras.Input((3,)), layers.Dense(4, "silu")])
    original = keras.Model([a, b], layers.Dense(1)(inner(a) + inner(b)))
    student, _ = sqp_keras.replace_activations(original, "fast")
    data = {"a": X[:, :3], "b": X[:, 3:]}
    _, report = sqp_keras.distill(student, original, data, 2, learning_rate=1e-2, verbose=0)
    assert report.after < report.before


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"teacher": None}, TypeError, "`teacher` is a Keras model"),
        ({"teacher": keras.Sequential([keras.Input((6,)), layers.Dense(3)])}, ValueError, "must have the same layers"),
        ({"epochs": -1}, ValueError, "`epochs` is a whole number"),
        ({"budget": -1.0}, ValueError, "`budget` is a number"),
        ({"data": 3}, TypeError, "`data` is an array"),
    ],
)
def test_bad_calls_say_the_rule(change, kind, words):
    original = teacher()
    arguments = {"student": original, "teacher": original, "data": X, "epochs": 1, **change}
    with pytest.raises(kind, match=words):
        sqp_keras.distill(**arguments, verbose=0)

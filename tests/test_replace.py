"""Activations are exchanged wherever they are, with the same weights, and the model is not changed."""

import json

import keras
import numpy as np
import pytest
from keras import layers

import sqp_keras
from replaceable import CASES, RANDOM, inputs_of, sequential, state
from sqp_keras.models import rules
from sqp_keras.models.sites import sites
from tools import zoo

EXACT = {*rules.ALLOWED, "linear"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("with_data", [False, True])
def test_every_activation_is_found_and_exchanged(case, with_data):
    keras.utils.set_random_seed(1)
    model = CASES[case]()
    x = inputs_of(model)
    expected, (before, weights) = np.asarray(model(x)), state(model)
    new, report = sqp_keras.replace_activations(model, data=x if with_data else None)
    assert {site.activation.name for site in sites(new)} <= EXACT
    # Every change is below 1e-3 of a range of at most 2, and the nets are shallow and contracting.
    np.testing.assert_allclose(new(x), expected, atol=4e-3)
    after, kept = state(model)
    assert after == before
    assert all(np.array_equal(a, b) for a, b in zip(weights, kept, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(weights, new.get_weights(), strict=True))
    assert report.replacements
    assert all(r.max_change is not None and 0.0 <= r.max_change < 2e-3 for r in report.replacements)
    if with_data:
        assert all(r.mean_change is not None or r.was == "softmax" for r in report.replacements)


@pytest.mark.parametrize("case", [c for c in CASES if c not in ("user layer", "subclassed")])
def test_the_new_model_is_saved_with_its_activations(case, tmp_path):
    model = CASES[case]()
    new, report = sqp_keras.replace_activations(model)
    new.save(tmp_path / "m.keras")
    x = inputs_of(model)
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "m.keras")(x), new(x))
    assert not any(r.note for r in report.replacements)


@pytest.mark.parametrize("case", ["user layer", "subclassed"])
def test_what_a_saved_file_would_lose_is_said(case):
    _, report = sqp_keras.replace_activations(CASES[case]())
    assert all("not in a file saved from it" in r.note for r in report.replacements)
    assert "note: " in str(report)


def test_the_report_is_plain_data():
    _, report = sqp_keras.replace_activations(CASES["user layer"](), keep=["elu"])
    data = json.loads(json.dumps(report.as_dict()))
    assert [row["layer"] for row in data["replacements"]] == [r.layer for r in report.replacements]
    assert [row["max_change"] for row in data["replacements"]] == [r.max_change for r in report.replacements]
    assert [(row["activation"], bool(row["reason"])) for row in data["unchanged"]] == [("elu", True)]


def test_a_traced_model_is_replaced_all_the_same():
    model = sequential(layers.Dense(4, "sigmoid"))
    x = inputs_of(model)
    model.predict(x, verbose=0)
    new, _ = sqp_keras.replace_activations(model, {"sigmoid": "linear"})
    np.testing.assert_allclose(new.predict(x, verbose=0), x @ model.get_weights()[0], atol=1e-5)


def test_clone_of_a_replaced_model_carries_over():
    model = sequential(layers.Dense(4, "silu"))
    new, _ = sqp_keras.replace_activations(model)
    clone = keras.models.clone_model(new)
    clone.set_weights(new.get_weights())
    x = inputs_of(model)
    np.testing.assert_array_equal(clone(x), new(x))


def test_stacked_mish_convolutions_are_replaced_layer_by_layer():
    keras.utils.set_random_seed(0)
    model = sequential(
        layers.Conv2D(16, 3, activation="mish", name="first"),
        layers.Conv2D(16, 3, activation="mish", name="second"),
        layers.Flatten(),
        layers.Dense(1),
        shape=(9, 9, 8),
    )
    x = inputs_of(model)
    half, report = sqp_keras.replace_activations(model, {"first": "accurate"})
    assert [r.layer for r in report.replacements] == ["first"]
    assert [(u.layer, u.reason) for u in report.unchanged] == [("second", "no rule for it")]
    new, _ = sqp_keras.replace_activations(half, "accurate")
    # Both mish within 3e-4 per value, summed over weights of about 1/12 in 144 places.
    np.testing.assert_allclose(new(x), model(x), atol=1e-2)


def test_every_swish_of_a_deep_network_becomes_another():
    model = sequential(
        layers.Conv2D(8, 3, activation="silu"),
        layers.Conv2D(8, 3, activation="swish"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4, "relu"),
        shape=(12, 12, 3),
    )
    new, report = sqp_keras.replace_activations(model, {"silu": "hard_silu"})
    assert [site.activation.name for site in sites(new)][:2] == ["hard_silu", "hard_silu"]
    assert [r.now for r in report.replacements] == ["hard_silu", "hard_silu"]
    assert [u.activation for u in report.unchanged] == ["relu"]


def test_data_may_be_a_dataset_or_a_dictionary():
    tf = pytest.importorskip("tensorflow")
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model([a, b], layers.Dense(2, "tanh")(a + b))
    arrays = [RANDOM.normal(size=(10, 3)).astype("float32") for _ in range(2)]
    _, report = sqp_keras.replace_activations(model, data=dict(zip("ab", arrays, strict=True)))
    assert report.replacements[0].mean_change is not None
    dataset = tf.data.Dataset.from_tensor_slices((tuple(arrays), np.zeros(10))).batch(4)
    _, report = sqp_keras.replace_activations(model, data=dataset)
    assert report.replacements[0].mean_change is not None


def application(name, size, changed):
    """A network of Keras's with seeded weights, and how many activations are exchanged in it."""

    def build():
        keras.utils.set_random_seed(3)
        return getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10)

    return pytest.param(build, changed, id=name, marks=pytest.mark.large)


def settle(model, x):
    """Gives batch normalisation the statistics of x, without which random weights return the same for every input."""
    layers_ = [layer for layer in model._flatten_layers() if isinstance(layer, layers.BatchNormalization)]
    for layer in layers_:
        layer.momentum = 0.0
    model(x, training=True)


@pytest.mark.parametrize(
    ("build", "changed"),
    [
        # The smallest of the zoo that is deep and has batch normalisation everywhere.
        pytest.param(lambda: zoo.build("Z07", activation="silu", head="original"), 9, id="DS-CNN with SiLU"),
        application("MobileNetV3Small", 64, 0),
        application("EfficientNetB0", 64, 65),
        application("DenseNet121", 32, 0),
    ],
)
def test_published_networks_lose_every_exp_and_keep_their_classes(build, changed):
    model = build()
    x = np.random.default_rng(0).uniform(0, 255, size=(32, *model.input_shape[1:])).astype("float32")
    if changed:
        settle(model, x)
    logits, heads = sqp_keras.drop_head(model)
    assert [head.was for head in heads] == ["softmax"]
    # Batch normalisation of random weights amplifies each layer's change; seven roots leave 7e-6 of it.
    new, report = sqp_keras.replace_activations(logits, max_error=1e-4)
    assert len(report.replacements) == changed
    assert {site.activation.name for site in sites(new)} <= EXACT
    if changed:
        a, b = (np.argmax(m(x), axis=-1) for m in (logits, new))
        assert len(set(a)) > 1
        assert np.mean(a == b) >= 0.97


@pytest.mark.parametrize("rule", ["accurate", "fast"])
def test_positive_activations_can_stay_above_zero(tmp_path, rule):
    i = keras.Input((4,))
    hidden = [layers.Activation(of)(i) for of in ("softplus", "sigmoid", "tanh", "softmax")]
    model = keras.Model(i, hidden)
    x = np.linspace(-60, 60, 400, dtype="float32").reshape(100, 4)
    plain, report = sqp_keras.replace_activations(model, rule, data=x)
    assert [row.least for row in report.replacements] == [0.0, 0.0, None, None]
    assert "can be exactly 0 here: sigmoid, softplus; before a logarithm" in str(report)
    assert np.min(plain(-100 * x)[1]) == 0.0
    new, report = sqp_keras.replace_activations(model, rule, data=x, positive=True)
    assert "exactly 0" not in str(report)
    assert ('use "accurate" unless' in str(report)) == (rule == "fast")
    new.save(tmp_path / "m.keras")
    values = keras.models.load_model(tmp_path / "m.keras")(x)
    for row, value in zip(report.replacements[:2], values, strict=False):
        assert row.least > 0
        assert np.isfinite(np.log(value)).all() and np.min(value) >= np.float32(row.least)


def test_a_wrong_positive_is_refused_by_name():
    with pytest.raises(TypeError, match="`positive` is True or False. Received: positive='yes'"):
        sqp_keras.replace_activations(keras.Sequential([keras.Input((2,))]), positive="yes")

"""What is saved in one process is the same in another, with this package and, for the plain string, without."""

import json
import zipfile

import keras
import numpy as np
import pytest

import sqp_keras
from conftest import QUICK
from sqp_keras import Squareplus

L = keras.layers
X = np.random.default_rng(0).normal(0, 2, (6, 5, 4)).astype(np.float32)

LOAD = f"""{QUICK}"""
LOAD += """
import json, sys
import numpy as np, keras

def outcome(path):
    data = np.load(path.rsplit("/", 1)[0] + "/data.npz")
    try:
        if path.endswith(".json"):
            model = keras.models.model_from_json(open(path).read())
            model.load_weights(path.replace(".json", ".weights.h5"))
        else:
            model = keras.saving.load_model(path)
        # Keras's own function rounds elsewhere: a few units of float32 per layer.
        np.testing.assert_allclose(model(data["x"]), data["y"], rtol=1e-5, atol=1e-6)
        keras.models.clone_model(model)
        return "same"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

ours, plain = json.loads(sys.argv[1])
sys.modules["sqp_keras"] = None  # As if it were not installed.
without = {path: outcome(path) for path in [*plain, ours[0]]}
del sys.modules["sqp_keras"]
import sqp_keras
print("OUTCOMES" + json.dumps([{path: outcome(path) for path in ours}, without]))
"""


def built(*layers):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5, 4)), *layers])
    model(X)  # A layer inside another one gets its weights at the first call.
    # Fresh values for every weight, so that one that is not restored shows.
    rng = np.random.default_rng(1)
    model.set_weights([(w + rng.uniform(0.1, 0.3, w.shape)).astype(w.dtype) for w in model.get_weights()])
    return model


def everything():
    return built(
        L.Dense(3, "squareplus"),
        L.Dense(3, activation=Squareplus(b=2.0, name="act", dtype="float32")),
        L.Dense(3, activation=Squareplus(b=1.5, learn_b="channel", b_regularizer="l2")),
        Squareplus(learn_b="layer", floor=0.1),
        L.Bidirectional(L.LSTM(2, activation=Squareplus(b=1.0), return_sequences=True)),
        Squareplus(learn_b="channel", shared_axes=[1]),
        L.Dense(2, activation=sqp_keras.squareplus),
    )


def plain():
    return built(L.Dense(3, "squareplus"), L.Conv1D(2, 2, activation=sqp_keras.squareplus), L.Activation("squareplus"))


def save_all(model, folder):
    folder.mkdir()
    np.savez(folder / "data.npz", x=X, y=model(X))
    model.save(folder / "m.keras")
    model.save(folder / "m.h5")
    (folder / "m.json").write_text(model.to_json())
    model.save_weights(folder / "m.weights.h5")
    return [str(folder / name) for name in ("m.keras", "m.h5", "m.json")]


@pytest.fixture(scope="module")
def saved(once, process):
    """The files of both models, and what became of them in a new process with this package and before its import."""

    def make(folder):
        files = {
            name: save_all(build(), folder / name) for name, build in (("everything", everything), ("plain", plain))
        }
        ran = process("python", "-c", LOAD, json.dumps([files["everything"], files["plain"]]))
        assert ran.code == 0, ran.err
        found = [files, *json.loads(ran.out.split("OUTCOMES", 1)[1])]
        (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")

    return json.loads((once("saved", make) / "found.json").read_text(encoding="utf-8"))


def test_all_formats_open_in_a_new_process(saved):
    files, ours, _ = saved
    assert [ours[path] for path in files["everything"]] == ["same"] * 3


def test_plain_string_opens_without_this_package(saved):
    files, _, stock = saved
    assert [stock[path] for path in files["plain"]] == ["same"] * 3


def test_plain_string_is_all_that_a_file_says(saved):
    with zipfile.ZipFile(saved[0]["plain"][0]) as archive:
        text = archive.read("config.json").decode()
    layers = [layer["config"] for layer in json.loads(text)["config"]["layers"] if "activation" in layer["config"]]
    assert [config["activation"] for config in layers] == ["squareplus"] * 3
    assert "sqp_keras" not in text


def test_layer_needs_the_import_and_says_its_name(saved):
    files, _, stock = saved
    outcome = stock[files["everything"][0]]
    assert outcome != "same"
    assert "sqp_keras" in outcome


def test_stock_file_with_the_string_opens_as_ours(tmp_path):
    sqp_keras.unregister()
    try:
        model = built(L.Dense(3, "squareplus"))
        assert model.layers[0].activation is not sqp_keras.squareplus
        model.save(tmp_path / "stock.keras")
    finally:
        sqp_keras.activation.registry.register()
    again = keras.models.load_model(tmp_path / "stock.keras")
    assert again.layers[0].activation is sqp_keras.squareplus
    np.testing.assert_allclose(again.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5)


def test_registered_names_are_stable():
    assert keras.saving.get_registered_name(Squareplus) == "sqp_keras>Squareplus"
    assert keras.activations.serialize(sqp_keras.squareplus) == "squareplus"


def test_clone_keeps_b_and_weights():
    model = everything()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone.predict(X, verbose=0), model.predict(X, verbose=0))
    assert clone.layers[1].activation.first_b == 2.0
    assert clone.layers[1].activation is not model.layers[1].activation


def test_bidirectional_keeps_b_in_both_directions(tmp_path):
    model = built(L.Bidirectional(L.LSTM(2, activation=Squareplus(b=1.0))))
    model.save(tmp_path / "m.keras")
    layer = keras.models.load_model(tmp_path / "m.keras").layers[0]
    for direction in (layer.forward_layer, layer.backward_layer):
        assert direction.cell.activation.b == 1.0


def learnt():
    return built(
        L.Dense(3, "squareplus"),
        L.Dense(3, activation=Squareplus(b=1.5, learn_b="channel", b_regularizer="l2")),
        Squareplus(learn_b="channel", shared_axes=[1], floor=0.1),
    )


def test_checkpoints_of_models_and_of_weights(tmp_path):
    model = learnt()
    model.compile("adam", "mse")
    target = np.zeros((6, 5, 3), np.float32)
    whole, weights = tmp_path / "c.keras", tmp_path / "c.weights.h5"
    callbacks = [
        keras.callbacks.ModelCheckpoint(whole),
        keras.callbacks.ModelCheckpoint(weights, save_weights_only=True),
    ]
    model.fit(X, target, epochs=1, verbose=0, callbacks=callbacks)
    from_weights = learnt()
    from_weights.load_weights(weights)
    from_whole = keras.models.load_model(whole)
    for again in (from_weights, from_whole):
        np.testing.assert_array_equal(again(X), model(X))
    # Training goes on.
    from_whole.fit(X, target, epochs=1, verbose=0)
    assert np.isfinite(from_whole(X)).all()
    assert not np.array_equal(from_whole(X), model(X))


def test_name_as_custom_object_is_no_activation_string():
    # Keras looks strings up among its own activations only; the README says which string works.
    with keras.saving.custom_object_scope({"sqp": Squareplus()}), pytest.raises(ValueError, match="sqp"):
        L.Dense(4, activation="sqp")

"""Bad inputs get one clear error each; code in a file is never run."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_keras  # noqa: F401
import sqp_tflite
from models import dense, subclassed
from sqp_tflite.source.load import load

L = keras.layers
EVIL = []


def rewritten(source, target, change):
    """Writes a copy of a .keras archive with config.json changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content.decode()) if name == "config.json" else content)
    return target


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    dense().save(path)
    return path


def test_no_such_file():
    with pytest.raises(sqp_tflite.BadInputError, match=r"`nowhere.keras` does not exist. Pass a .keras"):
        load("nowhere.keras")


@pytest.mark.parametrize("content", [b"", b"hello, I am no model", b"\x00" * 64])
def test_not_a_model(tmp_path, content):
    path = tmp_path / "x.keras"
    path.write_bytes(content)
    with pytest.raises(sqp_tflite.BadInputError, match="must be a Keras model"):
        load(path)


def test_a_damaged_tflite_file_gets_one_line(tmp_path):
    path = tmp_path / "x.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3" + b"\x00" * 20)
    with pytest.raises(sqp_tflite.BadInputError, match="begins like a TFLite file and is damaged"):
        sqp_tflite.export(path)


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_truncated_archive(saved, tmp_path, share):
    content = saved.read_bytes()
    path = tmp_path / "cut.keras"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(sqp_tflite.BadInputError, match="damaged .keras archive.*copy or save it again"):
        load(path)


def test_truncated_h5(tmp_path):
    dense().save(tmp_path / "m.h5")
    content = (tmp_path / "m.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(sqp_tflite.BadInputError, match="damaged HDF5"):
        load(tmp_path / "cut.h5")


def test_weights_alone(tmp_path):
    dense().save_weights(tmp_path / "w.weights.h5")
    with pytest.raises(sqp_tflite.BadInputError, match="only weights"):
        load(tmp_path / "w.weights.h5")


def test_missing_config_key_has_a_one_line_cause(saved, tmp_path):
    def broken(text):
        config = json.loads(text)
        del config["config"]["layers"]
        return json.dumps(config)

    with pytest.raises(sqp_tflite.BadInputError, match="Keras .* cannot open") as caught:
        load(rewritten(saved, tmp_path / "b.keras", broken))
    assert len(str(caught.value).splitlines()) == 1


def test_folder_without_saved_model(tmp_path):
    with pytest.raises(sqp_tflite.BadInputError, match=r"without saved_model.pb"):
        load(tmp_path)


def test_not_a_model_object():
    with pytest.raises(sqp_tflite.BadInputError, match="Received: int"):
        load(3)


def test_model_never_built(tmp_path):
    with pytest.raises(sqp_tflite.BadInputError, match="must be built"):
        load(keras.Sequential([L.Dense(3)]))


def test_open_dimension_names_the_input():
    model = keras.Sequential([keras.Input((None, 4), name="signal"), L.Conv1D(2, 3)])
    with pytest.raises(sqp_tflite.BadInputError, match=r"`signal`.*\(None, None, 4\)"):
        load(model)


@pytest.mark.parametrize("key", ["signal", "x"])
def test_data_closes_an_open_dimension(key):
    model = keras.Sequential([keras.Input((None, 4), name="signal"), L.Conv1D(2, 3)])
    exported = sqp_tflite.export(model, data={key: np.ones((4, 9, 4), "float32")})
    assert exported.report.inputs[0].shape == (1, 9, 4)


@pytest.mark.parametrize("key", ["signal", "x"])
def test_data_closes_an_open_dimension_of_a_saved_model(key, tmp_path):
    made = tf.Module()
    made.call = tf.function(
        lambda signal: {"y": 2 * signal}, input_signature=[tf.TensorSpec((None, None), name="signal")]
    )
    tf.saved_model.save(made, str(tmp_path), signatures=made.call)
    with pytest.raises(sqp_tflite.BadInputError, match="must be fixed.*or pass --data"):
        load(tmp_path)
    assert load(tmp_path, shapes={key: (7,)}).inputs[0].shape == (7,)


def test_a_model_is_not_opened_inside_a_graph():
    with tf.Graph().as_default(), pytest.raises(sqp_tflite.BadInputError, match="right away.*inside of a tf.function"):
        load(dense())


def test_another_backend_is_named(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(sqp_tflite.BadInputError, match="Received: the backend jax. Set .* KERAS_BACKEND=tensorflow"):
        load("model.keras")


def test_an_empty_tensor_is_no_proof():
    model = keras.Sequential([keras.Input((0, 4), name="signal"), L.Dense(2)])
    with pytest.raises(sqp_tflite.BadInputError, match=r"at least 1.*`signal`.*\(None, 0, 4\)"):
        load(model)
    model = keras.Model(i := keras.Input((4, 1)), i[:, 4:])
    with pytest.raises(sqp_tflite.BadInputError, match=r"at least one number.*\(32, 0, 1\)"):
        sqp_tflite.export(model)


def test_subclassed_inputs_come_from_the_build():
    assert [spec.shape for spec in load(subclassed()).inputs] == [(4,)]


def my_softplus(x):
    """Stands for a function that the user wrote."""
    return keras.ops.log(keras.ops.exp(x) + 1)


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_unknown_function_offers_map(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    dense(activation=my_softplus).save(path)
    with pytest.raises(sqp_tflite.BadInputError, match="my_softplus.*--map my_softplus=ACT"):
        load(path)
    loaded = load(path, names={"my_softplus": "softplus"})
    x = np.linspace(-4, 4, 8, dtype=np.float32).reshape(2, 4)
    expected = dense(activation="softplus")
    expected.set_weights(loaded.model.get_weights())
    np.testing.assert_allclose(loaded.call([x])["out"], expected(x), rtol=1e-6)


@pytest.mark.parametrize(
    "names, message",
    [
        ({"my_softplus": "sofplus"}, "must name an activation of Keras"),
        ({"my_sofplus": "softplus"}, "must explain a name in the file. Received: `my_sofplus`"),
        ({"relu": "softplus"}, "must explain a name that is unknown. Received: `relu`.*--replace"),
    ],
)
def test_map_must_explain_a_name_of_the_file(saved, names, message):
    with pytest.raises(sqp_tflite.BadInputError, match=message):
        load(saved, names=names)


class Foreign(L.Layer):
    """A layer that is not registered anywhere."""

    def call(self, x):
        return x


def test_unknown_layer_names_what_to_import(tmp_path):
    path = tmp_path / "m.keras"
    keras.Sequential([keras.Input((3,)), Foreign(name="odd")]).save(path)
    text = zipfile.ZipFile(path).read("config.json").decode().replace("test_load", "their_package.layers")
    rewritten(path, tmp_path / "f.keras", lambda _: text)
    with pytest.raises(
        sqp_tflite.BadInputError, match=r"`Foreign` in `odd`.*--import their_package.layers;.*--trust-code"
    ):
        load(tmp_path / "f.keras")


@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.parametrize("where", ["layer", "activation"])
def test_lambdas_are_refused_and_not_run(tmp_path, ending, where):
    path = tmp_path / f"m.{ending}"

    def code(x):
        return x + 1

    function = lambda x: code(x)  # noqa: E731
    layer = L.Lambda(function, name="odd") if where == "layer" else L.Dense(3, activation=function, name="odd")
    if ending == "h5" and where == "activation":
        pytest.skip("Keras itself does not write a lambda activation into .h5")
    keras.Sequential([keras.Input((3,)), layer]).save(path)
    with pytest.raises(sqp_tflite.BadInputError, match="not code.*`odd`.*--trust-code"):
        load(path)


def test_trusted_lambda_is_loaded(tmp_path):
    keras.Sequential([keras.Input((3,)), L.Lambda(lambda x: x * 2.0, name="odd")]).save(tmp_path / "m.keras")
    loaded = load(tmp_path / "m.keras", trust=True)
    np.testing.assert_allclose(loaded.call([np.ones((1, 3), "float32")])["odd"], 2.0)


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_files_of_both_kinds_export(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    dense().save(path)
    assert sqp_tflite.export(path).report.verdict == "ok"


def test_old_h5_configuration_is_read(tmp_path):
    """Keras 2 wrote batch_input_shape and bare class names."""
    path = tmp_path / "old.h5"
    dense(activation="relu").save(path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        for layer in config["config"]["layers"]:
            layer.pop("module", None)
            layer.pop("registered_name", None)
            layer["config"].pop("dtype", None)
            if layer["class_name"] == "InputLayer":
                layer["config"]["batch_input_shape"] = layer["config"].pop("batch_shape")
        file.attrs["model_config"] = json.dumps(config)
    assert [spec.shape for spec in load(path).inputs] == [(4,)]


@pytest.fixture(scope="module")
def folder_of_many(once):
    """A SavedModel of ten inputs and twelve outputs, which are not in the order of their names in any sense."""

    def make(folder):
        keras.utils.set_random_seed(0)
        inputs = [keras.Input((3,), name=name) for name in "kilo alpha zulu x10 mike bravo x9 Oscar x1 india".split()]
        ends = [inputs[place % 10] + float(place) for place in range(12)]
        keras.Model(inputs, ends).export(str(folder / "saved"), verbose=False)

    return once("many-ends", make) / "saved"


def test_a_saved_models_inputs_and_outputs_are_in_the_order_of_their_names(folder_of_many):
    """Its signature is stored as a map, whose order differs from process to process."""
    loaded = load(folder_of_many)
    names = [spec.name for spec in loaded.inputs]
    assert names == "Oscar alpha bravo india kilo mike x1 x9 x10 zulu".split()
    arrays = [np.full((1, 3), place, "float32") for place in range(10)]
    outputs = loaded.call(arrays)
    assert list(outputs) == [f"output_{place}" for place in range(12)]
    first = {name: float(np.asarray(value)[0, 0]) for name, value in outputs.items()}
    # The first output is `kilo`, the ninth `x1`, and each adds its place.
    assert first["output_0"] == names.index("kilo") and first["output_8"] == names.index("x1") + 8


@pytest.mark.large
def test_a_saved_model_gives_the_same_bytes_in_each_process(folder_of_many, tmp_path, process):
    for seed in ("1", "2"):
        output = tmp_path / f"{seed}.tflite"
        ran = process("sqp-export", folder_of_many, "--target", "litert", "-o", output, PYTHONHASHSEED=seed)
        assert ran.code == 0, ran.err
    assert (tmp_path / "1.tflite").read_bytes() == (tmp_path / "2.tflite").read_bytes()


def saved_for(batch: int | None, folder: Path) -> Path:
    """A SavedModel made without Keras, whose signature takes so many samples."""
    weights = tf.Variable(np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3))
    module = tf.Module()
    module.weights = weights
    module.call = tf.function(
        lambda x: {"y": tf.nn.relu(x @ weights)}, input_signature=[tf.TensorSpec([batch, 4], name="x")]
    )
    tf.saved_model.save(module, str(folder), signatures=module.call)
    return folder


def test_a_saved_model_that_takes_one_sample_is_run_sample_by_sample(tmp_path):
    data = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
    one, any_number = (load(saved_for(batch, tmp_path / str(batch))) for batch in (1, None))
    assert np.array_equal(one.call([data])["y"], any_number.call([data])["y"])
    for wanted in ({}, {"data": {"x": data}, "quantize": "int8"}):
        assert sqp_tflite.export(tmp_path / "1", **wanted).report.verdict == "ok"


def test_a_saved_model_that_takes_eight_samples_is_refused_with_the_way_out(tmp_path):
    open_inside = tf.Module()
    open_inside.call = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([4, None], name="x")])
    tf.saved_model.save(open_inside, str(tmp_path / "open"), signatures=open_inside.call)
    with pytest.raises(sqp_tflite.BadInputError, match="takes exactly 4. Save it"):
        load(tmp_path / "open")
    with pytest.raises(
        sqp_tflite.BadInputError, match="takes exactly 8. Save it with None or 1 as the first dimension"
    ):
        load(saved_for(8, tmp_path / "eight"))
    assert load(saved_for(1, tmp_path / "one")).inputs[0].shape == (4,)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (tf.bfloat16, "Received: bfloat16 for `x`.*input of float32, and cast it inside"),
        (None, "at least one input.*without any. Give it one"),
    ],
)
def test_a_saved_model_of_bfloat16_or_of_nothing_is_refused(dtype, words, tmp_path):
    module = tf.Module()
    given = [tf.TensorSpec([None, 3], dtype, name="x")] if dtype else []
    module.call = tf.function(lambda *x: {"y": 2 * (x[0] if x else tf.ones((1, 3)))}, input_signature=given)
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=module.call)
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        load(tmp_path / "saved")


def test_an_input_of_bfloat16_may_be_cast_inside(tmp_path):
    inputs = keras.Input((3,), dtype="bfloat16", name="x")
    with pytest.raises(sqp_tflite.BadInputError, match="bfloat16 for `x`"):
        load(keras.Model(inputs, keras.ops.cast(inputs, "float32") * 2))
    inputs = keras.Input((3,), name="x")
    cast = keras.ops.cast(keras.ops.cast(inputs, "bfloat16"), "float32")
    assert load(keras.Model(inputs, cast * 2)).inputs[0].dtype == "float32"


@pytest.mark.parametrize("layers", [[], [keras.Input((3,))]])
def test_a_model_without_a_layer_is_refused(layers):
    with pytest.raises(sqp_tflite.BadInputError, match="at least one layer.*Add one"):
        load(keras.Sequential(layers))


def test_saved_model_folder_is_read_back(tmp_path):
    dense().export(str(tmp_path / "folder"), verbose=False)
    exported = sqp_tflite.export(tmp_path / "folder")
    assert exported.report.verdict == "ok"
    assert any("SavedModel" in note for note in exported.report.notes)


def two_named(outputs_of) -> keras.Model:
    """Outputs of different widths in a dict whose order is not the alphabet's."""
    x = keras.Input((3,), name="x")
    wide, narrow = keras.layers.Dense(2, name="one"), keras.layers.Dense(1, name="two")
    return outputs_of(x, {"sum": wide(x), "copy": narrow(x)}, wide, narrow)


class Named(keras.Model):
    """A subclassed model that returns a dict."""

    def __init__(self, wide, narrow):
        super().__init__()
        self.wide, self.narrow = wide, narrow

    def call(self, x):
        return {"sum": self.wide(x), "copy": self.narrow(x)}


def named(wide, narrow) -> keras.Model:
    model = Named(wide, narrow)
    model(np.zeros((1, 3), np.float32))
    return model


@pytest.mark.parametrize(
    "kind",
    [lambda x, outputs, *_: keras.Model(x, outputs), lambda x, outputs, wide, narrow: named(wide, narrow)],
    ids=["functional", "subclassed"],
)
def test_each_name_of_a_dict_of_outputs_has_its_own_tensor(kind):
    """The planted fault is a dict whose names keep their own order: `sum` would then be what `copy` is."""
    x = np.ones((1, 3), np.float32)
    model = two_named(kind)
    found, expected = load(model).call([x]), model(x)
    assert list(found) == ["copy", "sum"]
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


def test_a_sequential_models_output_is_called_after_its_last_layer():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="first"), keras.layers.ReLU(name="last")])
    assert list(load(model).call([np.ones((1, 3), np.float32)])) == ["last"]


def words_to_numbers(kind: str) -> tuple[keras.Model, list, tuple[int, ...]]:
    """A model that reads text, the layers behind its lookup, and the shape of what the lookup returns."""
    keras.utils.set_random_seed(0)
    behind = [L.Embedding(5, 3, name="table"), L.Flatten(), L.Dense(2, name="out")]
    if kind == "StringLookup":
        front, shape = [keras.Input((4,), dtype="string", name="words"), L.StringLookup(vocabulary=list("abc"))], (4,)
    else:
        lookup = L.TextVectorization(vocabulary=list("abc"), output_sequence_length=6)
        front, shape = [keras.Input((1,), dtype="string", name="words"), lookup], (6,)
    return keras.Sequential([*front, *behind], name="reader"), behind, shape


@pytest.mark.parametrize("kind", ["StringLookup", "TextVectorization"])
def test_text_is_refused_and_the_layers_behind_the_lookup_are_exported(kind):
    model, behind, shape = words_to_numbers(kind)
    rule = rf"must be numbers.*`words` of type string.*{kind}.*int32"
    with pytest.raises(sqp_tflite.BadInputError, match=rule) as told:
        sqp_tflite.export(model)
    assert len(str(told.value).splitlines()) == 1
    numbers = keras.Sequential([keras.Input(shape, dtype="int32"), *behind])
    assert sqp_tflite.export(numbers, target="litert").report.verdict == "ok"


@pytest.mark.parametrize("dtype", ["string", "complex64"])
def test_inputs_that_are_no_numbers_are_refused(dtype):
    i = keras.Input((4,), dtype=dtype, name="odd")
    numbers = L.Hashing(3)(i) if dtype == "string" else keras.ops.real(i)
    with pytest.raises(sqp_tflite.BadInputError, match=f"must be numbers. Received: `odd` of type {dtype}"):
        load(keras.Model(i, numbers))


@pytest.mark.parametrize(
    "make", [lambda: L.IntegerLookup(vocabulary=[3, 4]), lambda: L.StringLookup(vocabulary=["a"], invert=True)]
)
def test_a_lookup_inside_the_model_is_refused_by_its_name(make):
    i, layer = keras.Input((4,), dtype="int64"), make()
    model = keras.Model(i, layer(i))
    with pytest.raises(sqp_tflite.ExportError, match="lookup") as caught:
        sqp_tflite.export(model, target="litert")
    assert "outside of the model" in str(caught.value)


def test_an_input_without_a_batch_is_refused():
    i = keras.Input(batch_shape=(), name="alone")
    with pytest.raises(sqp_tflite.BadInputError, match="must have a batch dimension.*`alone`"):
        load(keras.Model(i, i * 2.0))


def test_outputs_without_a_row_per_sample_are_refused():
    i = keras.Input((4,))
    with pytest.raises(sqp_tflite.BadInputError, match=r"one row per sample. Received: output `sum\w*`.*shape \(\)"):
        sqp_tflite.export(keras.Model(i, keras.ops.sum(i)), target="litert")


@pytest.mark.parametrize("name", [".keras", ".h5"])
def test_a_file_whose_whole_name_is_the_ending_opens(name, tmp_path):
    dense().save(tmp_path / f"m{name}")
    (tmp_path / f"m{name}").rename(tmp_path / name)
    assert load(tmp_path / name).model is not None


def test_a_saved_model_whose_parts_are_missing_is_said_by_its_own_names(tmp_path):
    dense().export(tmp_path / "sm", verbose=False)
    shutil.rmtree(tmp_path / "sm" / "variables")
    with pytest.raises(
        sqp_tflite.BadInputError, match=r"/sm` must be a SavedModel .*Received: a folder without variables.index"
    ):
        load(tmp_path / "sm")
    (tmp_path / "sm" / "saved_model.pb").unlink()
    os.mkfifo(tmp_path / "sm" / "saved_model.pb")
    with pytest.raises(sqp_tflite.BadInputError, match="a folder whose saved_model.pb is a pipe"):
        load(tmp_path / "sm")

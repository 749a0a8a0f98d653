"""Files that a real Keras 2 wrote (`tools/keras2_files.py`) compute what they computed there."""

import copy
import importlib.util
import json
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

import sqp_tflite
from sqp_tflite.errors import BadInputError
from sqp_tflite.limits import limit
from sqp_tflite.source import keras2_file, keras2_package, model_file, tf_calls
from sqp_tflite.source.keras2_config import mended
from sqp_tflite.source.load import _by_tf_keras, load

ARCHIVE = Path(__file__).parent / "data" / "keras2.zip"
NAMES = "image signal recurrent cells attention operations nested decoder merges volume mixed".split()
SAVED = "image merges nested".split()
CLOSE = {"mixed": 2**-10}
"""The writer computed that one in float16, whose numbers are 2**-10 apart below 2; float32 is used here."""


@pytest.fixture(scope="session")
def files(once):
    def make(folder):
        with zipfile.ZipFile(ARCHIVE) as held:
            held.extractall(folder)

    return once("keras2-files", make)


DEAR = {"cells", "recurrent"}


def largest_error(loaded, arrays, by_name=False):
    """The largest difference from the outputs that the writer computed."""
    given = {name: value for name, value in arrays.items() if not name.startswith("output_")}
    wanted = [arrays[f"output_{place}"] for place in range(len(arrays) - len(given))]
    found = [np.asarray(value) for value in loaded.call([given[spec.name] for spec in loaded.inputs]).values()]
    if by_name:  # A SavedModel's outputs have no order.
        wanted, found = ([max(part, key=np.size), min(part, key=np.size)] for part in (wanted, found))
    return max(float(np.abs(one - other).max()) for one, other in zip(found, wanted, strict=True))


# Both endings hold the same configuration; the dear ones are opened from one.
@pytest.mark.parametrize(
    ("name", "ending"),
    [
        pytest.param(name, ending, marks=pytest.mark.large if name in DEAR and ending == "h5" else ())
        for name in NAMES
        for ending in ("h5", "keras")
    ],
)
def test_a_file_of_keras_2_computes_what_it_did(name, ending, files):
    loaded = load(files / f"{name}.{ending}")
    arrays = dict(np.load(files / f"{name}.npz"))
    assert largest_error(loaded, arrays) < CLOSE.get(name, 1e-5)
    arrays["output_0"] = arrays["output_0"] + 0.01  # The check sees a fault.
    assert largest_error(loaded, arrays) > 0.005


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_model_of_keras_2_is_loaded_without_what_trained_it(name, files):
    """One has an optimizer of TensorFlow 2.10, one random layers, one a step of adapting."""
    loaded = load(files / name)
    assert largest_error(loaded, dict(np.load(files / f"{name}.npz")), name == "nested") < 1e-5


def test_the_report_names_what_was_written_in_another_way(files):
    (note,) = load(files / "image.keras").warnings
    for part in ("2.15.0", "groups (`depthwise_conv2d`", "kernel_initializer (`separable_conv2d`", "axis as a number"):
        assert part in note
    (note,) = load(files / "operations.h5").warnings
    assert "functions of TensorFlow as layers: math.multiply (`tf.math.multiply`" in note


def layer_of_2(kind, **config):
    return {"class_name": kind, "config": {"name": "odd", "dtype": "float32", **config}}


@pytest.mark.parametrize(
    ("kind", "key", "idle", "other"),
    [
        ("DepthwiseConv2D", "groups", 1, 2),
        ("LSTM", "time_major", False, True),
        ("SpatialDropout1D", "noise_shape", None, [1, 2]),
        ("Conv2DTranspose", "groups", 1, 2),
    ],
)
def test_a_key_that_has_an_effect_is_left_for_keras_to_refuse(kind, key, idle, other):
    for value in (idle, other):
        config, _ = mended(layer_of_2(kind, **{key: value}))
        assert (key in config["config"]) == (value == other)


def model_of_2(function, arguments, given=("x", 0, 0)):
    """A functional model of Keras 2 with one function of TensorFlow."""
    call = {
        **layer_of_2("TFOpLambda", function=function),
        "name": "odd",
        "inbound_nodes": [[*given, arguments]],
    }
    enter = {"class_name": "InputLayer", "config": {"name": "x", "batch_input_shape": [None, 3], "dtype": "float32"}}
    layers = [{**enter, "name": "x", "inbound_nodes": []}, call]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["odd", 0, 0]]}
    return {"class_name": "Functional", "config": {"name": "m", "layers": layers, **ends}}


@pytest.mark.parametrize(
    "function",
    [
        "io.write_file",
        "py_function",
        "raw_ops.WriteFile",
        "keras.utils.get_file",
        "math.sys",
        "math.__class__",
        "nn",
        "",
    ],
)
def test_a_function_that_does_more_than_compute_is_refused(function):
    with pytest.raises(BadInputError, match="only computes. Received: .*`odd`.*before or behind the model"):
        mended(model_of_2(function, {}))


def test_a_call_that_keras_2_wrote_without_its_tensors_is_refused():
    """Keras 2 keeps only the first of `tf.einsum(equation, a, b)`."""
    with pytest.raises(BadInputError, match="`odd`, a call of tf.einsum without its tensors.*SavedModel"):
        mended(model_of_2("einsum", {}, ("_CONSTANT_VALUE", -1, "ab,ab->ab")))


def test_an_activation_between_layers_becomes_one_that_can_be_exchanged():
    for function, arguments, kind in [
        ("nn.relu", {"name": None}, "Activation"),
        ("nn.softmax", {"axis": -1}, "Activation"),
        ("nn.softmax", {"axis": 1}, "TensorFlowFunction"),
        ("nn.gelu", {"approximate": True}, "TensorFlowFunction"),
    ]:
        config, _ = mended(model_of_2(function, arguments))
        assert config["config"]["layers"][1]["class_name"] == kind, function


def test_a_copy_of_a_called_function_computes_the_same():
    layer = tf_calls.TensorFlowFunction("concat", [[tf_calls.place(0), tf_calls.place(1)]], {"axis": 1}, name="both")
    again = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(again([x, 2 * x]), np.concatenate([x, 2 * x], 1))


def test_names_with_a_slash_are_written_in_another_way():
    """keras.applications of Keras 2 has them; Keras 3 does not allow them."""
    given = json.dumps(model_of_2("nn.relu", {})).replace('"odd"', '"block/odd"').replace("TFOpLambda", "ReLU")
    config, changes = mended(json.loads(given))
    assert config["config"]["layers"][1]["name"] == config["config"]["layers"][1]["config"]["name"] == "block_odd"
    assert config["config"]["output_layers"] == ["block_odd", 0, 0]
    assert "/ in the name as _ (`block/odd`)" in changes.note("m.h5", "2.15.0")


@pytest.mark.parametrize(("release", "name"), [("12", "decoder"), ("13", "nested")])
def test_files_of_older_releases_are_opened(release, name, once):
    """Keras 2.12 ends HDF5 files in .keras, 2.13 numbers the weights in another way."""

    def make(folder):
        with zipfile.ZipFile(ARCHIVE.with_name(f"keras2_{release}.zip")) as held:
            held.extractall(folder)

    files = once(f"keras2-{release}", make)
    loaded = load(files / f"{name}.keras")
    assert f"Keras 2.{release}." in loaded.warnings[0]
    assert largest_error(loaded, dict(np.load(files / f"{name}.npz"))) < 1e-5


def test_weights_in_another_order_are_refused(files):
    """Both kinds of files hold weights in the order of the layers: another order would give a wrong model."""
    given, _ = mended(model_file._config(files / "nested.h5", limit())[0])
    model = keras.saving.deserialize_keras_object(copy.deepcopy(given))
    keras2_file._require_order(model, given)
    inner = next(layer for layer in given["config"]["layers"] if layer["name"] == "inner")
    inner["config"]["layers"][1:] = inner["config"]["layers"][:0:-1]
    with pytest.raises(ValueError, match="weights of `dense_2` in `inner` are in another place"):
        keras2_file._require_order(model, given)


@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_what_keras_3_lacks_names_the_extra(ending, files, monkeypatch):
    monkeypatch.setattr(keras2_package.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInputError) as caught:
        load(files / f"local.{ending}")
    said = str(caught.value)
    assert "written by Keras 2.15.0" in said and "`locally_connected1d` (LocallyConnected1D)" in said
    assert said.endswith("Install tf-keras, with which it is opened: pip install 'sqp-keras[keras2]'.")
    assert "--import" not in said


def test_a_file_that_calls_methods_is_not_given_to_tf_keras(tmp_path):
    """It would call whatever method of TensorFlow the file names."""
    config = model_of_2("nn.relu", {})
    config["config"]["layers"][1]["class_name"] = "ClassMethod"
    path = tmp_path / "odd.h5"
    with h5py.File(path, "w") as file:
        file.attrs["model_config"], file.attrs["keras_version"] = json.dumps(config), "2.15.0"
    with pytest.raises(BadInputError) as caught:
        load(path)
    assert "tf-keras" not in str(caught.value) and "`odd`" in str(caught.value)


needs_tf_keras = pytest.mark.skipif(not importlib.util.find_spec("tf_keras"), reason="needs the extra keras2")


@needs_tf_keras
@pytest.mark.large
@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_what_keras_3_lacks_is_opened_with_tf_keras(ending, files, tmp_path):
    path = files / f"local.{ending}"
    loaded = load(path)
    assert [spec.name for spec in loaded.inputs] == ["signal", "extra"]
    assert largest_error(loaded, dict(np.load(files / "local.npz"))) < 1e-5
    assert list(loaded.call([np.zeros((1, *spec.shape), "float32") for spec in loaded.inputs])) == ["aa", "zz"]
    assert keras.layers.Dense.__module__.startswith("keras.")  # Keras 3 is as it was.
    exported = sqp_tflite.export(path, tmp_path / "local.tflite", target="litert", replace=None)
    assert exported.report.verdict == "ok" and any("tf-keras" in note for note in exported.report.warnings)


@needs_tf_keras
@pytest.mark.large
@pytest.mark.parametrize("ending", ["h5", "keras"])
@pytest.mark.parametrize("name", NAMES)
def test_tf_keras_opens_every_file(name, ending, files):
    path = files / f"{name}.{ending}"
    refusal = keras2_package.NotInKeras3Error(path, "2.15.0", "planted")
    loaded = _by_tf_keras(refusal, False, {}, limit())
    assert largest_error(loaded, dict(np.load(files / f"{name}.npz"))) < CLOSE.get(name, 1e-5)


def test_an_h5_of_keras_3_with_operations_is_opened(tmp_path):
    """Keras writes them, and attention, without their modules, and does not find them again."""
    x = keras.Input((4, 6), name="x")
    y = keras.layers.Attention()([x, keras.ops.reshape(keras.ops.relu(x * 2.0), (-1, 4, 6))])
    model = keras.Model(x, keras.ops.softmax(y))
    model.save(tmp_path / "m.h5")
    given = np.random.default_rng(3).normal(size=(3, 4, 6)).astype("float32")
    (found,) = load(tmp_path / "m.h5").call([given]).values()
    np.testing.assert_allclose(found, model(given), atol=1e-6)


def test_a_lambda_of_keras_2_runs_only_where_it_is_trusted(tmp_path):
    """Keras 2 writes it as a list, beside keys that Keras 3 does not know."""
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Lambda(lambda x: x * 2.0 + 1.0, name="odd")])
    path = tmp_path / "m.h5"
    model.save(path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        held = config["config"]["layers"][1]["config"]
        code = held["function"]["config"]
        held["function"] = [code[key] for key in ("code", "defaults", "closure")]
        held |= {
            "function_type": "lambda",
            "module": "__main__",
            "output_shape_type": "raw",
            "output_shape_module": None,
        }
        file.attrs["model_config"], file.attrs["keras_version"] = json.dumps(config), "2.15.0"
    with pytest.raises(BadInputError, match="data, not code.*`odd`"):
        load(path)
    (found,) = load(path, trust=True).call([np.ones((1, 3), "float32")]).values()
    np.testing.assert_array_equal(found, [[3.0, 3.0, 3.0]])

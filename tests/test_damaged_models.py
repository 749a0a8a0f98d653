"""A damaged model file is one line that says what is wrong and what to do, whatever was damaged and wherever."""

import json
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from models import dense
from sqp_tflite.source import model_file
from sqp_tflite.source.load import load

L = keras.layers
LONGEST = 900
"""Characters of a message: a path, a reason of at most 300, a rule and a remedy."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with one model in each of the three forms."""
    folder = tmp_path_factory.mktemp("whole")
    dense().save(folder / "m.keras")
    dense().save(folder / "m.h5")
    dense().export(str(folder / "saved"), verbose=False)
    return folder


def refusal(path) -> str:
    """Returns why a file is refused, which must be one short line."""
    with pytest.raises(sqp_tflite.BadInputError) as caught:
        load(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1 and len(text) < LONGEST
    return text


def archive(whole, target, **changed):
    """Writes the .keras file again with other content in some of its parts; None leaves one out."""
    with zipfile.ZipFile(whole / "m.keras") as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = changed.get(name.partition(".")[0], old.read(name))
            if content is not None:
                new.writestr(name, content)
    return target


def config_of(whole) -> dict:
    return json.loads(zipfile.ZipFile(whole / "m.keras").read("config.json"))


NO_OBJECT = {
    b"[1]": "must be a JSON object. Received: a list",
    b"null": "must be a JSON object. Received: null",
    b'"x"': "must be a JSON object. Received: text",
    b"3": "must be a JSON object. Received: a number",
    b"text": "must be JSON. Received: Expecting value",
    b"": "must be JSON",
    b"\xff\xfe\x00": "must be JSON",
    b"[" * 100_000 + b"]" * 100_000: "at most 250 levels. Received: more",
    b'{"a":' * 400 + b"1" + b"}" * 400: "at most 250 levels. Received: more",
}


@pytest.mark.parametrize("part", ["config", "metadata"])
@pytest.mark.parametrize("content", NO_OBJECT, ids=lambda content: content[:8])
def test_json_of_another_kind_is_named(whole, tmp_path, part, content):
    path = archive(whole, tmp_path / "m.keras", **{part: content})
    assert re.search(f"`{part}.json` in .*{NO_OBJECT[content]}", refusal(path))


def test_an_archive_without_a_configuration_is_named(whole, tmp_path):
    assert "must hold a config.json" in refusal(archive(whole, tmp_path / "m.keras", config=None))


def test_models_nested_deeper_than_python_follows_are_one_line(whole, tmp_path):
    config = config_of(whole)
    for number in range(60):
        inner = {"name": f"s{number}", "trainable": True, "dtype": "float32", "layers": [config]}
        config = {"module": "keras", "class_name": "Sequential", "config": inner, "registered_name": None}
    assert "cannot open" in refusal(archive(whole, tmp_path / "m.keras", config=json.dumps(config)))


def marked(content: bytes, local: int, central: int, value: int) -> bytes:
    """Returns an archive in which a field of each header of its first entry has another value."""
    changed = bytearray(content)
    for signature, place in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        changed[changed.index(signature) + place] = value
    return bytes(changed)


@pytest.mark.parametrize(
    ("local", "central", "value", "words"),
    [(6, 8, 1, "must not be encrypted"), (8, 10, 93, "compressed by method 93"), (8, 10, 9, "compressed by method 9")],
)
def test_archives_that_python_cannot_unpack_are_named(whole, tmp_path, local, central, value, words):
    path = tmp_path / "m.keras"
    path.write_bytes(marked((whole / "m.keras").read_bytes(), local, central, value))
    assert words in refusal(path)


MISTAKES = {
    "units": (lambda layer: layer["config"].update(units=-3), "`hidden`.*positive integer.*units=-3"),
    "a shape that does not fit": (
        lambda layer: layer["config"].update(units=9),
        r"`out` \(Dense\).*value 8.*\(None, 9",
    ),
    "a setting": (lambda layer: layer["config"].update(nonsense=1), r"`hidden`.*Unrecognized.*'nonsense'"),
    "a type": (lambda layer: layer["config"].update(dtype="float99"), r"`hidden`.*'float99'"),
    "a class": (lambda layer: layer.update(class_name=["a"]), "`hidden`"),
    "a registration": (lambda layer: layer.update(registered_name=3), "`registered_name=3`"),
    "a list for a configuration": (lambda layer: layer.update(config=[1]), "to be a dict for Dense"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_the_layer_and_the_reason_are_kept_and_no_package_is_blamed(whole, tmp_path, case):
    change, words = MISTAKES[case]
    config = config_of(whole)
    change(config["config"]["layers"][1])
    text = refusal(archive(whole, tmp_path / "m.keras", config=json.dumps(config)))
    assert re.search(words, text)
    assert "Import the package" not in text and "`None`" not in text


def test_a_file_of_something_else_than_a_model_is_named(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.saving, "load_model", lambda *_, **__: L.Dense(3))
    assert "must hold a Keras model. Received: Dense" in refusal(whole / "m.keras")


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")]
)
def test_too_little_memory_is_no_missing_package(whole, monkeypatch, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(keras.saving, "load_model", full)
    text = refusal(whole / "m.keras")
    assert "more memory" in text and "package" not in text and "Save the model again" not in text


@pytest.mark.parametrize(("version", "said"), [("3.0.1", True), (keras.__version__, False), ([1], False)])
def test_only_another_keras_is_named_as_the_writer(whole, tmp_path, version, said):
    config = config_of(whole)
    config["config"]["layers"][1]["config"]["units"] = -3
    changed = {"config": json.dumps(config), "metadata": json.dumps({"keras_version": version})}
    text = refusal(archive(whole, tmp_path / "m.keras", **changed))
    assert ("written by" in text) == said
    assert ("Open it with Keras 3.0.1" in text) == said


def test_a_class_without_a_module_is_named_as_what_to_import(whole, tmp_path):
    path = shutil.copy(whole / "m.h5", tmp_path / "m.h5")
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"][1] = {"class_name": "Mine", "config": {"name": "odd"}}
        file.attrs["model_config"] = json.dumps(config)
    assert "--import MODULE:Mine" in refusal(path)


@pytest.mark.parametrize(
    ("module", "registered", "words"),
    [
        (None, "theirs>Mine", "`theirs>Mine` in `odd`. One of these: import what defines it: --import MODULE."),
        (None, "Custom>Mine", "`Custom>Mine` in `odd`. One of these: import what defines it: --import MODULE."),
        ("__main__", "Mine", "--import MODULE:Mine."),
        ("theirs.layers", None, "--import theirs.layers; let the file import what it names: --trust-code."),
    ],
)
def test_what_to_import_is_never_called_none(whole, tmp_path, module, registered, words):
    config = config_of(whole)
    odd = {"module": module, "class_name": "Mine", "config": {"name": "odd"}, "registered_name": registered}
    config["config"]["layers"][1] = odd
    text = refusal(archive(whole, tmp_path / "m.keras", config=json.dumps(config)))
    assert words in text and "None" not in text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "must be text. Received: int64"),
        (np.arange(4), "must be text. Received: ndarray"),
        (h5py.Empty("S1"), "must be text. Received: Empty"),
        ("[1]", "must be a JSON object. Received: a list"),
        ("null", "must be a JSON object. Received: null"),
        ("text", "must be JSON"),
        ("{}", "cannot open"),
        (None, "only weights"),
    ],
)
def test_an_h5_configuration_of_another_kind_is_named(whole, tmp_path, value, words):
    path = shutil.copy(whole / "m.h5", tmp_path / "m.h5")
    with h5py.File(path, "r+") as file:
        del file.attrs["model_config"]
        if value is not None:
            file.attrs["model_config"] = value
    assert words in refusal(path)


def test_an_h5_version_of_another_kind_is_left_out(whole, tmp_path):
    path = shutil.copy(whole / "m.h5", tmp_path / "m.h5")
    with h5py.File(path, "r+") as file:
        file.attrs["keras_version"] = 3
    assert load(path).layers == ("hidden", "out")


def flipped(content: bytes, generator, below: int | None = None) -> bytes:
    changed = bytearray(content)
    changed[generator.integers(below or len(content))] ^= 1 << generator.integers(8)
    return bytes(changed)


@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_a_flipped_bit_is_one_line_or_harmless(whole, tmp_path, ending):
    """Most of a file is weights, whose bits may be anything; half of the flips are in the part with the structure."""
    content, generator = (whole / f"m.{ending}").read_bytes(), np.random.default_rng(7)
    refused = 0
    for number in range(40):
        path = tmp_path / f"m{number}.{ending}"
        path.write_bytes(flipped(content, generator, 3000 if number % 2 else None))
        try:
            load(path)
        except sqp_tflite.BadInputError as error:
            refused += 1
            assert len(str(error).splitlines()) == 1 and len(str(error)) < LONGEST
    assert refused > 5


INDEX, DATA = "variables/variables.index", "variables/variables.data-00000-of-00001"
DAMAGES = {
    "index cut": lambda folder: half(folder / INDEX),
    "index empty": lambda folder: (folder / INDEX).write_bytes(b""),
    "index flipped": lambda folder: flip(folder / INDEX),
    "index with bytes in front of its end": lambda folder: longer(folder / INDEX),
    "data cut": lambda folder: half(folder / DATA),
    "data empty": lambda folder: (folder / DATA).write_bytes(b""),
    "data flipped": lambda folder: flip(folder / DATA),
    "data missing": lambda folder: (folder / DATA).unlink(),
    "no variables": lambda folder: shutil.rmtree(folder / "variables"),
    "graph cut": lambda folder: half(folder / "saved_model.pb"),
    "graph empty": lambda folder: (folder / "saved_model.pb").write_bytes(b""),
}


def half(path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def longer(path) -> None:
    """The places that the end of the file names then lie behind the file's end for TensorFlow's reader."""
    content = path.read_bytes()
    path.write_bytes(content[:-16] + b"\xff\x7f" * 512 + content[-16:])


def flip(path) -> None:
    path.write_bytes(flipped(path.read_bytes(), np.random.default_rng(3)))


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_saved_model_is_one_line(whole, tmp_path, case):
    folder = shutil.copytree(whole / "saved", tmp_path / "saved")
    DAMAGES[case](folder)
    assert re.search(
        "(must be a (readable SavedModel|SavedModel that TensorFlow can load)|variables of .* cannot be read).*again",
        refusal(folder),
    )


def test_every_command_says_the_same_and_ends_with_2(whole, tmp_path, command):
    path = archive(whole, tmp_path / "m.keras", metadata=b"[1]")
    said = refusal(path)
    file = tmp_path / "any.tflite"
    shutil.copy(Path(__file__).parent / "data" / "two_inputs_int8.tflite", file)
    for name, given in (("sqp-export", [path]), ("sqp-check", [path, file])):
        ran = command(name, *given, cwd=tmp_path)
        assert (ran.code, ran.out, ran.err) == (2, "", f"{name}: SQP-E021: {said}\n")
    file.write_bytes(file.read_bytes()[:600])
    ran = command("sqp-inspect", file)
    assert ran.code == 2 and len(ran.err.splitlines()) == 1 and "damaged" in ran.err


def test_a_remedy_that_says_to_save_the_model_again_works(whole, tmp_path):
    config = config_of(whole)
    config["config"]["layers"][1]["config"]["nonsense"] = 1
    path = archive(whole, tmp_path / "m.keras", config=json.dumps(config))
    assert model_file._AGAIN in refusal(path)
    dense().save(path)
    assert load(path).layers == ("hidden", "out")


@pytest.mark.parametrize("key", ["registered_name", "class_name", "module"])
@pytest.mark.parametrize("value", [[], {}, ["a"], 3, True])
def test_a_name_that_is_no_text_is_one_line(whole, tmp_path, key, value):
    config = config_of(whole)
    config["config"]["layers"][1][key] = value
    path = archive(whole, tmp_path / "m.keras", config=json.dumps(config))
    try:
        load(path)
    except sqp_tflite.BadInputError as error:
        assert "\n" not in str(error) and len(str(error)) <= 600


def test_what_keras_unpacked_of_a_refused_file_is_removed(whole, tmp_path, monkeypatch):
    path = archive(whole, tmp_path / "m.keras")
    with zipfile.ZipFile(path, "a") as odd:
        odd.writestr(f"assets/{'x' * 300}", b"")
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert "too long" in refusal(path)
    assert not list(folder.iterdir())

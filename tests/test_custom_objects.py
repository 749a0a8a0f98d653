"""What a file names and Keras does not define: imported, explained, or refused with commands that work when pasted."""

import contextlib
import importlib
import json
import re
import shlex
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest

import sqp_tflite
from models import dense
from sqp_tflite.source.load import load

L = keras.layers
PLUS_ONE = "lib_of_theirs>elu_plus_one_plus_epsilon"

MODULE = '''
import keras

print("a module may print")


@keras.saving.register_keras_serializable("lib_of_theirs")
def elu_plus_one_plus_epsilon(x):
    return keras.activations.elu(x) + 1.0 + 1e-7


@keras.saving.register_keras_serializable("lib_of_theirs")
class Scale(keras.layers.Layer):
    def call(self, x):
        return x * 3.0


class Shift(keras.layers.Layer):
    """Not registered."""

    def call(self, x):
        return x + 2.0


def bent(x):
    """Not registered."""
    return keras.ops.maximum(x, 0.1 * x)
'''
"""What the user wrote: it is in a folder, not in an installed package."""


def model_of(kind: str, module) -> keras.Model:
    """A model that uses one thing of the module."""
    i = keras.Input((4,), name="x")
    x = L.Dense(3, name="first")(i)
    made = {
        "registered function": lambda: L.Dense(2, activation=module.elu_plus_one_plus_epsilon, name="out")(x),
        "function": lambda: L.Dense(2, activation=module.bent, name="out")(x),
        "registered layer": lambda: module.Scale(name="out")(x),
        "layer": lambda: module.Shift(name="out")(x),
    }
    keras.utils.set_random_seed(3)
    return keras.Model(i, made[kind]())


KINDS = ("registered function", "function", "registered layer", "layer")


@contextlib.contextmanager
def forgotten():
    """Afterwards this process has not imported the module: neither it nor what it registers is known."""
    path, registered = list(sys.path), keras.saving.get_custom_objects()
    before = dict(registered)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in ("my_parts", "lib_of_theirs", "broken"):
            sys.modules.pop(name, None)
        registered.clear()
        registered.update(before)


@pytest.fixture(scope="module")
def folder(once):
    """Models in both formats and what they compute, beside the module that they need."""

    def make(folder):
        (folder / "my_parts.py").write_text(MODULE, encoding="utf-8")
        x = np.linspace(-3, 3, 32, dtype="float32").reshape(8, 4)
        np.savez(folder / "data", x=x)
        with forgotten():
            sys.path.insert(0, str(folder))
            module = importlib.import_module("my_parts")
            for kind in KINDS:
                model = model_of(kind, module)
                for ending in ("keras", "h5"):
                    model.save(file_of(folder, kind, ending))
                np.save(folder / kind.replace(" ", "_"), model(x))

    return once("their-models", make)


@pytest.fixture
def fresh(monkeypatch):
    """The module is not imported, before and after."""
    with forgotten():
        yield monkeypatch


def outputs(loaded, folder):
    x = np.load(folder / "data.npz")["x"]
    return np.asarray(next(iter(loaded.call([x]).values())))


def file_of(folder, kind, ending="keras"):
    return folder / f"{kind.replace(' ', '_')}.{ending}"


IMPORTS = {
    "registered function": "my_parts",
    "function": "my_parts:bent",
    "registered layer": "my_parts",
    "layer": "my_parts:Shift",
}


@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_imported_is_what_the_file_computes(kind, ending, folder, fresh):
    fresh.chdir(folder)
    loaded = load(file_of(folder, kind, ending), imports=[IMPORTS[kind]])
    np.testing.assert_allclose(outputs(loaded, folder), np.load(folder / f"{kind.replace(' ', '_')}.npy"), rtol=1e-6)


def test_a_module_that_the_file_names_needs_no_name_after_it(folder, fresh):
    fresh.chdir(folder)
    assert load(file_of(folder, "layer"), imports=["my_parts"]).model is not None


def test_the_commands_that_are_printed_work_when_pasted(folder, fresh, command, tmp_path):
    """The name resembles ELU and is something else: nothing is guessed, and `>` does not reach a shell unquoted."""
    fresh.chdir(folder)
    path, output = file_of(folder, "registered function"), tmp_path / "o.tflite"
    ran = command("sqp-export", path, "-o", output, cwd=folder)
    assert ran.code == 2 and not output.exists()
    assert "=elu" not in ran.err and "Traceback" not in ran.err
    (option,) = re.findall(r"--map '[^']*'", ran.err)
    assert shlex.split(option) == ["--map", f"{PLUS_ONE}=ACT"]
    assert "--import MODULE" in ran.err
    ran = command("sqp-export", path, "--import", "my_parts", "--dry-run", "--json", cwd=folder)
    assert ran.code == 0 and json.loads(ran.out)["verdict"] == "planned", ran.err


def test_the_live_model_exports_as_a_table(folder, fresh):
    """The third remedy: where the function is, its name needs no meaning."""
    fresh.chdir(folder)
    model = load(file_of(folder, "registered function"), imports=["my_parts"]).model
    data = {"x": np.load(folder / "data.npz")["x"]}
    report = sqp_tflite.export(model, quantize="int8", lowering="table", data=data).report
    assert report.verdict == "ok" and not report.unproven


@pytest.mark.large
def test_the_command_line_exports_and_checks_an_own_layer(folder, process, tmp_path):
    for kind, options in (("layer", ["--trust-code"]), ("registered layer", ["--import", "my_parts"])):
        path, output = file_of(folder, kind), tmp_path / "o.tflite"
        ran = process("sqp-export", path, "-o", output, *options, cwd=folder)
        assert ran.code == 0, ran.err
        ran = process("sqp-check", path, output, *options, cwd=folder)
        assert ran.code == 0, ran.err


def test_trust_imports_what_the_file_names(folder, fresh):
    fresh.chdir(folder)
    path = file_of(folder, "layer")
    with pytest.raises(sqp_tflite.BadInputError, match="`Shift` in `out`.*--import my_parts;.*--trust-code"):
        load(path)
    assert "my_parts" not in sys.modules
    np.testing.assert_allclose(outputs(load(path, trust=True), folder), np.load(folder / "layer.npy"), rtol=1e-6)


def test_trust_imports_the_package_that_something_was_registered_for(folder, fresh, tmp_path):
    (tmp_path / "lib_of_theirs.py").write_text(MODULE, encoding="utf-8")
    fresh.chdir(tmp_path)
    path = file_of(folder, "registered layer")
    with pytest.raises(sqp_tflite.BadInputError, match="--import lib_of_theirs;.*--trust-code"):
        load(path)
    assert load(path, trust=True).model is not None


def test_what_a_file_does_not_say_is_asked_for_also_with_trust(folder, fresh):
    fresh.chdir(folder)
    with pytest.raises(sqp_tflite.BadInputError, match="`bent` in `out`.*--import MODULE:bent;") as told:
        load(file_of(folder, "function"), trust=True)
    assert "--trust-code" not in str(told.value)


def test_an_import_that_does_not_register_it_says_where_it_is(folder, fresh):
    fresh.chdir(folder)
    with pytest.raises(sqp_tflite.BadInputError, match="--import my_parts:bent;"):
        load(file_of(folder, "function"), imports=["my_parts"])


def test_a_module_may_print_and_the_report_stays_json(folder, fresh, command):
    ran = command("sqp-export", file_of(folder, "layer"), "--import", "my_parts", "--dry-run", "--json", cwd=folder)
    assert ran.code == 0 and json.loads(ran.out), ran.err


BROKEN = {
    "raises": ("raise ValueError('not today')", "--import broken", "ValueError: not today"),
    "ends": ("import sys; sys.exit(7)", "--import broken", "SystemExit: 7"),
    "is no Python": ("def f(:", "--import broken", "SyntaxError"),
    "lacks a package": ("import no_such_package_of_theirs", "--import broken", "No module named 'no_such_package"),
    "is not there": (None, "--import broken", "No module named 'broken'"),
    "lacks the name": ("", "--import broken:Layer", "`Layer`, which `.*broken.py` does not define"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_import_that_fails_is_one_line_with_its_cause(case, folder, fresh, tmp_path, command):
    text, options, words = BROKEN[case]
    if text is not None:
        (tmp_path / "broken.py").write_text(text, encoding="utf-8")
    ran = command("sqp-export", file_of(folder, "layer"), *options.split(), "--dry-run", cwd=tmp_path)
    assert ran.code == 2 and re.search(words, ran.err), ran.err
    assert len(ran.err.strip().splitlines()) <= 2 and "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("layers.py", "Leave out the .py: layers"),
        ("a/b", "must be MODULE or MODULE:NAME"),
        ("a:b:c", "must be MODULE or MODULE:NAME"),
        ("", "must be MODULE or MODULE:NAME"),
        ("a; import os", "must be MODULE or MODULE:NAME"),
    ],
)
def test_what_is_no_module_is_refused(given, words, folder, command):
    ran = command("sqp-export", file_of(folder, "layer"), f"--import={given}", "--dry-run")
    assert ran.code == 2 and words in ran.err, ran.err


def test_an_import_of_something_that_the_file_does_not_have_is_refused(folder, fresh):
    fresh.chdir(folder)
    with pytest.raises(sqp_tflite.BadInputError, match="must take something that the file names. Received: `Scale`"):
        load(file_of(folder, "layer"), imports=["my_parts:Scale"])


@pytest.mark.parametrize("module", ["os", "posix", "subprocess"])
def test_nobody_is_told_to_import_parts_of_pythons_own_library(module, tmp_path):
    path = tmp_path / "hostile.keras"
    dense(activation="relu").save(path)
    function = {"module": module, "class_name": "function", "config": "system", "registered_name": "function"}
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = parts["config.json"].decode().replace('"activation": "relu"', f'"activation": {json.dumps(function)}')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**parts, "config.json": config.encode()}.items():
            archive.writestr(name, content)
    with pytest.raises(sqp_tflite.BadInputError, match="Python's own library.*`system`.*that you trust") as caught:
        load(path)
    assert "--import" not in str(caught.value) and "--trust-code" not in str(caught.value)


def test_a_name_that_is_exactly_an_activation_is_offered_as_one(tmp_path):
    def named(name):
        function = lambda x: x  # noqa: E731
        function.__name__ = function.__qualname__ = name
        return function

    for name, offered in (("softplus", "--map softplus_v2="), ("elu", "--map my_elu=")):
        path = tmp_path / f"{name}.keras"
        dense(activation=named(offered.split()[1][:-1])).save(path)
        with pytest.raises(sqp_tflite.BadInputError, match=f"{offered}ACT"):
            load(path)
    text = json.loads(zipfile.ZipFile(path).read("config.json"))
    changed = json.dumps(text).replace('"my_elu"', '"their>elu"')
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "exact.keras", "w") as new:
        for entry in old.namelist():
            new.writestr(entry, changed if entry == "config.json" else old.read(entry))
    with pytest.raises(sqp_tflite.BadInputError, match="--map 'their>elu=elu'"):
        load(tmp_path / "exact.keras")
    assert load(tmp_path / "exact.keras", names={"their>elu": "elu"}).model is not None


@pytest.fixture
def bare(tmp_path):
    """An .h5 that names its activation by a bare string, as Keras 2 wrote it."""
    path = tmp_path / "bare.h5"
    dense(activation="relu").save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = file.attrs["model_config"].replace('"relu"', '"bent"')
        file.attrs["keras_version"] = "2.9.0"
    return path


def test_a_bare_string_can_be_explained(bare):
    loaded = load(bare, names={"bent": "elu"})
    x = np.linspace(-3, 3, 8, dtype="float32").reshape(2, 4)
    expected = dense(activation="elu")
    expected.set_weights(loaded.model.get_weights())
    np.testing.assert_allclose(loaded.call([x])["out"], expected(x), rtol=1e-6)
    with pytest.raises(ValueError, match="Could not interpret"):
        keras.activations.get("bent")  # Only while the file was open.


def test_a_bare_string_can_be_imported(bare, folder, fresh):
    fresh.chdir(folder)
    loaded = load(bare, imports=["my_parts:bent"])
    x = np.linspace(-3, 3, 8, dtype="float32").reshape(2, 4)
    assert float(np.asarray(loaded.call([x])["out"]).size) and loaded.model is not None


@pytest.mark.parametrize("known", ["prelu", "nosuch", "algebraic"])
def test_a_meaning_that_is_no_function_of_keras_is_refused(known, bare):
    with pytest.raises(sqp_tflite.BadInputError, match=f"must name an activation of Keras. Received: `{known}`"):
        load(bare, names={"bent": known})


OVERRULED = {
    "registered layer": ("lib_of_theirs>Scale", "my_parts"),
    "layer": ("Shift", "my_parts:Shift"),
    "registered function": (PLUS_ONE, "my_parts"),
}


@pytest.mark.parametrize("kind", OVERRULED)
def test_what_an_import_defines_has_nothing_to_explain(kind, folder, fresh):
    fresh.chdir(folder)
    name, module = OVERRULED[kind]
    with pytest.raises(sqp_tflite.BadInputError, match="which an import defines.*Omit --map"):
        load(file_of(folder, kind), names={name: "gelu"}, imports=[module])
    with forgotten():
        assert load(file_of(folder, kind), imports=[module]).model is not None


def test_a_layer_is_not_offered_as_an_activation(folder, fresh):
    with pytest.raises(sqp_tflite.BadInputError, match="import what defines it") as caught:
        load(file_of(folder, "registered layer"))
    assert "--map" not in str(caught.value)


def test_a_class_is_explained_as_it_was_registered(folder, fresh):
    fresh.chdir(folder)
    with pytest.raises(sqp_tflite.BadInputError, match="Write --map 'lib_of_theirs>Scale=gelu'"):
        load(file_of(folder, "registered layer"), names={"Scale": "gelu"})
    assert load(file_of(folder, "registered layer"), names={"lib_of_theirs>Scale": "gelu"}).model is not None


def test_a_name_that_keras_spells_otherwise_is_explained(bare):
    with h5py.File(bare, "r+") as file:
        file.attrs["model_config"] = file.attrs["model_config"].replace('"bent"', '"Softplus"')
    with pytest.raises(sqp_tflite.BadInputError, match="--map Softplus=softplus"):
        load(bare)
    assert load(bare, names={"Softplus": "softplus"}).model is not None

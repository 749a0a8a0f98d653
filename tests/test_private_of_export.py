"""What export uses of other packages' private parts: there today, and done without or asked for when gone."""

import argparse
import dataclasses
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from litert_quantizer import qtyping, recipe_manager
from litert_quantizer.utils import tfl_flatbuffer_utils

from models import dense, subclassed
from sqp_tflite import private
from sqp_tflite.cli.completion import script
from sqp_tflite.errors import EnvironmentMissingError, RefusedError
from sqp_tflite.quantize import recipe
from sqp_tflite.source.convert import convert_graph
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.trace import Traced, trace
from sqp_tflite.versions import version
from sqp_tflite.worker import may_fork

L = keras.layers
NEEDED = [use for use, part in private.USED.items() if not part.without]
OPTIONAL = [use for use, part in private.USED.items() if part.without and part.package in private.TESTED]


@pytest.fixture
def gone(monkeypatch):
    """The planted fault: a release in which a part has another name."""

    def plant(use: str) -> private.Private:
        part = private.USED[use]
        monkeypatch.setitem(private.USED, use, dataclasses.replace(part, name=f"{part.name}_in_a_later_release"))
        return private.USED[use]

    return plant


def outputs(traced: Traced, *inputs: np.ndarray) -> list[np.ndarray]:
    """What the traced graph computes."""
    definition = tf.compat.v1.GraphDef.FromString(traced.graph_def)
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
    run = wrapped.prune([f"{spec.name}:0" for spec in traced.inputs], [f"{name}:0" for name in traced.outputs])
    return [value.numpy() for value in run(*map(tf.constant, inputs))]


@pytest.mark.parametrize("use", private.USED)
def test_the_installed_releases_have_every_part(use):
    assert private.find(use) is not None


@pytest.mark.parametrize("package", private.TESTED)
def test_nothing_is_missing_and_nothing_noted(package):
    assert version(package).startswith(f"{private.TESTED[package]}.")
    assert private.missing(package) == () and private.notes() == ()


@pytest.mark.parametrize("use", OPTIONAL)
def test_a_part_that_is_gone_is_noted_in_the_plan(gone, use):
    part = gone(use)
    (note,) = [note for note in plan(load(dense())).notes if str(part) in note]
    assert note.startswith(f"{part.package} {version(part.package)} does not have") and note.endswith(part.without)


def test_a_part_that_is_gone_is_warned_of_once_the_package_is_imported(gone):
    part = gone("flip")
    with pytest.warns(UserWarning, match="does not have all that export uses of it.*REVERSE_V2"):
        private.warn(part.package)


def test_no_warning_without_need():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private.warn("keras")


@pytest.mark.parametrize("use", OPTIONAL)
def test_the_export_form_is_as_exact_without_any_optional_part(gone, use):
    gone(use)
    model = dense()
    x = np.linspace(-3, 3, 4, dtype=np.float32)[None]
    (found,) = outputs(trace(plan(load(model))), x)
    # Sums of eight products in float32, in another order.
    np.testing.assert_allclose(found, model(x), rtol=1e-5, atol=1e-6)


def test_layers_are_found_through_the_public_list(gone):
    inner = keras.Sequential([keras.Input((4,)), L.Dense(2, name="inside")])
    model = keras.Sequential([keras.Input((4,)), inner, L.Dense(1, name="outside")])
    known = {layer.name for layer in private.layers(model)}
    gone("layers")
    assert {"inside", "outside"} <= {layer.name for layer in private.layers(model)} <= known


def test_dict_inputs_keep_their_names_without_the_private_structure(gone):
    a, b = keras.Input((2,), name="left"), keras.Input((3,), name="right")
    model = keras.Model({"left": a, "right": b}, L.Concatenate()([a, b]))
    gone("inputs")
    traced = trace(plan(load(model)))
    values = np.ones((1, 2), np.float32), np.full((1, 3), 2, np.float32)
    assert [spec.name for spec in traced.inputs] == ["left", "right"]
    np.testing.assert_array_equal(outputs(traced, *values)[0], model(dict(zip(("left", "right"), values, strict=True))))


def test_a_subclassed_model_is_known_by_its_build_config(gone):
    gone("build_shapes")
    (spec,) = load(subclassed()).inputs
    assert spec.shape == (4,)
    assert trace(plan(load(subclassed()))).outputs


def test_state_inside_a_loop_is_found_while_the_part_is_there(gone):
    class Drawing(L.Layer):
        def call(self, x):
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.random.normal((1, 3))), (0, x))[1]

    model = keras.Sequential([keras.Input((3,)), Drawing(name="drawing")])
    with pytest.raises(RefusedError, match="cannot be exported"):
        trace(plan(load(model)))
    gone("graph_functions")
    assert trace(plan(load(model))).outputs


def test_a_process_that_cannot_be_asked_is_not_copied(gone):
    gone("computing")
    assert private.tensorflow_computes() and not may_fork()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_file_names_without_the_list_of_options(gone, shell):
    parser = argparse.ArgumentParser()
    parser.add_argument("--quantize")
    assert "quantize" in script(shell, {"sqp-export": parser})
    gone("actions")
    found = script(shell, {"sqp-export": parser})
    assert "sqp-export" in found and "quantize" not in found


@pytest.mark.parametrize("bits", [8, 16])
def test_the_quantisers_operators_are_spelt_as_in_the_schema(bits):
    """Its public names are read, with one that differs; its own private table says the same."""
    manager = recipe_manager.RecipeManager()
    manager.add_static_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, bits, 8)
    spelled = {number: name for name, number in vars(schema.BuiltinOperator).items() if name.isupper()}
    expected = {
        spelled[code]
        for code, name in tfl_flatbuffer_utils.TFL_OP_CODE_TO_NAME.items()
        if manager.get_quantization_configs(name, "any;")[0] != "no_quantize"
    }
    assert recipe._static_ops(bits) == expected


@pytest.mark.parametrize("use", NEEDED)
def test_what_export_cannot_do_without_is_asked_for_with_version_and_remedy(gone, use):
    part = gone(use)
    words = rf"is used to {part.purpose}. Received: tensorflow {version('tensorflow')}.*pip install 'tensorflow~="
    with pytest.raises(EnvironmentMissingError, match=words):
        private.require(use)


def test_trace_and_convert_say_so(gone):
    traced = trace(plan(load(dense())))
    for use in NEEDED:
        gone(use)
    with pytest.raises(EnvironmentMissingError, match="write the weights into the graph"):
        trace(plan(load(dense())))
    with pytest.raises(EnvironmentMissingError, match="convert a frozen graph"):
        convert_graph(traced.graph_def, tuple(spec.name for spec in traced.inputs), traced.outputs)


def test_a_graph_is_frozen_as_tensorflow_freezes_it(gone):
    x = keras.Input((5, 3), name="x")
    y = L.LSTM(4, return_sequences=True)(L.Dense(3, activation="relu")(x))
    model = keras.Model(x, [L.Dense(2, name="out")(y), keras.ops.max(y, axis=1)])
    ours = trace(plan(load(model)))
    gone("constants")
    theirs = trace(plan(load(model)))
    assert (ours.inputs, ours.outputs, ours.layers) == (theirs.inputs, theirs.outputs, theirs.layers)
    nodes = [{n.name: n for n in tf.compat.v1.GraphDef.FromString(t.graph_def).node} for t in (ours, theirs)]
    assert {name: (n.op, list(n.input)) for name, n in nodes[0].items()} == {
        name: (n.op, list(n.input)) for name, n in nodes[1].items()
    }

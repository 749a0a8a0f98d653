"""Each private part of Keras and TensorFlow may be missing: a warning says what that means, and the rest works."""

import dataclasses
import sys
import types
import warnings

import keras
import numpy as np
import pytest
from keras import layers

import sqp_keras
from replaceable import CASES, functional, inputs_of, sequential
from sqp_keras import private
from sqp_keras.models.rebuild import CannotCopyError, rebuild
from sqp_keras.models.rules import Cause
from sqp_keras.models.sites import sites


@pytest.fixture
def hide(monkeypatch):
    """Hides a part, as a release would that gives it another name."""

    def hide_part(name):
        moved = dataclasses.replace(getattr(private, name), attribute="_moved_elsewhere")
        monkeypatch.setattr(private, name, moved)

    monkeypatch.setattr(private, "_warned", set())
    return hide_part


def test_this_release_has_every_part():
    assert private.check() == ()


@pytest.mark.parametrize("part", private.PARTS, ids=lambda part: part.attribute)
def test_a_missing_part_is_warned_of_once_with_what_happens(monkeypatch, part):
    monkeypatch.setattr(private, "_warned", set())
    missing = dataclasses.replace(part, attribute="_moved_elsewhere")
    with pytest.warns(UserWarning) as caught:
        assert private.check((missing,)) == (missing,)
    assert [str(one.message) for one in caught] == [str(missing)]
    assert part.what in str(missing) and part.without in str(missing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert private.check((missing,)) == (missing,)


def test_a_module_that_moved_is_a_missing_part(monkeypatch):
    monkeypatch.setattr(private, "_warned", set())
    missing = dataclasses.replace(private.ACTIVATION_TABLE, owner="keras.src.elsewhere")
    with pytest.warns(UserWarning, match="hides the table of activation names"):
        assert private.check((missing,)) == (missing,)


def test_the_check_uses_up_no_automatic_name():
    keras.backend.clear_session()
    private.check()
    assert [layers.Dense(1).name, layers.Lambda(abs).name, keras.Input((1,)).name] == [
        "dense",
        "lambda",
        "keras_tensor",
    ]


@pytest.mark.parametrize("case", ["strings, layers, functions", "subclassed", "recurrent", "convolutions"])
def test_without_the_list_of_layers_every_activation_is_found_and_exchanged(hide, case):
    model = CASES[case]()
    x = inputs_of(model)
    known = {(site.label, site.activation.name) for site in sites(model)}
    hide("LAYERS")
    assert {(site.label, site.activation.name) for site in sites(model)} == known
    new, report = sqp_keras.replace_activations(model)
    assert len(report.replacements) == len([name for _, name in known if name != "linear"])
    # As with the list: each change is below 1e-3 of a range of at most 2.
    np.testing.assert_allclose(new(x), model(x), atol=4e-3)


@pytest.mark.parametrize("case", ["user layer", "wrappers"])
def test_without_the_list_of_layers_a_model_inside_a_layer_is_refused_with_the_remedy(hide, case):
    model = CASES[case]()
    hide("LAYERS")
    with pytest.raises(CannotCopyError, match=r"`sequential\w*` inside .*hides the list.*`keep`"):
        sqp_keras.replace_activations(model)


@pytest.mark.parametrize("part", ["INBOUND_NODES", "NODES", "HISTORY"])
def test_without_the_graph_no_head_is_dropped(hide, part):
    model = functional(lambda i: layers.Dense(3, "softmax")(i))
    hide(part)
    same, heads = sqp_keras.drop_head(model)
    assert same is model
    assert heads == ()


def test_without_the_graph_a_nested_head_stays(hide):
    model = sequential(functional(lambda i: layers.Dense(3, "softmax")(i)))
    hide("NODES")
    assert sqp_keras.drop_head(model) == (model, ())


def test_without_the_calls_distill_skips_single_layers(hide):
    model = sequential(layers.Dense(4, "tanh"), layers.Dense(2))
    student, _ = sqp_keras.replace_activations(model, "fast")
    hide("INBOUND_NODES")
    _, report = sqp_keras.distill(student, model, inputs_of(model, 40), 1, verbose=0)
    assert report.epochs[0] == 0 < report.epochs[1]


@pytest.mark.parametrize("part", ["INBOUND_NODES", "OUTBOUND_NODES", "LAMBDA_SHAPE"])
def test_without_a_part_of_the_graph_copies_compute_the_same(hide, part):
    model = functional(lambda i: keras.ops.silu(layers.Lambda(lambda t: t * 2.0)(i)))
    x = inputs_of(model)
    hide(part)
    np.testing.assert_array_equal(rebuild(model, {})(x), model(x))


def test_without_the_shapes_a_subclassed_model_is_refused_with_the_remedy(hide):
    model = CASES["subclassed"]()
    hide("BUILD_SHAPES")
    with pytest.raises(CannotCopyError, match=r"does not know its input shape.*get_build_config"):
        sqp_keras.replace_activations(model)


@pytest.mark.parametrize("part", ["BUILD_ATTENTION", "COMPUTE_ATTENTION", "LAYERS"])
def test_without_the_parts_of_attention_its_softmax_is_left_with_the_reason(hide, part):
    model = functional(lambda i: layers.Softmax()(layers.MultiHeadAttention(2, 4, name="attention")(i, i)), (6, 8))
    hide(part)
    new, report = sqp_keras.replace_activations(model)
    assert [(row.layer.split("/")[0], row.cause) for row in report.unchanged] == [("attention", Cause.HIDDEN)]
    assert "hides the softmax of attention" in report.unchanged[0].reason
    assert [row.now for row in report.replacements] == ["algebraic softmax"]
    x = inputs_of(model)
    np.testing.assert_allclose(new(x), model(x), atol=1e-3)


def test_without_the_softmax_of_attention_the_layer_is_keras_own_with_a_warning(hide):
    keras.utils.set_random_seed(0)
    stock, ours = layers.MultiHeadAttention(2, 4), sqp_keras.AlgebraicAttention(2, 4)
    x = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    hide("ATTENTION_SOFTMAX")
    expected = stock(x, x)
    with pytest.warns(UserWarning, match="hides the softmax of attention"):
        ours(x, x)
    ours.set_weights(stock.get_weights())
    # The same softmax by another kernel: a few roundings of float32.
    np.testing.assert_allclose(ours(x, x), expected, atol=1e-6)


def test_a_class_that_cannot_be_exchanged_is_refused_with_the_remedy(monkeypatch):
    @keras.saving.register_keras_serializable(package="tests")
    class Attending(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.attention = layers.MultiHeadAttention(2, 4)

        def call(self, x):
            return self.attention(x, x)

    model = functional(Attending(), (6, 8))
    assert not private.become(object(), dict)
    monkeypatch.setattr(private, "become", lambda layer, other: False)
    with pytest.raises(CannotCopyError, match=r"in this Keras release. Keep it: keep=\['softmax'\]"):
        sqp_keras.replace_activations(model)
    _, report = sqp_keras.replace_activations(model, keep=["softmax"])
    assert [row.cause for row in report.unchanged] == [Cause.KEPT]


def test_without_the_table_the_rest_of_the_package_works(hide):
    hide("ACTIVATION_TABLE")
    assert private.activation_table() is None
    assert float(sqp_keras.squareplus(0.0)) == 1.0


def test_the_check_makes_a_model_that_keras_3_12_takes(monkeypatch):
    made = keras.Model

    def as_in_3_12(inputs, outputs, **given):
        if inputs is outputs:
            raise ValueError("`inputs` not connected to `outputs`")
        return made(inputs, outputs, **given)

    monkeypatch.setattr(keras, "Model", as_in_3_12)
    assert private.check() == ()


@pytest.mark.parametrize("missing", ["record_operation", "stop_recording", "could_possibly_record"])
def test_a_recording_that_lacks_a_function_is_not_used(monkeypatch, missing):
    names = {"record_operation", "stop_recording", "could_possibly_record"} - {missing}
    monkeypatch.setitem(sys.modules, private.RECORD.owner, types.SimpleNamespace(**dict.fromkeys(names)))
    assert private.record() is None
    monkeypatch.setitem(sys.modules, private.RECORD.owner, None)
    assert private.record() is None

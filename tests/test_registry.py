"""The string "squareplus" means this package, until it is given back."""

import sys
import warnings

import keras
import numpy as np
import pytest

import sqp_keras
from sqp_keras import private
from sqp_keras.activation import registry

ACTIVATIONS = sys.modules["keras.src.activations"]


@pytest.fixture(autouse=True)
def _restore():
    yield
    registry.register()


def test_string_means_this_package():
    assert keras.activations.get("squareplus") is sqp_keras.squareplus
    assert keras.layers.Dense(1, "squareplus").activation is sqp_keras.squareplus
    assert keras.layers.Activation("squareplus").activation is sqp_keras.squareplus


def test_unregister_gives_the_string_back():
    sqp_keras.unregister()
    assert keras.activations.get("squareplus") is keras.activations.squareplus
    assert keras.activations.get("squareplus") is not sqp_keras.squareplus
    sqp_keras.unregister()
    assert registry.register()
    assert keras.activations.get("squareplus") is sqp_keras.squareplus


def test_registering_twice_remembers_the_stock_function():
    registry.register()
    registry.register()
    sqp_keras.unregister()
    assert keras.activations.get("squareplus") is keras.activations.squareplus


def test_other_strings_are_untouched():
    assert keras.activations.get("relu") is keras.activations.relu


def test_unregister_leaves_a_later_owner_alone():
    def theirs(x):
        return x

    ACTIVATIONS.ALL_OBJECTS_DICT["squareplus"], ours = theirs, ACTIVATIONS.ALL_OBJECTS_DICT["squareplus"]
    sqp_keras.unregister()
    assert keras.activations.get("squareplus") is theirs
    ACTIVATIONS.ALL_OBJECTS_DICT["squareplus"] = ours


@pytest.mark.parametrize("hidden", ["missing", "of another type"])
def test_hidden_table_warns_once_and_the_rest_works(monkeypatch, hidden):
    if hidden == "missing":
        monkeypatch.delattr(ACTIVATIONS, "ALL_OBJECTS_DICT")
    else:
        monkeypatch.setattr(ACTIVATIONS, "ALL_OBJECTS_DICT", ())
    monkeypatch.setattr(private, "_warned", set())
    with pytest.warns(UserWarning, match="hides the table of activation names"):
        assert not registry.register()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not registry.register()
        sqp_keras.unregister()
    x = np.float32([[1.0, -1.0]])
    assert keras.layers.Dense(2, activation=sqp_keras.squareplus)(x).shape == (1, 2)
    assert sqp_keras.Squareplus()(x).shape == (1, 2)

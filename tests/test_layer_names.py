"""Tensor names lead back to the layers that made them."""

import pytest

from sqp_keras import forms
from sqp_tflite import layer_names
from sqp_tflite.layer_names import LayerNames

NAMES = LayerNames(("enc", "enc/dense", "dense", "dense_1"), (("y", "dense_1"),))


@pytest.mark.parametrize(
    ("tensor", "layer"),
    [
        ("enc/dense/MatMul", "enc/dense"),
        ("dense_1/sqp.act/Sqrt", "dense_1"),
        ("dense/MatMul;dense/BiasAdd", "dense"),
        ("dense/sqp.act/mul;enc/dense/MatMul1", "enc/dense"),
        ("y", "dense_1"),
        ("scope/of/op", "scope/of"),
    ],
)
def test_tensor_names_lead_to_layers(tensor, layer):
    assert NAMES.of(tensor) == layer


CALLED = "StatefulPartitionedCall/StatefulPartitionedCall_1"


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        (f"{CALLED}/sequential_1/bend_1/Gelu/Erf", "bend"),
        (f"{CALLED}/sequential_1/dense_2_1/MatMul", "dense_2"),
        (f"{CALLED}/functional_1/lstm_1/lstm_cell_1/Sigmoid", "lstm/lstm_cell"),
        (f"{CALLED}/mine/Sin", "mine"),
        (f"{CALLED}/Sin", "the model"),
    ],
)
def test_the_scopes_of_a_saved_model_lead_to_the_users_names(tensor, name):
    assert LayerNames(owners=("bend", "dense_2", "lstm/lstm_cell", "lstm_cell")).of(tensor) == name


def test_both_packages_mean_the_same_scope():
    assert layer_names.SHARE_SCOPE == forms.SHARE_SCOPE

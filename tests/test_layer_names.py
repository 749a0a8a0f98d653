"""Tensor names lead back to the layers that made them."""

import pytest

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

"""A function called on a symbolic tensor becomes its layer."""

import keras
import pytest

import sqp_keras
from sqp_keras import symbolic


@pytest.mark.parametrize(
    ("call", "layer", "config"),
    [
        (lambda x: sqp_keras.squareplus(x, 2.0), sqp_keras.Squareplus, {"b": 2.0}),
        (lambda x: sqp_keras.algebraic(x, "swish", 3), sqp_keras.Algebraic, {"of": "silu", "terms": 3}),
        (lambda x: sqp_keras.algebraic(x, "elu", alpha=0.5), sqp_keras.Algebraic, {"of": "elu", "alpha": 0.5}),
        (lambda x: symbolic.call("squareplus", x, b=3.0), sqp_keras.Squareplus, {"b": 3.0}),
    ],
)
def test_a_symbolic_call_makes_the_layer_with_the_arguments(call, layer, config):
    x = keras.Input((4,))
    model = keras.Model(x, call(x))
    assert type(model.layers[-1]) is layer
    assert config.items() <= model.layers[-1].get_config().items()


def test_a_layer_class_stays_itself_when_it_registers(monkeypatch):
    monkeypatch.setattr(symbolic, "_LAYERS", {})

    @symbolic.layer_of("double")
    class Double:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    assert isinstance(Double, type)
    assert symbolic.call("double", 3, factor=2) == 6

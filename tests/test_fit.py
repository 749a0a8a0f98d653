"""b is fitted to what a layer sees."""

import numpy as np
import pytest
from keras import layers

import sqp_keras
from replaceable import inputs_of, sequential


def test_fast_fits_b_on_the_layers_own_inputs():
    model = sequential(layers.Dense(4, "softplus", kernel_initializer="identity"), shape=(4,))
    narrow = np.full((64, 4), 0.0, "float32")
    new, report = sqp_keras.replace_activations(model, "fast", data=narrow)
    # At 0 only, the best b is the one that gives softplus's value there.
    assert new.layers[0].activation.b == pytest.approx(sqp_keras.B_VALUE, rel=2e-3)
    without, _ = sqp_keras.replace_activations(model, "fast")
    assert without.layers[0].activation.b == sqp_keras.B_MINIMAX
    assert report.replacements[0].max_change < 1e-3
    assert report.replacements[0].terms == 1


@pytest.mark.parametrize("of", ["softplus", "silu", "gelu", "mish", "elu", "selu", "celu", "tanh", "sigmoid"])
def test_fitted_fast_forms_are_no_worse_on_their_inputs_than_the_stock_ones(of):
    model = sequential(layers.Dense(8, of))
    x = inputs_of(model, 64)
    _, fitted = sqp_keras.replace_activations(model, "fast", data=x)
    new, _ = sqp_keras.replace_activations(model, "fast")
    stock = float(np.mean(np.abs(np.asarray(new(x)) - np.asarray(model(x)))))
    # b minimises the squared error, so the mean may be a little above.
    assert fitted.replacements[0].mean_change <= 1.3 * stock

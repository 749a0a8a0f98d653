"""What replaces an activation is what the rule says, and stays near it as far as stated."""

import numpy as np
from keras import layers

import sqp_keras
from replaceable import inputs_of, sequential


def test_exponential_is_replaced_up_to_its_largest_input():
    model = sequential(layers.Dense(4, "exponential"))
    x = inputs_of(model, 64)
    _, report = sqp_keras.replace_activations(model, data=x)
    assert report.replacements[0].was == "exponential"
    # 7.5e-5 of exp(largest input + 1), and 1.5e-5 of it from rounding the roots, whose weights add up to 5.
    assert report.replacements[0].max_change <= 9e-5 * np.e * float(np.max(model(x)))


def test_the_measured_change_sees_a_wrong_substitute():
    model = sequential(layers.Dense(4, "tanh"))
    _, report = sqp_keras.replace_activations(model, {"tanh": "relu"}, data=inputs_of(model))
    assert report.replacements[0].max_change > 0.3

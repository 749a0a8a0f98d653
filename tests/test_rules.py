"""The most specific rule decides, and what is left has a reason."""

import numpy as np
import pytest
from keras import layers

import sqp_keras
from replaceable import my_softplus, sequential
from sqp_keras.models.sites import sites


def test_rules_go_from_the_most_specific_to_all():
    model = sequential(
        layers.Dense(8, "silu", name="a"),
        layers.Dense(8, "silu", name="b"),
        layers.Dense(8, "tanh", name="c"),
        layers.Dense(8, "gelu", name="d"),
        layers.Dense(3, "elu", name="e"),
    )
    chosen = {"b": "keep", "silu": "fast", "tanh": sqp_keras.Squareplus(b=2.0), "d": "squareplus", "*": "accurate"}
    _, report = sqp_keras.replace_activations(model, chosen)
    assert [(r.layer, r.now.split("(")[0]) for r in report.replacements] == [
        ("a", "squareplus"),
        ("c", "Squareplus"),
        ("d", "squareplus"),
        ("e", "algebraic elu"),
    ]
    assert [u.layer for u in report.unchanged] == ["b"]


def test_gates_can_be_addressed_and_kept():
    model = sequential(layers.LSTM(4), shape=(5, 3))
    label = "lstm_cell.recurrent_activation"
    path = next(site.label for site in sites(model) if site.label.endswith(label))
    _, report = sqp_keras.replace_activations(model, keep=[path])
    assert [u.layer for u in report.unchanged] == [path]
    assert [r.was for r in report.replacements] == ["tanh"]


def test_unchanged_ones_have_reasons():
    model = sequential(
        layers.Dense(8, my_softplus),
        layers.Dense(8, "relu"),
        layers.Dense(8, "exponential"),
        layers.PReLU(),
        layers.Dense(4, "log_softmax"),
    )
    _, report = sqp_keras.replace_activations(model)
    assert not report.replacements
    reasons = [u.reason for u in report.unchanged]
    for words, reason in zip(["your own code", "no exp", "pass data", "no exp", "logits"], reasons, strict=True):
        assert words in reason


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"rule": "exact"}, ValueError, 'accurate", "fast" or a mapping'),
        ({"rule": 3}, TypeError, "`rule` is"),
        ({"rule": {"silu": "smooth"}}, ValueError, "Received: 'smooth' for 'silu'"),
        ({"rule": {"elu": "smooth", "silu": "fast"}}, ValueError, "Received: 'smooth' for 'elu'"),
        ({"rule": {"silu": 3}}, TypeError, "A rule is a string or a layer"),
        ({"rule": {"nowhere": "fast"}}, ValueError, "Received: 'nowhere'.*The model has: dense"),
        ({"keep": "silu"}, TypeError, "`keep` is a list"),
        ({"keep": ["nowhere"]}, ValueError, "Received: 'nowhere'"),
        ({"max_error": 0.0}, ValueError, "`max_error` is a share"),
        ({"max_error": 1e-9}, ValueError, "Raise max_error"),
        ({"data": 3}, TypeError, "`data` is an array"),
        ({"data": np.zeros((0, 8))}, ValueError, "at least 1"),
    ],
)
def test_bad_calls_say_the_rule_and_the_remedy(arguments, kind, words):
    model = sequential(layers.Dense(4, "silu", name="dense"))
    with pytest.raises(kind, match=words):
        sqp_keras.replace_activations(model, **arguments)

"""The sums read from the data file: their types, their limits, what is refused."""

import json
import re

import pytest

from sqp_keras.family import coefficients
from sqp_keras.family.coefficients import Root


def test_a_few_roots_are_accurate_enough():
    for of, terms, limit in [("softplus", 3, 2.7e-4), ("sigmoid", 4, 3e-5), ("tanh", 4, 6e-5), ("silu", 5, 2e-3)]:
        assert coefficients.find(of, terms).value_error <= limit
    for of, limit in [("gelu", 8e-4), ("elu", 3e-3), ("mish", 1e-3)]:
        assert coefficients.find(of).value_error <= limit


def test_max_error_out_of_reach_says_what_is_reachable():
    with pytest.raises(ValueError, match=r"Raise max_error to 7\.5e-06"):
        coefficients.enough("silu", 1e-7)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("of", coefficients.names())
def test_the_max_error_that_a_message_names_is_enough(of, alpha):
    with pytest.raises(ValueError, match="Raise max_error") as refusal:
        coefficients.enough(of, 1e-12, alpha, 1.0)
    named = re.search(r"Raise max_error to ([^,]+),", str(refusal.value))[1]
    assert coefficients.enough(of, float(named), alpha, 1.0) in coefficients.term_counts(of)


@pytest.mark.parametrize("of", coefficients.names())
def test_a_sum_made_from_its_configuration_is_equal(of):
    for terms in coefficients.term_counts(of):
        made = coefficients.find(of, terms, 1.0, 2.0 if of == "exponential" else None)
        assert coefficients.from_config(json.loads(json.dumps(made.config()))) == made
        assert all(isinstance(root, Root) for part in made.parts for root in part.roots)
        assert sum(len(part.roots) for part in made.parts) >= terms


def test_the_configuration_holds_roots_as_weight_centre_and_b():
    made = coefficients.Sum(0.5, 0.0, (coefficients.Part(None, 2.0, 0.25, (Root(0.5, 1.0, 4.0),)),), 0.1, 0.2)
    assert made.config()["parts"] == [{"low": None, "high": 2.0, "slope": 0.25, "roots": [[0.5, 1.0, 4.0]]}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"offset": float("nan")}, "are finite"),
        ({"parts": [{"low": None, "high": None, "slope": 0.5, "roots": [[0.5, 0.0, 0.0]]}]}, "each b is positive"),
        ({"parts": [{"low": None, "high": None, "slope": 0.5, "roots": [[0.5, 0.0]]}]}, "what `get_config` wrote"),
        ({"parts": [{"low": None, "high": None, "roots": []}]}, "what `get_config` wrote"),
    ],
)
def test_a_damaged_configuration_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        coefficients.from_config({**coefficients.find("softplus", 1).config(), **change})


def test_the_fewest_roots_within_the_error_are_taken():
    for of in ("softplus", "tanh", "silu"):
        terms = coefficients.enough(of, 1e-3)
        fewer = [count for count in coefficients.term_counts(of) if count < terms]
        allowed = 1e-3 * coefficients.span(of)
        assert coefficients.find(of, terms).value_error <= allowed
        assert all(coefficients.find(of, count).value_error > allowed for count in fewer)


def test_sigmoid_follows_from_tanh():
    base, made = coefficients.find("tanh", 4), coefficients.find("sigmoid", 4)
    assert made.value_error == base.value_error / 2
    # sigmoid(x) = (1 + tanh(x/2)) / 2: centres move out by 2, b by 4, weights by 1/4.
    for root, moved in zip(base.parts[0].roots, made.parts[0].roots, strict=True):
        assert moved == Root(root.weight / 4, root.centre * 2, root.b * 4)

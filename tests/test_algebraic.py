"""The algebraic family: stated bounds, float32, ops, saving, softmax and attention."""

import dataclasses
import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from scipy.special import erf, expit, softmax

import sqp_keras
from sqp_keras import forms
from sqp_keras.family import coefficients, lines
from sqp_keras.family.algebraic import evaluate
from tools import fit_algebraic

ROOT = Path(__file__).resolve().parent.parent


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


TRUTH = {
    "softplus": lambda x: np.logaddexp(0.0, x),
    "log_sigmoid": lambda x: -np.logaddexp(0.0, -x),
    "sigmoid": expit,
    "tanh": np.tanh,
    "silu": lambda x: x * expit(x),
    "gelu": lambda x: 0.5 * x * (1.0 + erf(x / np.sqrt(2.0))),
    "gelu_tanh": gelu_tanh,
    "mish": lambda x: x * np.tanh(np.logaddexp(0.0, x)),
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    "exponential": lambda x: np.exp(np.minimum(x, 2.0)),
}
KINKS = {"elu": 0.0, "celu": 0.0, "selu": 0.0, "softsign": 0.0, "exponential": 2.0}
"""Where the second derivative jumps (the first one, for exponential held at its largest input)."""

NEAR = np.linspace(-16.0, 16.0, 160_001)
FAR = np.geomspace(16.0, 1e6, 20_001)
GRID = np.concatenate([-FAR[::-1], NEAR, FAR])

ALL = [(of, terms) for of in TRUTH for terms in coefficients.term_counts(of)]


def found(of, terms=None, alpha=1.0):
    return coefficients.find(of, terms, alpha, 2.0 if of == "exponential" else None)


def slope(made, x):
    """Returns the derivative of a sum in closed form, float64."""
    total = made.rectifier * (x > 0)
    for part in made.parts:
        low = -np.inf if part.low is None else part.low
        high = np.inf if part.high is None else part.high
        rise = part.slope + sum(r.weight * (x - r.centre) / np.sqrt((x - r.centre) ** 2 + r.b) for r in part.roots)
        total = total + np.where((x > low) & (x < high), rise, 0.0)
    return total


def distances(made, truth, x, kink=None):
    """Returns the largest distance in value and in slope over x, in float64."""
    step = 1e-5
    value = np.abs(ops.convert_to_numpy(evaluate(ops.convert_to_tensor(x), made)) - truth(x)).max()
    true_slope = (truth(x + step) - truth(x - step)) / (2 * step)
    clear = np.full(x.shape, True) if kink is None else np.abs(x - kink) > 2 * step
    return value, np.abs(slope(made, x) - true_slope)[clear].max()


# The bounds were found on another grid; 2 % and 1e-9 (central differences) separate the two.
SLACK = 1.02


@pytest.mark.parametrize(("of", "terms"), ALL)
def test_stated_bounds_hold_for_value_and_slope_near_and_in_the_tails(of, terms):
    made = found(of, terms)
    value, rise = distances(made, TRUTH[of], GRID, KINKS.get(of))
    # float64 keeps about 1e-16*1e6 of the cancelling terms.
    assert value <= made.value_error * SLACK + 2e-9
    assert rise <= made.slope_error * SLACK + 1e-8


ENDS = {
    "softplus": (0.0, np.inf),
    "log_sigmoid": (-np.inf, 0.0),
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
    "exponential": (0.0, np.inf),
}
WIDE = np.concatenate([-np.geomspace(1e6, 1e-6, 20_001), [0.0], np.geomspace(1e-6, 1e6, 20_001)]).astype(np.float32)


@pytest.mark.parametrize(("of", "terms"), [pair for pair in ALL if pair[0] in ENDS])
def test_a_sum_never_passes_what_its_activation_never_passes(of, terms):
    low, high = ENDS[of]
    y = ops.convert_to_numpy(evaluate(ops.convert_to_tensor(WIDE), found(of, terms)))
    assert y.min() >= low and y.max() <= high


def test_without_its_ends_a_sum_passes_them():
    made = dataclasses.replace(found("softplus", 3), low=None)
    y = ops.convert_to_numpy(evaluate(ops.convert_to_tensor(WIDE), made))
    assert y[np.abs(WIDE) < 100].min() < 0 and y.min() < -1e-3


# The lowest values in exact arithmetic. A sum's own error may pass them; 3e-4 is that of silu with 5 roots, rounded up.
@pytest.mark.parametrize(
    ("of", "lowest"),
    [("silu", -0.27846), ("gelu", -0.16997), ("mish", -0.30884), ("elu", -1.0), ("celu", -1.0), ("selu", -1.7580994)],
)
def test_other_lowest_values_are_kept_within_the_stated_error_and_rounding(of, lowest):
    made = found(of)
    y = ops.convert_to_numpy(evaluate(ops.convert_to_tensor(WIDE), made))
    weights = sum(abs(root.weight) for part in made.parts for root in part.roots)
    rounding = 3 * 2.0**-24 * (1 + weights) * (np.abs(WIDE) + 8)
    assert (y >= lowest - 1e-5 - made.value_error - rounding).all()


# Far left and far right of 0; infinity stands for x itself.
LIMITS = {
    "softplus": (0.0, np.inf),
    "log_sigmoid": (-np.inf, 0.0),
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
    **dict.fromkeys(("silu", "gelu", "gelu_tanh", "mish"), (0.0, np.inf)),
    **dict.fromkeys(("elu", "celu"), (-1.0, np.inf)),
    "selu": (-1.7580993408473766, np.inf),
}
HUGE = np.float32([4097.0, 1e4, 1e6, 1e18, 1e30, 3e38, np.inf])


@pytest.mark.parametrize(("of", "terms"), [pair for pair in ALL if pair[0] in LIMITS])
def test_far_out_a_sum_is_the_limit_of_its_activation(of, terms):
    left, right = LIMITS[of]
    x = ops.convert_to_tensor(np.concatenate([HUGE, -HUGE, np.float32([np.nan])]))
    y = ops.convert_to_numpy(sqp_keras.algebraic(x, of, terms))
    slope = 1.0507009873554805 if of == "selu" else 1.0
    # The sums of two roots are clipped left of 0, where they keep their error.
    clipped = of in ("elu", "celu", "selu") and terms == 2
    np.testing.assert_allclose(
        y[: len(HUGE)], slope * HUGE if right == np.inf else np.full_like(HUGE, right), rtol=2e-7
    )
    np.testing.assert_allclose(
        y[len(HUGE) : -1], -HUGE if left == -np.inf else np.full_like(HUGE, left), rtol=2e-4 if clipped else 2e-7
    )
    assert np.isnan(y[-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("of", ["softplus", "sigmoid", "tanh", "silu", "mish"])
def test_derivatives_far_out_are_those_of_the_limit(of, dtype):
    x = tf.constant([-np.inf, -6e4, 0.5, 6e4, np.inf], dtype)

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = sqp_keras.algebraic(x, of)
        return tape.gradient(y, x)

    right = 0.0 if of in ("sigmoid", "tanh") else 1.0
    np.testing.assert_array_equal(tf.cast(tf.gather(slope(x), [0, 1, 3, 4]), "float32"), [0, 0, right, right])
    assert np.isfinite(tf.cast(slope(x), "float32")).all()


def test_a_wide_bend_is_left_to_its_sum_further_out():
    near = lines.lines("celu", coefficients.find("celu", 1, 1.0))
    wide = lines.lines("celu", coefficients.find("celu", 1, 100.0))
    assert (near.reach, near.left, near.right) == (4096.0, (0.0, -1.0), (1.0, 0.0))
    assert wide.reach == pytest.approx(256 * 160, rel=0.1)
    assert wide.left == (0.0, pytest.approx(-100.0))


def test_a_softmax_of_any_size_is_positive_and_sums_to_one():
    rows = np.concatenate([WIDE[:40_000].reshape(-1, 10), np.random.default_rng(0).uniform(-1e6, 1e6, (1000, 10))])
    y = ops.convert_to_numpy(sqp_keras.AlgebraicSoftmax()(rows.astype(np.float32)))
    assert y.min() >= 0
    np.testing.assert_allclose(y.sum(axis=-1), 1.0, rtol=0, atol=1e-6)


def test_the_bound_check_sees_a_changed_coefficient():
    config = found("softplus", 3).config()
    config["parts"][0]["roots"][1][2] *= 1.01
    made = coefficients.from_config(config)
    assert distances(made, TRUTH["softplus"], GRID)[0] > made.value_error * SLACK


@pytest.mark.parametrize(("of", "alpha"), [("elu", 0.5), ("elu", 2.0), ("celu", 0.5), ("celu", 2.0)])
@pytest.mark.parametrize("terms", [1, 2])
def test_alpha_has_bounds_of_its_own(of, alpha, terms):
    inner = alpha if of == "celu" else 1.0
    made = coefficients.find(of, terms, alpha)

    def truth(x):
        return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / inner))

    value, rise = distances(made, truth, GRID, 0.0)
    assert value <= made.value_error * SLACK + 2e-9
    assert rise <= made.slope_error * SLACK + 1e-8


@pytest.mark.parametrize("upper", [-1.0, 0.0, 5.0])
def test_exponential_is_bounded_by_its_largest_input(upper):
    made = coefficients.find("exponential", None, 1.0, upper)
    x = np.append(GRID[upper > GRID], upper)
    assert distances(made, np.exp, x, upper)[0] <= made.value_error * SLACK
    above = ops.convert_to_numpy(evaluate(ops.convert_to_tensor([upper, upper + 3.0]), made))
    assert abs(above[0] - above[1]) == 0.0


@pytest.mark.parametrize(("of", "terms"), ALL)
def test_float32_adds_little_more_than_its_rounding(of, terms):
    made = found(of, terms)
    x = np.unique(np.concatenate([np.linspace(-30, 30, 20_001), FAR[FAR < 1e4], -FAR[FAR < 1e4]])).astype("float32")
    single = ops.convert_to_numpy(evaluate(ops.convert_to_tensor(x), made)).astype("float64")
    double = ops.convert_to_numpy(evaluate(ops.convert_to_tensor(x.astype("float64")), made))
    weight = sum(abs(root.weight) for part in made.parts for root in part.roots) + 1.0
    # Each term is rounded to 2^-24 of its own size, |w|*(|x| + |c| + sqrt(b)), a few times over.
    size = np.abs(x) + 3.0 + max(np.sqrt(root.b) + abs(root.centre) for part in made.parts for root in part.roots)
    assert (np.abs(single - double) <= 2.0**-24 * 3.0 * weight * size).all()


@pytest.mark.parametrize(("of", "terms"), ALL)
def test_float32_stays_finite_and_keeps_its_side_up_to_1e18(of, terms):
    x = np.float32([-1e18, -1e12, 0.0, 1e12, 1e18])
    y = ops.convert_to_numpy(evaluate(ops.convert_to_tensor(x), found(of, terms)))
    assert np.isfinite(y).all()
    if TRUTH[of](np.float64(30.0)) > 20.0:
        # Unbounded to the right: relative rounding of the weights' sum.
        np.testing.assert_allclose(y[-2:], TRUTH[of](x[-2:].astype("float64")), rtol=1e-6)


PURE = {"AddV2", "Mul", "Sqrt"}


@pytest.mark.parametrize(("of", "terms"), ALL)
def test_traces_to_add_mul_sqrt_and_clips_only_where_there_is_a_kink_or_an_end(of, terms):
    upper = 2.0 if of == "exponential" else None
    traced = tf.function(lambda x: sqp_keras.algebraic(x, of, terms, upper=upper))
    graph = traced.get_concrete_function(tf.TensorSpec((1, 8))).graph
    # What selects the limits is not in a file for a device: `test_a_saved_model_has_no_limits` of test_trained_form.
    inside = [op for op in graph.get_operations() if forms.LIMITS_SCOPE not in op.name]
    used = {op.type for op in inside} - {"Placeholder", "Const", "Identity"}
    made = found(of, terms)
    clipped = (of in KINKS and terms > 1) or made.low is not None or made.high is not None
    assert used <= (PURE | {"Relu", "Minimum", "Maximum"} if clipped else PURE)


@pytest.mark.parametrize("name", ["swish", "silu", "SiLU", "hard_swish", "relu", "leaky_relu", "linear"])
def test_takes_keras_names_and_aliases(name):
    x = np.linspace(-4, 4, 33, dtype="float32")
    stock = keras.activations.get({"SiLU": "silu"}.get(name, name))
    np.testing.assert_allclose(sqp_keras.algebraic(x, name), stock(ops.convert_to_tensor(x)), atol=3e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_keeps_the_dtype_and_is_finite_in_halves(dtype):
    y = sqp_keras.algebraic(ops.cast(ops.convert_to_tensor([-3e4, -1.0, 0.0, 1.0, 3e4]), dtype), "softplus")
    assert keras.backend.standardize_dtype(y.dtype) == dtype
    assert np.isfinite(ops.convert_to_numpy(ops.cast(y, "float64"))).all()
    assert float(ops.cast(y[2], "float32")) == pytest.approx(np.log(2.0), abs=0.01)


def test_gradient_is_finite_and_near_the_activations_own_at_zero():
    for of in ("elu", "softsign", "softplus", "silu"):
        x = tf.constant([0.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = sqp_keras.algebraic(x, of)
        expected = {"elu": 1.0, "softsign": 1.0}.get(of, 0.5)
        # slope_error of the sum; softsign's is largest at its kink.
        assert float(tape.gradient(y, x)[0]) == pytest.approx(expected, abs=3e-3)


def saved_and_loaded(model, path):
    model.save(path)
    return keras.models.load_model(path)


def test_function_builds_functional_models_that_reload(tmp_path):
    i = keras.Input((4,))
    model = keras.Model(i, sqp_keras.algebraic(i, "gelu", 4))
    again = saved_and_loaded(model, tmp_path / "m.keras")
    x = np.linspace(-3, 3, 8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(again(x), model(x))


def test_export_forms_are_asked_with_the_numbers():
    asked = []

    def form(name, x, **parameters):
        asked.append((name, parameters))
        return x

    with forms.use(form):
        sqp_keras.Algebraic("silu", 3)(np.zeros((1, 2), "float32"))
    (name, parameters), *more = asked
    assert (name, more) == ("algebraic", [])
    assert parameters == {"of": "silu", "terms": 3, "coefficients": coefficients.find("silu", 3)}
    # What a form is asked with is what the function takes.
    x = np.linspace(-3, 3, 7, dtype="float32")
    np.testing.assert_array_equal(sqp_keras.algebraic(x, **parameters), sqp_keras.algebraic(x, "silu", 3))


@pytest.mark.parametrize("size", [2, 10, 100, 1000])
def test_softmax_stays_within_its_bound(size):
    random = np.random.default_rng(size)
    x = np.concatenate([random.normal(size=(100, size)) * scale for scale in (0.0, 0.3, 1.0, 3.0, 10.0, 1e3)])
    # One large value among equal small ones is the worst case.
    worst = np.zeros((200, size))
    worst[:, 1:] = -np.linspace(0.0, 20.0, 200)[:, None]
    x = np.concatenate([x, worst]).astype("float32")
    y = ops.convert_to_numpy(sqp_keras.AlgebraicSoftmax()(x))
    assert np.abs(y - softmax(x.astype("float64"), axis=-1)).max() <= (1.7e-4 if size <= 100 else 5e-4)
    assert y.min() >= 0.0
    # A few roundings of float32 in 1/s and the products, and those of a mean over up to 1000 values.
    np.testing.assert_allclose(y.astype("float64").sum(axis=-1), 1.0, atol=4e-6)


def test_softmax_has_no_exp_and_no_division():
    graph = tf.function(sqp_keras.AlgebraicSoftmax()).get_concrete_function(tf.TensorSpec((1, 3, 8))).graph
    used = {op.type for op in graph.get_operations()} - {"Placeholder", "Const", "Identity"}
    assert used <= PURE | {"Sub", "Max", "Mean", "Rsqrt", "Minimum", "Maximum"}


def test_softmax_of_unknown_size_is_refused():
    with pytest.raises(ValueError, match="how many values"):
        tf.function(sqp_keras.AlgebraicSoftmax()).get_concrete_function(tf.TensorSpec((1, None)))


def test_fitting_again_changes_nothing():
    stored = {(item["of"], item["terms"]): item for item in fit_algebraic.read()}
    for spec in (
        fit_algebraic.Spec("softplus", 3, "even", 1),
        fit_algebraic.Spec("elu", 2, "bend"),
        fit_algebraic.Spec("tanh", 4, "odd"),
    ):
        held = stored[spec.of, spec.terms]
        assert fit_algebraic.fit(spec, held, seed=1, starts=0) is held


def test_fitting_improves_a_worse_sum():
    spec = fit_algebraic.Spec("softplus", 1, "even", 1)
    worse = {"of": "softplus", "terms": 1, "offset": 0.0, "rectifier": 0.0, "value_error": 0.3, "slope_error": 0.3}
    worse["parts"] = [{"low": None, "high": None, "slope": 0.5, "roots": [[0.5, 0.0, 4.0]]}]
    made = fit_algebraic.fit(spec, worse, seed=1, starts=0)
    assert made["value_error"] == pytest.approx(0.076, abs=1e-3)
    assert made["parts"][0]["roots"][0][2] == pytest.approx(sqp_keras.B_MINIMAX, rel=1e-4)


def test_the_documentation_lists_every_sum_with_its_bounds():
    text = (ROOT / "docs" / "algebraic.md").read_text(encoding="utf-8")
    for item in json.loads((ROOT / "sqp_keras" / "family" / "coefficients.json").read_text(encoding="utf-8"))["sums"]:
        row = rf"\| {item['of']} \| {item['terms']} \| {item['value_error']:.3g} \| {item['slope_error']:.3g} \|"
        assert re.search(row, text), f"docs/algebraic.md lacks {item['of']} with {item['terms']} roots"

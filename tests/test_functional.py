"""Promises of the functions: values in every dtype, what they take and what they refuse."""

import keras
import mpmath
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from sqp_keras import B_MINIMAX, B_VALUE, forms, squareplus, squareplus_inverse
from tools import ulp

BS = [1e-3, 1.0, B_MINIMAX, B_VALUE, 4.0, 100.0]
HALVES = ["float16", "bfloat16"]


def as64(tensor):
    return tf.cast(tensor, tf.float64).numpy()


@pytest.mark.parametrize("b", BS)
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_right_over_all_finite_inputs(dtype, b):
    x = ulp.inputs(dtype, 0)
    errors = ulp.measure(lambda t: squareplus(t, b), x, ulp.truth(x, b), dtype)
    assert errors.value <= 1.0
    assert errors.correctly_rounded >= 0.999
    assert errors.slope <= 3.0


@pytest.mark.parametrize("dtype", HALVES)
def test_b_zero_is_relu_in_halves(dtype):
    x = tf.cast(tf.constant(ulp.inputs(dtype, 0)), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = squareplus(x, b=0)
    assert np.array_equal(as64(y), np.maximum(as64(x), 0))
    assert np.array_equal(as64(tape.gradient(y, x)), np.sign(as64(x)) / 2 + 0.5)


@pytest.mark.parametrize("b", BS)
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_monotone_and_above_relu(dtype, b):
    x = np.sort(ulp.inputs(dtype, 0))
    y = as64(squareplus(tf.cast(tf.constant(x), dtype), b))
    assert np.isfinite(y).all()
    assert (np.diff(y) >= 0).all()
    assert (y >= np.maximum(x, 0)).all()


@pytest.mark.parametrize(
    ("dtype", "small", "flushed"),
    [("float16", 1e-4, False), ("bfloat16", 2e-38, True), ("float32", 2e-38, True), ("float64", 4e-308, True)],
)
def test_tensorflow_itself_flushes_subnormals(dtype, small, flushed):
    # When this fails, the limit in docs/numerics.md has changed.
    for mode in (lambda f: f, tf.function, tf.function(jit_compile=True)):
        product = mode(lambda x: x * tf.constant(0.25, dtype))(tf.constant([small], dtype))
        assert (float(as64(product)[0]) == 0.0) == flushed


@pytest.mark.parametrize("b", [1e-30, 1e-10, 1e-6, 9e-5, np.float32([1e-6])])
def test_float16_tells_the_slope_for_the_smallest_b(b):
    x = ulp.inputs("float16", 0)
    errors = ulp.measure(lambda t: squareplus(t, b), x, ulp.truth(x, float(np.min(b))), "float16")
    assert errors.value <= 0.51
    # From an output in float32, which is 0 for no input, rounded once.
    assert errors.slope <= 0.51


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("b", [B_VALUE, 4.0])
def test_float32_is_right_to_three_units(b, mode):
    x = ulp.inputs("float32", 1_000_000, seed=7)
    wrap = {"eager": lambda f: f, "graph": tf.function, "xla": tf.function(jit_compile=True)}[mode]
    errors = ulp.measure(wrap(lambda t: squareplus(t, b)), x, ulp.truth(x, b), "float32")
    assert errors.value <= 3.0
    assert errors.slope <= 6.0


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("given", [tf.constant, lambda b: tf.constant([b]), lambda b: np.float32([b]), lambda b: [b]])
def test_a_constant_tensor_b_in_a_graph_is_as_right_as_a_number(given, inside):
    x = ulp.inputs("float32", 100_000, seed=7)
    b = given(4.0)
    # Made inside, a tensor is a constant of the graph, from which the optimiser makes a RECIPROCAL.
    call = tf.function(lambda t: squareplus(t, given(4.0) if inside else b))
    errors = ulp.measure(call, x, ulp.truth(x, 4.0), "float32")
    assert errors.value <= 3.0
    assert errors.slope <= 5.0


def test_a_tensor_b_per_example_is_mapped():
    x, b = tf.constant([[-1.0, 2.0], [0.5, 3.0]]), tf.constant([1.0, 4.0])
    got = tf.vectorized_map(lambda one: squareplus(*one), (x, b), fallback_to_while_loop=False)
    np.testing.assert_allclose(got, squareplus(x, b[:, None]), rtol=1e-7)


@pytest.mark.parametrize("b", [1e-3, 4.0])
def test_float64_is_right_to_three_units(b):
    x = ulp.inputs("float64", 5_000)
    errors = ulp.measure(lambda t: squareplus(t, b), x, ulp.doubles(5_000, b), "float64")
    assert errors.value <= 3.0
    assert errors.slope <= 6.0


def test_accuracy_check_sees_a_planted_fault():
    x = ulp.inputs("float32", 100_000)
    want = ulp.truth(x, 4.0)
    assert ulp.measure(lambda t: squareplus(t) * (1 + 4e-7), x, want, "float32").value > 3.0
    assert ulp.measure(keras.activations.squareplus, x, want, "float32").value == np.inf
    assert ulp.measure(lambda t: squareplus(t, b=4.00001), x, want, "float32").slope > 6.0


@pytest.mark.parametrize("b", BS)
def test_float32_neighbours_keep_order_within_two_units(b):
    x = ulp.inputs("float32", 300_000).astype(np.float32)
    x = x[(np.abs(x) >= np.finfo(np.float32).tiny) & (np.abs(x) < 1e38)]
    x = np.unique(np.concatenate([x, np.nextafter(x, np.float32(np.inf))]))
    y = squareplus(x, b).numpy()
    # Right of 0 a neighbour adds less than a unit, while the tail is a quotient whose divisor moves by one unit,
    # which may be two of its own. Left of 0 every step is monotone.
    assert (np.diff(y) >= -2 * np.spacing(y[:-1])).all()
    assert (np.diff(y[x <= 0]) >= 0).all()
    assert (y >= np.maximum(x, 0)).all()


@pytest.mark.parametrize("b", BS)
def test_float32_difference_of_mirrored_values_is_x(b):
    x = ulp.inputs("float32", 300_000).astype(np.float32)
    x = x[np.abs(x) >= np.finfo(np.float32).tiny]
    y, mirrored = squareplus(x, b).numpy(), squareplus(-x, b).numpy()
    assert (np.abs((y - mirrored) - x) <= ulp.ulp(np.maximum(y, mirrored), "float32")).all()


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.sampled_from([-300.0, 0.0, 300.0]))
def test_any_float_is_as_right_beside_others(x, other):
    single, pair = float(squareplus(np.float32(x))), squareplus(np.float32([other, x])).numpy()[1]
    assert single == pair
    truth = (mpmath.mpf(x) + mpmath.sqrt(mpmath.mpf(x) ** 2 + 4)) / 2 if x >= 0 else 0
    assert x < 0 or abs(single - truth) <= 3 * np.spacing(np.float32(truth))


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_infinities_and_nan(dtype, mode):
    wrap = {"eager": lambda f: f, "graph": tf.function, "xla": tf.function(jit_compile=True)}[mode]
    x = tf.constant([np.inf, -np.inf, np.nan], dtype)

    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = squareplus(x)
        return y, tape.gradient(y, x)

    y, slope = wrap(both)(x)
    np.testing.assert_array_equal(as64(y), [np.inf, 0, np.nan])
    np.testing.assert_array_equal(as64(slope), [1, 0, np.nan])


def test_float16_where_keras_is_wrong():
    x = np.float16([300, -300, -100, -30, 65504, -65504])
    # b=4: x + 1/x + ... on the right, 1/abs(x) on the left; half a unit of float16 is 2**-11.
    want = [300, 1 / 300, 0.0099990002, 0.0332964, 65504, 1 / 65504]
    np.testing.assert_allclose(squareplus(x).numpy().astype(float), want, rtol=2**-11, atol=2**-25)


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (3, "float32"),
        (3.0, "float32"),
        (True, "float32"),
        ([1, 2, 3], "float32"),
        ([[0.5, -0.5]], "float32"),
        (np.float16([1]), "float16"),
        (np.float64([1]), "float64"),
        (np.int8([-3, 3]), "float32"),
        (tf.constant([1, 2]), "float32"),
        (tf.constant([1, 2], tf.bfloat16), "bfloat16"),
        (tf.Variable([1.0, 2.0]), "float32"),
        (np.zeros((0, 4), np.float32), "float32"),
    ],
)
def test_takes_any_array_and_keeps_its_float_dtype(x, dtype):
    y = squareplus(x)
    assert y.dtype == dtype
    assert tuple(y.shape) == np.shape(x)


def test_keras_tensor_gives_a_model_that_saves(tmp_path):
    inputs = keras.Input((3,))
    model = keras.Model(inputs, squareplus(squareplus(inputs), b=2.0))
    model.save(tmp_path / "m.keras")
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    again = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    np.testing.assert_array_equal(model(x), squareplus(squareplus(x), b=2.0))


def test_export_form_is_asked_first():
    with forms.use(lambda name, x, **parameters: (name, x, parameters)):
        assert squareplus("anything", b=2.0) == ("squareplus", "anything", {"b": 2.0})
    assert float(squareplus(0.0)) == 1.0


@pytest.mark.parametrize("b", [np.float32([1, 4]), [1.0, 4.0], tf.constant([1.0, 4.0]), tf.Variable([1.0, 4.0])])
def test_tensor_b_broadcasts(b):
    x = np.float32([[0.0, 0.0], [1.0, 1.0], [-300.0, -300.0]])
    want = np.stack([squareplus(x[:, 0], 1.0), squareplus(x[:, 1], 4.0)], axis=1)
    np.testing.assert_array_equal(squareplus(x, b), want)
    np.testing.assert_array_equal(squareplus(x[:, :1], b), want)


@pytest.mark.parametrize(
    ("b", "error", "words"),
    [
        (-1.0, ValueError, "0 or a finite number"),
        (float("nan"), ValueError, "0 or a finite number"),
        (float("inf"), ValueError, "0 or a finite number"),
        (1e-31, ValueError, "from 1e-30 to 1e"),
        (1e31, ValueError, "from 1e-30 to 1e"),
        ("4", TypeError, "number or a tensor"),
        (None, TypeError, "number or a tensor"),
        (True, TypeError, "number or a tensor"),
        (np.array([1.0, 0.0]), ValueError, "An array `b`"),
        (np.array(["a"]), ValueError, "An array `b`"),
    ],
)
@pytest.mark.parametrize("function", [squareplus, squareplus_inverse])
def test_refuses_wrong_b(function, b, error, words):
    with pytest.raises(error, match=words):
        function(1.0, b)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (tf.sparse.from_dense([[1.0, 0.0]]), "absent entries would not stay absent.*tf.sparse.to_dense"),
        (tf.ragged.constant([[1.0], [1.0, 2.0]]), "Rows of different lengths have no place.*x.to_tensor"),
        (np.complex64([1j]), "real numbers"),
    ],
)
def test_refuses_what_has_no_squareplus(x, words):
    with pytest.raises(TypeError, match=words):
        squareplus(x)


@pytest.mark.parametrize("b", [0, 1e-3, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_inverse_undoes_squareplus(dtype, b):
    x = tf.constant([-0.75, -0.5, 0.0, 1.0, 3.0, 200.0] if b else [0.0, 1.0, 200.0], dtype)
    again = as64(squareplus_inverse(squareplus(x, b), b))
    # The inverse subtracts b/(4y) from y: an error of one unit of either stays in the difference.
    eps, y = float(np.finfo(dtype).eps), as64(squareplus(x, b))
    assert (np.abs(again - as64(x)) <= 4 * eps * (y + b / 4 / np.where(b == 0, 1, y))).all()


def test_inverse_outside_the_range_of_squareplus():
    np.testing.assert_array_equal(squareplus_inverse([-1.0, 0.0]), [np.nan, -np.inf])
    np.testing.assert_array_equal(squareplus_inverse([0.0, 2.0], b=0), [0.0, 2.0])

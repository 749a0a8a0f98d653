"""Every way in which TensorFlow differentiates gives the closed form, at 0 too."""

import itertools
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_keras
from sqp_keras import squareplus
from sqp_keras.activation import formulas
from sqp_keras.backends import tensorflow

X = np.array([-30.0, -3.0, -0.5, 0.0, 0.7, 2.0, 30.0])
B = 2.5
MODES = {"eager": lambda f: f, "graph": tf.function, "xla": tf.function(jit_compile=True)}
# A few roundings of float64 in expressions of size 1; the wrong results seen in practice are off by 0.2 or more.
TOLERANCE = 1e-14


def derivatives(x, b):
    """Returns the derivatives 1 to 4 of squareplus with respect to x."""
    s = np.sqrt(x * x + b)
    return [
        (x + s) / (2 * s),
        b / (2 * s**3),
        -3 * b * x / (2 * s**5),
        3 * b * (4 * x * x - b) / (2 * s**7),
    ]


def positional(x):
    return squareplus(x, B)


def keyword(x):
    return squareplus(x, b=B)


def keyword_x(x):
    return squareplus(x=x, b=B)


def tensor_b(x):
    return squareplus(x, b=tf.constant(B, tf.float64))


def reverse(function):
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return slope


def forward(function):
    def slope(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = function(x)
        return accumulator.jvp(y)

    return slope


ORDERS = {
    "r": (reverse,),
    "f": (forward,),
    "rr": (reverse, reverse),
    "fr": (reverse, forward),
    "rf": (forward, reverse),
    "ff": (forward, forward),
    "rrr": (reverse, reverse, reverse),
    "frr": (reverse, reverse, forward),
    "ffr": (reverse, forward, forward),
    "rfr": (reverse, forward, reverse),
    "fff": (forward, forward, forward),
    "rrrr": (reverse, reverse, reverse, reverse),
}


def nested(function, order):
    for step in ORDERS[order]:
        function = step(function)
    return function


@pytest.mark.parametrize(
    ("order", "mode"),
    [
        pytest.param(order, mode, marks=pytest.mark.large if order == "fff" and mode != "xla" else ())
        for order in ORDERS
        for mode in MODES
    ],
)
def test_orders_and_directions(order, mode):
    got = MODES[mode](nested(positional, order))(tf.constant(X))
    np.testing.assert_allclose(got, derivatives(X, B)[len(order) - 1], rtol=0, atol=TOLERANCE)


FOURTH = ["".join(steps) for steps in itertools.product("rf", repeat=4)]
REFUSED = ("ffrr", "ffrf", "fffr", "ffff")
"""In eager mode; docs/numerics.md lists them, the outermost direction first."""


def stacked(function, order):
    for letter in reversed(order):
        function = {"r": reverse, "f": forward}[letter](function)
    return function


@pytest.mark.large
@pytest.mark.parametrize("order", [order for order in FOURTH if order not in REFUSED])
def test_nestings_of_order_four_in_eager_mode(order):
    got = stacked(positional, order)(tf.constant(X))
    np.testing.assert_allclose(got, derivatives(X, B)[3], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("order", [pytest.param(o, marks=() if o == "ffrr" else pytest.mark.large) for o in REFUSED])
def test_a_nesting_that_would_be_wrong_is_refused_and_right_in_a_function(order):
    with pytest.raises(NotImplementedError, match=r"two outer tf\.autodiff\.ForwardAccumulators .*Put the whole"):
        stacked(positional, order)(tf.constant(X))
    got = tf.function(stacked(positional, order))(tf.constant(X))
    np.testing.assert_allclose(got, derivatives(X, B)[3], rtol=0, atol=TOLERANCE)


def test_what_is_refused_would_be_wrong(monkeypatch):
    monkeypatch.setattr(tensorflow.private, "accumulators", lambda tensors: 0)
    assert np.abs(stacked(positional, "ffrr")(tf.constant(X)) - derivatives(X, B)[3]).max() > 0.1


FAILING = """
import sys
import tensorflow as tf
from tests import test_gradients
function, order = sys.argv[1:]
try:
    test_gradients.stacked(eval(function, vars(test_gradients)), order)(tf.constant([0.5]))
except (tf.errors.InternalError, IndexError, ValueError):
    print("RESULT raises")
else:
    print("RESULT works")
"""


def failing(function, orders):
    """Returns the nestings that raise an internal error in eager mode; a process each, since it upsets later ones."""
    code = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]}\n{FAILING}"
    found = {}
    for order in orders:
        command = [sys.executable, "-c", code, function, order]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        found[order] = done.stdout.split("RESULT ")[1].strip()
    return {order for order, result in found.items() if result == "raises"}


@tf.custom_gradient
def ruled(x):
    """Softplus with a rule of its own from the output."""
    y = tf.nn.softplus(x)
    return y, lambda dy: dy * (1 - tf.exp(-y))


def composed(x):
    return (x + tf.sqrt(x * x + B)) / 2


def twice(function):
    """Returns two layers of a function."""
    return lambda x: function(2.0 * function(x))


def from_outside(function):
    return tf.function(function, autograph=False)


@pytest.mark.parametrize(
    ("count", "failed"),
    [
        pytest.param(3, ["rff"], marks=pytest.mark.large),
        pytest.param(4, ["rrff", "rfrf", "rfff", "rffr", "frff", "ffrf", "fffr"], marks=pytest.mark.large),
    ],
)
def test_tensorflow_itself_has_fewer_nestings(count, failed):
    # When this fails because the list got shorter, docs/numerics.md has to change.
    assert failing("tf.exp", map("".join, itertools.product("rf", repeat=count))) == set(failed)


@pytest.mark.large
@pytest.mark.parametrize("function", ["positional", "composed", "tf.nn.softplus", "tf.nn.elu", "ruled"])
@pytest.mark.parametrize(
    ("use", "orders", "failed"),
    [("twice", ["frf", "rff"], {"rff"}), ("from_outside", ["rf", "ffr", "frf", "rff"], {"rf", "ffr", "frf", "rff"})],
)
def test_what_raises_here_raises_for_every_function_of_tensorflow(use, orders, failed, function):
    assert failing(f"{use}({function})", orders) == failed


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=() if order in ("rr", "ffr") else pytest.mark.large)
        for order in map("".join, itertools.chain(*(itertools.product("rf", repeat=n) for n in (1, 2, 3))))
        if order != "rff"
    ],
)
def test_nestings_over_two_layers_in_eager_mode(order):
    x = tf.constant(X[1:-1])
    truth = tf.function(stacked(twice(composed), "r" * len(order)))(x)
    np.testing.assert_allclose(stacked(twice(positional), order)(x), truth, rtol=0, atol=10 * TOLERANCE)


@pytest.mark.parametrize(
    "order", ["r", "f", "rr", "fr", "rrr", *(pytest.param(o, marks=pytest.mark.large) for o in ("ff", "fff", "frr"))]
)
@pytest.mark.parametrize("call", [positional, tensor_b])
def test_derivatives_of_a_compiled_function_from_outside(call, order):
    inside = tf.function(call, autograph=False)
    got = nested(inside, order)(tf.constant(X))
    np.testing.assert_allclose(got, derivatives(X, B)[len(order) - 1], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", [keyword, keyword_x, tensor_b])
def test_other_ways_to_call(call, mode):
    orders = ["r", "f", "rr", "fr"]
    got = MODES[mode](lambda x: [nested(call, order)(x) for order in orders])(tf.constant(X))
    for order, found in zip(orders, got, strict=True):
        np.testing.assert_allclose(found, derivatives(X, B)[len(order) - 1], rtol=0, atol=TOLERANCE, err_msg=order)


def test_closed_forms_agree_with_finite_differences():
    step = 1e-4
    values = [lambda x: (x + np.sqrt(x * x + B)) / 2, *(lambda x, k=k: derivatives(x, B)[k] for k in range(3))]
    for k, function in enumerate(values):
        difference = (function(X + step) - function(X - step)) / (2 * step)
        # The error of the difference: step**2/6 times the third derivative, below 1 here.
        np.testing.assert_allclose(difference, derivatives(X, B)[k], atol=1e-7)


def test_grid_sees_a_planted_fault(monkeypatch):
    monkeypatch.setattr(tensorflow.formulas, "slope_by_y", lambda ns, y, c, dtype: 0.0 * y)
    got = nested(positional, "rr")(tf.constant(X))
    assert np.abs(got - derivatives(X, B)[1]).max() > 0.1


@pytest.mark.parametrize("mode", MODES)
def test_tf_gradients_of_a_graph(mode):
    def second(x):
        slope = tf.gradients(squareplus(x, B), x)[0]
        return tf.gradients(slope, x)[0]

    if mode == "eager":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            got = session.run(second(tf.constant(X)))
    else:
        got = MODES[mode](second)(tf.constant(X))
    np.testing.assert_allclose(got, derivatives(X, B)[1], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_jacobians_and_hessians(mode, vectorised):
    x = tf.constant(X.reshape(1, -1))
    wanted = derivatives(X, B)

    def all_three(x):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = squareplus(x, B)
            slope = tape.gradient(y, x)
        return (
            tape.jacobian(y, x, experimental_use_pfor=vectorised),
            tape.batch_jacobian(y, x, experimental_use_pfor=vectorised),
            outer.jacobian(slope, x, experimental_use_pfor=vectorised),
        )

    jacobian, batch, hessian = MODES[mode](all_three)(x)
    np.testing.assert_allclose(jacobian[0, :, 0], np.diag(wanted[0]), atol=TOLERANCE)
    np.testing.assert_allclose(batch[0], np.diag(wanted[0]), atol=TOLERANCE)
    np.testing.assert_allclose(hessian[0, :, 0], np.diag(wanted[1]), atol=TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
def test_per_example_gradients_by_vectorized_map(mode):
    got = MODES[mode](lambda x: tf.vectorized_map(reverse(positional), x))(tf.constant(X))
    np.testing.assert_allclose(got, derivatives(X, B)[0], atol=TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1)])
def test_derivatives_with_respect_to_b(shape, mode):
    rng = np.random.default_rng(0)
    x = np.concatenate([[[0.0, 0.0, 0.0]], rng.normal(0, 3, (1, 3))])
    b = rng.uniform(0.5, 4, shape)
    s = np.sqrt(x * x + b)

    def both(x, b):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([x, b])
            with tf.GradientTape(persistent=True) as tape:
                tape.watch([x, b])
                y = squareplus(x, b)
            by_x, by_b = tape.gradient(y, [x, b])
        return by_x, by_b, outer.gradient(by_b, b), outer.gradient(by_x, b), outer.gradient(by_b, x)

    def summed(value):
        axes = tuple(range(2 - len(shape))) + tuple(2 - len(shape) + k for k, n in enumerate(shape) if n == 1)
        return value.sum(axis=axes, keepdims=True).reshape(shape)

    by_x, by_b, by_bb, by_xb, by_bx = MODES[mode](both)(tf.constant(x), tf.constant(b))
    np.testing.assert_allclose(by_x, (x + s) / (2 * s), atol=TOLERANCE)
    np.testing.assert_allclose(by_b, summed(1 / (4 * s)), atol=TOLERANCE)
    np.testing.assert_allclose(by_bb, summed(-1 / (8 * s**3)), atol=TOLERANCE)
    np.testing.assert_allclose(by_xb, summed(-x / (4 * s**3)), atol=TOLERANCE)
    np.testing.assert_allclose(by_bx, -x / (4 * s**3), atol=TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_second_and_third_derivative_are_finite_everywhere(dtype, mode):
    largest = float(tf.as_dtype(dtype).max)
    x = tf.constant([0.0, 1.0, -1.0, 300.0, -300.0, -6e4, 6e4, largest, -largest], dtype)
    b = tf.constant([[1e-3], [4.0], [100.0]], dtype)

    def second_and_third(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            second = nested(lambda x: squareplus(x, b), "rr")(x)
        return second, tape.gradient(second, x)

    # One copy of x per b, since a gradient sums over what was broadcast.
    for got in MODES[mode](second_and_third)(tf.tile(x[None], [3, 1])):
        assert got.shape == (3, 9)
        assert np.isfinite(tf.cast(got, tf.float64)).all()


@pytest.mark.parametrize("mode", MODES)
def test_b_zero_has_the_slope_of_relu_and_one_half_at_zero(mode):
    for order in ("r", "f"):
        got = MODES[mode](nested(lambda x: squareplus(x, 0), order))(tf.constant([-2.0, 0.0, -0.0, 3.0]))
        np.testing.assert_array_equal(got, [0, 0.5, 0.5, 1])


@pytest.mark.parametrize("jit", [True, pytest.param(False, marks=pytest.mark.large)])  # True is Keras's own choice.
def test_fit_gives_the_losses_of_plain_operations(jit):
    def plain(x):
        return (x + keras.ops.sqrt(x * x + 4.0)) / 2

    def losses(activation):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((4,)), *(keras.layers.Dense(8, activation) for _ in range(2))])
        model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=jit)
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(2, 64, 4)).astype(np.float32)
        return model.fit(x, np.tile(y, 2), epochs=4, batch_size=16, verbose=0, shuffle=False).history["loss"]

    # Sixteen steps in float32: some thousand roundings of 6e-8, amplified by the optimiser's quotient.
    np.testing.assert_allclose(losses("squareplus"), losses(plain), rtol=1e-4)


def test_without_the_private_record_reverse_mode_stays_right(monkeypatch):
    monkeypatch.setattr(tensorflow, "record", None)
    for mode in MODES:
        for order in ("r", "rr", "rrr"):
            got = MODES[mode](nested(positional, order))(tf.constant(X))
            np.testing.assert_allclose(got, derivatives(X, B)[len(order) - 1], rtol=0, atol=TOLERANCE)
    for order in ("f", "fr"):
        got = nested(positional, order)(tf.constant(X))
        np.testing.assert_allclose(got, derivatives(X, B)[len(order) - 1], rtol=0, atol=TOLERANCE)


def test_only_the_output_is_kept_for_the_backward_pass():
    kept = []
    original = formulas.slope

    class Input:
        pass

    x = tf.constant([1.0, 2.0])
    alive = sys.getrefcount(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        doubled = x * 2
        y = squareplus(doubled)
        kept.append(sys.getrefcount(doubled))
    del doubled
    np.testing.assert_allclose(tape.gradient(y, x), 2 * original(tf, y, 1.0, "float32"), rtol=1e-6)
    # The name here and the argument of getrefcount: nothing else holds the input of squareplus.
    assert kept == [2]
    assert alive >= 2


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("learnt", [False, True])
def test_a_plain_graph_computes_the_slope_in_the_backward_pass(dtype, learnt):
    with tf.Graph().as_default():
        x, dy = (tf.compat.v1.placeholder(dtype, [3]) for _ in range(2))
        b = tf.compat.v1.placeholder("float64" if dtype == "float64" else "float32", [3]) if learnt else 4.0
        y = squareplus(x, b)
        gradients = tf.gradients(y, [x, b] if learnt else [x], grad_ys=dy)
        forward = operations_before([y.op])
        early = [
            op.name
            for op in operations_before([gradient.op for gradient in gradients])
            if op not in forward and y.op in operations_before([op]) and dy.op not in operations_before([op])
        ]
    # What needs y alone could run as soon as y is there, and its result would be kept until the backward pass.
    assert early == []


def operations_before(operations):
    """Returns the operations and all that have to run before them, by data or by control."""
    found, waiting = set(), list(operations)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend([*(tensor.op for tensor in op.inputs), *op.control_inputs])
    return found


RELOAD = """
import gc, sys
gc.disable()
sys.modules["sqp_keras"] = sys.modules["keras"] = None
import numpy as np, tensorflow as tf
data = np.load(sys.argv[1] + "/data.npz")
x = tf.constant(data["x"])
for kind in ("export", "module"):
    loaded = tf.saved_model.load(sys.argv[1] + "/" + kind)
    call, variables = (loaded.serve, loaded.variables) if kind == "export" else (loaded, loaded.trainable)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(call(x) ** 2)
    for k, (variable, gradient) in enumerate(zip(variables, tape.gradient(loss, list(variables)))):
        # Float32 sums of 16 examples in another order.
        np.testing.assert_allclose(gradient, data[f"g{k}"], rtol=1e-4, atol=1e-5)
        variable.assign_sub(0.001 * gradient)
    assert float(tf.reduce_mean(call(x) ** 2)) < float(loss), kind
"""


def test_saved_models_train_without_this_package(tmp_path):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(8, "squareplus")(inputs)
    hidden = sqp_keras.Squareplus(b=2.0, learn_b="channel")(keras.layers.Dense(8)(hidden))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    x = np.random.default_rng(0).normal(0, 3, (16, 4)).astype(np.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    np.savez(tmp_path / "data.npz", x=x, **{f"g{k}": g for k, g in enumerate(gradients)})
    model.export(tmp_path / "export", verbose=False)

    class Module(tf.Module):
        def __init__(self):
            self.trainable = [v.value for v in model.trainable_variables]

        @tf.function(input_signature=[tf.TensorSpec((None, 4))])
        def __call__(self, x):
            return model(x)

    tf.saved_model.save(Module(), str(tmp_path / "module"))
    done = subprocess.run([sys.executable, "-c", RELOAD, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "custom gradients" not in done.stderr


def test_second_derivative_of_a_saved_model(tmp_path):
    module = tf.Module()
    module.call = tf.function(positional, input_signature=[tf.TensorSpec((None,), tf.float64)])
    tf.saved_model.save(module, str(tmp_path))
    got = nested(tf.saved_model.load(str(tmp_path)).call, "rr")(tf.constant(X))
    np.testing.assert_allclose(got, derivatives(X, B)[1], rtol=0, atol=TOLERANCE)

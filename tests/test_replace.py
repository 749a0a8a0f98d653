"""Replacing activations: everywhere they can be, with the same weights, the model untouched; heads."""

import json

import keras
import numpy as np
import pytest
from keras import layers

import sqp_keras
from sqp_keras.models import observe, rules
from sqp_keras.models.rebuild import CannotCopyError, rebuild
from sqp_keras.models.sites import sites

RANDOM = np.random.default_rng(7)


@keras.saving.register_keras_serializable(package="tests")
class Block(layers.Layer):
    """A layer of standard layers, one as activation=, one as a layer, one in a list, one inside a Sequential."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = layers.Dense(units, activation="softplus")
        self.elu = layers.ELU(alpha=0.5)
        self.steps = [layers.Activation("tanh")]
        self.side = keras.Sequential([layers.Dense(units), layers.Activation("silu")])

    def call(self, x):
        return self.steps[0](self.elu(self.dense(x))) + self.side(x)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, units=4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.hidden = layers.Dense(units, activation="mish")
        self.head = layers.Dense(2, activation="sigmoid")

    def call(self, x):
        return self.head(self.hidden(x))

    def get_config(self):
        return {"units": self.units}


class NoConfig(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.dense = layers.Dense(units, activation="softplus")

    def call(self, x):
        return self.dense(x)


def my_softplus(x):
    return keras.ops.log(keras.ops.exp(x) + 1.0)


def functional(function, shape=(8,)):
    i = keras.Input(shape)
    return keras.Model(i, function(i))


def sequential(*held, shape=(8,)):
    return keras.Sequential([keras.Input(shape), *held])


def shared(i):
    layer = layers.Dense(8, "selu")
    inner = sequential(layers.Dense(4, "gelu"), layers.Activation("celu"))
    return inner(layer(layer(i))) + inner(i * 0.5)


def operations(i):
    x = keras.ops.silu(layers.Dense(8)(i))
    x = keras.ops.gelu(x * 2.0 + 1.0)
    return keras.ops.softmax(keras.ops.elu(x, alpha=0.5), axis=-1)


def subclassed():
    model = Subclassed()
    model(np.zeros((1, 8), "float32"))
    return model


CASES = {
    "strings, layers, functions": lambda: sequential(
        layers.Dense(8, "softplus"),
        layers.Activation("tanh"),
        layers.Dense(8, keras.activations.selu),
        layers.ELU(0.5),
        layers.Dense(6, activation=layers.ELU()),
        layers.Dense(4, "swish"),
        layers.Softmax(),
    ),
    "shared and nested": lambda: functional(shared),
    "operations": lambda: functional(operations),
    "user layer": lambda: functional(lambda i: layers.Dense(2)(Block(6)(i))),
    "subclassed": subclassed,
    "recurrent": lambda: sequential(
        layers.Bidirectional(layers.LSTM(4, return_sequences=True)), layers.GRU(3), layers.Dense(1), shape=(5, 3)
    ),
    "wrappers": lambda: sequential(
        layers.TimeDistributed(layers.ELU()),
        layers.TimeDistributed(sequential(layers.Dense(2), layers.Activation("softplus"))),
        shape=(5, 8),
    ),
    "attention": lambda: functional(lambda i: layers.MultiHeadAttention(2, 4)(i, i), (6, 8)),
    "convolutions": lambda: sequential(
        layers.Conv2D(4, 3, activation="mish"),
        layers.DepthwiseConv2D(3, activation="softplus"),
        layers.SeparableConv2D(4, 1, activation="softsign"),
        layers.Conv2DTranspose(2, 2, activation="log_sigmoid"),
        layers.BatchNormalization(),
        layers.GlobalAveragePooling2D(),
        shape=(8, 8, 2),
    ),
}

EXACT = {*rules.ALLOWED, "linear"}


def inputs_of(model, rows=12):
    shape = getattr(model, "input_shape", None) or (None, 8)
    return (RANDOM.normal(size=(rows, *shape[1:])) * 2).astype("float32")


def state(model):
    return [site.activation for site in sites(model)], [w.copy() for w in model.get_weights()]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("with_data", [False, True])
def test_every_activation_is_found_and_exchanged(case, with_data):
    keras.utils.set_random_seed(1)
    model = CASES[case]()
    x = inputs_of(model)
    expected, (before, weights) = np.asarray(model(x)), state(model)
    new, report = sqp_keras.replace_activations(model, data=x if with_data else None)
    assert {site.activation.name for site in sites(new)} <= EXACT
    # Every change is below 1e-3 of a range of at most 2, and the nets are shallow and contracting.
    np.testing.assert_allclose(new(x), expected, atol=4e-3)
    after, kept = state(model)
    assert after == before
    assert all(np.array_equal(a, b) for a, b in zip(weights, kept, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(weights, new.get_weights(), strict=True))
    assert report.replacements
    assert all(r.max_change is not None and 0.0 <= r.max_change < 2e-3 for r in report.replacements)
    if with_data:
        assert all(r.mean_change is not None or r.was == "softmax" for r in report.replacements)


@pytest.mark.parametrize("case", [c for c in CASES if c not in ("user layer", "subclassed")])
def test_the_new_model_is_saved_with_its_activations(case, tmp_path):
    model = CASES[case]()
    new, report = sqp_keras.replace_activations(model)
    new.save(tmp_path / "m.keras")
    x = inputs_of(model)
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "m.keras")(x), new(x))
    assert not any(r.note for r in report.replacements)


@pytest.mark.parametrize("case", ["user layer", "subclassed"])
def test_what_a_saved_file_would_lose_is_said(case):
    _, report = sqp_keras.replace_activations(CASES[case]())
    assert all("not in a file saved from it" in r.note for r in report.replacements)
    assert "note: " in str(report)


def test_the_report_is_plain_data():
    _, report = sqp_keras.replace_activations(CASES["user layer"](), keep=["elu"])
    data = json.loads(json.dumps(report.as_dict()))
    assert [row["layer"] for row in data["replacements"]] == [r.layer for r in report.replacements]
    assert [row["max_change"] for row in data["replacements"]] == [r.max_change for r in report.replacements]
    assert [(row["activation"], bool(row["reason"])) for row in data["unchanged"]] == [("elu", True)]


def test_a_traced_model_is_replaced_all_the_same():
    model = sequential(layers.Dense(4, "sigmoid"))
    x = inputs_of(model)
    model.predict(x, verbose=0)
    new, _ = sqp_keras.replace_activations(model, {"sigmoid": "linear"})
    np.testing.assert_allclose(new.predict(x, verbose=0), x @ model.get_weights()[0], atol=1e-5)


def test_clone_of_a_replaced_model_carries_over():
    model = sequential(layers.Dense(4, "silu"))
    new, _ = sqp_keras.replace_activations(model)
    clone = keras.models.clone_model(new)
    clone.set_weights(new.get_weights())
    x = inputs_of(model)
    np.testing.assert_array_equal(clone(x), new(x))


def test_stacked_mish_convolutions_are_replaced_layer_by_layer():
    keras.utils.set_random_seed(0)
    model = sequential(
        layers.Conv2D(16, 3, activation="mish", name="first"),
        layers.Conv2D(16, 3, activation="mish", name="second"),
        layers.Flatten(),
        layers.Dense(1),
        shape=(9, 9, 8),
    )
    x = inputs_of(model)
    half, report = sqp_keras.replace_activations(model, {"first": "accurate"})
    assert [r.layer for r in report.replacements] == ["first"]
    assert [(u.layer, u.reason) for u in report.unchanged] == [("second", "no rule for it")]
    new, _ = sqp_keras.replace_activations(half, "accurate")
    # Both mish within 3e-4 per value, summed over weights of about 1/12 in 144 places.
    np.testing.assert_allclose(new(x), model(x), atol=1e-2)


def test_every_swish_of_a_deep_network_becomes_another():
    model = sequential(
        layers.Conv2D(8, 3, activation="silu"),
        layers.Conv2D(8, 3, activation="swish"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4, "relu"),
        shape=(12, 12, 3),
    )
    new, report = sqp_keras.replace_activations(model, {"silu": "hard_silu"})
    assert [site.activation.name for site in sites(new)][:2] == ["hard_silu", "hard_silu"]
    assert [r.now for r in report.replacements] == ["hard_silu", "hard_silu"]
    assert [u.activation for u in report.unchanged] == ["relu"]


def test_fast_fits_b_on_the_layers_own_inputs():
    model = sequential(layers.Dense(4, "softplus", kernel_initializer="identity"), shape=(4,))
    narrow = np.full((64, 4), 0.0, "float32")
    new, report = sqp_keras.replace_activations(model, "fast", data=narrow)
    # At 0 alone the best b is the one that gives softplus's value there.
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


def test_rules_go_from_the_most_particular_to_all():
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


def test_exponential_is_replaced_up_to_its_largest_input():
    model = sequential(layers.Dense(4, "exponential"))
    x = inputs_of(model, 64)
    _, report = sqp_keras.replace_activations(model, data=x)
    assert report.replacements[0].was == "exponential"
    # 7.5e-5 of exp(largest input + 1), and 1.5e-5 of it from rounding the roots, whose weights add up to 5.
    assert report.replacements[0].max_change <= 9e-5 * np.e * float(np.max(model(x)))


def test_data_may_be_a_dataset_or_a_dictionary():
    tf = pytest.importorskip("tensorflow")
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model([a, b], layers.Dense(2, "tanh")(a + b))
    arrays = [RANDOM.normal(size=(10, 3)).astype("float32") for _ in range(2)]
    _, report = sqp_keras.replace_activations(model, data=dict(zip("ab", arrays, strict=True)))
    assert report.replacements[0].mean_change is not None
    dataset = tf.data.Dataset.from_tensor_slices((tuple(arrays), np.zeros(10))).batch(4)
    _, report = sqp_keras.replace_activations(model, data=dataset)
    assert report.replacements[0].mean_change is not None


def test_the_measured_change_sees_a_wrong_stand_in():
    model = sequential(layers.Dense(4, "tanh"))
    _, report = sqp_keras.replace_activations(model, {"tanh": "relu"}, data=inputs_of(model))
    assert report.replacements[0].max_change > 0.3


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"rule": "exact"}, ValueError, 'accurate", "fast" or a mapping'),
        ({"rule": 3}, TypeError, "`rule` is"),
        ({"rule": {"silu": "smooth"}}, ValueError, "Received: 'smooth' for `dense"),
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


def test_models_that_cannot_be_copied_are_refused_with_the_layer():
    with pytest.raises(CannotCopyError, match=r"no_config.*NoConfig.*get_config"):
        sqp_keras.replace_activations(functional(lambda i: NoConfig(4)(i)))
    with pytest.raises(CannotCopyError, match="not built yet"):
        sqp_keras.replace_activations(keras.Sequential([layers.Dense(2, "tanh")]))
    with pytest.raises(TypeError, match="Keras model"):
        sqp_keras.replace_activations("model.keras")


def test_code_of_the_users_own_is_carried_over_as_it_is():
    model = sequential(
        layers.Lambda(lambda t: t * 2.0),
        layers.Dense(4, my_softplus),
        layers.Dense(4, lambda t: t + 1.0),
        layers.PReLU(),
    )
    x = inputs_of(model)
    np.testing.assert_array_equal(rebuild(model, {})(x), model(x))


def test_a_model_compiled_with_a_loss_of_ones_own_is_copied_and_stays_compiled():
    def own_loss(y, made):
        return keras.ops.mean(keras.ops.abs(y - made), axis=-1)

    for model in (sequential(layers.Dense(2, "tanh")), functional(layers.Dense(2, "tanh"))):
        model.compile("sgd", own_loss)
        new, _ = sqp_keras.replace_activations(model)
        assert model.compiled
        assert not new.compiled


def test_observing_leaves_the_model_alone_and_keeps_the_extremes():
    model = sequential(layers.Dense(4, "tanh", kernel_initializer="identity"), shape=(4,))
    x = RANDOM.normal(size=(300, 4)).astype("float32")
    before = state(model)[0]
    (seen,) = observe.observe(model, sites(model), x)
    assert state(model)[0] == before
    rows = np.unique(np.linspace(0, 299, observe.SAMPLES).round().astype(int))
    assert seen.x.min() == x[rows].min()
    assert seen.x.max() == x[rows].max()
    np.testing.assert_allclose(seen.y, np.tanh(seen.x), atol=1e-6)


def deep(builder, size):
    keras.utils.set_random_seed(3)
    return builder(weights=None, input_shape=(size, size, 3), classes=10)


def settle(model, x):
    """Gives batch normalisation the statistics of x, without which random weights return the same for every input."""
    layers_ = [layer for layer in model._flatten_layers() if isinstance(layer, layers.BatchNormalization)]
    for layer in layers_:
        layer.momentum = 0.0
    model(x, training=True)


@pytest.mark.parametrize(
    ("builder", "size", "changed"),
    [
        (keras.applications.MobileNetV3Small, 64, 0),
        (keras.applications.EfficientNetB0, 64, 65),
        (keras.applications.DenseNet121, 32, 0),
    ],
)
def test_published_networks_lose_every_exp_and_keep_their_classes(builder, size, changed):
    model = deep(builder, size)
    x = np.random.default_rng(0).uniform(0, 255, size=(32, size, size, 3)).astype("float32")
    if changed:
        settle(model, x)
    logits, heads = sqp_keras.drop_head(model)
    assert [head.was for head in heads] == ["softmax"]
    # Batch normalisation of random weights amplifies each layer's change; seven roots leave 7e-6 of it.
    new, report = sqp_keras.replace_activations(logits, max_error=1e-4)
    assert len(report.replacements) == changed
    assert {site.activation.name for site in sites(new)} <= EXACT
    if changed:
        a, b = (np.argmax(m(x), axis=-1) for m in (logits, new))
        assert len(set(a)) > 1
        assert np.mean(a == b) >= 0.97


HEADS = {
    "dense": (lambda: sequential(layers.Dense(4, "relu"), layers.Dense(3, "softmax", name="out")), "softmax", "argmax"),
    "layer": (lambda: sequential(layers.Dense(3), layers.Activation("sigmoid", name="out")), "sigmoid", "above 0"),
    "softmax layer": (lambda: sequential(layers.Dense(3), layers.Softmax(name="out")), "softmax", "argmax"),
    "called softmax layer": (
        lambda: functional(lambda i: layers.Softmax(name="out")(layers.Dense(3)(i))),
        "softmax",
        "largest value is the class (argmax)",
    ),
    "operation": (lambda: functional(lambda i: keras.ops.softmax(layers.Dense(3)(i))), "softmax", "argmax"),
    "nested": (
        lambda: functional(lambda i: sequential(layers.Dense(3, "sigmoid", name="out"))(i)),
        "sigmoid",
        "above 0",
    ),
}


@pytest.mark.parametrize("case", HEADS)
def test_heads_are_dropped_and_explained(case):
    build, was, words = HEADS[case]
    model = build()
    x = inputs_of(model)
    logits, heads = sqp_keras.drop_head(model)
    assert [head.was for head in heads] == [was]
    assert words in str(heads[0])
    back = getattr(keras.ops, was)(logits(x))
    np.testing.assert_allclose(back, model(x), atol=1e-6)


def test_every_output_loses_its_head_by_name():
    i = keras.Input((4,))
    h = layers.Dense(4, "sigmoid")(i)
    outputs = {"kind": layers.Dense(3, "softmax", name="kind")(h), "size": layers.Dense(1, name="size")(h)}
    model = keras.Model(i, outputs)
    logits, heads = sqp_keras.drop_head(model)
    assert [(head.output, head.layer) for head in heads] == [("kind", "kind")]
    assert sites(logits)[0].activation.name == "sigmoid"
    assert set(logits(np.zeros((1, 4), "float32"))) == {"kind", "size"}


def test_a_softmax_per_cell_is_read_per_cell():
    model = functional(lambda i: layers.Softmax()(layers.Conv2D(3, 1)(i)), (4, 5, 2))
    _, heads = sqp_keras.drop_head(model)
    assert "the largest value in each of 4x5 cells is the class (argmax)" in str(heads[0])


@pytest.mark.parametrize(
    "build",
    [
        lambda i: layers.Softmax()(layers.Dense(8)(i), mask=i > 0),
        lambda i: layers.Softmax(axis=1)(layers.Reshape((2, 4))(i)),
        lambda i: layers.Dense(3, "relu")(i),
        lambda i: [(p := layers.Dense(3, "softmax")(i)), layers.Dense(1)(p)],
    ],
    ids=["a mask", "other axis", "no head", "used again"],
)
def test_other_heads_stay(build):
    model = functional(build)
    same, heads = sqp_keras.drop_head(model)
    assert same is model
    assert heads == ()

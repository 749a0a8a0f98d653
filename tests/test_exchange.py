"""Models with exp and log become deployable: --replace and --head, from Python and from the shell."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

import sqp_keras
import sqp_tflite
from models import dense
from spellings import SPELLINGS, Speller
from sqp_keras.models.choose import SOFTMAX_ERROR
from sqp_tflite.agreement import GIVEN, ORDINARY, WRITTEN
from sqp_tflite.cli import arguments, commands
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters
from sqp_tflite.source import exchange as exchanging
from sqp_tflite.source.exchange import ACCURATE_CHANGE, GOOD_ENOUGH
from tools import zoo

L = keras.layers
ALLOWED = {"FULLY_CONNECTED", "CONV_2D", "RESHAPE", "ADD", "MUL", "SQRT", "SUB", "RELU", "MINIMUM", "MAXIMUM"}
ACTIVATIONS = ("softplus", "elu", "silu", "gelu", "mish", "tanh", "sigmoid", "selu", "celu", "log_sigmoid")


def every_activation() -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [L.Dense(12, activation=name, name=name) for name in ACTIVATIONS]
    return keras.Sequential([keras.Input((6,), name="x"), *layers, L.Dense(4, activation="softmax", name="head")])


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("exchange") / "all.keras"
    every_activation().save(path)
    return path


@pytest.fixture(scope="module")
def exchanged():
    """The model of every activation and its export, with data that the model labels itself."""
    model = every_activation()
    x = np.random.default_rng(0).normal(size=(50, 6)).astype("float32")
    data = {"x": x, "y": model.predict(x, verbose=0).argmax(axis=1)}
    return model, sqp_tflite.export(model, replace="accurate", head="logits", data=data)


def test_accurate_leaves_no_exp_and_no_log(exchanged):
    model, exported = exchanged
    assert {op.name for _, op in read(exported.model_bytes).all_ops()} <= ALLOWED
    assert [row.layer for row in exported.report.replacements] == list(ACTIVATIONS)
    assert all(row.max_change <= 1e-3 * 2 and row.now.startswith("algebraic") for row in exported.report.replacements)
    assert all(row.argmax_agreement == 1.0 for row in exported.report.agreement)
    assert any("argmax" in note and "`head`" in note for note in exported.report.notes)
    assert model.layers[0].activation is keras.activations.softplus  # the user's model is only read


def test_fast_is_one_root_per_activation():
    model = dense(activation="softplus")
    data = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    exported = sqp_tflite.export(model, replace="fast", data=data)
    ops = [op.name for _, op in read(exported.model_bytes).all_ops()]
    assert ops.count("SQRT") == 1 and set(ops) == {"FULLY_CONNECTED", "MUL", "ADD", "SQRT"}


def test_a_mapping_leaves_the_rest():
    model = keras.Sequential([keras.Input((4,)), L.Dense(4, "softplus", name="a"), L.Dense(4, "gelu", name="b")])
    with pytest.raises(sqp_tflite.RefusedError) as caught:
        sqp_tflite.export(model, replace={"softplus": "accurate"})
    assert {(finding.layer, finding.op) for finding in caught.value.findings} == {("b", "GELU")}
    assert any("b (gelu) was left" in note for note in caught.value.report.notes)


def test_metric_and_argmax_are_those_of_the_model_as_given(exchanged):
    agreement = [row for row in exchanged[1].report.agreement if row.against == GIVEN]
    assert {(row.metric_before, row.argmax_agreement) for row in agreement} == {(1.0, 1.0)}


def test_a_dropped_sigmoid_is_read_at_zero():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,), name="x"), L.Dense(1, activation="sigmoid", name="yes")])
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
    y = (model.predict(x, verbose=0) > 0.5).astype("int32")
    exported = sqp_tflite.export(model, head="logits", data={"x": x, "y": y})
    assert {row.metric_after for row in exported.report.agreement} == {1.0}
    assert any("above 0 means yes" in note for note in exported.report.notes)


def test_nothing_to_drop_is_said():
    exported = sqp_tflite.export(dense(), head="logits")
    assert any("nothing was dropped" in note for note in exported.report.notes)


def test_inner_softmax_becomes_algebraic():
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 8))
    attended = L.MultiHeadAttention(2, 4, name="attention")(x, x)
    model = keras.Model(x, L.Dense(3)(L.GlobalAveragePooling1D()(attended)))
    exported = sqp_tflite.export(model, replace="accurate", target="litert")
    names = {op.name for _, op in read(exported.model_bytes).all_ops()}
    assert not names & {"EXP", "SOFTMAX", "LOG"}


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ((0.0321, 0.0319, 0.0318), None),
        ((0.032, 0.02, 0.0199), 3e-4),
        ((0.032, 0.0319, 0.004), 1e-4),
        ((0.032, 0.02, 0.01), 1e-4),
        ((0.004,), None),
    ],
)
def test_more_roots_are_only_taken_where_they_gain_something(changes, bound, monkeypatch):
    found = iter(changes)
    monkeypatch.setattr(exchanging, "_change", lambda *_: next(found))
    monkeypatch.setattr(exchanging, "compiled", lambda *_: lambda arrays: {})
    report = SimpleNamespace(replacements=[SimpleNamespace(terms=3)])
    samples = SimpleNamespace(inputs=(), parts=dict)

    def with_bound(bound):
        return SimpleNamespace(model=None, call=None, bound=bound), report

    first = with_bound(1e-3)[0]
    new, _, notes = exchanging.refined(first, first, report, samples, with_bound)
    assert new.bound == (bound or 1e-3) and len(notes) == (bound is not None)
    if notes:
        before, after = re.search(r"changed by (\S+) of its range, now (\S+) ", notes[0]).groups()
        assert float(after) < float(before)


def test_gates_of_recurrent_layers_are_reached():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2, 3), name="x"), L.LSTM(4, name="lstm"), L.Dense(2)])
    # Inputs that move the gates: near 0 the outputs' range is so small that float32's rounding is 1e-4 of it on LiteRT.
    exported = sqp_tflite.export(model, replace="accurate", data=3 * zoo.samples(model, 32)["x"])
    assert not {op.name for _, op in read(exported.model_bytes).all_ops()} & {"LOGISTIC", "TANH", "WHILE"}
    assert {row.layer.rpartition("/")[2] for row in exported.report.replacements} == {
        "lstm_cell",
        "lstm_cell.recurrent_activation",
    }


def gated(layer):
    """Few steps: what is tested is that each gate of each step becomes its own island or table."""
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((2, 3), name="x"), layer, L.Dense(3, activation="softmax", name="head")])


PUBLISHED = {
    "mean and sigma, softplus": lambda: zoo.build("Z22", activation="relu", head="original"),
    "LSTM": lambda: gated(L.LSTM(3)),
    "elu and silu": lambda: keras.Sequential(
        [keras.Input((6, 6, 2), name="x"), L.Conv2D(4, 3, activation="elu"), L.Flatten(), L.Dense(4, activation="silu")]
    ),
}
FORMS = [("float32", "algebraic"), ("int8", "algebraic"), ("int8", "table")]


# Gates have tests of their own: in float above, in integers in test_unroll.py.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.large) if name == "LSTM" else name for name in PUBLISHED]
)
def test_published_activations_ship_in_float_and_in_integers(name):
    model = PUBLISHED[name]()
    data = zoo.samples(model)
    # The gates in float32 have a test of their own above.
    for quantize, lowering in FORMS[1:] if name == "LSTM" else FORMS:
        exported = sqp_tflite.export(
            model, data=data, quantize=quantize, lowering=lowering, replace="accurate", head="logits"
        )
        ops = {op.name for _, op in read(exported.model_bytes).all_ops()}
        assert not ops & {"EXP", "LOG", "ELU", "GELU", "LOGISTIC", "TANH", "SOFTMAX", "WHILE"}
        assert ("SQRT" in ops) == (lowering == "algebraic")
        micro = exported.report.worst("tflm", WRITTEN)
        # Eight bits of weights and of every activation; zoo models in the same numbers with squareplus stay below 3 %.
        assert micro.error_of_range <= (1e-4 if quantize == "float32" else 0.05)
        assert exported.report.worst("tflm").error_of_range <= (ACCURATE_CHANGE if quantize == "float32" else 0.05)


def test_a_smaller_max_error_takes_more_roots():
    model = dense(activation="silu")
    roots = [
        sqp_tflite.export(model, replace="accurate", max_error=bound, dry_run=True).report.replacements[0].terms
        for bound in (None, 1e-3, 1e-4, 1e-5)
    ]
    assert roots == [5, 5, 7, 7]
    with pytest.raises(sqp_tflite.BadInputError, match=r"No sum for silu stays within 1e-06.*Raise max_error"):
        sqp_tflite.export(model, replace="accurate", max_error=1e-6, dry_run=True)


@pytest.mark.parametrize("activation", ["silu", "softmax"])
def test_layers_whose_names_begin_with_an_underscore(activation):
    """TensorFlow forbids it for the first scope of a graph, Keras does not."""
    layers = [L.Dense(3, activation, name="_a"), L.Activation(activation, name="__s__"), L.Dense(2, name="_b")]
    model = keras.Sequential([keras.Input((4,), name="x"), *layers])
    report = sqp_tflite.export(model, replace="accurate").report
    assert [row.layer for row in report.plan] == ["_a", "__s__"] and report.verdict == "ok"


@pytest.mark.parametrize("quantize", ["float32", pytest.param("int8", marks=pytest.mark.large)])
def test_attention_over_padded_tokens(quantize):
    """A padded query has no key that counts; in Keras all keys then count alike."""
    keras.utils.set_random_seed(1)
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = L.Embedding(20, 8, mask_zero=True)(tokens)
    model = keras.Model(tokens, L.Dense(3)(L.Flatten()(L.MultiHeadAttention(2, 4)(x, x))))
    data = np.random.default_rng(0).integers(0, 20, (64, 6)).astype("int32")
    data[:, 3:][:16] = 0
    lowering = "table" if quantize == "int8" else "algebraic"
    report = sqp_tflite.export(model, data=data, quantize=quantize, replace="accurate", lowering=lowering).report
    worst = max(row.error_of_range for row in report.agreement if row.against == "given")
    assert worst < (0.05 if quantize == "int8" else 1e-3)


def narrowing(activation):
    """A stack whose values become smaller from layer to layer: a fixed error becomes a large share of them."""
    keras.utils.set_random_seed(0)
    kernel = keras.initializers.VarianceScaling(0.5)
    hidden = [L.Dense(16, activation, kernel_initializer=kernel) for _ in range(6)]
    return keras.Sequential([keras.Input((16,), name="x"), *hidden, L.Dense(3)])


@pytest.mark.parametrize(
    ("activation", "roots", "chosen"),
    [("silu", 7, "0.0001"), pytest.param("gelu", 6, "0.0003", marks=pytest.mark.large), ("tanh", 4, "")],
)
def test_accurate_takes_the_roots_that_the_outputs_need(activation, roots, chosen):
    model = narrowing(activation)
    data = {"x": np.random.default_rng(0).normal(size=(64, 16)).astype("float32")}
    report = sqp_tflite.export(model, replace="accurate", data=data).report
    assert {row.terms for row in report.replacements} == {roots}
    notes = [note for note in report.notes if "sums of roots" in note]
    assert bool(notes) == bool(chosen) and all(f"within {chosen} of their range" in note for note in notes)
    assert max(row.error_of_range for row in report.agreement if row.against == "given") <= GOOD_ENOUGH
    if chosen:  # Without the choice the change is above what is good enough, and one's own bound is kept.
        own = sqp_tflite.export(model, replace="accurate", data=data, max_error=1e-3, max_change=0.5).report
        assert {row.terms for row in own.replacements} == {roots - 2}
        assert max(row.error_of_range for row in own.agreement if row.against == "given") > GOOD_ENOUGH
        assert not any("sums of roots" in note for note in own.notes)


def test_without_data_the_roots_are_chosen_on_ordinary_inputs():
    """Among the made-up inputs are some 1000 times as large, whose outputs have a range that hides every change."""
    report = sqp_tflite.export(narrowing("silu"), replace="accurate").report
    assert {row.terms for row in report.replacements} == {7}
    worst = max(row.error_of_range for row in report.agreement if (row.against, row.on) == ("given", ORDINARY))
    assert worst <= GOOD_ENOUGH


def test_samples_are_handed_over_in_the_structure_of_the_inputs(recwarn):
    keras.utils.set_random_seed(0)
    named = {"a": keras.Input((4,), name="a"), "b": keras.Input((4,), name="b")}
    model = keras.Model(named, L.Dense(2, activation="softplus")(named["a"] - named["b"]))
    data = {name: np.full((8, 4), value, "float32") for name, value in (("a", 3.0), ("b", 1.0))}
    sqp_tflite.export(model, replace="fast", data=data, dry_run=True)
    sqp_tflite.export(dense(activation="softplus"), replace="fast", data=np.ones((8, 4), "float32"), dry_run=True)
    assert not [warning for warning in recwarn if "structure" in str(warning.message)]


@keras.saving.register_keras_serializable(package="tests")
class OwnSoftmax(L.Layer):
    """A layer that calls softmax in its own code, where no site is."""

    def call(self, x):
        return keras.ops.softmax(x)


@keras.saving.register_keras_serializable(package="tests")
class HeldSoftmax(L.Layer):
    """The same after its remedy."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.softmax = sqp_keras.AlgebraicSoftmax()

    def call(self, x):
        return self.softmax(x)


def attending(attend):
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 8), name="x")
    return keras.Model(x, L.Dense(3, name="last")(L.GlobalAveragePooling1D()(attend(x))))


class Holding(L.Layer):
    """A layer of the user's that makes its attention itself."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.near = L.Attention()
        self.far = GROUPED(4, 2, 1)

    def call(self, x):
        return self.near([x, x]) + self.far(x, x)


GROUPED = getattr(L, "GroupQueryAttention", None) or L.GroupedQueryAttention
ATTENTION = {
    "attention": lambda x: L.Attention(use_scale=True, name="own")([x, x]),
    "causal attention": lambda x: L.Attention(name="own")([x, x], use_causal_mask=True),
    "attention by a sum of tanh": lambda x: L.Attention(use_scale=True, score_mode="concat", name="own")([x, x]),
    "additive attention": lambda x: L.AdditiveAttention(name="own")([x, x]),
    "grouped-query attention": lambda x: GROUPED(4, 2, 1, name="own")(x, x),
    "attention in a layer of the user's": lambda x: Holding(name="own")(x),
    "causal multi-head attention": lambda x: L.MultiHeadAttention(2, 4, name="own")(x, x, use_causal_mask=True),
}
NUMBERS = {
    "float32": ({}, 2e-4),
    "int8": ({"quantize": "int8"}, 0.02),
    "int8 table": ({"quantize": "int8", "lowering": "table"}, 0.02),
    "int16x8": ({"quantize": "int16x8"}, 0.01),
}
"""Options, and the max error over the output's range that is allowed: a few codes, and the 5e-4 of the softmax."""
FAST = {("attention", "float32"), ("attention by a sum of tanh", "int8"),
        ("attention in a layer of the user's", "float32"), ("causal attention", "int8 table")}  # fmt: skip
"""The user's layer holds a grouped-query attention."""


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        pytest.param(kind, numbers, marks=() if (kind, numbers) in FAST else pytest.mark.large)
        for kind in ATTENTION
        for numbers in NUMBERS
    ],
)
def test_attention_is_exchanged_and_agrees(kind, numbers):
    model, (options, limit) = attending(ATTENTION[kind]), NUMBERS[numbers]
    data = zoo.samples(model, 32)
    exported = sqp_tflite.export(model, replace="accurate", data=data, **options)
    assert exported.report.verdict == "ok"
    assert not {op.name for _, op in read(exported.model_bytes).all_ops()} & {"EXP", "SOFTMAX", "TANH", "LOGISTIC"}
    rows = [row for row in exported.report.agreement if row.runtime == "tflm" and row.against == "given"]
    assert max(row.error_of_range for row in rows) < limit
    assert all(row.layer.startswith("own") for row in exported.report.replacements)


def test_softmax_in_a_layers_own_code_is_refused_with_a_remedy_that_works():
    model = attending(lambda x: OwnSoftmax(name="own")(x))
    words = r"OwnSoftmax computes it in its own code.*sqp_keras.AlgebraicSoftmax\(\)"
    with pytest.raises(sqp_tflite.RefusedError, match=words) as caught:
        sqp_tflite.export(model, replace="accurate", head="logits")
    assert [(finding.layer, finding.op) for finding in caught.value.findings] == [("own", "SOFTMAX")]
    assert "Drop a final one" not in caught.value.findings[0].remedy
    mended = attending(lambda x: HeldSoftmax()(x))
    exported = sqp_tflite.export(mended, replace="accurate")
    assert not {op.name for _, op in read(exported.model_bytes).all_ops()} & {"EXP", "SOFTMAX", "TANH"}
    mended.set_weights(model.get_weights())
    x = zoo.samples(model, 8)["x"]
    # The algebraic softmax is within 5e-4 of softmax; each layer behind it has weights of about 1.
    np.testing.assert_allclose(mended(x), model(x), atol=4 * SOFTMAX_ERROR)


HEADS = {
    "one per cell": (
        lambda i: L.Softmax(name="cells")(L.Conv2D(3, 1)(i)),
        ["output: softmax of `cells` dropped; the largest value in each of 4x4 cells is the class (argmax)"],
    ),
    "two outputs": (
        lambda i: [
            L.Dense(3, activation="softmax", name="kind")(L.Flatten()(i)),
            L.Dense(2, activation="sigmoid", name="flags")(L.Flatten()(i)),
            L.Dense(1, name="size")(L.Flatten()(i)),
        ],
        [
            "output `kind`: softmax of `kind` dropped; the largest value is the class",
            "output `flags`: sigmoid of `flags` dropped; above 0 means yes",
        ],
    ),
    "another axis": (lambda i: L.Softmax(axis=1)(i), ["No output ends in a softmax or sigmoid: nothing was dropped."]),
}


@pytest.mark.parametrize("case", HEADS)
def test_shell_says_how_to_read_what_lost_its_head(case, tmp_path, capfd):
    build, words = HEADS[case]
    keras.utils.set_random_seed(0)
    i = keras.Input((4, 4, 2), name="x")
    keras.Model(i, build(i)).save(tmp_path / "m.keras")
    assert commands.export_main([str(tmp_path / "m.keras"), "--head", "logits", "--dry-run"]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    assert all(said in printed for said in words)
    assert printed.count("dropped;") == sum("dropped;" in said for said in words)


def test_a_subclassed_models_head_is_not_searched_for():
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = L.Dense(3, activation="softmax")

        def call(self, x):
            return self.dense(x)

    model = Subclassed()
    model(np.zeros((1, 4), "float32"))
    notes = sqp_tflite.export(model, head="logits", dry_run=True).report.notes
    assert any("only Sequential and functional models" in note for note in notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_error": 1e-4}, "without --replace"),
        ({"positive": True}, "Add --replace accurate"),
        ({"replace": "accurate", "max_error": 0.0}, "above 0"),
        ({"replace": "exact"}, "accurate, fast or a list ACT=RULE"),
        ({"replace": {"softplsu": "accurate"}}, "softplsu"),
        ({"head": "probabilities"}, "`head` must be one of keep, logits"),
    ],
)
def test_rules_that_mean_nothing_are_refused(options, words):
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        sqp_tflite.export(dense(activation="softplus"), **options)


def test_a_saved_model_cannot_be_exchanged(tmp_path):
    dense(activation="softplus").export(str(tmp_path / "folder"), verbose=False)
    with pytest.raises(sqp_tflite.BadInputError, match="need Keras layers"):
        sqp_tflite.export(tmp_path / "folder", replace="accurate")


def test_shell_shows_the_plan_with_its_cost(model_file, command):
    ran = command("sqp-export", model_file, "--replace", "accurate", "--head", "logits", "--dry-run", "--json")
    assert ran.code == 0
    rows = {row["layer"]: row for row in json.loads(ran.out)["plan"]}
    assert rows["softplus"]["activation"] == "softplus -> algebraic softplus"
    assert rows["softplus"]["ops"].count("SQRT") == 3 and "head" not in rows


def test_shell_takes_rules_by_activation(model_file, command):
    rules = ",".join(f"{name}=accurate" for name in ACTIVATIONS)
    ran = command("sqp-export", model_file, "--replace", rules, "--head", "logits", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert model_file.with_suffix(".tflite").is_file()
    ran = command("sqp-export", model_file, "--replace", "silu:accurate")
    assert ran.code == 2 and "must be accurate, fast or a list ACT=RULE" in ran.err


@pytest.fixture(scope="module")
def above_zero_files(tmp_path_factory):
    """A softplus and a sigmoid as a Keras model and as a finished file, by the end of its name."""
    folder = tmp_path_factory.mktemp("above")
    x = keras.Input((4,), name="x")
    keras.Model(x, [L.Activation(of, name=of)(x) for of in ("softplus", "sigmoid")]).save(folder / "m.keras")
    speller = Speller()
    ends = [
        SPELLINGS["softplus", "PyTorch"](speller, speller.x),
        SPELLINGS["sigmoid", "TensorFlow"](speller, speller.x),
    ]
    (folder / "m.tflite").write_bytes(speller.model.ends([speller.x], ends))
    np.savez(folder / "d.npz", x=np.random.default_rng(0).normal(0, 4, (40, 4)).astype("float32"))
    return folder


@pytest.mark.parametrize("rule", ["accurate", "fast"])
@pytest.mark.parametrize("end", [".keras", ".tflite"])
def test_shell_keeps_values_above_zero_where_asked(above_zero_files, command, end, rule):
    given = above_zero_files / f"m{end}"
    x = np.float32([[-1e4, -60.0, -9.0, -8.0]])
    for asked in ([], ["--positive"]):
        out = above_zero_files / f"{rule}{len(asked)}{end[1:]}.tflite"
        data = above_zero_files / "d.npz"
        ran = command("sqp-export", given, "-o", out, "--replace", rule, "--data", data, "--max-change", 0.5, *asked)
        assert ran.code == 0, ran.err
        values = interpreters.run_here("litert", out.read_bytes(), (x,)).values
        assert all((one.min() > 0) == bool(asked) and one.min() >= 0 for one in values)
        assert ("Can be exactly 0 now: sigmoid, softplus." in ran.out) is not bool(asked)


def test_map_and_replace_work_together(tmp_path, command):
    def my_softplus(x):
        return keras.ops.log(keras.ops.exp(x) + 1)

    path = tmp_path / "own.keras"
    dense(activation=my_softplus).save(path)
    ran = command("sqp-export", path, "--map", "my_softplus=softplus", "--replace", "accurate", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["replacements"][0]["was"] == "softplus"


def test_the_page_on_existing_models_holds():
    page = (Path(__file__).parent.parent / "docs" / "existing_models.md").read_text(encoding="utf-8")
    known = set(arguments.export_parser()._option_string_actions)
    assert set(re.findall(r"--[a-z][a-z-]+", page)) <= known
    zoo_rows = page.split("<!-- zoo -->")[1].split("<!-- /zoo -->")[0].strip().splitlines()[2:]
    assert {row.split(" | ")[2] for row in zoo_rows} == {"ok"}
    large = page.split("<!-- applications -->")[1].split("<!-- /applications -->")[0].strip().splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in large]
    assert [row[0] for row in cells] == ["MobileNetV3Small", "EfficientNetB0", "DenseNet121"]
    assert all(row[5] == "none" and float(row[6].rstrip("%")) >= 99.0 for row in cells)


BAD_CALLS = {
    "no rule": (["--replace", "precise"], "--replace must be accurate, fast or a list ACT=RULE. Received: 'precise'"),
    "no activation": (["--replace", "=accurate"], "For example silu=accurate"),
    "an unknown rule": (["--replace", "softplus=precise"], "'precise' for 'softplus'"),
    "an unknown name": (["--replace", "softplsu=accurate"], "Received: 'softplsu'. The model has: hidden"),
    "a name twice": (["--replace", "softplus=accurate,softplus=fast"], "Received: 'softplus' twice"),
    "a bound of nothing": (["--replace", "accurate", "--max-error", "0"], "above 0 and below 1. Received: '0'."),
    "a bound in words": (["--replace", "accurate", "--max-error", "small"], "Received: 'small'. For example"),
    "a bound that no sum keeps": (["--replace", "accurate", "--max-error", "1e-9"], "Raise max_error to"),
    "a bound alone": (["--max-error", "0.01"], "Add --replace accurate"),
    "nothing to keep above 0": (["--positive"], "Received: --positive without --replace. Add --replace accurate"),
    "a map without a name": (["--map", "=softplus"], "--map must be NAME=ACTIVATION"),
    "a map to nothing": (["--map", "mine=nosuch"], "nosuch"),
    "a map twice": (["--map", "mine=elu", "--map", "mine=gelu"], "Received: 'mine' twice"),
    "an unknown head": (["--head", "probabilities"], "invalid choice: 'probabilities'"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_get_one_clear_line_and_write_nothing(case, tmp_path, capfd):
    given, words = BAD_CALLS[case]
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,), name="x"), L.Dense(4, activation="softplus", name="hidden")])
    model.save(tmp_path / "m.keras")
    try:
        code = commands.export_main([str(tmp_path / "m.keras"), *given])
    except SystemExit as ended:
        code = ended.code
    printed = capfd.readouterr()
    assert code == 2 and words in printed.err and printed.out == ""
    assert "Traceback" not in printed.err
    (message,) = (line for line in printed.err.splitlines() if words in line)
    assert message.startswith("sqp-export: ")
    assert [path.name for path in tmp_path.iterdir()] == ["m.keras"]

"""Models with exp and log become deployable: --replace and --head, from Python and from the shell."""

import json

import keras
import numpy as np
import pytest
import sqp_tflite
from models import dense
from sqp_tflite.read import read

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


def test_accurate_leaves_no_exp_and_no_log():
    model = every_activation()
    exported = sqp_tflite.export(model, replace="accurate", head="logits")
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


def test_metric_and_argmax_are_those_of_the_model_as_given():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 6)).astype("float32")
    model = every_activation()
    y = model.predict(x, verbose=0).argmax(axis=1)
    report = sqp_tflite.export(model, replace="accurate", head="logits", data={"x": x, "y": y}).report
    assert {(row.metric_before, row.argmax_agreement) for row in report.agreement} == {(1.0, 1.0)}


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


def test_gates_of_recurrent_layers_are_reached():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5, 3)), L.LSTM(4, name="lstm"), L.Dense(2)])
    exported = sqp_tflite.export(model, replace="accurate")
    assert not {op.name for _, op in read(exported.model_bytes).all_ops()} & {"LOGISTIC", "TANH", "WHILE"}
    assert {row.layer.rpartition("/")[2] for row in exported.report.replacements} == {
        "lstm_cell",
        "lstm_cell.recurrent_activation",
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"replace": "exact"}, '"accurate", "fast" or a mapping'),
        ({"replace": {"softplsu": "accurate"}}, "softplsu"),
        ({"head": "probabilities"}, "`head` must be one of keep, logits"),
    ],
)
def test_rules_that_mean_nothing_are_refused(options, words):
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        sqp_tflite.export(dense(activation="softplus"), **options)


def test_a_saved_model_cannot_be_exchanged(tmp_path):
    dense(activation="softplus").export(str(tmp_path / "folder"), verbose=False)
    with pytest.raises(sqp_tflite.BadInputError, match="need the Keras model"):
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
    assert ran.code == 2 and "must be accurate, fast or ACT=RULE" in ran.err


def test_map_and_replace_work_together(tmp_path, command):
    def my_softplus(x):
        return keras.ops.log(keras.ops.exp(x) + 1)

    path = tmp_path / "own.keras"
    dense(activation=my_softplus).save(path)
    ran = command("sqp-export", path, "--map", "my_softplus=softplus", "--replace", "accurate", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["replacements"][0]["was"] == "softplus"

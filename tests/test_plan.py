"""The plan says of every activation what it is and what becomes of it, as data."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import sqp_keras
import sqp_tflite
from models import dense
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.report import Activation, Form, Kind, PlanRow
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan

L = keras.layers
ROOTS = ("MUL", "ADD", "SQRT", "ADD")
ISLAND = ("DEQUANTIZE", *ROOTS, "QUANTIZE")
INT16 = ("MUL", "ADD", "RSQRT", "MUL", "ADD")
TABLE = ("CAST", "ADD", "GATHER")


def row(activation, *wanted: str) -> PlanRow:
    layer = activation if isinstance(activation, L.Layer) else L.Activation(activation)
    (found,) = plan(load(keras.Sequential([keras.Input((8,)), layer])), Combination(*wanted)).rows
    return found


ROWS = {
    "squareplus": ("squareplus", (), Form.OPS, ROOTS, (), "MUL ADD SQRT ADD"),
    "squareplus in an int8 file": ("squareplus", ("int8",), Form.ISLAND, ISLAND, (), f"in float: {' '.join(ISLAND)}"),
    "the same in int16": ("squareplus", ("int8", "integer"), Form.INT16, INT16, (), f"in int16: {' '.join(INT16)}"),
    "the same as a table": ("squareplus", ("int8", "table"), Form.TABLE, TABLE, (), "a table: CAST ADD GATHER"),
    "a float file knows one lowering": ("squareplus", ("float32", "table"), Form.OPS, ROOTS, (), "MUL ADD SQRT ADD"),
    "softplus": ("softplus", (), Form.OPS, ("EXP", "ADD", "LOG"), ("EXP", "LOG"), "refused: EXP, LOG"),
    "softplus in an int8 file": ("softplus", ("int8",), Form.OPS, ("EXP", "ADD", "LOG"), ("EXP", "LOG"), "refused:"),
    "a table takes softplus": ("softplus", ("int8", "table"), Form.TABLE, TABLE, (), "a table: CAST ADD GATHER"),
    "clips stay as they are": ("relu", ("int8", "table"), Form.OPS, ("RELU",), (), "RELU"),
    "a slope in an int8 file": ("leaky_relu", ("int8",), Form.TABLE, TABLE, (), "a table: CAST ADD GATHER"),
    "hard silu has an int8 form": ("hard_silu", ("int8",), Form.OPS, ("HARD_SWISH",), (), "HARD_SWISH"),
    "and becomes a table": ("hard_silu", ("int8", "table"), Form.TABLE, TABLE, (), "a table: CAST ADD GATHER"),
    "a slope in int16": (
        "leaky_relu",
        ("int16x8",),
        Form.ISLAND,
        ("DEQUANTIZE", "LEAKY_RELU", "QUANTIZE"),
        (),
        "in float: DEQUANTIZE LEAKY_RELU QUANTIZE",
    ),
    "without float it is refused": (
        "leaky_relu",
        ("int16x8", "integer"),
        Form.OPS,
        ("LEAKY_RELU",),
        ("LEAKY_RELU",),
        "refused: LEAKY_RELU",
    ),
    "code of the user's": (lambda x: x, (), Form.OWN_CODE, (), (), "its own code"),
}


@pytest.mark.parametrize("case", ROWS)
def test_what_an_activation_becomes(case):
    activation, wanted, form, ops, refused, words = ROWS[case]
    found = row(activation, *wanted)
    assert (found.form, found.ops, found.refused) == (form, ops, refused)
    assert found.becomes.startswith(words)


ACTIVATIONS = {
    "squareplus (b=4)": "squareplus",
    "squareplus (b=1.5)": lambda: sqp_keras.Squareplus(b=1.5),
    "squareplus (b=learnt)": lambda: sqp_keras.Squareplus(learn_b="channel"),
    "algebraic gelu": lambda: sqp_keras.Algebraic("gelu"),
    "algebraic softmax": lambda: sqp_keras.AlgebraicSoftmax(),
    "elu": lambda: L.ELU(alpha=0.5),
}


@pytest.mark.parametrize("words", ACTIVATIONS)
def test_an_activation_has_words_and_data(words):
    made = ACTIVATIONS[words]
    found = row(made if isinstance(made, str) else made())
    assert found.activation == words
    assert found.was is None
    assert found.now.name in words.replace(" softmax", "_softmax")


def test_parameters_are_kept_as_numbers():
    assert dict(row(sqp_keras.Squareplus(b=1 / 3)).now.parameters)["b"] == 1 / 3
    assert dict(row(L.ELU(alpha=0.5)).now.parameters) == {"alpha": 0.5}
    sum_of_roots = dict(row(sqp_keras.Algebraic("elu", alpha=0.5)).now.parameters)
    assert (sum_of_roots["of"], sum_of_roots["alpha"], sum_of_roots["terms"]) == ("elu", 0.5, 2)


def test_b_of_zero_is_relu_and_a_floor_one_more_addition():
    assert row(sqp_keras.Squareplus(b=0.0)).ops == ("RELU",)
    assert row(sqp_keras.Squareplus(floor=0.1)).ops == (*ROOTS, "ADD")


def test_the_algebraic_softmax_is_written_in_the_models_own_numbers():
    found = row(sqp_keras.AlgebraicSoftmax(), "int8")
    assert found.form is Form.OPS and "RSQRT" in found.ops


def test_many_operators_are_counted():
    found = PlanRow("a", Activation("algebraic", (("of", "gelu"),)), Form.ISLAND, ("MUL", "ADD", "SQRT") * 3)
    assert found.becomes == "in float: 3 ADD 3 MUL 3 SQRT"
    assert dataclasses.replace(found, ops=("MUL", "ADD")).becomes == "in float: MUL ADD"


def test_the_report_says_what_an_exchanged_activation_was():
    model = keras.Sequential([keras.Input((4,)), L.Dense(4, name="first"), L.ELU(alpha=0.5, name="bend")])
    (found,) = sqp_tflite.export(model, replace="accurate", dry_run=True).report.plan
    assert found.activation == "elu -> algebraic elu"
    assert found.was == Activation("elu", (("alpha", 0.5),), "ELU")
    assert dict(found.now.parameters)["alpha"] == 0.5


def test_a_saved_model_has_notes_and_no_rows(tmp_path):
    dense().export(tmp_path / "saved", verbose=False)
    found = plan(load(tmp_path / "saved"))
    assert found.rows == () and "SavedModel" in found.notes[1]


def adapted() -> keras.Model:
    """A model whose statistics are weights that a layer keeps a copy of."""
    norm = L.Normalization(dtype="float64", name="wide")
    norm.adapt(np.random.default_rng(0).normal(2, 3, (100, 4)))
    return keras.Sequential([keras.Input((4,), dtype="float64"), norm, L.Dense(3, dtype="float64")])


@pytest.fixture
def wide_keras_json():
    """Keras as `"floatx": "float64"` in keras.json makes it."""
    before = keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy(before)


def test_a_file_has_the_types_that_it_says_whatever_keras_json_says(tmp_path, request, command):
    x = keras.Input((4,), name="x")
    inner = keras.Sequential([keras.Input((4,)), L.Dense(3, activation="squareplus")], name="inner")
    keras.Model(x, L.Dense(2, name="out")(keras.Model(x, inner(x), name="part")(x))).save(tmp_path / "net.keras")
    request.getfixturevalue("wide_keras_json")
    assert [row.activation for row in plan(load(tmp_path / "net.keras")).rows] == ["squareplus (b=4)"]
    ran = command("sqp-export", "net.keras", "--quiet", cwd=tmp_path)
    assert (ran.code, ran.err, keras.config.floatx()) == (0, "", "float32")


@pytest.mark.parametrize(
    "build",
    [
        lambda: keras.Sequential([keras.Input((4,)), L.Dense(3, dtype="float64", name="wide"), L.Dense(2)]),
        lambda: keras.Sequential([keras.Input((4,), dtype="float64", name="wide"), L.Dense(3, dtype="float64")]),
        adapted,
    ],
)
def test_float64_is_refused_by_its_name_and_the_remedy_works(build, tmp_path):
    model = build()
    with pytest.raises(sqp_tflite.RefusedError, match="float32, not in float64.*`wide`") as caught:
        sqp_tflite.export(model, target="litert")
    (finding,) = caught.value.findings
    assert (finding.dtype, finding.kind) == ("float64", Kind.DTYPE) and "MatMul" not in str(finding)
    # As the remedy says.
    small = keras.models.model_from_json(model.to_json().replace("float64", "float32"))
    model.save_weights(tmp_path / "w.weights.h5")
    small.load_weights(tmp_path / "w.weights.h5")
    assert sqp_tflite.export(small, target="litert").report.verdict == "ok"
    assert "save_weights" in finding.remedy and "load_weights" in finding.remedy
    x = np.random.default_rng(0).normal(2, 3, (5, 4))
    np.testing.assert_allclose(small(x.astype("float32")), model(x), rtol=1e-4, atol=1e-5)


class Wide(L.Layer):
    """A layer that computes in float64 in its own code."""

    def call(self, x):
        wide = keras.ops.cast(x, "float64")
        return keras.ops.cast(keras.ops.matmul(wide, keras.ops.transpose(wide)), "float32")


def test_float64_in_a_layers_own_code_is_refused_with_the_cast_that_helps():
    with pytest.raises(sqp_tflite.RefusedError, match=r"`MatMul` has no TFLite operator for float64.*keras.ops.cast"):
        sqp_tflite.export(keras.Sequential([keras.Input((4,)), Wide()]), target="litert")


def test_so_is_float16_inside_of_a_saved_model(tmp_path):
    module = tf.Module()
    given = [tf.TensorSpec([None, 4], tf.float16, name="x")]
    module.call = tf.function(lambda x: {"y": x * 2}, input_signature=given)
    tf.saved_model.save(module, str(tmp_path / "half"), signatures=module.call)
    with pytest.raises(sqp_tflite.RefusedError, match="`Mul` has no TFLite operator for float16.*in float32"):
        sqp_tflite.export(tmp_path / "half", target="litert")


@pytest.mark.parametrize("dtype", ["bfloat16", "uint64", "int8", "uint8", "uint16"])
def test_a_type_without_an_operator_is_named(dtype, tmp_path):
    module = tf.Module()
    given = [tf.TensorSpec([None, 4], tf.float32, name="x")]
    module.call = tf.function(lambda x: {"y": tf.cast(tf.cast(x, dtype) * 2, tf.float32)}, input_signature=given)
    tf.saved_model.save(module, str(tmp_path / "odd"), signatures=module.call)
    with pytest.raises(sqp_tflite.RefusedError, match=f"has no TFLite operator for {dtype}.*in float32"):
        sqp_tflite.export(tmp_path / "odd", target="litert")


def test_a_model_that_keras_has_quantised_is_refused():
    model = keras.Sequential([keras.Input((4,)), L.Dense(3, name="coarse")])
    model.quantize("int8")
    with pytest.raises(sqp_tflite.RefusedError, match=r"`coarse`.*before model.quantize"):
        plan(load(model))

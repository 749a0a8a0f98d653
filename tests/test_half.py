"""Half precision: the emulation rounds as IEEE does, warns, and proves nothing; the report says what is left."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import sqp_keras
import sqp_tflite
from halves import HALVES, by_numpy
from models import dense
from sqp_tflite.agreement import Agreement, verdict
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.policy import HALF
from sqp_tflite.run import half, interpreters
from sqp_tflite.run.reserve import reserves
from written import Written, perceptron, weight_only

L = keras.layers


def squareplus_file(width: int, b: float = 4.0) -> bytes:
    """MUL MUL ADD SQRT ADD on a vector, as an export writes it."""
    model, shape = Written(), (1, width)
    x = model.value(*shape, name="x")
    z = model.op("MUL", x, model.constant(0.5), shape=shape, table="MulOptions")
    square = model.op("MUL", z, z, shape=shape, table="MulOptions")
    wide = model.op("ADD", square, model.constant(b / 4), shape=shape, table="AddOptions")
    root = model.op("SQRT", wide, shape=shape)
    return model.ends([x], [model.op("ADD", z, root, shape=shape, table="AddOptions")])


def emulated(content: bytes, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return interpreters.run_here(HALF, content, (x.astype(np.float32).reshape(1, -1),)).values[0].reshape(-1)


def test_the_emulation_is_ieee_half_in_every_bit():
    content = squareplus_file(len(HALVES))
    ours, theirs = emulated(content, HALVES), by_numpy(content)[0].reshape(-1)
    assert np.array_equal(ours, theirs.astype(np.float32), equal_nan=True)
    assert (~np.isfinite(ours)).sum() == 14_336  # As measured for z + sqrt(z*z + 1): all with abs(x) >= 512.
    assert np.abs(HALVES[~np.isfinite(ours)]).min() == 512


def test_an_emulation_that_does_not_round_is_seen(monkeypatch):
    monkeypatch.setattr(interpreters, "in_half", lambda content: content)
    content = squareplus_file(len(HALVES))
    theirs = by_numpy(content)[0].reshape(-1).astype(np.float32)
    assert not np.array_equal(emulated(content, HALVES), theirs, equal_nan=True)


def test_weights_and_inputs_are_rounded():
    ours = interpreters.run_here(HALF, perceptron(), (np.full((1, 4), 0.1, np.float32),)).values[0]
    plain = interpreters.run_here("litert", perceptron(), (np.full((1, 4), 0.1, np.float32),)).values[0]
    assert np.array_equal(ours, half.rounded(ours)) and 0 < np.abs(ours - plain).max() < 0.01


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A model whose squareplus gets up to 1200 on its data, where halves overflow, and the file and the data."""
    folder = tmp_path_factory.mktemp("wide")
    model = dense()
    model.layers[0].set_weights([np.eye(4, 8, dtype="float32"), np.zeros(8, "float32")])
    model.save(folder / "m.keras")
    x = np.random.default_rng(0).uniform(-300, 300, (8, 4)).astype("float32")
    x[0, 0] = -1200.0
    np.savez(folder / "wide.npz", x=x)
    np.savez(folder / "narrow.npz", x=x / 12)
    return folder


def test_a_check_shows_the_emulation_and_lets_it_fail_the_file(wide, command):
    made = command("sqp-export", wide / "m.keras", "--data", wide / "wide.npz", "--target", "litert")
    assert made.code == 0 and "warning: `hidden` gets up to 1.2e+03" in made.out and "--safe-half" in made.out, made.err
    assert "overflows from" in made.out and "0.427 x" in made.out
    plain = command("sqp-check", wide / "m.keras", wide / "m.tflite", "--data", wide / "wide.npz")
    assert plain.code == 0 and HALF not in plain.out
    found = command("sqp-check", wide / "m.keras", wide / "m.tflite", "--data", wide / "wide.npz", "--half")
    assert found.code == 3 and "half (emulated)" in found.out and "it is not finite" in found.out
    near = command("sqp-check", wide / "m.keras", wide / "m.tflite", "--data", wide / "narrow.npz", "--half", "--json")
    rows = [row for row in json.loads(near.out)["agreement"] if row["runtime"] == HALF]
    assert near.code == 0 and rows[0]["status"] == "ok" and rows[0]["emulated"] and rows[0]["limit"] == 0.02


def test_an_export_with_half_is_refused_where_it_differs_and_says_what_helps(wide, command):
    made = command("sqp-export", wide / "m.keras", "-o", wide / "no.tflite", "--half", "--data", wide / "wide.npz")
    assert made.code == 3 and not (wide / "no.tflite").exists()
    assert "does not compute the same in half precision (emulated) as on" in made.err
    assert "Only the emulation of half precision differs" in made.err and "--safe-half" in made.err
    good = command("sqp-export", wide / "m.keras", "-o", wide / "h.tflite", "--half", "--data", wide / "narrow.npz")
    assert good.code == 0 and "half (emulated)" in good.out and "5.12 x" in good.out


def test_an_agreement_in_half_only_proves_nothing():
    row = Agreement(HALF, "ok", on="data", emulated=True)
    assert verdict((row,)) == "not_proven"
    assert verdict((dataclasses.replace(row, runtime="litert", emulated=False), row)) == "ok"
    assert verdict((Agreement("litert", "ok"), dataclasses.replace(row, status="differs"))) == "parity_failed"


@pytest.mark.parametrize(
    ("lowering", "words"), [("dynamic", "Received: dynamic"), ("custom", "CUSTOM:Mine"), ("stored", "")]
)
def test_what_cannot_be_emulated_is_named(lowering, words):
    if lowering == "stored":
        content = weight_only()
    elif lowering == "dynamic":
        content = sqp_tflite.export(dense(units=(64, 32), features=64), quantize="dynamic", target="litert").model_bytes
    else:
        graph = read(perceptron())
        op = dataclasses.replace(graph.main.ops[0], name="CUSTOM:Mine")
        main = dataclasses.replace(graph.main, ops=(op, *graph.main.ops[1:]))
        said = half.lacking(dataclasses.replace(graph, subgraphs=(main,)))
        assert words in said
        return
    said = half.lacking(read(content))
    assert (words in said) if words else not said


def test_half_with_integers_is_refused(wide, command):
    call = ("sqp-export", wide / "m.keras", "--half", "--data", wide / "wide.npz", "--quantize")
    refused = command(*call, "int8")
    assert refused.code == 2 and "Use --quantize float32" in refused.err
    again = command(*call[:4], wide / "narrow.npz", "--quantize", "float32", "-o", wide / "f32.tflite")
    assert again.code == 0, again.err


def sums() -> keras.Model:
    """Each place where the half of a form may go: folded into a layer, or left as a MUL; sums with and without it."""
    keras.utils.set_random_seed(1)
    i = keras.Input((6, 6, 2), name="x")
    h = L.Conv2D(3, 3, activation="squareplus", name="folded")(i)
    h = L.AveragePooling2D(2)(h)
    h = sqp_keras.Squareplus(learn_b="channel", name="channels")(h)
    side = L.Conv2D(3, 1, name="side")(h)
    h = sqp_keras.Squareplus(b=1.0, name="joined")(L.Add(name="add")([side, h]))
    for of in ("softplus", "tanh", "elu"):
        h = L.Dense(4, name=f"before_{of}")(h)
        h = sqp_keras.Algebraic(of, name=of)(h)
    return keras.Model(i, h)


@pytest.mark.parametrize("quantize", ["float32", "float16"])
def test_the_reserve_of_each_form_is_in_the_units_of_its_input(quantize):
    model = sums()
    x = np.random.default_rng(0).standard_normal((4, 6, 6, 2)).astype("float32")
    report = sqp_tflite.export(model, quantize=quantize, target="litert", data={"x": x}).report
    found = {row.layer: row for row in report.reserves}
    inputs = {"folded": None, "channels": None, "joined": None, "softplus": None, "tanh": None, "elu": None}
    assert list(found) == list(inputs)
    folded = keras.Model(model.input, model.get_layer("folded").output)
    y = np.asarray(folded(x), np.float64)
    given = {"folded": y - 1.0 / y}  # The inverse of squareplus at b = 4.
    for name in list(inputs)[1:]:
        given[name] = np.asarray(keras.Model(model.input, model.get_layer(name).input)(x))
    for name, row in found.items():
        # float16 weights move a value by 2**-11 of it, in a few layers.
        assert row.largest == pytest.approx(np.abs(given[name]).max(), rel=1e-4 if quantize == "float32" else 4e-3)
    assert [found[name].limit for name in ("folded", "channels", "joined")] == [512.0, 512.0, 512.0]
    assert 500 < found["softplus"].limit < 512 and 250 < found["tanh"].limit < 256  # tanh has roots of x, not of x/2.
    assert found["elu"].limit is None  # Clipped on both sides.
    assert found["tanh"].reserve == pytest.approx(found["tanh"].limit / found["tanh"].largest)


def test_a_file_of_integers_has_no_reserve():
    content = weight_only()
    assert reserves(content, read(content), (np.ones((2, 4), np.float32),))[0].limit == 512.0
    data = {"x": np.random.default_rng(0).normal(size=(8, 4)).astype("float32")}
    assert sqp_tflite.export(dense(), quantize="int8", target="litert", data=data).report.reserves == ()

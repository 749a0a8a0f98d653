"""Forms for half precision: the exported file, operator by operator, is finite for all 63,488 halves, and as near."""

import functools

import keras
import numpy as np
import pytest

import sqp_keras
import sqp_tflite
from halves import HALVES, by_numpy
from models import dense, subclassed
from sqp_keras.family.algebraic import evaluate
from sqp_keras.family.coefficients import find, table
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import half, interpreters
from sqp_tflite.source import safe_half

L = keras.layers
X = HALVES.astype(np.float64)[:, None]
UNIT = 2.0**-11
"""Half a unit in the last place of a number between 1 and 2."""

BS = (1e-6, 0.01, 1.0, sqp_keras.B_MINIMAX, sqp_keras.B_VALUE, 4.0, 8.0, 9.0, 100.0, 1e4, 1e6)
SUMS = {
    "accurate": [(of, None, None) for of in dict.fromkeys(of for of, _ in table())]
    + [("sigmoid", None, None), ("log_sigmoid", None, None), ("selu", None, None), ("celu", None, None)]
    + [("exponential", None, 2.0)],
    "others": [(of, terms, None) for of, terms in table()]
    + [("sigmoid", 2, None), ("sigmoid", 6, None), ("log_sigmoid", 1, None), ("selu", 1, None), ("celu", 1, None)],
}
"""Those that --replace accurate writes, and all other numbers of roots: (activation, roots, upper)."""

CASES = [
    pytest.param(
        group, number, id="-".join(map(str, SUMS[group][number][:2])), marks=[pytest.mark.large][: group != "accurate"]
    )
    for group in SUMS
    for number in range(len(SUMS[group]))
]


class Numpy:
    """What `evaluate` takes of a library, for numpy's arrays of any type."""

    sqrt = staticmethod(np.sqrt)

    @staticmethod
    def relu(x):
        return np.maximum(x, x.dtype.type(0))

    @staticmethod
    def maximum(x, low):
        return np.maximum(x, x.dtype.type(low))

    @staticmethod
    def minimum(x, high):
        return np.minimum(x, x.dtype.type(high))


def side_by_side(layers, **options) -> sqp_tflite.Export:
    """A file that computes each layer of the same input."""
    i = keras.Input((3,), name="x")
    return sqp_tflite.export(keras.Model(i, [layer(i) for layer in layers]), target="litert", **options)


def true_squareplus(b: float) -> np.ndarray:
    root = np.sqrt(X * X + b)
    return np.where(X > 0, (X + root) / 2, b / (2 * (root + np.abs(X))))


def errors(y: np.ndarray, truth: np.ndarray, size: float = 1.0) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.abs(y.astype(np.float64) - truth) / (UNIT * np.maximum(np.maximum(1.0, size), np.abs(X)))


@pytest.fixture(scope="module")
def squarepluses():
    return side_by_side([sqp_keras.Squareplus(b=b) for b in BS], safe_half=True)


@functools.cache
def sums(group: str) -> sqp_tflite.Export:
    return side_by_side([sqp_keras.Algebraic(of, terms=t, upper=u) for of, t, u in SUMS[group]], safe_half=True)


@pytest.mark.parametrize("b", BS)
def test_squareplus_is_finite_and_near_for_every_half(squarepluses, b):
    y = by_numpy(squarepluses.model_bytes)[BS.index(b)]
    assert np.isfinite(y).all()
    # 2.5 as the usual form has where it is finite: one rounding each of square, sum, root and sum.
    assert errors(y, true_squareplus(b), np.sqrt(b) / 2).max() <= 2.5


def test_the_usual_form_is_seen_to_overflow():
    y = by_numpy(side_by_side([sqp_keras.Squareplus(b=4.0)]).model_bytes)[0]
    assert (~np.isfinite(y)).sum() == 14_336


@pytest.mark.parametrize(("group", "number"), CASES)
def test_every_sum_is_finite_and_as_near_as_the_usual_form(group, number):
    of, terms, upper = SUMS[group][number]
    y = by_numpy(sums(group).model_bytes)[number]
    made = find(of, terms, 1.0, upper)
    with np.errstate(all="ignore"):
        truth, usual = evaluate(X, made, Numpy), evaluate(HALVES[:, None], made, Numpy)
    half_can = np.abs(truth) < 65520  # Above it no half is nearer than infinity: selu of x > 62,336.
    assert np.isfinite(y[half_can]).all() and half_can.mean() > 0.998
    near = np.abs(X) < 250  # Where every usual form is finite.
    assert errors(y, truth)[half_can].max() <= max(2.5, 1.01 * errors(usual, truth)[near].max())


def test_the_float32_file_agrees_with_keras_on_every_interpreter(squarepluses):
    for made in (squarepluses, sums("accurate")):
        rows = made.report.agreement
        assert {row.runtime for row in rows} == {"tflm", "litert", "tflite-runtime"}
        assert {row.status for row in rows} == {"ok"} and {row.on for row in rows} == {"ordinary", "large", "extreme"}


def operators(content: bytes) -> list[str]:
    return [f"{op.name}+{op.fused}" if op.fused else op.name for op in read(content).main.ops]


def test_seven_operators_are_written_and_a_wide_bend_costs_one_more():
    form = ["MUL+RELU_N1_TO_1", "MUL", "MUL", "ADD", "SQRT", "ADD", "MAXIMUM"]
    assert [name.partition("+")[0] for name in form] == list(safe_half.SQUAREPLUS_OPS)
    made = sqp_tflite.export(dense(), safe_half=True)
    assert operators(made.model_bytes) == ["FULLY_CONNECTED", *form, "FULLY_CONNECTED"]
    held = ("MUL", "RELU_N1_TO_1", *safe_half.SQUAREPLUS_OPS[1:])  # A fused clip counts as one in the report.
    assert made.report.plan[0].ops == held
    assert operators(side_by_side([sqp_keras.Squareplus(b=9.0)], safe_half=True).model_bytes)[-2:] == ["MUL", "MAXIMUM"]
    planned = sqp_tflite.export(dense(), safe_half=True, dry_run=True).report.plan[0]
    assert planned.ops == safe_half.SQUAREPLUS_OPS


def test_a_learnt_b_and_own_code_are_written_so_too():
    learnt = side_by_side([sqp_keras.Squareplus(b=2.0, learn_b="channel")], safe_half=True)
    y = by_numpy(learnt.model_bytes)[0]
    assert y.shape[1] == 3 and np.isfinite(y).all() and errors(y, true_squareplus(2.0)).max() <= 2.5
    own = sqp_tflite.export(subclassed(), safe_half=True, target="litert").report
    assert own.reserves and all(row.limit is None for row in own.reserves)


def test_a_safe_file_passes_where_the_usual_one_fails(tmp_path, command):
    model = dense()
    model.layers[0].set_weights([np.eye(4, 8, dtype="float32"), np.zeros(8, "float32")])
    model.save(tmp_path / "m.keras")
    np.savez(tmp_path / "x.npz", x=np.linspace(-1200, 1200, 32, dtype="float32").reshape(8, 4))
    call = ("sqp-export", tmp_path / "m.keras", "--data", tmp_path / "x.npz", "--half")
    refused = command(*call)
    assert refused.code == 3 and "Use --safe-half" in refused.err
    done = command(*call, "--safe-half")
    assert done.code == 0 and "half (emulated)" in done.out and "never" in done.out and "warning" not in done.out


@pytest.mark.parametrize("safe", [False, True])
def test_softmax_of_many_values_stays_finite_in_half(safe):
    """One over a sum of 300 is the square of its root's inverse: the square of the sum would overflow."""
    i = keras.Input((300,), name="x")
    model = keras.Model(i, sqp_keras.AlgebraicSoftmax()(i))
    content = sqp_tflite.export(model, target="litert", safe_half=safe).model_bytes
    found = interpreters.run_here("half", content, (np.zeros((1, 300), np.float32),)).values[0]
    assert found.sum() == pytest.approx(1.0, abs=4 * UNIT)


@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
def test_integers_are_refused_with_the_reason(quantize):
    data = {"x": np.zeros((4, 4), "float32")}
    with pytest.raises(sqp_tflite.BadInputError, match="safe-half.*integers do not overflow.*--quantize float32"):
        sqp_tflite.export(dense(), quantize=quantize, data=data, safe_half=True)


def test_finished_graphs_are_refused_with_the_reason(tmp_path):
    (tmp_path / "m.tflite").write_bytes(sqp_tflite.export(dense()).model_bytes)
    with pytest.raises(sqp_tflite.BadInputError, match="Received: a .tflite file. Pass the Keras model"):
        sqp_tflite.export(tmp_path / "m.tflite", safe_half=True)
    dense().export(tmp_path / "saved", verbose=False)
    with pytest.raises(sqp_tflite.BadInputError, match="SavedModel holds finished graphs.*Pass the .keras file"):
        sqp_tflite.export(tmp_path / "saved", safe_half=True)


def test_the_proof_sees_a_form_without_its_clip(monkeypatch):
    monkeypatch.setattr(safe_half, "_held", lambda x, reach: x * (1.0 / reach))
    y = by_numpy(side_by_side([sqp_keras.Squareplus(b=4.0)], safe_half=True).model_bytes)[0]
    assert not np.isfinite(y).all()


def test_rounding_to_half_is_numpys():
    assert np.array_equal(half.rounded(np.float32([1e9, 2049.0, 1e-9])), [np.inf, 2048.0, 0.0])

"""Each remedy of a refusal is followed here, and the file may ship then."""

import dataclasses
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest

import sqp_keras
import sqp_tflite
from sqp_tflite.errors import CrashedError
from sqp_tflite.options import ExportOptions
from sqp_tflite.solution import Deadline, call, solved

L = keras.layers
RNG = np.random.default_rng(0)


def model(*layers: Any, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input(shape, dtype=dtype, name="x"), *layers], name="mine")


def data(shape: tuple[int, ...] = (4,)) -> dict[str, Any]:
    return {"x": RNG.normal(size=(40, *shape)).astype(np.float32)}


def roots() -> keras.Model:
    x = keras.Input((4,), name="x")
    return keras.Model(x, L.Dense(2)(keras.ops.sqrt(x * x + 10.0)))


def prelu(**options: Any) -> keras.Model:
    alpha = keras.initializers.RandomUniform(0.0, 0.5, seed=1)
    return model(L.Conv2D(4, 3), L.PReLU(alpha, name="bend", **options), L.Dense(2), shape=(6, 6, 3))


def other_input(built: keras.Model, own: str, new: str) -> keras.Model:
    """As the remedy says."""
    small = keras.models.model_from_json(built.to_json().replace(f'"{own}"', f'"{new}"'))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/w.weights.h5"
        built.save_weights(path)
        small.load_weights(path)
    return small


class Gate(L.Layer):
    """A layer of the user's that calls tanh by itself."""

    def call(self, x):
        return keras.ops.tanh(x)


class Held(L.Layer):
    """The same, as the remedy says."""

    def __init__(self, **options):
        super().__init__(**options)
        self.bend = sqp_keras.Algebraic("tanh")

    def call(self, x):
        return self.bend(x)


@dataclass(frozen=True)
class Case:
    """A refusal.

    Attributes:
        build: Makes the model.
        layer: The only layer that is named.
        says: Words of the remedy.
        follow: The model as the remedy has it; None for the same.
        options: Of the export.
        then: Options that the remedy names.
        data: Samples, if any.
        solution: The call that the refusal ends with.
    """

    build: Callable[[], keras.Model]
    layer: str
    says: str
    follow: Callable[[], keras.Model] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    then: dict[str, Any] = field(default_factory=dict)
    data: Any = None
    solution: str = ""


INT8 = {"quantize": "int8"}
MEL = {"fft_length": 64, "sequence_stride": 32, "num_mel_bins": 4, "sampling_rate": 8000, "name": "mel"}


class Choosing(L.Layer):
    """A layer of the user's that selects."""

    def call(self, x):
        return keras.ops.where(x > 0, x, x * 2)


def softmax(units: int = 5) -> keras.Model:
    return model(L.Dense(units, activation="softmax", name="head"))


def middle() -> keras.Model:
    return model(L.Dense(5, activation="softmax", name="mix"), L.Dense(2))


def embedded(dtype: str) -> keras.Model:
    return model(L.Embedding(5, 3, name="table"), L.Flatten(), L.Dense(2), dtype=dtype)


def masked(mask_zero: bool) -> keras.Model:
    keras.utils.set_random_seed(0)
    rows = L.Embedding(5, 3, mask_zero=mask_zero, name="table")
    return model(rows, L.SimpleRNN(2, activation="relu"), L.Dense(2), shape=(3,), dtype="int32")


CASES = {
    "a sigmoid at the end": Case(
        lambda: model(L.Dense(1, activation="sigmoid", name="head")),
        "head",
        "Drop it with `--head logits`: above 0 means yes",
        then={"head": "logits"},
        solution='head="logits"',
    ),
    "the same, kept": Case(
        lambda: model(L.Dense(1, activation="sigmoid", name="head")),
        "head",
        "To keep it, use `--replace accurate`",
        then={"replace": "accurate"},
        solution='head="logits"',
    ),
    "a softmax in the middle of integers": Case(
        middle,
        "mix",
        "Use `--replace accurate`, or build the model with sqp_keras.AlgebraicSoftmax()",
        options=INT8,
        then={"replace": "accurate"},
        data=data(),
        solution='replace="accurate"',
    ),
    "an activation": Case(
        lambda: model(L.Dense(4, activation="tanh", name="bend"), L.Dense(2)),
        "bend",
        "Use `--replace accurate`, or build the model with sqp_keras.Algebraic",
        then={"replace": "accurate"},
        data=data(),
        solution='replace="accurate"',
    ),
    "the same as a table": Case(
        lambda: model(L.Dense(4, activation="tanh", name="bend"), L.Dense(2)),
        "bend",
        "Or use `--lowering table`",
        options=INT8,
        then={"lowering": "table"},
        data=data(),
        solution='replace="accurate"',
    ),
    "an activation inside a wrapper": Case(
        lambda: model(L.TimeDistributed(L.Dense(3, activation="gelu"), name="each"), L.Dense(2), shape=(3, 4)),
        "each",
        'retrain with `activation="squareplus"`',
        lambda: model(L.TimeDistributed(L.Dense(3, activation="squareplus"), name="each"), L.Dense(2), shape=(3, 4)),
        solution='replace="accurate"',
    ),
    "exponential": Case(
        lambda: model(L.Dense(2, activation="exponential", name="bend"), L.Dense(2)),
        "bend",
        "`--replace accurate` with `--data`",
        then={"replace": "accurate", "data": data()},
    ),
    "a rule for another activation": Case(
        lambda: model(L.Dense(4, activation="tanh"), L.Dense(2, activation="gelu", name="bend")),
        "bend",
        "Add gelu=accurate to `--replace`",
        options={"replace": "tanh=accurate"},
        data=data(),
        then={"replace": "tanh=accurate,gelu=accurate"},
        solution='replace="accurate"',
    ),
    "a layer of the user's": Case(
        lambda: model(Gate(name="gate"), L.Dense(2)),
        "gate",
        'let it hold and call sqp_keras.Algebraic("tanh")',
        lambda: model(Held(name="gate"), L.Dense(2)),
    ),
    "a function of the user's": Case(
        lambda: model(L.Lambda(keras.ops.tanh, name="bend"), L.Dense(2)),
        "bend",
        'put the layer sqp_keras.Algebraic("tanh") in its place',
        lambda: model(sqp_keras.Algebraic("tanh", name="bend"), L.Dense(2)),
    ),
    "a mask of an embedding": Case(
        lambda: masked(True),
        "table",
        "Build `table` with mask_zero=False",
        lambda: masked(False),
    ),
    "a logarithm of the user's": Case(
        lambda: model(L.Lambda(keras.ops.log, name="log"), L.Dense(2)),
        "log",
        "take it out and compute it outside of the model",
        lambda: model(L.Dense(2)),
    ),
    "features of sound": Case(
        lambda: model(L.MelSpectrogram(**MEL), L.Flatten(), L.Dense(2), shape=(256,)),
        "mel",
        "compute them before the model",
        lambda: model(L.Flatten(), L.Dense(2), shape=(4, 9)),
    ),
    "bins": Case(
        lambda: model(L.Discretization([0.0, 1.0], name="bins"), L.Dense(2)),
        "bins",
        "compute them before the model",
        lambda: model(L.Dense(2)),
    ),
    "a masking layer": Case(
        lambda: model(L.Masking(name="gaps"), L.Dense(2), shape=(3, 4)),
        "gaps",
        "Take `gaps` (Masking) out",
        lambda: model(L.Dense(2), shape=(3, 4)),
    ),
    "a root in int16": Case(
        roots,
        "sqrt",
        "Use `--lowering algebraic`",
        options={"quantize": "int16x8", "lowering": "integer"},
        then={"lowering": "algebraic"},
        data=data(),
        solution='lowering="algebraic"',
    ),
    "a selection": Case(
        lambda: model(Choosing(name="where")),
        "where",
        "Use `--lowering table`, which writes a function of one tensor as a table",
        options=INT8,
        then={"lowering": "table"},
        data=data(),
        solution='lowering="table"',
    ),
    "rows in int16": Case(
        lambda: embedded("int32"),
        "table",
        "Use `--quantize int8`",
        options={"quantize": "int16x8"},
        then=INT8,
        data={"x": RNG.integers(0, 5, (40, 4)).astype(np.int32)},
    ),
    **{
        f"an input of {own}": Case(
            build, "x", f'dtype="{new}"', lambda own=own, new=new, build=build: other_input(build(), own, new)
        )
        for own, new, build in (
            ("uint8", "int32", lambda: embedded("uint8")),
            ("int64", "int32", lambda: embedded("int64")),
        )
    },
}


DEAR = {
    "a mask of an embedding",
    "the same, kept",
    "the same as a table",
    "a softmax in the middle of integers",
    "exponential",
    "a rule for another activation",
    "an activation inside a wrapper",
    "features of sound",
    "bins",
    "rows in int16",
    "a selection",
    "a logarithm of the user's",
    "an input of int64",
}
"""Neighbours of the other cases."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.large) if name in DEAR else name for name in CASES]
)
def test_a_remedy_that_is_followed_helps(name):
    case = CASES[name]
    given = {"data": case.data, **case.options}
    with pytest.raises(sqp_tflite.RefusedError) as caught:
        sqp_tflite.export(case.build(), **given)
    findings = caught.value.findings
    assert {finding.layer for finding in findings} == {case.layer}
    assert all(case.says in finding.remedy for finding in findings), findings
    assert caught.value.report.solution == case.solution
    assert bool(case.solution) == ("All of this is solved by: " in str(caught.value).splitlines()[-1])
    assert sqp_tflite.export((case.follow or case.build)(), **{**given, **case.then}).report.verdict == "ok"


def test_one_command_solves_all_and_keeps_the_users_options(command, tmp_path):
    place = tmp_path / "my model.keras"
    hidden = [L.Dense(4, activation=name) for name in ("gelu", "tanh")]
    model(*hidden, L.Dense(3, activation="softmax")).save(place)
    options = ["--per-tensor", "--quantize", "int8", "--lowering", "algebraic", "--data", str(tmp_path / "d.npz")]
    ran = command("sqp-export", place, *options, "--head=keep")
    assert ran.code == 2  # There are no data yet.
    np.savez(tmp_path / "d.npz", **data())
    ran = command("sqp-export", place, *options, "--head=keep")
    assert ran.code == 1 and not place.with_suffix(".tflite").exists()
    (line,) = [line for line in ran.err.splitlines() if "All of this is solved by: " in line]
    words = shlex.split(line.partition(": ")[2])
    assert words == ["sqp-export", str(place), *options, "--replace", "accurate", "--head", "logits"]
    assert command(*words).code == 0 and place.with_suffix(".tflite").exists()


@pytest.mark.parametrize(
    ("given", "changes", "expected"),
    [
        ("sqp-export 'a b.keras' --head keep", {"head": "logits"}, "sqp-export 'a b.keras' --head logits"),
        ("sqp-export --replace=tanh=fast -- -m", {"replace": "accurate"}, "sqp-export --replace accurate -- -m"),
        ("", {"replace": "accurate", "head": "logits"}, 'replace="accurate", head="logits"'),
    ],
)
def test_the_call_is_the_users_with_other_options(given, changes, expected):
    assert call(ExportOptions("m", command=given), changes) == expected


def test_no_command_is_named_that_was_not_tried_to_success():
    options = ExportOptions("m")
    assert solved(options, None, lambda other: ()) is None
    (finding,) = [dataclasses.replace(FINDING, layer="left")]
    assert solved(options, {"head": "logits"}, lambda other: (finding,)) is None
    asked = []
    assert solved(options, {"lowering": "table", "head": "logits"}, lambda other: asked.append(other) or ()) is not None
    assert (asked[0].wanted.lowering, asked[0].head) == ("table", "logits")

    def late(other: ExportOptions) -> Any:
        Deadline(0.0).left()

    assert solved(options, {"head": "logits"}, late) is None
    with pytest.raises(CrashedError, match="too long"):
        Deadline(0.0).left()


FINDING = sqp_tflite.report.Finding("a", "EXP", "float32", "A rule.", "A remedy.", sqp_tflite.report.Kind.OP)


def test_an_overflow_inside_an_activation_is_no_fault_of_the_data():
    built = model(L.Activation("softplus", name="bend"), L.Dense(2))
    wide = {"x": RNG.uniform(-100, 100, (60, 4)).astype(np.float32)}
    given = {"quantize": "int8", "lowering": "table", "data": wide}
    with pytest.raises(sqp_tflite.BadInputError, match="`bend`.*EXP, which overflows.*--replace accurate"):
        sqp_tflite.export(built, **given)
    assert sqp_tflite.export(built, replace="accurate", **given).report.verdict == "ok"


def test_a_saved_model_has_a_way_with_its_program_and_one_without(tmp_path):
    built = model(L.Dense(3, activation="tanh"))
    built.export(tmp_path / "saved", verbose=False)
    with pytest.raises(sqp_tflite.RefusedError, match=r"--quantize int8 --lowering table.*model.save\('model.keras'\)"):
        sqp_tflite.export(tmp_path / "saved")
    with pytest.raises(sqp_tflite.BadInputError, match="Leave them out: with `--quantize int8 --lowering table"):
        sqp_tflite.export(tmp_path / "saved", replace="accurate")
    data = {"x": RNG.normal(size=(60, 4)).astype(np.float32)}
    tables = sqp_tflite.export(tmp_path / "saved", quantize="int8", lowering="table", data=data)
    built.save(tmp_path / "model.keras")
    exchanged = sqp_tflite.export(tmp_path / "model.keras", replace="accurate")
    assert tables.report.verdict == exchanged.report.verdict == "ok"


@pytest.mark.large
def test_a_mask_in_front_of_a_recurrent_layer_is_one_finding():
    gates = {"activation": "squareplus", "recurrent_activation": "relu"}

    def built(*first: L.Layer, **options: Any) -> keras.Model:
        return model(*first, L.LSTM(2, **gates), L.Dense(2), **options)

    with pytest.raises(sqp_tflite.RefusedError) as caught:
        sqp_tflite.export(built(L.Masking(name="gaps"), shape=(3, 4)))
    assert [finding.layer for finding in caught.value.findings] == ["gaps"]
    assert "(Masking) out" in caught.value.findings[0].remedy
    # Gates without a bound: with the large numbers of made-up inputs the state has no end.
    assert sqp_tflite.export(built(shape=(3, 4)), data=data((3, 4))).report.verdict == "ok"


def ordered() -> keras.Model:
    x = keras.Input((4,), name="x")
    return keras.Model(x, L.Dense(2)(keras.ops.sort(L.Dense(3)(x))))


def gated() -> keras.Model:
    return model(L.LSTM(2, name="lstm"), L.Dense(1), shape=(3, 2))


SOLVED = {
    "int16 on older boards": (gated, (3, 2), {"quantize": "int16x8", "target": "tflm@2023"}, {"quantize", "replace"}),
    "sort in int8": (ordered, (4,), {"quantize": "int8"}, {"target", "quantize"}),
    "sort as a table": (ordered, (4,), {"quantize": "int8", "lowering": "table"}, {"target", "quantize"}),
    "sort in int8 elsewhere": (ordered, (4,), {"quantize": "int8", "target": "litert"}, {"quantize"}),
    "sort in int16": (ordered, (4,), {"quantize": "int16x8"}, {"target", "quantize"}),
}


# What older boards refuse, and its remedies, are in test_older_release.py, too.
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.large) if "older" in case else case for case in SOLVED]
)
def test_the_call_that_a_refusal_ends_with_ships(case):
    build, shape, options, changed = SOLVED[case]
    built, given = build(), data(shape)
    with pytest.raises(sqp_tflite.RefusedError) as caught:
        sqp_tflite.export(built, data=given, **options)
    assert "--lowering table`, which writes it as a table, or" not in str(
        caught.value
    )  # NEG beside a sort: refused again.
    solution = dict(part.split("=") for part in caught.value.report.solution.split(", "))
    assert set(solution) == changed
    then = options | {name: value.strip('"') for name, value in solution.items()}
    assert sqp_tflite.export(built, data=given, **then).report.verdict == "ok"

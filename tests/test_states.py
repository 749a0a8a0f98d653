"""States go in as they came out: the same type, scale and zero point, found in the model or named by the user."""

import io
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from rich.console import Console

from models import dense
from sqp_tflite.cli.text import show_report
from sqp_tflite.emit import CStyle
from sqp_tflite.emit.rendering import render
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.flatbuffer.edit import Editor, NewOp, blank
from sqp_tflite.flatbuffer.integer_ends import affine, settle_ends
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.pipeline import export
from sqp_tflite.quantize.states import shared
from sqp_tflite.source.load import InputSpec, load
from sqp_tflite.source.states import state_pairs

L = keras.layers
STEPS = 50
UNITS = 6


def cell(kind="LSTM", **options) -> keras.Model:
    """One step of a recurrent layer, whose states are inputs and outputs."""
    keras.utils.set_random_seed(3)
    options = {"activation": "squareplus", "recurrent_activation": "hard_sigmoid"} | options
    x, h, c = keras.Input((1, 3), name="x"), keras.Input((UNITS,), name="first"), keras.Input((UNITS,), name="second")
    states = [h, c] if kind == "LSTM" else [h]
    layer = getattr(L, kind)(UNITS, return_state=True, return_sequences=True, name="cell", **options)
    y, *ends = layer(x, initial_state=states)
    return keras.Model([x, *states], [L.Dense(2, name="out")(y), *ends])


def by_hand() -> keras.Model:
    """A cell written by hand; another layer also reads its state, in float."""
    keras.utils.set_random_seed(3)
    x, state = keras.Input((3,), name="x"), keras.Input((UNITS,), name="state_in")
    kept = L.Dense(UNITS, name="kept")(L.Concatenate()([x, state]))
    new = L.Multiply(name="new")([L.Activation("hard_sigmoid", name="gate")(kept), L.Dense(UNITS, name="value")(state)])
    read = L.Activation("squareplus", name="bent")(new)
    return keras.Model([x, state], {"y": L.Dense(2, name="y")(read), "state_out": new})


def run_in_keras(model, xs):
    """Returns what each input gets over `STEPS` steps, and the first output of each step."""
    count = len(model.inputs) - 1
    states = [np.zeros((1, UNITS), np.float32)] * count
    fed, ys = {i.name: [] for i in model.inputs}, []
    for x in xs:
        for given, value in zip(model.inputs, [x[None], *states], strict=True):
            fed[given.name].append(value[0])
        outputs = model([x[None], *states])
        if isinstance(outputs, dict):
            ys.append(np.asarray(outputs["y"])[0])
            states = [np.asarray(outputs["state_out"])]
        else:
            ys.append(np.asarray(outputs[0])[0])
            states = [np.asarray(value) for value in outputs[1:]]
    return {name: np.stack(values) for name, values in fed.items()}, np.stack(ys)


def run_in_tflm(content, report, xs):
    """Returns the first output that is no state over the steps, with the raw states fed back."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=200_000)
    main = read(content).main
    held = {pair.input_index: pair.output_index for pair in report.states}
    ends = [main.tensors[index] for index in main.inputs]
    values = {
        place: np.full(ends[place].shape, ends[place].quantization.zero_points[0] if ends[place].quantization else 0)
        for place in held
    }
    free = next(place for place in range(len(main.inputs)) if place not in held)
    other = next(place for place in range(len(main.outputs)) if place not in held.values())
    found = []
    for x in xs:
        for place, end in enumerate(ends):
            value = values[place] if place in held else codes(x[None], end)
            interpreter.set_input(value.astype(end.dtype), place)
        interpreter.invoke()
        outputs = [np.array(interpreter.get_output(place)) for place in range(len(main.outputs))]
        values = {into: outputs[out] for into, out in held.items()}
        found.append(real(outputs[other], main.tensors[main.outputs[other]])[0])
    assert free == 0
    return np.stack(found)


def codes(x, tensor):
    if tensor.quantization is None:
        return x
    low = -128 if tensor.dtype == "int8" else -32768
    scale, point = tensor.quantization.scales[0], tensor.quantization.zero_points[0]
    return np.clip(np.round(x / scale) + point, low, -low - 1)


def real(value, tensor):
    if tensor.quantization is None:
        return value
    return (value.astype(np.float64) - tensor.quantization.zero_points[0]) * tensor.quantization.scales[0]


def ends_of(report):
    """Returns, for each state, the output's and the input's type, scale and zero point."""
    rows = []
    for pair in report.states:
        out, into = report.outputs[pair.output_index], report.inputs[pair.input_index]
        rows.append(((out.dtype, out.scale, out.zero_point), (into.dtype, into.scale, into.zero_point)))
    return rows


@pytest.fixture(scope="module")
def runs():
    """Each model with what its inputs get in Keras over the steps, and its outputs."""
    found = {}
    for name, model in {"LSTM": cell(), "GRU": cell("GRU"), "by hand": by_hand()}.items():
        rng = np.random.default_rng(5)
        shape = model.inputs[0].shape[1:]
        xs = rng.uniform(-1, 1, (STEPS, *shape)).astype(np.float32)
        found[name] = model, *run_in_keras(model, xs)
    return found


@pytest.fixture(scope="module")
def lstm(runs):
    """The LSTM as an int8 file, with its firmware project."""
    model, data, _ = runs["LSTM"]
    return export(model, quantize="int8", data=data, emit="project", c_style=CStyle("lstm"))


# Error of 50 steps over the range of the output: twice what was measured, 0.0083 and 0.0030.
LIMIT = {"int8": 0.0166, "int16x8": 0.006}
FORMS = [
    ("LSTM", "int16x8", "integer", "int16"),
    ("GRU", "int8", "algebraic", "float32"),
    ("by hand", "int8", "integer", "int8"),
    ("by hand", "int16x8", "algebraic", "int16"),
]
MORE = [
    (name, quantize, lowering, ends)
    for name in ("LSTM", "GRU", "by hand")
    for quantize, lowering, own in (
        ("int8", "algebraic", "int8"),
        ("int8", "table", "int8"),
        ("int8", "integer", "int8"),
        ("int16x8", "algebraic", "int16"),
        ("int16x8", "integer", "int16"),
    )
    for ends in (own, "float32")
    if (name, quantize, lowering, ends) not in FORMS
]


@pytest.mark.parametrize(
    "name, quantize, lowering, ends", [*FORMS, *(pytest.param(*form, marks=pytest.mark.large) for form in MORE)]
)
def test_raw_states_fed_back_follow_keras(runs, name, quantize, lowering, ends):
    model, data, _ = runs[name]
    exported = export(model, quantize=quantize, lowering=lowering, io=ends, data=data)
    follows(exported, *runs[name], quantize, ends)


def test_the_states_of_an_int8_lstm_fed_back_follow_keras(runs, lstm):
    follows(lstm, *runs["LSTM"], "int8", "int8")


def follows(exported, model, data, wanted, quantize, dtype):
    """Checks the ends of a file, and that it follows Keras over the steps."""
    report = exported.report
    assert {row.dtype for row in (*report.inputs, *report.outputs)} == {dtype}
    pairs = ends_of(report)
    assert len(pairs) == len(model.inputs) - 1 and all(out == into for out, into in pairs)
    if dtype == "int16":
        assert all(out[2] == 0 for out, _ in pairs)
    found = run_in_tflm(exported.model_bytes, report, data[model.inputs[0].name])
    error = np.abs(found - wanted.reshape(found.shape)).max() / np.ptp(wanted)
    assert error < LIMIT[quantize], error


def found_for(inputs, outputs, wanted=None, shape=(4,)):
    """Returns the pairs as names, for a model of which only names are known."""
    ins, outs = ([InputSpec(name, shape, "float32") for name in names] for names in (inputs, outputs))
    pairs = state_pairs(SimpleNamespace(model=None, inputs=ins), outs, wanted)
    return {outputs[out]: inputs[into] for out, into in pairs}


@pytest.mark.parametrize(
    "inputs, outputs, pairs",
    [
        (["x", "h", "c"], ["y", "h", "c"], {"h": "h", "c": "c"}),
        (["x", "h_in", "c_in"], ["y", "c_out", "h_out"], {"h_out": "h_in", "c_out": "c_in"}),
        (["h1", "c1", "h2", "c2"], ["h2", "c2", "h1", "c1"], {"h1": "h1", "c1": "c1", "h2": "h2", "c2": "c2"}),
        (["x", "state"], ["y", "cell_h"], {"cell_h": "state"}),
        (["x", "prev_state"], ["new_state", "y"], {"new_state": "prev_state"}),
        (["x", "cell_state", "hidden_state"], ["hidden_state_out", "cell_state_out"], None),
        (["x", "StateIn:0"], ["y"], {}),
        (["image"], ["image"], {}),
        (["x"], ["c"], {}),
        (["state_a", "state_b"], ["state_c"], {}),
        (["state"], ["first_state", "second_state"], {}),
    ],
)
def test_names_that_say_it_make_a_pair(inputs, outputs, pairs):
    if pairs is None:
        pairs = {"hidden_state_out": "hidden_state", "cell_state_out": "cell_state"}
    assert found_for(inputs, outputs) == pairs


def test_other_shapes_and_integers_are_no_states():
    ours = [InputSpec("h", (4,), "float32"), InputSpec("c", (4,), "int32")]
    theirs = [InputSpec("h", (5,), "float32"), InputSpec("c", (4,), "int32")]
    assert state_pairs(SimpleNamespace(model=None, inputs=ours), theirs, None) == ()


def test_recurrent_layers_say_which_input_is_which_state_whatever_their_names():
    keras.utils.set_random_seed(0)
    x, names = keras.Input((2, 3), name="x"), ("p", "q", "r", "s")
    p, q, r, s = (keras.Input((UNITS,), name=name) for name in names)
    y, h1, c1 = L.LSTM(UNITS, return_sequences=True, return_state=True, name="low")(x, initial_state=[q, p])
    y, h2, c2 = L.LSTM(UNITS, return_state=True, name="high")(y, initial_state=[s, r])
    model = keras.Model([x, p, q, r, s], [c1, y, h2, c2, h1])
    plan = export(model, dry_run=True, target="litert").report
    assert plan.verdict == "planned"
    loaded = load(model)
    outputs = [InputSpec(name, (UNITS,), "float32") for name in "abcde"]
    assert state_pairs(loaded, outputs, None) == ((0, 1), (2, 4), (3, 3), (4, 2))


@pytest.mark.parametrize(
    "wanted, words",
    [
        ({"z": "h"}, "must name an output.*output 'z'; its outputs are `y`"),
        ({"y": "z"}, "must name an output and an input.*input 'z'; its inputs are"),
        ({"y": "x", "a": "x"}, "takes one state.*'x' twice"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(wanted, words):
    with pytest.raises(BadInputError, match=words):
        found_for(["x", "h"], ["y", "a"], wanted)


def test_pairs_of_other_shapes_are_refused():
    ours, theirs = [InputSpec("x", (4,), "float32")], [InputSpec("y", (1, 4), "float32")]
    with pytest.raises(BadInputError, match=r"same shape and type.*'y=x', float32 \(1, 4\) into float32 \(4,\)"):
        state_pairs(SimpleNamespace(model=None, inputs=ours), theirs, {"y": "x"})


def test_the_users_pairs_are_used_instead(tmp_path, command):
    model = by_hand()
    model.save(tmp_path / "m.keras")
    call = ["sqp-export", tmp_path / "m.keras", "--dry-run"]
    wrong = command(*call, "--state", "y:x")
    assert wrong.code == 2 and "OUT=IN" in wrong.err
    assert found_for(["x", "h"], ["y", "h"], {"y": "x"}) == {"y": "x"}
    assert found_for(["x", "h"], ["y", "h"], {}) == {}


def test_one_range_for_both_ends_also_in_front_of_a_reshape():
    editor = Editor(blank("a test"))
    a, b, c = (editor.add_tensor(name, "float32", (1, 4)) for name in ("into", "made", "out"))
    editor.add_op(NewOp("RELU", (a,), (b,)))
    editor.add_op(NewOp("RESHAPE", (b,), (c,)))
    editor.set_ends((a,), (c,))
    ranges = {"into": (-1.0, 0.5), "made": (0.0, 2.0), "out": (0.0, 2.0)}
    assert shared(ranges, editor.main(), ((0, 0),)) == dict.fromkeys(ranges, (-1.0, 2.0))
    assert shared(ranges, editor.main(), ()) == ranges


def odd_ends() -> Editor:
    """A file whose second output a float operator reads too, whose third has another scale than its input."""
    editor = Editor(blank("a test"))
    x = editor.add_tensor("x", "int8", (1, 4), 0.5, 3)
    y = editor.add_tensor("y", "int8", (1, 4), 0.25, 1)
    z = editor.add_tensor("z", "float32", (1, 4))
    editor.add_op(NewOp("RELU", (x,), (y,)))
    editor.add_op(NewOp("DEQUANTIZE", (y,), (z,)))
    editor.set_ends((x,), (z,))
    return editor


def test_an_output_takes_the_integer_tensor_that_it_came_from():
    editor = odd_ends()
    settle_ends(editor, "int8", [(-1, 1), (-1, 1)])
    main = read(editor.bytes()).main
    assert [op.name for op in main.ops] == ["RELU"]
    assert main.tensors[main.outputs[0]].name == "y"


def test_an_output_that_is_a_state_gets_the_codes_of_its_input():
    editor = odd_ends()
    before = ends_in(editor.bytes())
    assert before[0] != before[1]  # The planted fault is seen.
    settle_ends(editor, "int8", [(-1, 1), (-1, 1)], {0: 0})
    assert ends_in(editor.bytes()) == [("int8", 0.5, 3)] * 2
    assert [op.name for op in read(editor.bytes()).main.ops] == ["RELU", "QUANTIZE"]


def ends_in(content):
    main = read(content).main
    tensors = [main.tensors[index] for index in (*main.inputs, *main.outputs)]
    return [
        (tensor.dtype, *((held.scales[0], held.zero_points[0]) if (held := tensor.quantization) else (None, None)))
        for tensor in tensors
    ]


def test_float_ends_of_a_float_operator_get_conversions():
    editor = Editor(blank("a test"))
    x, y = (editor.add_tensor(name, "float32", (1, 4)) for name in ("x", "y"))
    editor.add_op(NewOp("RELU", (x,), (y,)))
    editor.set_ends((x,), (y,))
    settle_ends(editor, "int16", [(-2, 1), (0, 3)])
    main = read(editor.bytes()).main
    assert [op.name for op in main.ops] == ["DEQUANTIZE", "RELU", "QUANTIZE"]
    found = ends_in(editor.bytes())
    assert [row[0] for row in found] == ["int16"] * 2
    np.testing.assert_allclose([row[1] for row in found], [2 / 32767, 3 / 32767], rtol=1e-6)


@pytest.mark.parametrize(
    "dtype, low, high, scale, point",
    [("int8", 0, 255, 1, -128), ("int8", -128, 127, 1, 0), ("int8", 5, 255, 1, -128), ("int16", -1, 0.5, 1 / 32767, 0)],
)
def test_codes_span_the_range_and_zero(dtype, low, high, scale, point):
    assert affine(dtype, low, high) == (pytest.approx(scale), point)


def test_unwanted_conversions_are_listed_and_the_remedy_helps(tmp_path, command):
    keras.utils.set_random_seed(0)
    i = keras.Input((3,), name="x")
    keras.Model(i, L.Dense(2, name="out")(L.Dense(4, activation="squareplus", name="hidden")(i))).save(
        tmp_path / "m.keras"
    )
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).uniform(-1, 1, (40, 3)).astype(np.float32))
    call = ["sqp-export", tmp_path / "m.keras", "--data", tmp_path / "d.npz", "--no-conversions"]
    refused = command(*call, "--quantize", "int8", "--lowering", "algebraic")
    assert refused.code == 1 and "hidden: DEQUANTIZE from int8 to float32" in refused.err
    assert "QUANTIZE from float32 to int8" in refused.err and "Use --lowering table." in refused.err
    assert command(*call, "--quantize", "int8", "--lowering", "table", "--io", "float32").code == 0
    wide = command(*call, "--quantize", "int16x8")
    assert wide.code == 1 and "Use --lowering integer." in wide.err
    assert command(*call, "--quantize", "int16x8", "--lowering", "integer").code == 0
    assert command(*call).code == 2


def test_numbers_of_two_scales_meet_until_the_inputs_have_one_range():
    keras.utils.set_random_seed(0)
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model([a, b], L.Dense(2, name="out")(L.Concatenate()([a, b])))
    x = np.random.default_rng(0).uniform(-1, 1, (40, 3)).astype(np.float32)
    options = {"quantize": "int8", "lowering": "table", "no_conversions": True}
    with pytest.raises(RefusedError, match="two scales meet here: scale the inputs"):
        export(model, data={"a": x, "b": 3 * x}, **options)
    assert export(model, data={"a": x, "b": x}, **options).report.verdict == "ok"


def test_report_and_firmware_readme_name_the_pairs(lstm):
    exported, states = lstm, ("`cell_h` goes back into `first`", "`cell_c` goes back into `second`")
    assert tuple(map(str, exported.report.states)) == states
    assert exported.report.to_dict()["states"][1] == {
        "output": "cell_c",
        "input": "second",
        "output_index": 2,
        "input_index": 2,
        "initial": [],
    }
    printed = io.StringIO()
    show_report(Console(file=printed, width=200), exported.report)
    assert all(f"state: {state}" in printed.getvalue() for state in states)
    page = render(exported.report, read(exported.model_bytes), exported.model_bytes, ".html").decode()
    assert "<code>cell_c</code> goes back into <code>second</code>" in page
    readme = next(content for path, content in exported.files.items() if path.endswith("README.md")).decode()
    assert "lstm_output_cell_c() goes back into lstm_input_second()" in readme
    assert "memcpy(lstm_input_first(), kept_first, sizeof(kept_first));" in readme


@pytest.mark.parametrize("dry", [True, False])
def test_a_dry_run_refuses_a_state_that_an_export_refuses(dry):
    with pytest.raises(BadInputError, match="must name an output and an input of the model"):
        export(dense(), state="a=b", dry_run=dry)

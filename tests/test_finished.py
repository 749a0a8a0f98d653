"""Finished TFLite files as the model: repaired, exchanged, quantised, compared with themselves or a reference."""

import contextlib
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import sqp_tflite
from models import converted
from spellings import SPELLINGS, Speller
from sqp_tflite.agreement import GIVEN, WRITTEN
from sqp_tflite.finished.model import described, end_names, loaded, without_heads
from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.limits import limit
from sqp_tflite.ops.audit import exp_and_log
from sqp_tflite.run.interpreters import RuntimeFailedError, run
from tools.stock_files import NETS, images
from written import Written, perceptron

STOCK = Path(__file__).parent / "data" / "stock"
TRAIN, TEST, _, LABELS = images()
DATA = {"image": TEST, "y": LABELS}
FEW = {"image": TEST[:64], "y": LABELS[:64]}
RUNTIMES = ("litert", "tflm", "tflite-runtime")


def accuracy(runtime, content):
    return float((run(runtime, content, (TEST,)).values[0].argmax(-1) == LABELS).mean())


@pytest.fixture(scope="module", params=NETS)
def repaired(request):
    """A stock int8 file that is repaired from itself alone: its name and the export."""
    name = request.param
    return name, sqp_tflite.export(STOCK / f"{name}_int8.tflite", lowering="table", data={"image": TEST[:64]})


def test_a_repaired_file_has_the_accuracy_of_the_float_net_on_all_interpreters(repaired):
    name, done = repaired
    floats = accuracy("litert", (STOCK / f"{name}_float.tflite").read_bytes())
    given = (STOCK / f"{name}_int8.tflite").read_bytes()
    assert accuracy("litert", given) < floats - 0.05
    with pytest.raises(RuntimeFailedError):
        run("tflm", given, (TEST[:1],))
    for runtime in RUNTIMES:
        assert accuracy(runtime, done.model_bytes) >= floats - 0.005, runtime


def test_without_a_reference_the_report_says_that_the_whole_is_not_proven(repaired):
    _, done = repaired
    assert done.report.verdict == "ok"
    assert {row.against for row in done.report.agreement} == {WRITTEN}
    (line,) = done.report.unproven
    assert "--reference" in line
    assert "labels" in line


def test_the_report_says_which_functions_are_tables_and_what_changes(repaired):
    name, done = repaired
    rows = {row.was: row.max_change for row in done.report.replacements}
    spelled = {"sigmoid_to_softplus": "EXP ADD LOG", "elu_to_mish": "EXP ADD LOG TANH MUL"}[name]
    assert len(rows) >= 3
    assert rows[spelled] > 0.05
    assert any("come out of" in note and spelled in note for note in done.report.notes)
    assert not exp_and_log(read(done.model_bytes)) or exp_and_log(read(done.model_bytes)) == ("SOFTMAX",)


def test_labels_prove_a_repair():
    done = sqp_tflite.export(STOCK / "elu_to_mish_int8.tflite", lowering="table", data=FEW)
    assert done.report.unproven == ()
    assert any("On the labels" in note for note in done.report.notes)


@pytest.mark.parametrize("reference", ["elu_to_mish_float.tflite"])
def test_a_reference_proves_a_repair(reference):
    path = STOCK / "elu_to_mish_int8.tflite"
    done = sqp_tflite.export(path, lowering="table", data=FEW, reference=STOCK / reference, head="logits")
    assert done.report.unproven == ()
    given = [row for row in done.report.agreement if row.against == GIVEN]
    assert {row.runtime for row in given} == set(RUNTIMES)
    assert all(row.status == "ok" and row.error_of_range < 0.15 for row in given)


def test_a_reference_that_computes_something_else_is_a_parity_failure():
    """The planted fault: the reference is another network."""
    other = STOCK / "sigmoid_to_softplus_float.tflite"
    content = Editor(other.read_bytes())
    with pytest.raises(sqp_tflite.ParityError, match="does not agree"):
        sqp_tflite.export(
            STOCK / "elu_to_mish_int8.tflite", lowering="table", data={"image": TEST[:32]}, reference=_shuffled(other)
        )
    assert content.graph.outputs


def _shuffled(path):
    """The file with the classes of its last layer in another order."""
    editor = Editor(path.read_bytes())
    main = editor.graph.main
    dense = next(op for op in main.ops if op.name == "FULLY_CONNECTED")
    for index in dense.inputs[1:]:
        editor.set_values(index, np.ascontiguousarray(main.tensors[index].values[::-1]))
    made = Path(path).with_name("shuffled.tflite")
    return _kept(made, editor.bytes())


_FOLDER: list[Path] = []


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    _FOLDER[:] = [tmp_path]


def _kept(path, content):
    place = _FOLDER[0] / path.name
    place.write_bytes(content)
    return place


def test_faithful_tables_give_the_codes_of_the_given_file():
    path = STOCK / "elu_to_mish_int8.tflite"
    done = sqp_tflite.export(path, lowering="table", faithful=True, data={"image": TEST[:32]})
    before, after = (run("litert", one, (TEST[:100],)).codes[0] for one in (path.read_bytes(), done.model_bytes))
    assert np.array_equal(before, after)
    assert "EXP" not in {row.op for row in done.report.ops}
    assert done.report.unproven == ()
    assert {row.against for row in done.report.agreement} == {GIVEN}


@pytest.mark.parametrize("name", NETS)
def test_a_float_file_comes_out_without_exp_and_within_the_bound(name):
    path = STOCK / f"{name}_float.tflite"
    done = sqp_tflite.export(path, replace="accurate", data={"image": TEST[:64]})
    assert exp_and_log(read(done.model_bytes)) == ()
    before, after = (run("litert", one, (TEST,)).values[0] for one in (path.read_bytes(), done.model_bytes))
    assert np.abs(before - after).max() <= 1.5e-3
    assert {row.was for row in done.report.replacements} >= {"softmax"}


@pytest.mark.parametrize("kind", ["half", "weights"])
def test_narrow_weights_become_float32(kind):
    path = STOCK / f"elu_to_mish_{kind}.tflite"
    done = sqp_tflite.export(path, replace="accurate", head="logits", data={"image": TEST[:32]})
    assert any("fewer bits" in note for note in done.report.notes)
    assert done.report.quantize == "float32"
    assert accuracy("tflm", done.model_bytes) > 0.97


def test_a_float_file_can_be_quantised():
    path = STOCK / "elu_to_mish_float.tflite"
    done = sqp_tflite.export(path, quantize="int8", lowering="table", head="logits", data={"image": TRAIN[:128]})
    assert done.report.quantize == "int8"
    assert {tensor.dtype for tensor in (*read(done.model_bytes).inputs, *read(done.model_bytes).outputs)} == {"int8"}
    assert accuracy("tflm", done.model_bytes) > 0.97


def squareplus_file(folder):
    path = folder / "net.tflite"
    path.write_bytes(perceptron())
    return path


def test_a_file_that_needs_nothing_comes_out_as_it_is(tmp_path):
    path = squareplus_file(tmp_path)
    done = sqp_tflite.export(path)
    assert done.model_bytes == path.read_bytes()
    assert all(row.against == GIVEN and row.error_of_range < 1e-6 for row in done.report.agreement)


def test_the_remedies_of_a_refusal_lead_to_success(tmp_path):
    for name, words in (("elu_to_mish_int8", ["lowering"]), ("elu_to_mish_float", ["replace", "head"])):
        with pytest.raises(sqp_tflite.RefusedError) as refused:
            sqp_tflite.export(STOCK / f"{name}.tflite", data={"image": TEST[:16]})
        solution = dict(part.split("=") for part in refused.value.report.solution.split(", "))
        assert list(solution) == words or set(solution) == set(words)
        options = {key: value.strip('"') for key, value in solution.items()}
        assert sqp_tflite.export(STOCK / f"{name}.tflite", data={"image": TEST[:16]}, **options).report.verdict == "ok"


@pytest.mark.parametrize(
    ("name", "options", "rule"),
    [
        ("elu_to_mish_int8", {"quantize": "float16"}, "keeps its numbers"),
        ("elu_to_mish_int8", {"replace": "accurate"}, "become tables"),
        ("elu_to_mish_int8", {"faithful": True}, "without tables"),
        ("elu_to_mish_int8", {"imports": "os"}, "names nothing"),
        ("elu_to_mish_float", {"faithful": True, "lowering": "table"}, "file of integers"),
        ("elu_to_mish_float", {"replace": {"silu": "relu"}}, "becomes accurate or fast"),
        ("elu_to_mish_float", {"replace": {"nothing": "fast"}}, "layer of the file"),
        ("elu_to_mish_float", {"quantize": "int8"}, "needs representative inputs"),
        ("elu_to_mish_float", {"data": {"picture": TEST[:4]}}, "`image`"),
    ],
)
def test_what_does_not_apply_is_refused_in_one_line(name, options, rule):
    with pytest.raises(sqp_tflite.BadInputError, match=rule) as refused:
        sqp_tflite.export(STOCK / f"{name}.tflite", **options)
    assert "\n" not in str(refused.value)
    assert "Received" in str(refused.value)


def test_reference_and_faithful_are_for_finished_files(tmp_path):
    import keras

    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    for options in ({"faithful": True}, {"reference": squareplus_file(tmp_path)}):
        with pytest.raises(sqp_tflite.BadInputError, match="finished TFLite file"):
            sqp_tflite.export(net, **options)


def test_a_reference_of_other_inputs_is_refused(tmp_path):
    with pytest.raises(sqp_tflite.BadInputError, match="must take the inputs"):
        sqp_tflite.export(
            STOCK / "elu_to_mish_int8.tflite", lowering="table", reference=squareplus_file(tmp_path),
            data={"image": TEST[:4]},
        )  # fmt: skip


def test_check_compares_two_files():
    rows = sqp_tflite.check(
        STOCK / "elu_to_mish_float.tflite", (STOCK / "elu_to_mish_int8.tflite").read_bytes(), {"image": TEST[:64]}
    )
    assert {row.status for row in rows if row.runtime == "litert"} == {"differs"}


def test_names_come_from_the_signature_and_then_from_the_tensors(tmp_path):
    graph = read(STOCK / "elu_to_mish_float.tflite")
    assert end_names(graph) == (["image"], ["output_0"])
    plain = read(squareplus_file(tmp_path))
    assert end_names(plain) == (["x"], ["y"])


def test_ends_without_a_batch_are_fed_whole(tmp_path):
    model = Written()
    x, state = model.value(6, name="x"), model.value(name="state")
    y = model.op("NEG", x, shape=(6,), name="y")
    path = tmp_path / "net.tflite"
    path.write_bytes(model.ends([x, state], [y, model.op("ABS", state, name="new")]))
    held = loaded(path, limit(None))
    assert [spec.shape for spec in held.inputs] == [(6,), (4,)]
    found = held.call([np.ones((3, 6), np.float32), -np.ones((3, 4), np.float32)])
    assert {name: values.shape for name, values in found.items()} == {"y": (3, 6), "new": (3, 4)}
    assert sqp_tflite.export(path).report.verdict == "ok"


@pytest.fixture(scope="module")
def two_signatures():
    """A file of two graphs; the batch of the second is open."""
    module = tf.Module()
    module.w = tf.Variable(np.eye(4, 3, dtype="float32"))
    spec = tf.TensorSpec
    first = tf.function(lambda x: {"p": tf.tanh(x)}, input_signature=[spec([1, 7], tf.float32, "x")])
    other = tf.function(lambda x: {"o": x @ module.w}, input_signature=[spec([None, 4], tf.float32, "x")])
    graphs = [first.get_concrete_function(), other.get_concrete_function()]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, {"a": graphs[0], "b": graphs[1]})
        return tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["a", "b"]).convert()


@pytest.mark.parametrize("replace", [None, "accurate"])
def test_a_graph_that_the_main_one_does_not_call_is_left_out(two_signatures, replace, tmp_path):
    path = tmp_path / "two.tflite"
    path.write_bytes(two_signatures)
    assert len(read(two_signatures).subgraphs) == 2
    if replace is None:
        with pytest.raises(sqp_tflite.RefusedError) as refusal:  # Of tanh only.
            sqp_tflite.export(path)
        assert {finding.op for finding in refusal.value.findings} == {"TANH"}
        return
    done = sqp_tflite.export(path, replace=replace)
    held = read(done.model_bytes)
    assert [(one.key, one.subgraph) for one in held.signatures] == [("a", 0)] and len(held.subgraphs) == 1
    assert any("the main graph, `a`, is kept, without `b`" in note for note in done.report.notes)
    assert {row.status for row in sqp_tflite.check(path, done.model_bytes)} == {"ok"}


@pytest.mark.parametrize("replace", ["accurate", None])
@pytest.mark.parametrize("place", [0, 1, 2, 4, 5])
def test_what_nobody_knows_fused_into_an_operator_is_no_fault_of_the_program(place, replace, tmp_path):
    model = schema.unpack(perceptron())
    model.subgraphs[0].operators[place].builtinOptions.fusedActivationFunction = 99
    path = tmp_path / "net.tflite"
    path.write_bytes(schema.pack(model))
    with contextlib.suppress(sqp_tflite.ExportError):
        sqp_tflite.export(path, replace=replace)


def test_a_graph_that_is_called_stays():
    content = converted(lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (0, x))[1], (1, 4))
    editor = Editor(content)
    editor.drop_unused()
    assert len(read(editor.bytes()).subgraphs) == len(read(content).subgraphs) > 1


@pytest.mark.parametrize("call", [sqp_tflite.export, lambda path: sqp_tflite.check(path, path)])
def test_an_input_of_any_number_of_dimensions_is_refused_and_one_of_none_is_not(call, tmp_path):
    """Both have an empty shape in the file."""
    for shape in (None, ()):
        path = tmp_path / "net.tflite"
        path.write_bytes(converted(lambda x: x * 2, shape))
        if shape is None:
            with pytest.raises(sqp_tflite.BadInputError, match="input `x` of .* may have any number of dimensions"):
                call(path)
        else:
            call(path)


def test_a_head_behind_a_reshape_or_a_conversion_is_dropped():
    model = Written()
    x = model.value(1, 4, scale=0.5, name="x")
    y, moved = model.value(1, 4, scale=1 / 256, name="y"), model.value(2, 2, scale=1 / 256, name="z")
    model.editor.add_op(NewOp("SOFTMAX", (x,), (y,), "SoftmaxOptions", {"beta": 1.0}))
    model.editor.add_op(NewOp("RESHAPE", (y, model.constant([2, 2], dtype="int32")), (moved,), "ReshapeOptions"))
    out = model.op("DEQUANTIZE", moved, shape=(2, 2), name="out")
    content = model.ends([x], [out])
    bare, heads, notes = without_heads(described(content, read(content), "net"))
    graph = read(bare.content)
    assert heads == ("softmax",)
    assert [op.name for op in graph.main.ops] == ["RESHAPE", "DEQUANTIZE"]
    assert graph.main.tensors[graph.main.ops[0].outputs[0]].quantization.scales == (0.5,)
    assert graph.outputs[0].name == "out"
    assert "`out` (softmax)" in notes[0]


def test_nothing_is_dropped_where_there_is_no_head(tmp_path):
    held = loaded(squareplus_file(tmp_path), limit(None))
    assert without_heads(held)[:2] == (held, ())


def test_a_file_with_text_is_refused(tmp_path):
    model = Written()
    x = model.value(1, dtype="string", name="words")
    path = tmp_path / "net.tflite"
    path.write_bytes(model.ends([x], [x]))
    with pytest.raises(sqp_tflite.BadInputError, match="must be numbers"):
        sqp_tflite.export(path)


def test_signatures_are_right_where_one_tensor_is_output_twice(tmp_path):
    """The runner of the file goes by the signature, the comparison by places: both must give the same."""
    from ai_edge_litert.interpreter import Interpreter

    editor = Editor(perceptron())
    (x,), (y,) = editor.main().inputs, editor.main().outputs
    editor.set_ends([x], [y, y])
    editor.sign("serving_default", ["x"], ["first", "second"])
    path = tmp_path / "twice.tflite"
    path.write_bytes(editor.bytes())
    data = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    for lowering in ("table", "algebraic"):
        done = sqp_tflite.export(path, quantize="int8", lowering=lowering, data=data)
        held = read(done.model_bytes)
        (signature,) = held.signatures
        assert [*signature.outputs.values()] == [tensor.index for tensor in held.outputs]
        runner = Interpreter(model_content=done.model_bytes).get_signature_runner()
        codes = run("litert", done.model_bytes, (data[:1],)).codes
        given = held.inputs[0].quantization
        fed = np.clip(np.round(data[:1] / given.scales[0]) + given.zero_points[0], -128, 127).astype(np.int8)
        made = runner(x=fed)
        assert np.array_equal(made["first"], codes[0]) and np.array_equal(made["second"], codes[1])


def test_shapes_behind_an_open_batch_are_those_of_one_sample(tmp_path):
    """A dilated convolution makes a batch of blocks: its size is in no shape that the converter writes."""
    import keras
    import tensorflow as tf

    stack = [keras.layers.Conv1D(4, 3, dilation_rate=2, padding="causal"), keras.layers.Dense(3)]
    net = keras.Sequential([keras.Input((8, 2), name="x"), *stack])
    converter = tf.lite.TFLiteConverter.from_keras_model(net)
    path = tmp_path / "dilated.tflite"
    path.write_bytes(converter.convert())
    x = np.random.default_rng(0).normal(size=(8, 8, 2)).astype(np.float32)
    done = sqp_tflite.export(path, data=x)
    assert {row.status for row in done.report.agreement} == {"ok"}
    assert not any(tensor.open for tensor in read(done.model_bytes).main.tensors)
    assert np.allclose(run("tflm", done.model_bytes, (x,)).values[0], net(x), atol=1e-5)


def test_a_scalar_goes_in(tmp_path):
    model = Written()
    x, gain = model.value(name="x"), model.editor.add_tensor("gain", "float32", ())
    path = tmp_path / "net.tflite"
    path.write_bytes(model.ends([x, gain], [model.op("MUL", x, gain, table="MulOptions", name="y")]))
    assert sqp_tflite.export(path).report.verdict == "ok"


def test_a_spelled_softplus_that_overflows_far_out_is_judged_where_it_does_not(tmp_path):
    speller = Speller()
    y = SPELLINGS["softplus", "TensorFlow"](speller, speller.x)
    path = tmp_path / "net.tflite"
    path.write_bytes(speller.model.ends([speller.x], [y]))
    assert sqp_tflite.export(path, replace="accurate").report.verdict == "ok"


@pytest.mark.parametrize("kind", ["int8", "half", "weights", "float"])
def test_what_inspect_says_mends_the_file(kind):
    from sqp_tflite.inspection import inspection

    path = STOCK / f"elu_to_mish_{kind}.tflite"
    _, report = inspection(path, "tflm")
    said = {
        option
        for finding in report.findings
        for option in re.findall(r"--(lowering|replace|head) (\w+)", finding.remedy)
    }
    assert {name for name, _ in said} == {"head", "lowering" if kind == "int8" else "replace"}
    done = sqp_tflite.export(path, data={"image": TEST[:16]}, **dict(said))
    assert exp_and_log(read(done.model_bytes)) == ()


def test_sparse_weights_become_dense_on_every_interpreter():
    """A FULLY_CONNECTED reads them as they are: TensorFlow Lite Micro takes their bytes for dense ones."""
    path = STOCK / "sparse.tflite"
    x = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    assert any(tensor.sparse for tensor in read(path).main.tensors)
    done = sqp_tflite.export(path, data=x)
    assert not any(tensor.sparse for tensor in read(done.model_bytes).main.tensors)
    assert any("sparse" in note for note in done.report.notes)
    before = run("litert", path.read_bytes(), (x,)).values[0]
    for runtime in RUNTIMES:
        assert np.allclose(run(runtime, done.model_bytes, (x,)).values[0], before, atol=1e-5)

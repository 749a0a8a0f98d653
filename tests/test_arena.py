"""The measured arena, its bounds for a 32-bit target, and what is in memory over time."""

import re
import time
from pathlib import Path

import numpy as np
import pytest

from sqp_tflite.agreement import BEYOND, ENDS
from sqp_tflite.errors import BadInputError
from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph, Tensor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import arena
from sqp_tflite.run.extremes import extremes
from sqp_tflite.source.samples import Samples

pytest.importorskip("tflite_micro", reason="the arena is measured on the interpreter of the tflite-micro wheel")

DATA = Path(__file__).parent / "data"
FILES = ("two_inputs_int8.tflite", "two_inputs_float32.tflite")


@pytest.fixture(scope="module")
def measured():
    return {name: arena.measure((DATA / name).read_bytes()) for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_the_arena_is_the_smallest_that_runs(measured, name):
    model, found = (DATA / name).read_bytes(), measured[name]
    assert found.needed % arena.ALIGNMENT == 0
    assert arena._try(model, 2, found.needed)[0]
    assert not arena._try(model, 2, found.needed - arena.ALIGNMENT)[0]


@pytest.mark.parametrize("listed", [None, 0, 2048, 1 << 19])
def test_a_list_that_is_wrong_changes_no_arena(measured, monkeypatch, listed):
    monkeypatch.setattr(arena, "_listed", lambda words: listed)
    found = arena.search((DATA / FILES[0]).read_bytes())
    assert found.needed == measured[FILES[0]].needed and found.trials > measured[FILES[0]].trials


@pytest.mark.parametrize("name", FILES)
def test_bounds_for_a_32_bit_target_enclose_what_must_be(measured, name):
    found, (step, _) = measured[name], arena.peak(read(DATA / name))
    # Tensors are as long on either target, so the larger of the head's ends is a floor for both bounds.
    assert step.total <= found.head <= found.low <= found.high < found.needed


def test_the_interpreter_still_has_the_structs_whose_sizes_are_known():
    # Were one of them to change, the upper bound would fall back to the measured size: still true, only wider.
    words = arena._try((DATA / FILES[0]).read_bytes(), 2, 1 << 20, allocations=True)[1]
    sizes = {name: int(asked) // int(count) for name, _, asked, count in arena._COUNTED.findall(words)}
    assert {name: sizes[name] for name in arena.HOST_SIZES} == arena.HOST_SIZES


def test_unknown_structs_leave_the_measured_size_as_the_bound():
    words = (
        "Arena allocation head 512 bytes\nArena allocation tail 1024 bytes\n"
        "'TfLiteEvalTensor data' used 96 bytes with alignment overhead (requested 96 bytes for 3 allocations)\n"
        "'NodeAndRegistration struct' used 64 bytes with alignment overhead (requested 64 bytes for 1 Node)\n"
    )
    found = arena._described(2048, words, 1)
    assert (found.low, found.high) == (512 + 80, 2048)


OTHER_WORDS = re.compile(r"Arena: (head|tail) = (\d+)")
"""What a release of tflite-micro could write instead: nothing in today's output matches it."""


def test_other_words_leave_the_bounds_out_with_a_note(monkeypatch):
    monkeypatch.setattr(arena, "_TOTAL", OTHER_WORDS)
    found = arena.search((DATA / FILES[0]).read_bytes())
    assert found.needed > 0
    assert (found.head, found.tail, found.low, found.high) == (None, None, None, None)
    (note,) = found.notes
    assert "words its list of allocations in an unknown way" in note and found.runtime in note


def test_known_words_need_no_note(measured):
    assert all(found.notes == () for found in measured.values())


def test_other_words_for_the_parts_leave_bounds_that_hold(monkeypatch):
    monkeypatch.setattr(arena, "_COUNTED", re.compile("nothing (a)(b)(c)(d)"))
    found = arena._described(2048, "Arena allocation head 512 bytes\nArena allocation tail 1024 bytes\n", 1)
    assert (found.low, found.high) == (512, 2048)


def test_an_interpreter_without_a_list_of_allocations_leaves_the_bounds_out(monkeypatch):
    from tflite_micro import runtime

    monkeypatch.delattr(runtime.Interpreter, "print_allocations")
    assert arena.search((DATA / FILES[0]).read_bytes()).high is None


def test_an_unknown_version_is_no_error(monkeypatch):
    monkeypatch.setattr(arena, "version", lambda name: "not installed")
    assert arena._described(2048, "", 1).runtime == "tflite-micro not installed"


def test_a_model_that_no_arena_can_run_is_refused_in_the_interpreters_words():
    broken = bytearray((DATA / FILES[0]).read_bytes())
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(bytes(broken), 0)
    model.operatorCodes[0].builtinCode = schema.BuiltinOperator.GELU
    model.operatorCodes[0].deprecatedBuiltinCode = 127
    for op in model.subgraphs[0].operators:
        if op.opcodeIndex == 0:
            op.builtinOptionsType, op.builtinOptions = 0, None
    import flatbuffers

    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    with pytest.raises(BadInputError, match="must run on the interpreter of TensorFlow Lite Micro"):
        arena.measure(bytes(builder.Output()))


def graph(*ops: Op, shapes: dict[int, int], inputs=(0,), outputs=(3,)) -> Graph:
    tensors = tuple(Tensor(i, f"t{i}", (1, size), "int8") for i, size in shapes.items())
    return Graph((Subgraph("main", tensors, ops, inputs, outputs),), 0, "", 3, "")


def test_memory_over_time_is_that_of_the_tensors_still_needed():
    chain = graph(
        Op(0, "CONV_2D", 1, (0,), (1,), "int8"),
        Op(1, "MUL", 1, (1,), (2,), "int8"),
        Op(2, "ADD", 1, (1, 2), (3,), "int8"),
        shapes={0: 100, 1: 40, 2: 40, 3: 10},
    )
    assert [step.total for step in arena.live_steps(chain)] == [140, 80, 90]
    step, tensor = arena.peak(chain)
    assert (step.name, tensor.name) == ("CONV_2D", "t0")


def test_memory_over_time_takes_no_time_for_each_pair_of_operator_and_tensor():
    """A damaged or hostile file can have a hundred thousand of both; all outputs live to the end here."""
    many = 20_000
    ops = [Op(i, "ADD", 1, (i, i), (i + 1,), "int8") for i in range(many)]
    began = time.process_time()
    large = graph(*ops, shapes=dict.fromkeys(range(many + 1), 1), outputs=tuple(range(many + 1)))
    step, _ = arena.peak(large)
    assert (step.op, step.total) == (many - 1, many + 1)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("dtype", "elements", "size"),
    [("int8", 3, 3), ("int4", 3, 2), ("int16", 3, 6), ("float32", 3, 12), ("bool", 3, 3), ("int64", 3, 24)],
)
def test_tensor_sizes(dtype, elements, size):
    assert arena.tensor_bytes(Tensor(0, "", (elements,), dtype)) == size


def test_a_graph_without_ops_has_no_peak():
    with pytest.raises(BadInputError, match="needs a model with operators.*Omit `project`"):
        arena.peak(graph(shapes={0: 1}, outputs=()))


def test_extremes_are_the_ends_of_the_codes_and_twice_as_far():
    held = read(DATA / FILES[0])
    generator = np.random.default_rng(1)
    given = Samples(tuple(generator.normal(size=(4, *t.shape[1:])).astype("float32") for t in held.inputs), None, True)
    sets = extremes(held.inputs, given)
    for tensor, ends, beyond in zip(held.inputs, sets[ENDS].inputs, sets[BEYOND].inputs, strict=True):
        scale, zero = tensor.quantization.scales[0], tensor.quantization.zero_points[0]
        low, high = (-128 - zero) * scale, (127 - zero) * scale
        assert set(np.unique(ends)) == {np.float32(low), np.float32(high)}
        # float32 keeps 24 bits of a sum of numbers of this size.
        assert beyond.max() - beyond.min() == pytest.approx(2 * (high - low), rel=1e-6)
        assert (ends[0] == ends.min()).all() and (ends[1] == ends.max()).all()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("", -6, "Received: signal SIGABRT without a message"),
        ("", 1, "Received: exit code 1 without a message"),
        ("one\ntwo\n", 1, "Received: two. Export parts"),
    ],
)
def test_how_the_interpreter_ended_is_said_and_no_file_is_looked_for(words, code, said):
    text = str(arena._cannot_run(words, code))
    assert said in text and "sqp-inspect" not in text and "--target litert" in text

"""A correct file agrees whatever the order of its inputs and outputs; a wrong one does not; the rest is asked for."""

import re
import shlex

import keras
import pytest
import tensorflow as tf

import sqp_tflite
from models import converted, dense
from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run.pairing import OUTPUTS, order
from written import Written

L = keras.layers
NAMES = ("zeta", "mid", "first")
"""Of the outputs: no two orders that anybody might sort them in are the same."""


def three() -> keras.Model:
    """Two inputs of one shape and three outputs of another."""
    keras.utils.set_random_seed(0)
    zulu, alpha = keras.Input((3,), name="zulu"), keras.Input((3,), name="alpha")
    return keras.Model([zulu, alpha], [L.Dense(4, name=name)(L.Concatenate()([alpha, zulu])) for name in NAMES])


@pytest.fixture(scope="module")
def model():
    return three()


@pytest.fixture(scope="module")
def stock(once):
    """The folder of a SavedModel of `three`, and what TensorFlow's converter makes of both."""

    def make(folder):
        given = three()
        given.save(folder / "m.keras")
        given.export(str(folder / "saved"), verbose=False)
        for name, converter in {
            "keras.tflite": tf.lite.TFLiteConverter.from_keras_model(given),
            "saved.tflite": tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved")),
        }.items():
            (folder / name).write_bytes(converter.convert())

    return once("three-outputs", make)


def file_of(model, outputs, order=(0, 1, 2), inputs=("zulu", "alpha")) -> bytes:
    """The file of `three`, with names for the tensors that make its outputs, listed in another order; no signature."""
    written = Written()
    ends = [written.value(1, 3, name=name) for name in inputs]
    joined = written.op("CONCATENATION", ends[1], ends[0], shape=(1, 6), table="ConcatenationOptions", axis=1)
    made = []
    for layer, name in zip(NAMES, outputs, strict=True):
        kernel, bias = model.get_layer(layer).get_weights()
        constants = written.constant(kernel.T), written.constant(bias)
        made.append(written.op("FULLY_CONNECTED", joined, *constants, name=name, table="FullyConnectedOptions"))
    return written.ends(ends, [made[place] for place in order])


def statuses(model, content, **given) -> set[str]:
    return {row.status for row in sqp_tflite.check(model, content, ends=True, **given)}


def differing(model, content) -> set[str]:
    """The outputs that differ, on whatever interpreter."""
    return {row.output for row in sqp_tflite.check(model, content) if row.status == "differs"}


def resigned(content: bytes, change) -> bytes:
    """The file with another signature."""
    held = schema.unpack(content)
    change(held)
    return schema.pack(held)


def swap_signed(held) -> None:
    first, second = (output for output in held.signatureDefs[0].outputs if output.name != b"output_1")
    first.tensorIndex, second.tensorIndex = second.tensorIndex, first.tensorIndex


def unsign(held) -> None:
    held.signatureDefs = []


@pytest.mark.parametrize("name", ["keras.tflite", "saved.tflite"])
def test_files_of_the_stock_converter_agree_with_model_and_folder(stock, model, name):
    content = (stock / name).read_bytes()
    names = [tensor.name.partition(":")[2] for tensor in read(content).outputs]
    assert names != sorted(names)  # Else the order of the file would do.
    assert statuses(model, content) == {"ok"}
    assert statuses(stock / "saved", content) == {"ok"}


def test_swapped_outputs_are_seen_where_the_signature_says_them_wrong(stock, model):
    content = (stock / "keras.tflite").read_bytes()
    assert differing(model, resigned(content, swap_signed)) == {"zeta", "first"}


def test_swapped_outputs_are_paired_by_the_signature(stock, model):
    content = (stock / "keras.tflite").read_bytes()
    editor = Editor(content)
    editor.set_ends(editor.main().inputs[::-1], editor.main().outputs[::-1])
    assert statuses(model, editor.bytes()) == {"ok"}


def test_without_a_signature_the_tensors_names_decide(stock, model):
    content = resigned((stock / "keras.tflite").read_bytes(), unsign)
    assert not read(content).signatures and statuses(model, content) == {"ok"}


SPELLED = {
    "in any order": (NAMES, (2, 0, 1)),
    "in scopes": (tuple(f"functional/{name}/BiasAdd" for name in NAMES), (1, 2, 0)),
    "in TensorFlow's numbers": (tuple(f"StatefulPartitionedCall:{i}" for i in range(3)), (1, 0, 2)),
}


@pytest.mark.parametrize("case", SPELLED)
def test_names_of_tensors_pair_a_file_without_signature(case, model):
    assert statuses(model, file_of(model, *SPELLED[case])) == {"ok"}


def test_swapped_names_differ(model):
    assert differing(model, file_of(model, ("mid", "zeta", "first"))) == {"mid", "zeta"}
    numbered = file_of(model, [f"Identity_{i}" for i in (1, 0, 2)])
    (row, *_) = [row for row in sqp_tflite.check(model, numbered) if row.output == "zeta"]
    assert row.status == "differs" and "--outputs" in row.reason and ".." not in row.reason
    assert statuses(model, numbered, outputs="zeta,mid,first") == {"ok"}


def test_inputs_are_paired_too(model):
    content = file_of(model, NAMES, inputs=("serving_default_alpha:0", "serving_default_zulu:0"))
    assert statuses(model, content) == {"differs"}
    editor = Editor(file_of(model, NAMES))
    editor.set_ends(editor.main().inputs[::-1], editor.main().outputs)
    assert statuses(model, editor.bytes()) == {"ok"}


def test_ends_follow_the_pairing():
    """The ends of an input's range are those of its own codes, wherever the file has it."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    given = keras.Model([a, b], a + b)
    written = Written()
    ends = [written.value(name=name, scale=scale) for name, scale in (("a", 0.01), ("b", 5.0))]
    real = [written.op("DEQUANTIZE", end) for end in ends]
    output = written.op("ADD", *real, table="AddOptions")
    rows = [
        {(row.runtime, row.on): row.spread for row in sqp_tflite.check(given, written.ends(order, [output]), ends=True)}
        for order in (ends, ends[::-1])
    ]
    # 255 codes of 5 and of 0.01, and twice that: each as the file has it.
    assert rows[0] == rows[1] and rows[0]["litert", "ends"] == pytest.approx(255 * 5.01)


def test_nameless_outputs_are_asked_for_and_the_remedy_works(model, tmp_path, command):
    model.save(tmp_path / "m.keras")
    content = file_of(model, ("t7", "t8", "t9"), order=(1, 0, 2), inputs=("in_a", "in_b"))
    (tmp_path / "m.tflite").write_bytes(content)
    call = ["sqp-check", tmp_path / "m.keras", tmp_path / "m.tflite"]
    ran = command(*call)
    assert ran.code == 2 and "its inputs of shape (1, 3)" in ran.err and "`in_a`, `in_b`" in ran.err
    call += shlex.split(re.search(r"--inputs .*", ran.err)[0])
    ran = command(*call)
    assert ran.code == 2 and "`t8`, `t7`, `t9`" in ran.err and "--outputs zeta,mid,first" in ran.err
    assert len(ran.err) < 400
    assert command(*call, "--outputs", "zeta,mid,first").code == 3
    assert command(*call, "--outputs", "mid, zeta,first").code == 0


def test_what_has_a_shape_of_its_own_needs_no_name():
    keras.utils.set_random_seed(0)
    x = keras.Input((3,), name="x")
    given = keras.Model(x, {"big": L.Dense(5)(x), "small": L.Dense(2)(x)})
    weights = [layer.get_weights() for layer in given.layers[1:]]
    weights.sort(key=lambda pair: len(pair[1]))
    written = Written()
    end = written.value(1, 3)
    outputs = [
        written.op(
            "FULLY_CONNECTED",
            end,
            written.constant(kernel.T),
            written.constant(bias),
            shape=(1, len(bias)),
            table="FullyConnectedOptions",
        )
        for kernel, bias in weights
    ]
    assert statuses(given, written.ends([end], outputs)) == {"ok"}


def test_two_outputs_may_share_a_tensor():
    keras.utils.set_random_seed(0)
    x = keras.Input((3,), name="x")
    y = L.Dense(4)(x)
    given = keras.Model(x, [y, y, L.Dense(4)(x)])
    assert statuses(given, tf.lite.TFLiteConverter.from_keras_model(given).convert()) == {"ok"}


LISTED = {
    "an unknown name": ("zeta,mid,last", "must list each of the model's outputs once.*Received: `zeta`, `mid`, `last`"),
    "one too few": (["zeta", "mid"], "once, in the file's order: `zeta`, `mid`, `first`"),
    "one twice": ("zeta,mid,mid", "once"),
    "nothing": ("", "`outputs` must be NAME,NAME,... or a list of names"),
    "no text": ([1, 2, 3], "or a list of names. Received: 1"),
    "an empty list": ([], "or a list of names"),
}


@pytest.mark.parametrize("case", LISTED)
def test_a_wrong_list_is_refused(case, model):
    given, words = LISTED[case]
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        sqp_tflite.check(model, file_of(model, NAMES), outputs=given)


@pytest.mark.parametrize("given", ["", "a,,b", ","])
def test_a_list_with_a_gap_is_a_bad_call(given, command):
    ran = command("sqp-check", "m.keras", "m.tflite", "--outputs", given)
    assert ran.code == 2 and "--outputs: must be NAME,NAME,..." in ran.err and "All options" in ran.err


def test_a_list_in_another_order_than_the_shapes_is_refused():
    graph = read(converted(lambda x: [x, x[:, :2]], (1, 4)))
    sizes = [tensor.shape[1] for tensor in graph.outputs]
    model = {"a": (sizes[0],), "b": (sizes[1],)}
    assert order(OUTPUTS, model, graph, ("a", "b")).places == (0, 1)
    with pytest.raises(sqp_tflite.BadInputError, match=r"`b` .* for number 0 of the file, .*Put each name"):
        order(OUTPUTS, model, graph, ("b", "a"))


def test_a_file_of_another_batch_is_refused_in_words():
    with pytest.raises(sqp_tflite.BadInputError, match="batch must be 1 or open.*batch 8, inputs .*sqp-export"):
        sqp_tflite.check(dense(), converted(lambda x: x[:, :3], (8, 4)))


def test_a_file_of_open_sizes_is_refused_in_words():
    x = keras.Input((5, 4), name="x")
    with pytest.raises(sqp_tflite.BadInputError, match="fixed sizes after the batch.*dimension 1 is open.*full sizes"):
        sqp_tflite.check(keras.Model(x, x[:, 0]), converted(lambda x: x[:, 0], (1, None, 4)))


def test_a_file_of_another_model_is_refused_in_words(model):
    other = converted(lambda x: x, (1, 9))
    with pytest.raises(sqp_tflite.BadInputError, match=r"inputs must be the model's.*`zulu` \(1, 3\).*made from this"):
        sqp_tflite.check(model, other)

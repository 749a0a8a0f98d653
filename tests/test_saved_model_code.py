"""A SavedModel that reaches outside the model is refused before it is loaded."""

import os

import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.python.trackable.resource import CapturableResource

from sqp_tflite.errors import BadInputError
from sqp_tflite.source.load import load
from sqp_tflite.source.saved_model_code import refuse_code, suspects

L = keras.layers
SPEC = [tf.TensorSpec((1, 3))]


def writes(folder):
    class Writes(tf.Module):
        @tf.function(input_signature=SPEC)
        def __call__(self, x):
            tf.io.write_file(str(folder / "written"), "x")
            return {"y": x}

    return Writes()


def reads(folder):
    class Reads(tf.Module):
        @tf.function(input_signature=SPEC)
        def __call__(self, x):
            return {"y": x + tf.cast(tf.strings.length(tf.io.read_file(str(folder / "read"))), tf.float32)}

    return Reads()


def calls_python(folder):
    class CallsPython(tf.Module):
        @tf.function(input_signature=SPEC)
        def __call__(self, x):
            return {"y": tf.ensure_shape(tf.py_function(lambda v: v, [x], tf.float32), (1, 3))}

    return CallsPython()


def prints_to_a_file(folder):
    class Prints(tf.Module):
        @tf.function(input_signature=SPEC)
        def __call__(self, x):
            tf.print(x, output_stream=f"file://{folder / 'written'}")
            return {"y": x}

    return Prints()


def initialises(folder):
    class Resource(CapturableResource):
        def _create_resource(self):
            return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

        def _initialize(self):
            tf.io.write_file(str(folder / "written"), "x")

    class Initialises(tf.Module):
        def __init__(self):
            super().__init__()
            self.resource = Resource()
            self.resource.resource_handle  # noqa: B018  made when it is first asked for

        @tf.function(input_signature=SPEC)
        def __call__(self, x):
            return {"y": 2 * x}

    return Initialises()


STATELESS = {
    "DebugNanCount": lambda raw, x, folder: raw.DebugNanCount(
        input=x, device_name="", tensor_name="a:0", debug_urls=[f"file://{folder}/written"]
    ),
    "DebugIdentity": lambda raw, x, folder: raw.DebugIdentity(
        input=x, device_name="", tensor_name="a:0", debug_urls=[f"file://{folder}/written"]
    ),
    "ImmutableConst": lambda raw, x, folder: raw.ImmutableConst(
        dtype=tf.float32, shape=(1, 3), memory_region_name=f"{folder}/secret"
    ),
    "GenerateVocabRemapping": lambda raw, x, folder: raw.GenerateVocabRemapping(
        new_vocab_file=f"{folder}/a", old_vocab_file=f"{folder}/b", new_vocab_offset=0, num_new_vocab=1
    ).remapping,
    "DecodeProtoV2": lambda raw, x, folder: raw.DecodeProtoV2(
        bytes=tf.as_string(x), message_type="a", field_names=[], output_types=[], descriptor_source=f"{folder}/a"
    ).sizes,
    "Abort": lambda raw, x, folder: raw.Abort(error_msg="x", exit_without_error=True),
    "CopyHost": lambda raw, x, folder: raw.CopyHost(input=x, tensor_name="a:0", debug_ops_spec=["a;file:///b;0"]),
    "QueueSizeV2": lambda raw, x, folder: raw.QueueSizeV2(handle=raw.FIFOQueueV2(component_types=[tf.float32])),
}
"""Operators that TensorFlow does not call stateful, and one that is."""


@pytest.mark.parametrize("op", STATELESS)
def test_an_operator_that_is_told_a_place_outside_is_refused_though_it_keeps_no_state(op):
    with tf.Graph().as_default() as graph:
        STATELESS[op](tf.raw_ops, tf.compat.v1.placeholder(tf.float32, (1, 3), name="x"), "/nowhere")
    meta = MetaGraphDef(graph_def=graph.as_graph_def())
    assert op in {suspect.op for suspect in suspects(meta)}


SAYS = {
    "Timestamp": "reads the clock",
    "RangeDataset": "does work of its own in the background",
    "ReadFile": "reads or writes files",
    "EagerPyFunc": "calls Python",
    "CollectiveReduceV2": "talks to other processes or machines",
    "Abort": "ends the process",
    "StackV2": "may keep something besides the model's variables",
    "ImmutableConst": "is told a place",
    "TheirOwn": "is not one of TensorFlow's",
}


@pytest.mark.parametrize("op", SAYS)
def test_a_refusal_says_what_each_operator_does(op, tmp_path):
    meta = MetaGraphDef()
    meta.graph_def.node.add(name="n", op=op)
    (suspect,) = suspects(meta)
    assert suspect.does.startswith(SAYS[op])
    with pytest.raises(BadInputError, match=rf"{op} in `the main graph` \({SAYS[op]}"):
        refuse_code(tmp_path, [meta])


@pytest.mark.parametrize("op", ["CheckNumerics", "CheckNumericsV2", "TemporaryVariable", "DestroyTemporaryVariable"])
def test_what_keeps_to_the_model_is_no_reach(op):
    meta = MetaGraphDef()
    meta.graph_def.node.add(name="n", op=op)
    assert not list(suspects(meta))


def test_a_pipe_among_the_variables_is_refused_before_anybody_waits(tmp_path):
    module = tf.Module()
    module.w = tf.Variable([1.0])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    index = tmp_path / "saved" / "variables" / "variables.index"
    index.unlink()
    os.mkfifo(index)
    with pytest.raises(BadInputError, match="must be a regular file.*variables.index.*a pipe"):
        load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("make", "op"),
    [
        (writes, "WriteFile"),
        (reads, "ReadFile"),
        (calls_python, "EagerPyFunc"),
        (prints_to_a_file, "PrintV2"),
        (initialises, "WriteFile"),
    ],
)
def test_what_reaches_outside_is_refused_and_not_run(make, op, tmp_path):
    made = make(tmp_path)
    tf.saved_model.save(made, str(tmp_path / "saved"), signatures=made.__call__)
    (tmp_path / "written").unlink(missing_ok=True)
    with pytest.raises(BadInputError, match=f"outside the model.*{op} in `.*--trust-code"):
        refuse_code(tmp_path / "saved")
    assert not (tmp_path / "written").exists()


def of_tensorflow_1(folder, op):
    """Writes a model of TensorFlow 1 with an operator that nothing uses yet; returns its graph for changes."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (1, 3), name="x")
        y = tf.identity(x * v1.get_variable("w", (3,)), name="y")
        made = op(x)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})
    model = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    nodes = {node.name: node for node in model.meta_graphs[0].graph_def.node}
    return model, model.meta_graphs[0].saver_def, nodes, made.name


def test_a_plain_model_of_tensorflow_1_passes(tmp_path):
    of_tensorflow_1(tmp_path / "saved", lambda x: tf.exp(x).op)
    refuse_code(tmp_path / "saved")


@pytest.mark.parametrize(
    ("op", "where"),
    [
        (lambda path: lambda _: tf.io.write_file(path, "x"), "restore_op_name"),
        (lambda path: lambda x: tf.raw_ops.SaveV2(
            prefix=path, tensor_names=["x"], shape_and_slices=[""], tensors=[tf.zeros(1)]), "restore_op_name"),
        (lambda path: lambda _: tf.io.write_file(path, "x"), "save_tensor_name"),
    ],
)  # fmt: skip
def test_what_hides_where_variables_are_read_or_written_is_refused(op, where, tmp_path):
    """Loading a model of TensorFlow 1 runs the part of its graph that restores the variables."""
    model, saver, nodes, hidden = of_tensorflow_1(tmp_path / "saved", op(str(tmp_path / "written")))
    nodes[getattr(saver, where).partition(":")[0]].input.append(f"^{hidden}")
    (tmp_path / "saved" / "saved_model.pb").write_bytes(model.SerializeToString())
    with pytest.raises(BadInputError, match="outside the model.*(WriteFile|SaveV2) in `the main graph`"):
        load(tmp_path / "saved")
    assert not list(tmp_path.glob("written*"))


def test_variables_are_read_from_no_place_that_the_model_names(tmp_path):
    """A constant in place of the name that the loader gives would read any other checkpoint."""
    model, _, nodes, _ = of_tensorflow_1(tmp_path / "saved", lambda x: tf.exp(x).op)
    of_tensorflow_1(tmp_path / "other", lambda x: tf.exp(x).op)
    place = model.meta_graphs[0].graph_def.node.add(name="place", op="Const")
    place.attr["dtype"].type = tf.string.as_datatype_enum
    place.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(str(tmp_path / "other" / "variables" / "variables")))
    next(node for node in nodes.values() if node.op == "RestoreV2").input[0] = "place"
    (tmp_path / "saved" / "saved_model.pb").write_bytes(model.SerializeToString())
    with pytest.raises(BadInputError, match="outside the model.*RestoreV2 in `the main graph`"):
        load(tmp_path / "saved")


@pytest.mark.parametrize("deep", [False, True])
def test_a_function_that_restores_takes_the_place_as_an_argument(deep, tmp_path):
    """In a function that it calls, too, and in one that calls itself."""
    made = tf.Module()
    made.w = tf.Variable(tf.ones((3,)))
    signature = tf.function(lambda x: {"y": x * made.w}, input_signature=SPEC)
    tf.saved_model.save(made, str(tmp_path / "saved"), signatures=signature)
    graph = SavedModel.FromString((tmp_path / "saved" / "saved_model.pb").read_bytes()).meta_graphs[0]
    assert not list(suspects(graph))
    restore = next(f for f in graph.graph_def.library.function if any(n.op == "RestoreV2" for n in f.node_def))
    place = restore.node_def.add(name="place", op="Const")
    place.attr["dtype"].type = tf.string.as_datatype_enum
    if deep:
        call = restore.node_def.add(name="again", op="PartitionedCall", input=["place:output:0"])
        call.attr["f"].func.name = restore.signature.name
    else:
        next(node for node in restore.node_def if node.op == "RestoreV2").input[0] = "place:output:0"
    expected = {"PartitionedCall"} if deep else {"RestoreV2"}
    assert expected <= {suspect.op for suspect in suspects(graph)}


def test_saving_is_refused_where_it_would_be_run(tmp_path):
    """The part that saves is named as the model's output, so that comparing would write a file."""
    model, saver, nodes, _ = of_tensorflow_1(tmp_path / "saved", lambda x: tf.exp(x).op)
    nodes["y"].input.append(f"^{saver.save_tensor_name.partition(':')[0]}")
    (tmp_path / "saved" / "saved_model.pb").write_bytes(model.SerializeToString())
    with pytest.raises(BadInputError, match="outside the model.*SaveV2"):
        refuse_code(tmp_path / "saved")


def test_a_function_that_is_called_by_its_name_is_looked_through(tmp_path):
    model, *_ = of_tensorflow_1(tmp_path / "saved", lambda x: tf.exp(x).op)
    function = model.meta_graphs[0].graph_def.library.function.add()
    function.signature.name = "Exp"
    function.node_def.add(name="write", op="WriteFile")
    (tmp_path / "saved" / "saved_model.pb").write_bytes(model.SerializeToString())
    with pytest.raises(BadInputError, match="WriteFile in `Exp`"):
        refuse_code(tmp_path / "saved")


def test_loading_asks_first_and_goes_on_when_trusted(tmp_path):
    made = reads(tmp_path)
    tf.saved_model.save(made, str(tmp_path / "saved"), signatures=made.__call__)
    with pytest.raises(BadInputError, match="ReadFile.*--trust-code"):
        load(tmp_path / "saved")
    (tmp_path / "read").write_text("four")
    ((_, output),) = load(tmp_path / "saved", trust=True).call([tf.zeros((1, 3))]).items()
    assert output.numpy().tolist() == [[4.0, 4.0, 4.0]]


def test_a_signature_that_is_not_run_is_left_out(tmp_path):
    made = writes(tmp_path)
    made.twice = tf.function(lambda x: {"y": 2.0 * x}, input_signature=SPEC)
    made.again = tf.function(made.__call__, input_signature=SPEC)
    signatures = {"serving_default": made.twice, "export_log": made.again}
    tf.saved_model.save(made, str(tmp_path / "saved"), signatures=signatures)
    ((_, output),) = load(tmp_path / "saved").call([tf.ones((1, 3))]).items()
    assert output.numpy().tolist() == [[2.0, 2.0, 2.0]] and not (tmp_path / "written").exists()
    swapped = {"serving_default": made.again, "export_log": made.twice}
    tf.saved_model.save(made, str(tmp_path / "swapped"), signatures=swapped)
    with pytest.raises(BadInputError, match="WriteFile"):
        load(tmp_path / "swapped")


def test_a_long_list_is_shortened(tmp_path):
    class Writes(tf.Module):
        pass

    made = Writes()

    @tf.function(input_signature=SPEC)
    def call(x):
        for number in range(9):
            x = tf.cond(x[0, 0] > number, lambda x=x: write(x), lambda x=x: x)
        return {"y": x}

    def write(x):
        tf.io.write_file(str(tmp_path / "written"), "x")
        return x + 1.0

    made.call = call
    tf.saved_model.save(made, str(tmp_path / "saved"), signatures=call)
    with pytest.raises(BadInputError, match=r"and \d+ more") as caught:
        refuse_code(tmp_path / "saved")
    assert len(str(caught.value)) < 900


def test_models_of_keras_pass(tmp_path):
    i = keras.Input((5, 4))
    x = L.LSTM(3, return_sequences=True)(L.Dropout(0.5)(L.BatchNormalization()(i)))
    model = keras.Model(i, L.Dense(2, activation="gelu")(L.Flatten()(L.GRU(2, return_sequences=True)(x))))
    model.compile("adam", "mse")
    model.export(tmp_path / "exported", verbose=False)
    tf.saved_model.save(model, str(tmp_path / "saved"))
    refuse_code(tmp_path / "exported")
    refuse_code(tmp_path / "saved")


def test_tables_and_random_numbers_pass(tmp_path):
    pairs = tf.lookup.KeyValueTensorInitializer([1, 2], [3.0, 4.0], tf.int64, tf.float32)

    class Looks(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = tf.lookup.StaticHashTable(pairs, 0.0)

        @tf.function(input_signature=[tf.TensorSpec((1, 3), tf.int64)])
        def __call__(self, x):
            return {"y": self.table.lookup(x) + tf.random.normal((1, 3))}

    made = Looks()
    tf.saved_model.save(made, str(tmp_path / "saved"), signatures=made.__call__)
    refuse_code(tmp_path / "saved")


@pytest.mark.parametrize("content", [b"no protobuf", b"\x00" * 9])
def test_a_damaged_graph_is_said_in_one_line(content, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(BadInputError, match="readable SavedModel.*Save the model again"):
        refuse_code(tmp_path)

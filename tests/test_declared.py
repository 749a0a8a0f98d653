"""What a file declares is held against the limit before it is read; nothing large is read, written or kept."""

import io
import json
import os
import re
import tracemalloc
import zipfile
import zlib

import flatbuffers
import h5py
import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import sqp_tflite
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.limits import Limit
from sqp_tflite.run.reference import reference
from sqp_tflite.source import archives, arrays, declared
from sqp_tflite.source.load import InputSpec, load
from sqp_tflite.source.samples import open_data, samples
from written import Written

TIGHT = Limit(1 << 20, "a test")
HUGE = 10**12
ZEROS = bytes(4 << 20)
NPY = b"\x93NUMPY"


@pytest.fixture(autouse=True)
def little_memory(request):
    """Every case stays far below what its file declares."""
    if "command" in request.fixturenames:
        yield
        return
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a small model in three formats, and its file."""
    folder = tmp_path_factory.mktemp("declared")
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2, name="out")])
    model.save(folder / "net.keras")
    model.save(folder / "net.h5")
    model.export(folder / "saved", verbose=False)
    file, (kernel, bias) = Written(), model.get_weights()
    x = file.value(1, 3, name="x")
    parts = [file.constant(kernel.T, "kernel"), file.constant(bias, "bias")]
    out = file.op("FULLY_CONNECTED", x, *parts, shape=(1, 2), name="out", table="FullyConnectedOptions")
    (folder / "net.tflite").write_bytes(file.ends([x], [out]))
    np.savez(folder / "data.npz", x=np.ones((40, 3), np.float32))
    return folder


def zipped(path, members, directory=None, method=zipfile.ZIP_DEFLATED):
    """Writes an archive whose directory may tell other sizes than the truth.

    Args:
        path: Of the archive.
        members: Content by name.
        directory: Size by name, where the directory lies; the checksum is that of the bytes up to there.
        method: Of compression.
    """
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in members.items():
            made.writestr(name, content)
        for info in made.filelist:
            size = (directory or {}).get(info.filename)
            if size is not None:
                info.file_size, info.CRC = size, zlib.crc32(members[info.filename][:size])
    return path


def npy(shape, dtype="<f4", content=b"", version=1, length=None):
    """Returns an array in the .npy format that declares what it likes."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    size = (len(header) if length is None else length).to_bytes(2 if version == 1 else 4, "little")
    return NPY + bytes([version, 0]) + size + header + content


def weights(shape=(HUGE, 4), **options):
    """Returns an HDF5 file with a dataset that was never written."""
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file.create_dataset("layers/dense/vars/0", shape, "float32", **options)
    return made.getvalue()


CHUNKED = {"chunks": (1024, 4), "compression": "gzip"}
FEW = "Pass fewer samples|Make the file smaller"

DATA = {
    "a bomb": ({"x.npy": npy((1 << 20,), content=ZEROS)}, None, r"declares 1 part that unpack to 4.0 MiB"),
    "6.4 GB": ({"x.npy": npy((1600, 1000, 1000), content=b"0")}, {"x.npy": 6_400_000_128}, "unpack to 6.0 GiB"),
    "many parts": ({f"{i}.npy": npy((1 << 16,), content=bytes(1 << 18)) for i in range(5)}, None, "5 parts.*1.3 MiB"),
    "a header of 1e12 rows": ({"x.npy": npy((HUGE, 3))}, None, "x.npy` has 9.* bytes|10.9 TiB"),
    "1e12 rows in the directory too": ({"x.npy": npy((HUGE, 3))}, {"x.npy": 12 * HUGE + 100}, "10.9 TiB"),
    "a product over 64 bits": ({"x.npy": npy((1 << 40, 1 << 40))}, None, "a header that declares"),
    "rows below zero": ({"x.npy": npy((-1, 3))}, None, "declares the shape"),
    "one large element": ({"x.npy": npy((1,), "V2000000000")}, None, "1.9 GiB"),
    "a long header": ({"x.npy": npy((1,), version=2, length=(1 << 32) - 1)}, None, "header that declares 4.0 GiB"),
    "a directory that lies": ({"x.npy": npy((1 << 20,), content=ZEROS)}, {"x.npy": 100}, "in a file of 100 bytes"),
    "no array": ({"x.txt": ZEROS[:99]}, {"x.txt": 9}, "a part that is called `x.txt`"),
    "objects": ({"x.npy": npy((1,), "|O")}, None, "Python objects"),
    "brackets": ({"x.npy": NPY + b"\x01\x00\x00\x04" + b"[" * 1024}, None, "a damaged header"),
}


@pytest.mark.parametrize("case", DATA)
def test_data_that_declare_too_much_are_not_read(case, tmp_path):
    members, directory, words = DATA[case]
    path = zipped(tmp_path / "d.npz", members, directory)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(sqp_tflite.BadInputError, match=words) as raised:
        open_data(path, TIGHT)
    assert len(str(raised.value)) < 600 and "d.npz" in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy((HUGE, 3)), "a header that declares .*10.9 TiB, in a file of"),
        (npy((1 << 20,), content=ZEROS), r"declares float32 of shape \(1048576,\), which takes 4.0 MiB.*fewer samples"),
        (npy((2,), version=9, content=bytes(8)), "format version"),
        (NPY, "cut short"),
    ],
)
def test_an_array_that_declares_too_much_is_not_read(content, words, tmp_path):
    (tmp_path / "d.npy").write_bytes(content)
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        open_data(tmp_path / "d.npy", TIGHT)


def test_compression_that_unpacks_in_one_piece_is_refused(tmp_path):
    path = zipped(tmp_path / "d.npz", {"x.npy": npy((2,), content=bytes(8))}, method=zipfile.ZIP_BZIP2)
    with pytest.raises(sqp_tflite.BadInputError, match=r"compress.*stored"):
        open_data(path, TIGHT)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_plain_arrays_are_read_as_they_are(version, tmp_path):
    content = npy((2, 3), content=np.arange(6, dtype="<f4").tobytes(), version=version)
    path = zipped(tmp_path / "d.npz", {"a.npy": content, "b.npy": npy((), content=bytes(4))})
    held = arrays.read_arrays(path, TIGHT)
    assert sorted(held) == ["a", "b"] and held["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and held["b"].shape == ()


def test_samples_must_fit_in_the_type_of_the_model(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((500, 1000), np.uint8))
    opened = open_data(tmp_path / "d.npz", TIGHT)
    with pytest.raises(
        sqp_tflite.BadInputError, match="500 samples, takes 1.9 MiB.*Pass fewer samples.*--max-memory 2M"
    ):
        samples(opened, (InputSpec("x", (1000,), "float32"),), TIGHT)
    assert len(samples(opened, (InputSpec("x", (1000,), "float32"),), Limit(2 << 20, "--max-memory"))) == 500


def test_inputs_that_no_memory_holds_are_refused_without_data():
    with pytest.raises(sqp_tflite.BadInputError, match=r"32 samples, takes .*Make the inputs smaller"):
        samples(None, (InputSpec("x", (10**6, 10**6), "float32"),))


def changed(made, path, members=None, directory=None):
    """Writes the small model with other parts."""
    with zipfile.ZipFile(made / "net.keras") as stock:
        held = {name: stock.read(name) for name in stock.namelist()}
    return zipped(path, {**held, **(members or {})}, directory)


def wide(made, units):
    with zipfile.ZipFile(made / "net.keras") as stock:
        config = json.loads(stock.read("config.json"))
    config["config"]["layers"][-1]["config"]["units"] = units
    return json.dumps(config).encode()


KERAS = {
    "4 GB of weights": ({"model.weights.h5": ZEROS}, {"model.weights.h5": 4 << 30}, "unpack to 4.0 GiB", TIGHT),
    "a dataset never written": ({"model.weights.h5": weights(**CHUNKED)}, None, "declares weights.*14.6 TiB", None),
    "a contiguous one": ({"model.weights.h5": weights((HUGE // 1000, 4))}, None, "declares weights.*14.9 GiB", TIGHT),
    "2 GB of configuration": ({"config.json": b"{}"}, {"config.json": 1 << 41}, "unpack to 2.0 TiB", None),
    "configuration to be parsed": ({"config.json": b" " * (1 << 16)}, None, "config.json.*may take 2.0 MiB", TIGHT),
    "metadata to be parsed": ({"metadata.json": b" " * (1 << 16)}, None, "metadata.json.*may take 2.0 MiB", TIGHT),
    "a directory that lies": ({"config.json": ZEROS}, {"config.json": 9}, "declares 9 bytes.*and holds more", TIGHT),
    "one that exaggerates": ({"a.txt": b"12"}, {"a.txt": 5}, "declares 5 bytes.*holds only 2 bytes", TIGHT),
    "weights in arrays": ({"model.weights.npz": b"PK"}, None, "model.weights.npz` is damaged", TIGHT),
    "damaged weights": ({"model.weights.h5": b"\x89HDF\r\n\x1a\n"}, None, "damaged HDF5 file", TIGHT),
}


@pytest.mark.parametrize("case", KERAS)
def test_a_model_that_declares_too_much_is_not_read(case, made, tmp_path):
    members, directory, words, allowed = KERAS[case]
    path = changed(made, tmp_path / "m.keras", members, directory)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(sqp_tflite.BadInputError, match=words) as raised:
        load(path, allowed=allowed)
    assert len(str(raised.value)) < 600 and "m.keras" in str(raised.value)


@pytest.mark.parametrize("units", [10**6, 10**15])
def test_a_configuration_that_asks_for_too_many_weights_is_refused(units, made, tmp_path):
    path = changed(made, tmp_path / "m.keras", {"config.json": wide(made, units)})
    with pytest.raises(
        sqp_tflite.BadInputError, match=r"configuration of .*asks for weights of .*--max-memory \d+[MT]"
    ):
        load(path, allowed=TIGHT)


def test_a_member_is_read_in_pieces_and_whole(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a": ZEROS, "b": b"12"})
    with zipfile.ZipFile(path) as held:
        assert [len(piece) for piece in archives.pieces(held, held.getinfo("a"))] == [1 << 20] * 4
        assert archives.content(held, held.getinfo("b")) == b"12"


def h5(path, fill, **options):
    with h5py.File(path, "w", **options) as file:
        fill(file)
    return path


def virtual(file):
    layout = h5py.VirtualLayout((4,), "float32")
    layout[:] = h5py.VirtualSource("other.h5", "w", (4,))
    file.create_virtual_dataset("w", layout)


H5 = {
    "never written": (lambda f: f.create_dataset("w", (HUGE,), "float32", chunks=(1024,)), "`/w`.*3.6 TiB"),
    "compressed": (
        lambda f: f.create_dataset("a/w", data=np.zeros(1 << 19, np.float32), compression="gzip"),
        "`/a/w`.*2.0 MiB",
    ),
    "a chunk larger than its dataset": (
        lambda f: f.create_dataset("w", (1,), "float32", chunks=(1 << 20,), maxshape=(None,), compression="gzip"),
        "4.0 MiB",
    ),
    "a large element": (lambda f: f.create_dataset("w", (3,), "V1000000"), "2.9 MiB"),
    "a large attribute": (lambda f: f.attrs.create("a", np.zeros(1 << 18)), "2.0 MiB"),
    "a long configuration": (lambda f: f.attrs.create("model_config", " " * (1 << 20)), "1.0 MiB"),
    "a configuration to be parsed": (lambda f: f.attrs.create("model_config", " " * (1 << 16)), "may take 2.0 MiB"),
    "a link to another file": (
        lambda f: f.__setitem__("w", h5py.ExternalLink("o.h5", "/w")),
        "`/w` is in another file",
    ),
    "a virtual dataset": (virtual, "`/w` is in another file"),
    "an external dataset": (
        lambda f: f.create_dataset("w", (4,), "float32", external=[("raw", 0, 16)]),
        "`/w` is in another file",
    ),
}


@pytest.mark.parametrize("case", H5)
def test_an_hdf5_file_that_declares_too_much_is_not_read(case, tmp_path):
    fill, words = H5[case]
    path = h5(tmp_path / "m.h5", fill, libver="latest")
    with pytest.raises(sqp_tflite.BadInputError, match=words) as raised:
        load(path, allowed=TIGHT)
    assert len(str(raised.value)) < 600 and "m.h5" in str(raised.value)


def saved(made, path, change):
    """Writes the small SavedModel with a changed graph."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel.FromString((made / "saved" / "saved_model.pb").read_bytes())
    change(model.meta_graphs[0])
    path.mkdir()
    os.symlink(made / "saved" / "variables", path / "variables")
    (path / "saved_model.pb").write_bytes(model.SerializeToString())
    return path


def constant(nodes):
    node = nodes.add(name="big", op="Const")
    tensor = node.attr["value"].tensor
    tensor.dtype, _ = 1, tensor.float_val.append(0.0)
    for _ in range(2):
        tensor.tensor_shape.dim.add(size=10**7)


def variable(graph):
    node = next(node for node in graph.object_graph_def.nodes if node.HasField("variable"))
    node.variable.shape.dim.add(size=HUGE)


SAVED = {
    "a constant": (lambda graph: constant(graph.graph_def.node), "declares constants of 363.8 TiB"),
    "one in a function": (
        lambda graph: constant(graph.graph_def.library.function[0].node_def),
        "constants of 363.8 TiB",
    ),
    "a variable": (variable, r"declares variables of .* TiB"),
}


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("case", SAVED)
def test_a_saved_model_that_declares_too_much_is_not_loaded(case, trust, made, tmp_path):
    change, words = SAVED[case]
    with pytest.raises(sqp_tflite.BadInputError, match=words):
        load(saved(made, tmp_path / "m", change), trust=trust)


def test_the_index_of_stored_variables_counts(made, tmp_path):
    assert declared._stored(made / "saved") >= 4 * (3 * 2 + 2)
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "variables.index").write_bytes(b"nothing")
    with pytest.raises(sqp_tflite.BadInputError, match="variables of .* cannot be read.*save the model again"):
        declared._stored(tmp_path)


def shared(subgraphs=1, operators=1, inputs=1, metadata=0):
    """Returns a TFLite file whose lists name one part over and over."""
    builder = flatbuffers.Builder(1 << 16)
    numbers = builder.CreateNumpyVector(np.zeros(inputs, np.int32))
    schema.OperatorStart(builder)
    schema.OperatorAddInputs(builder, numbers)
    operator = schema.OperatorEnd(builder)
    name = builder.CreateString("n" * 100_000)
    schema.MetadataStart(builder)
    schema.MetadataAddName(builder, name)
    note = schema.MetadataEnd(builder)
    bulk = builder.CreateNumpyVector(np.zeros(1 << 16, np.uint8))
    schema.BufferStart(builder)
    schema.BufferAddData(builder, bulk)
    buffer = schema.BufferEnd(builder)
    operators = vector(builder, operator, operators)
    schema.SubGraphStart(builder)
    schema.SubGraphAddOperators(builder, operators)
    graph = schema.SubGraphEnd(builder)
    graphs, notes, buffers = (vector(builder, *part) for part in ((graph, subgraphs), (note, metadata), (buffer, 1)))
    schema.ModelStart(builder)
    schema.ModelAddSubgraphs(builder, graphs)
    schema.ModelAddMetadata(builder, notes)
    schema.ModelAddBuffers(builder, buffers)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def vector(builder, part, count):
    builder.StartVector(4, count, 4)
    for _ in range(count):
        builder.PrependUOffsetTRelative(part)
    return builder.EndVector()


@pytest.mark.parametrize(
    "parts", [{"operators": 2000, "inputs": 10_000}, {"subgraphs": 2000, "operators": 2000}, {"metadata": 5000}]
)
def test_a_tflite_file_that_names_one_part_over_and_over_is_not_unpacked(parts):
    content = shared(**parts)
    assert len(content) < 1 << 20
    with pytest.raises(sqp_tflite.BadInputError, match="declares more than it can hold.*damaged"):
        read(content)


@pytest.mark.parametrize(("offset", "size"), [(HUGE, 10), (8, HUGE), (1 << 63, 1 << 62)])
def test_buffers_beyond_the_end_of_a_tflite_file_are_refused(offset, size, made):
    model = schema.ModelT.InitFromPackedBuf((made / "net.tflite").read_bytes(), 0)
    model.buffers[1].data, model.buffers[1].offset, model.buffers[1].size = None, offset, size
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    with pytest.raises(sqp_tflite.BadInputError, match="damaged.*offsets point past the end"):
        read(bytes(builder.Output()))


def test_a_tflite_file_larger_than_the_limit_is_not_read(tmp_path):
    path = tmp_path / "m.tflite"
    path.touch()
    os.truncate(path, 8 << 30)  # Sparse: it takes no room on the disk.
    with pytest.raises(sqp_tflite.BadInputError, match=r"m.tflite` has 8.0 GiB; the limit is 1.0 MiB.*max-memory 8G"):
        sqp_tflite.inspect(path, max_memory=1 << 20)


@pytest.mark.parametrize("read_it", [sqp_tflite.inspect, load, open_data], ids=["a file", "a model", "data"])
def test_a_pipe_is_no_input(read_it, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(sqp_tflite.BadInputError, match="An input must be a regular file.*`.*pipe`, a pipe"):
        read_it(tmp_path / "pipe")


CALLS = {
    "export": ["sqp-export", "net.keras", "--data", "data.npz", "--dry-run"],
    "export of a SavedModel": ["sqp-export", "saved", "--dry-run"],
    "inspect": ["sqp-inspect", "net.tflite"],
    "check": ["sqp-check", "net.h5", "net.tflite"],
}


@pytest.mark.parametrize("case", CALLS)
def test_the_remedy_leads_to_success(case, made, command):
    """Each answer names a limit; with it the next step is reached, and the last one."""
    name, *given = CALLS[case]
    more = ["--max-memory", "16"]
    for _ in range(8):
        ran = command(name, *given, *more, cwd=made)
        if ran.code == 0:
            break
        assert ran.code == 2 and "What is read must fit into memory" in ran.err and "(--max-memory)" in ran.err
        assert ran.err.count("\n") == 1 and len(ran.err) < 600
        more = ["--max-memory", re.search(r"allow more with --max-memory (\w+)", ran.err)[1]]
    assert ran.code == 0 and more != ["--max-memory", "16"]


def test_names_from_a_file_reach_the_terminal_as_text_only(made, tmp_path, command):
    model = schema.ModelT.InitFromPackedBuf((made / "net.tflite").read_bytes(), 0)
    for tensor in model.subgraphs[0].tensors:
        tensor.name = b"\x1b[2J\nOK [red]" + b"x" * 100_000
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    (tmp_path / "a\nb\x1b[31m.tflite").write_bytes(bytes(builder.Output()))
    ran = command("sqp-inspect", "a\nb\x1b[31m.tflite", cwd=tmp_path)
    assert ran.code == 0 and "\x1b" not in ran.out + ran.err
    assert r"a\nb\x1b[31m.tflite" in ran.out and r"\x1b[2J\nOK [red]x" in ran.out
    assert max(map(len, ran.out.splitlines())) < 1000
    ran = command("sqp-export", "no\nmodel\x1b[31m" + "x" * 200, "--dry-run", cwd=tmp_path)
    assert ran.code == 2 and ran.err.count("\n") == 1 and r"no\nmodel\x1b[31mx" in ran.err


def test_a_bad_option_is_said_in_a_short_line(command):
    ran = command("sqp-export", "m.keras", "--no-such\x1b[31m" + "x" * 100_000)
    assert ran.code == 2 and len(ran.err) < 600 and "\x1b" not in ran.err


def test_hundreds_of_findings_are_counted_in_the_text_and_kept_in_json(made, tmp_path, command):
    model = schema.ModelT.InitFromPackedBuf((made / "net.tflite").read_bytes(), 0)
    graph = model.subgraphs[0]
    names = [f"Own{i}" for i in range(300)]
    for name in names:
        model.operatorCodes.append(schema.OperatorCodeT())
        model.operatorCodes[-1].builtinCode = model.operatorCodes[-1].deprecatedBuiltinCode = 32
        model.operatorCodes[-1].customCode, model.operatorCodes[-1].version = name.encode(), 1
        graph.operators.append(schema.OperatorT())
        graph.operators[-1].opcodeIndex = len(model.operatorCodes) - 1
        graph.operators[-1].inputs, graph.operators[-1].outputs = [graph.outputs[0]], [graph.outputs[0]]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    (tmp_path / "m.tflite").write_bytes(bytes(builder.Output()))
    ran = command("sqp-inspect", tmp_path / "m.tflite")
    assert ran.code == 1 and "... and 251 more: --json has all" in ran.out and len(ran.out.splitlines()) < 500
    ran = command("sqp-inspect", tmp_path / "m.tflite", "--json")
    assert len(json.loads(ran.out)["findings"]) == 301  # the interpreter's own words, and each operator


def test_outputs_for_all_samples_must_fit(made):
    loaded = load(made / "net.keras")
    given = samples(made / "data.npz", loaded.inputs)
    with pytest.raises(
        sqp_tflite.BadInputError, match="outputs of .* for 40 samples take 320 bytes.*Pass fewer samples"
    ):
        reference(loaded, given, allowed=Limit(319, "a test"))
    assert reference(loaded, given, allowed=Limit(320, "a test"))["out"].shape == (40, 2)

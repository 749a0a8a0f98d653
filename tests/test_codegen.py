"""Generated C equals TensorFlow Lite Micro in every bit, and asks for nothing but the compiler."""

import dataclasses
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest

from sqp_tflite import export
from sqp_tflite.cli import coding, commands
from sqp_tflite.codegen.arithmetic import Multiplier, multiplier, requantized
from sqp_tflite.codegen.elementwise import BUILDERS
from sqp_tflite.codegen.families import KERNELS, MOVERS
from sqp_tflite.codegen.naming import CStyle
from sqp_tflite.codegen.package import package
from sqp_tflite.codegen.plan import ALIASES, plan
from sqp_tflite.codegen.vectors import made_up
from sqp_tflite.errors import RefusedError
from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.edit import NewOp
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops import one_op
from sqp_tflite.ops.op_families import cases
from sqp_tflite.ops.policy import ADMITTED, kernels
from sqp_tflite.run.interpreters import RuntimeFailedError
from tools import host_code, nets, untrained, zoo
from written import Written, perceptron

ROOT = Path(__file__).parents[1]
DIGITS = (ROOT / "examples" / "firmware" / "digits" / "digits.tflite").read_bytes()
OPERATORS = (*BUILDERS, *KERNELS, *MOVERS, *ALIASES)
WITHOUT_FORM = {
    *((op, "int32") for op in ("ABS", "DIV", "GATHER", "NEG", "SQUARED_DIFFERENCE")),
    *(("DIV", "int8"), ("CAST", "float32")),
}
"""Types that the interpreter runs and that no model of ours has."""

RESCALING = frozenset(
    (
        *("ABS", "ADD", "BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "HARD_SWISH", "LEAKY_RELU"),
        *("MEAN", "MUL", "PRELU", "QUANTIZE", "RELU", "RSQRT", "SQUARED_DIFFERENCE", "SUB", "SUM", "TRANSPOSE_CONV"),
    )
)
"""Operators whose output has a scale of its own."""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def one_operator_models() -> list[host_code.Model]:
    """Returns a file for each operator and type that has a C form and that the interpreter runs."""
    found = []
    for case in cases(tuple(OPERATORS)):
        runs = case.dtype in kernels("tflm").get(case.op, ())
        if runs and (case.op, case.dtype) not in WITHOUT_FORM and "bool" not in case.dtype:
            found.append(host_code.coded(f"{case.op.lower()}_{case.dtype}", one_op.build(case)))
            if case.op in RESCALING and case.dtype in one_op.QUANTIZED:
                point = 11 if case.dtype == "int8" else 0
                other = dataclasses.replace(case.outputs[0], scale=case.outputs[0].scale * 1.37, zero_point=point)
                moved = dataclasses.replace(case, outputs=(other,))
                found.append(host_code.coded(f"{case.op.lower()}_{case.dtype}_rescaled", one_op.build(moved)))
    return found


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    pytest.importorskip("tflite_micro")
    models = one_operator_models()
    return models, host_code.compiled(models, tmp_path_factory.mktemp("operators"), (*host_code.C99, "-O1"))


def test_every_operator_equals_the_interpreter_in_every_bit(operators):
    models, library = operators
    wrong = {}
    for model in models:
        inputs = host_code.samples(model.graph, 64)
        count = host_code.different(host_code.run(library, model, inputs), host_code.expected(model, inputs))
        wrong |= {model.prefix: count} if count else {}
    assert wrong == {}
    assert len(models) > 60


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The committed int8 network that reads digits, with its C code and the library of it."""
    model = host_code.coded("digits", DIGITS)
    return model, host_code.compiled([model], tmp_path_factory.mktemp("digits"))


def test_a_network_equals_the_interpreter_on_thousands_of_inputs(digits):
    pytest.importorskip("tflite_micro")
    model, library = digits
    inputs = host_code.samples(model.graph, 3000)
    assert host_code.different(host_code.run(library, model, inputs), host_code.expected(model, inputs)) == 0


def test_a_wrong_weight_is_seen(digits, tmp_path):
    pytest.importorskip("tflite_micro")
    model, _ = digits
    first = model.code.source.index("digits_c1[")
    place = model.code.source.index("{\n", first) + 2
    end = model.code.source.index(",", place)
    planted = f"{model.code.source[:place]}  {int(model.code.source[place:end]) ^ 64}{model.code.source[end:]}"
    wrong = dataclasses.replace(model, code=dataclasses.replace(model.code, source=planted))
    inputs = host_code.samples(model.graph, 50)
    library = host_code.compiled([wrong], tmp_path)
    assert host_code.different(host_code.run(library, wrong, inputs), host_code.expected(model, inputs)) > 0


def test_writing_beside_the_arena_is_seen(digits, tmp_path):
    model, _ = digits
    planted = model.code.source.replace("(void)a;", f"a[{model.code.memory.size}] = 1;")
    wrong = dataclasses.replace(model, code=dataclasses.replace(model.code, source=planted))
    library = host_code.compiled([wrong], tmp_path)
    with pytest.raises(RuntimeError, match="beside its arena"):
        host_code.run(library, wrong, host_code.samples(model.graph, 1))


@pytest.mark.parametrize("optimised", ["-O2", "-Os", "-O3"])
def test_nothing_is_left_to_link(digits, tmp_path, optimised):
    model, _ = digits
    (tmp_path / "digits.h").write_text(model.code.header)
    (tmp_path / "digits.c").write_text(model.code.source)
    command = ["gcc", "-std=c99", optimised, *host_code.STRICT, "-c", "digits.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    listed = subprocess.run(["nm", "digits.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    kinds = {line.split()[-1]: line.split()[-2] for line in listed.splitlines()}
    assert {name for name, kind in kinds.items() if kind == "U"} <= {"_GLOBAL_OFFSET_TABLE_"}
    assert {name for name, kind in kinds.items() if kind in "TDBC"} == {"digits_run"}, "no state, one function"


@pytest.mark.parametrize(
    "compiler", [("g++", "-std=c++11", "-x", "c++"), ("clang", "-std=c99")], ids=lambda one: one[0]
)
def test_other_compilers_take_it_without_a_warning(operators, tmp_path, compiler):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"needs {compiler[0]}")
    models, _ = operators
    chosen = [model for model in models if model.prefix.endswith(("int8", "float32"))][::3]
    library = host_code.compiled(chosen, tmp_path, (*compiler, "-O1", "-ffp-contract=off"))
    for model in chosen:
        inputs = host_code.samples(model.graph, 8)
        assert host_code.different(host_code.run(library, model, inputs), host_code.expected(model, inputs)) == 0


def test_the_portable_forms_equal_the_instructions(operators, tmp_path):
    """The square root digit by digit, over numbers of every size, subnormal ones included."""
    models, library = operators
    roots = [model for model in models if model.prefix in ("sqrt_float32", "rsqrt_float32", "conv_2d_int8", "mul_int8")]
    flags = [f"-D{model.prefix.upper()}_PORTABLE" for model in roots]
    portable = host_code.compiled(roots, tmp_path, host_code.C99, *flags)
    assert len(roots) == 4
    for model in roots:
        inputs = host_code.samples(model.graph, 400)
        if model.graph.inputs[0].dtype == "float32":
            bits = np.random.default_rng(1).integers(0, 0x7F800000, inputs[0].shape, dtype=np.int64)
            inputs = (bits.astype(np.uint32).view(np.float32),)
        assert host_code.different(host_code.run(portable, model, inputs), host_code.run(library, model, inputs)) == 0


def packed(name: str, content: bytes, folder: Path) -> dict[str, str]:
    """Writes the folder of a model's code with made-up vectors, and returns its files."""
    graph = read(content)
    _, files = package(graph, CStyle(name), f"{name}.tflite", made_up(graph, content))
    for path, text in files.items():
        (folder / path).write_text(text)
    return files


MAIN = '#include "digits.h"\nstatic digits_memory memory;\nint main(void) { return (int)digits_selftest(&memory); }\n'


@pytest.mark.parametrize("flags", [(), ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")], ids=len)
def test_the_self_test_passes_and_sees_a_fault(tmp_path, flags):
    pytest.importorskip("tflite_micro")
    packed("digits", DIGITS, tmp_path)
    union = "typedef union { int64_t align; unsigned char bytes[DIGITS_SELFTEST_BYTES]; } digits_memory;\nstatic"
    (tmp_path / "main.c").write_text(MAIN.replace("static", union, 1))
    build = [
        "gcc",
        "-std=c99",
        "-O1",
        *host_code.STRICT,
        *flags,
        "main.c",
        "digits.c",
        "digits_selftest.c",
        "-o",
        "main",
    ]
    subprocess.run(build, cwd=tmp_path, check=True)
    assert subprocess.run(["./main"], cwd=tmp_path).returncode == 0
    source = (tmp_path / "digits.c").read_text()
    (tmp_path / "digits.c").write_text(source.replace("digits_clip8(", "1 + digits_clip8(", 2).replace("1 + ", "", 1))
    subprocess.run(build, cwd=tmp_path, check=True)
    assert subprocess.run(["./main"], cwd=tmp_path).returncode != 0


def test_the_same_model_gives_the_same_bytes_and_the_manifest_knows_them(tmp_path):
    pytest.importorskip("tflite_micro")
    first, second = packed("digits", DIGITS, tmp_path), packed("digits", DIGITS, tmp_path)
    assert first == second
    manifest = json.loads(first["digits_manifest.json"])
    for path, sha256 in manifest["files"].items():
        assert hashlib.sha256(first[path].encode()).hexdigest() == sha256
    assert manifest["source_sha256"] == hashlib.sha256(DIGITS).hexdigest()
    assert manifest["arena_bytes"] >= manifest["arena_lower_bound"] > 0


def test_every_reason_of_a_refusal_is_listed():
    case = next(iter(cases(("TANH",))))
    with pytest.raises(RefusedError, match="TANH has no C form") as caught:
        plan(read(one_op.build(case)))
    assert [finding.op for finding in caught.value.findings] == ["TANH"]


@pytest.mark.parametrize("fused", [4, 5, 99])
def test_what_is_fused_has_a_c_form_or_is_refused(fused):
    model = schema.unpack(bytes(perceptron()))
    model.subgraphs[0].operators[0].builtinOptions.fusedActivationFunction = fused
    with pytest.raises(RefusedError, match="FULLY_CONNECTED has one of RELU, RELU6, RELU_N1_TO_1 fused into it"):
        plan(read(schema.pack(model)))


def test_weights_that_are_not_finite_are_refused():
    with pytest.raises(RefusedError, match="must be finite, `kernel` has NaN in 16 of 16 values"):
        plan(read(perceptron(weights=np.full((4, 4), np.nan))))


@pytest.mark.parametrize(("ends", "name"), [("inputs", "x"), ("outputs", "y")])
def test_one_tensor_in_two_places_is_refused(ends, name):
    """The function would have a pointer for each, and TFLM reads the second."""
    model = schema.unpack(bytes(perceptron()))
    graph = model.subgraphs[0]
    setattr(graph, ends, [*getattr(graph, ends)] * 2)
    with pytest.raises(RefusedError, match=f"Each of the {ends} must be a tensor of its own. `{name}` is listed"):
        plan(read(schema.pack(model)))


def test_a_zero_point_that_is_no_code_is_refused():
    model = Written()
    x, y = (model.value(name=name, scale=0.5) for name in "xy")
    model.editor.set_scale(y, 0.5, 10**15)
    model.editor.add_op(NewOp("RELU", (x,), (y,)))
    with pytest.raises(RefusedError, match="A zero point must be from -128 to 127 for int8. `y` has another"):
        plan(read(model.ends([x], [y])))


def test_a_file_that_the_interpreter_does_not_run_is_refused_by_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(coding, "made_up", fails)
    (tmp_path / "net.tflite").write_bytes(DIGITS)
    with pytest.raises(RefusedError, match="does not run the file: it could not be prepared") as refusal:
        coding.coded(tmp_path / "net.tflite", None, prefix=None, section="", qualifier="const", max_memory=None)
    assert refusal.value.exit_code == 1


def fails(*_):
    raise RuntimeFailedError("it could not be prepared")


@pytest.mark.parametrize(("ends", "words"), [("outputs", "A file must have outputs"), ("inputs", "must have inputs")])
def test_a_file_needs_inputs_and_outputs(ends, words):
    model = schema.unpack(bytes(perceptron()))
    setattr(model.subgraphs[0], ends, [])
    with pytest.raises(RefusedError, match=words):
        plan(read(schema.pack(model)))


@pytest.mark.parametrize("op", ["EXP", "FLOOR_MOD", "ONE_HOT"])
def test_a_project_is_named_only_for_what_sqp_export_admits(op):
    case = next(iter(cases((op,))))
    with pytest.raises(RefusedError) as caught:
        plan(read(one_op.build(case)))
    (remedy,) = {finding.remedy for finding in caught.value.findings if finding.op == op}
    assert ("--emit project" in remedy) is (op in ADMITTED)
    assert ("--replace accurate" in remedy) is (op == "EXP")


def test_the_command_writes_a_folder_that_compiles(command, tmp_path):
    pytest.importorskip("tflite_micro")
    (tmp_path / "net.tflite").write_bytes(DIGITS)
    done = command("sqp-cc", tmp_path / "net.tflite")
    assert (done.code, done.err) == (0, "")
    assert "arena" in done.out
    subprocess.run(["gcc", "-std=c99", "-c", "net.c", "net_selftest.c"], cwd=tmp_path / "net_code", check=True)
    (tmp_path / "net_code" / "net.c").write_text("mine")
    done = command("sqp-cc", tmp_path / "net.tflite")
    assert done.code == 2 and "Only files that this program has made are replaced" in done.err


@pytest.mark.parametrize("shift", [-31, -8, -1, 0, 3])
def test_multipliers_round_twice(shift):
    by = Multiplier(1518500250, shift)
    values = np.array([0, 1, -1, 1000, -1000, 2**20 + 7, -(2**20) - 7, 2**27, -(2**27)])
    for value, made in zip(values.tolist(), requantized(values, by).tolist(), strict=True):
        product = (value << max(shift, 0)) * by.value
        # Half away from zero in the shift, half up in the product: gemmlowp's rule in exact integers.
        high = (product + 2**30) // 2**31
        right = max(-shift, 0)
        whole = (abs(high) + (2**right >> 1)) // 2**right
        assert made == (whole if high >= 0 else -whole)


def test_a_multiplier_holds_31_bits():
    for real in (0.75, 1e-4, 0.5, 3.7, 1 - 2**-40):
        by = multiplier(real)
        assert 2**30 <= by.value < 2**31
        assert by.value * 2.0 ** (by.shift - 31) == pytest.approx(real, rel=2**-30)


ZOO = [
    pytest.param(name, form, marks=() if (name, form) == ("Z16", "float32") else pytest.mark.large)
    for name in (*zoo.ENTRIES, *nets.NETS)
    for form in untrained.FORMS
]


@pytest.mark.parametrize(("name", "form"), ZOO)
def test_every_network_of_the_zoo_equals_the_interpreter(tmp_path, name, form):
    pytest.importorskip("tflite_micro")
    if (name, form) == ("token_classifier", "int16x8"):
        pytest.skip("not exported: no kernel looks up rows of int16")
    content = untrained.file_of(*untrained.model_of(name), form)
    model = host_code.coded("net", content)
    library = host_code.compiled([model], tmp_path)
    inputs = host_code.samples(model.graph, 200 if model.code.macs < 1_000_000 else 10)
    assert host_code.different(host_code.run(library, model, inputs), host_code.expected(model, inputs)) == 0


def test_the_example_is_what_the_command_writes_and_it_reads_a_digit(command, tmp_path):
    pytest.importorskip("tflite_micro")
    folder, source = ROOT / "examples" / "code", ROOT / "examples" / "firmware" / "digits" / "digits.tflite"
    done = command("sqp-cc", source, "-o", tmp_path / "digits")
    assert done.code == 0
    made = {path.name: path.read_text() for path in (tmp_path / "digits").iterdir()}
    held = {path.name: path.read_text() for path in (folder / "digits").iterdir()}
    assert made == held, "run `sqp-cc examples/firmware/digits/digits.tflite -o examples/code/digits`"
    program = tmp_path / "digit"
    build = [
        "gcc",
        "-std=c99",
        "-O2",
        *host_code.STRICT,
        folder / "main.c",
        folder / "digits" / "digits.c",
        "-o",
        program,
    ]
    subprocess.run(build, check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert printed.endswith("This is a 3.\n")


def test_an_export_emits_code_proven_with_its_data_or_writes_nothing(tmp_path):
    pytest.importorskip("tflite_micro")
    inputs = keras.Input((4, 4, 2), name="image")
    made = keras.layers.Conv2D(3, 1, activation="squareplus")(inputs)
    data = {"image": np.random.default_rng(0).normal(size=(20, 4, 4, 2)).astype(np.float32)}
    export(keras.Model(inputs, made), tmp_path / "net.tflite", data=data, emit=["code"])
    manifest = json.loads((tmp_path / "net_code" / "net_manifest.json").read_text())
    assert manifest["golden_vectors"] == 8
    larger = keras.layers.UpSampling2D(2, interpolation="bilinear")(made)
    with pytest.raises(RefusedError, match="RESIZE_BILINEAR has no C form") as caught:
        export(keras.Model(inputs, larger), tmp_path / "up.tflite", data=data, emit=["code"])
    assert caught.value.report.verdict == "refused"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("up")]


L = keras.layers
GEOMETRIES = {
    "groups": lambda: [L.Conv2D(8, 3, groups=2, padding="same", activation="relu")],
    "groups of one": lambda: [L.Conv2D(12, (2, 3), groups=4, strides=2, activation="squareplus")],
    "dilation": lambda: [L.Conv2D(6, 3, dilation_rate=2, padding="same", activation="relu6")],
    "strides": lambda: [L.Conv2D(5, (5, 2), strides=(2, 3), padding="same"), L.AveragePooling2D(2, padding="same")],
    "multiplier": lambda: [L.DepthwiseConv2D(3, depth_multiplier=2, padding="same", activation="relu")],
    "uneven depthwise": lambda: [L.DepthwiseConv2D((3, 2), strides=2, padding="same"), L.Conv2D(3, 1)],
    "wide depthwise": lambda: [L.DepthwiseConv2D((9, 5), padding="same", activation="squareplus")],
    "transposed": lambda: [L.Conv2DTranspose(3, 3, strides=2, padding="same", activation="relu")],
    "transposed apart": lambda: [L.Conv2DTranspose(5, 2, strides=(1, 3), padding="valid")],
    "pool": lambda: [L.Conv2D(6, 3, padding="same", activation="squareplus"), L.MaxPooling2D((2, 3)), L.Conv2D(4, 1)],
    "pools": lambda: [L.Conv2D(6, 3, activation="relu"), L.MaxPooling2D(3, strides=2), L.GlobalAveragePooling2D()],
    "moved": lambda: [L.UpSampling2D((2, 3)), L.ZeroPadding2D(((1, 2), (0, 3))), L.Cropping2D(1), L.Permute((3, 1, 2))],
    "slopes": lambda: [L.Conv2D(6, 1), L.PReLU(shared_axes=[1, 2]), L.LeakyReLU(negative_slope=0.2), L.Conv2D(2, 1)],
}


@pytest.mark.large
@pytest.mark.parametrize("form", untrained.FORMS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_geometry_equals_the_interpreter(tmp_path, name, form):
    pytest.importorskip("tflite_micro")
    image = keras.Input((9, 7, 4), name="image")
    made = image
    for layer in GEOMETRIES[name]():
        made = layer(made)
    data = {"image": np.random.default_rng(0).normal(size=(24, 9, 7, 4)).astype(np.float32)}
    model = host_code.coded("net", untrained.file_of(keras.Model(image, made), data, form))
    library = host_code.compiled([model], tmp_path)
    inputs = host_code.samples(model.graph, 100)
    assert host_code.different(host_code.run(library, model, inputs), host_code.expected(model, inputs)) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_file_with_one_byte_changed_becomes_code_or_a_message(seed, tmp_path, capfd):
    """Any byte: what no list of faults foresees is a message, too, and leaves nothing behind."""
    rng = np.random.default_rng(seed)
    whole = (Path(__file__).parent / "data" / "two_inputs_int8.tflite").read_bytes()
    for case in range(15):
        content = bytearray(whole)
        content[rng.integers(len(content))] = rng.integers(256)
        (tmp_path / "m.tflite").write_bytes(content)
        folder = tmp_path / f"code{case}"
        code = commands.cc_main([str(tmp_path / "m.tflite"), "-o", str(folder), "--quiet"])
        printed = capfd.readouterr().err
        assert code in (0, 1, 2) and "fault of the program" not in printed
        assert folder.exists() == (code == 0)
        assert bool(printed) == (code != 0)


def test_what_no_list_of_faults_foresees_is_a_message(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("sqp_tflite.cli.coding.plan", lambda _: {}["8"])
    file = Path(__file__).parent / "data" / "two_inputs_int8.tflite"
    assert commands.cc_main([str(file), "-o", str(tmp_path / "code")]) == 2
    assert "sqp-cc: SQP-E026: What a file declares must fit together" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []

"""What a firmware engineer gets compiles, is aligned, and passes its own self-test on the real interpreter."""

import dataclasses
import io
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import pytest

from sqp_tflite.codegen.literals import comment_text, float_text, string_text
from sqp_tflite.codegen.naming import identifier, ports
from sqp_tflite.emit import KINDS, CStyle, Golden, Material, artefacts, check_own, emit
from sqp_tflite.emit.golden import count_for
from sqp_tflite.emit.resolver import REGISTERED, method, resolver
from sqp_tflite.errors import BadInputError
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.audit import op_rows
from sqp_tflite.pipeline import export
from sqp_tflite.report import OpRow, Report
from sqp_tflite.run import arena, interpreters
from tools.mcu import emulator

HERE = Path(__file__).parent
FOR_A_CPU = tuple(kind for kind in KINDS if kind != "vela")
DECLARATIONS = HERE / "tflm_declarations"
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wcast-align"]
LANGUAGES = {"c99": ["gcc", "-std=c99"], "c11": ["gcc", "-std=c11"], "c++11": ["g++", "-std=c++11", "-x", "c++"]}
CORES = {"cortex-m0": ["-mcpu=cortex-m0", "-mthumb"], "cortex-m4": ["-mcpu=cortex-m4", "-mthumb"]}
HARD_FLOAT = ["-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
LOADER = """
import ctypes, sys
from pathlib import Path
import tflite_micro
native, = Path(tflite_micro.__path__[0]).rglob("_runtime*.so")
ctypes.CDLL(str(native), mode=ctypes.RTLD_GLOBAL)
sys.exit(ctypes.CDLL(sys.argv[1]).main())
"""


def material(name: str, style: CStyle | None = None) -> Material:
    content = (HERE / "data" / name).read_bytes()
    graph = read(content)
    generator = np.random.default_rng(7)
    inputs = tuple(generator.normal(size=(3, *tensor.shape[1:])).astype("float32") for tensor in graph.inputs)
    codes = tuple(interpreters.encode(values, tensor) for values, tensor in zip(inputs, graph.inputs, strict=True))
    golden = Golden(codes, interpreters.run("tflm", content, inputs).codes, "tflite-micro")
    report = Report("ok", "two_inputs.keras", "tflm", "int8", "algebraic", ops=op_rows(graph))
    return Material(content, graph, report, style or CStyle(), arena.measure(content), golden)


@pytest.fixture(scope="module")
def materials():
    pytest.importorskip("tflite_micro", reason="golden outputs come from the interpreter of the tflite-micro wheel")
    return {kind: material(f"two_inputs_{kind}.tflite") for kind in ("int8", "float32")}


def written(files: dict[str, bytes], folder: Path) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def compiled(command: list[str]) -> subprocess.CompletedProcess:
    if shutil.which(command[0]) is None:
        pytest.skip(f"The generated C was not compiled: no {command[0]} here. Install a C and C++ compiler.")
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compile_ok(command: list[str]) -> None:
    done = compiled(command)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def arm():
    try:
        emulator.ensure_toolchain()
    except emulator.ToolchainMissingError as error:
        pytest.skip(f"The generated C was not compiled for Cortex-M: {error}")


USE = """
#include "model_data.h"
#include "model_golden.h"
#include "model_runner.h"
const int shape[] = MODEL_INPUT_IMAGE_SHAPE;
int use(void) { return (int)model_data[4] + model_golden_input_image[0][0] + MODEL_OUTPUT_SCORES_ELEMENTS + shape[1]; }
"""


@pytest.mark.parametrize("kind", ["int8", "float32"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_c_files_compile_without_a_warning(materials, kind, language, tmp_path):
    folder = written(emit(["project"], materials[kind]), tmp_path) / "model"
    graph = materials[kind].graph
    name = identifier(graph.outputs[0].name).upper()
    (folder / "use.c").write_text(USE.replace("SCORES", name))
    for source in ("model_data.c", "model_golden.c", "use.c"):
        compile_ok([*LANGUAGES[language], *STRICT, "-c", str(folder / source), "-o", str(folder / "out.o")])


@pytest.mark.parametrize("core", CORES)
def test_c_files_compile_for_the_core_and_the_array_is_aligned_in_flash(arm, materials, core, tmp_path):
    folder = written(emit(["c", "golden"], materials["int8"]), tmp_path)
    flags = [*CORES[core], *(HARD_FLOAT if core == "cortex-m4" else [])]
    for source in ("model_data.c", "model_golden.c"):
        compile_ok(
            [
                "arm-none-eabi-gcc",
                "-std=c99",
                *flags,
                *STRICT,
                "-c",
                str(folder / source),
                "-o",
                str(folder / f"{source}.o"),
            ]
        )
    section, alignment = section_of(folder / "model_data.c.o", "model_data", "arm-none-eabi-")
    assert section.startswith(".rodata")
    assert alignment == 16


def section_of(object_file: Path, symbol: str, tools: str = "") -> tuple[str, int]:
    """Returns a symbol's section and its alignment, from readelf."""
    symbols = subprocess.run([f"{tools}readelf", "-sW", str(object_file)], capture_output=True, text=True, check=True)
    number = next(line.split()[6] for line in symbols.stdout.splitlines() if line.split()[-1:] == [symbol])
    sections = subprocess.run([f"{tools}readelf", "-SW", str(object_file)], capture_output=True, text=True, check=True)
    row = next(line for line in sections.stdout.splitlines() if re.match(rf"\s*\[\s*{number}\]", line))
    fields = row.split("]")[1].split()
    return fields[0], int(fields[-1])


def test_the_alignment_check_sees_an_array_that_is_not_aligned(arm, materials, tmp_path):
    folder = written(emit(["c"], materials["int8"]), tmp_path)
    source = (folder / "model_data.c").read_text().replace("MODEL_ALIGN const", "const")
    (folder / "model_data.c").write_text(source)
    command = ["arm-none-eabi-gcc", *CORES["cortex-m4"], "-Os", "-c", str(folder / "model_data.c")]
    compile_ok([*command, "-o", str(folder / "out.o")])
    assert section_of(folder / "out.o", "model_data", "arm-none-eabi-")[1] < 16


@pytest.mark.parametrize(
    ("qualifier", "section", "where"), [("", "", ".data"), ("const", ".model_flash", ".model_flash")]
)
def test_qualifier_and_section_move_the_array(materials, qualifier, section, where, tmp_path):
    style = CStyle("net", section, qualifier)
    folder = written(emit(["c"], dataclasses.replace(materials["int8"], style=style)), tmp_path)
    for language in LANGUAGES.values():
        compile_ok([*language, *STRICT, "-c", str(folder / "net_data.c"), "-o", str(folder / "out.o")])
    assert section_of(folder / "out.o", "net_data")[0] == where


def test_two_models_in_one_program_share_no_symbol(materials, tmp_path):
    objects = []
    for prefix, kind in (("gesture", "int8"), ("keyword", "float32")):
        files = emit(["c", "golden"], dataclasses.replace(materials[kind], style=CStyle(prefix)))
        folder = written(files, tmp_path)
        for part in ("data", "golden"):
            objects.append(str(folder / f"{prefix}_{part}.o"))
            compile_ok(["gcc", "-std=c99", *STRICT, "-c", str(folder / f"{prefix}_{part}.c"), "-o", objects[-1]])
    (tmp_path / "both.c").write_text(
        '#include "gesture_data.h"\n#include "keyword_data.h"\n'
        "int main(void) { return (int)(gesture_data_size != GESTURE_SIZE || keyword_data_size != KEYWORD_SIZE); }\n"
    )
    compile_ok(["gcc", "-std=c99", *STRICT, str(tmp_path / "both.c"), *objects, "-o", str(tmp_path / "both")])
    assert subprocess.run([str(tmp_path / "both")], check=False).returncode == 0


def test_the_array_holds_the_file_byte_for_byte(materials):
    source = emit(["c"], materials["int8"])["model_data.c"].decode()
    body = source.split("{", 1)[1].split("}")[0]
    assert bytes(int(word, 16) for word in re.findall(r"0x(..)", body)) == materials["int8"].model


def test_header_names_every_input_and_output_with_its_numbers(materials):
    header = emit(["c"], materials["int8"])["model_data.h"].decode()
    defined = dict(re.findall(r"#define (\w+) (.+)", header))
    quantization = materials["int8"].graph.inputs[0].quantization
    assert defined["MODEL_INPUT_IMAGE_INDEX"] == "0"
    assert defined["MODEL_INPUT_EXTRA_INDEX"] == "1"
    assert defined["MODEL_INPUT_IMAGE_SHAPE"] == "{1, 16, 16, 1}"
    assert defined["MODEL_INPUT_IMAGE_DTYPE"] == '"int8"'
    assert np.float32(defined["MODEL_INPUT_IMAGE_SCALE"].rstrip("f")) == np.float32(quantization.scales[0])
    assert int(defined["MODEL_INPUT_IMAGE_ZERO_POINT"]) == quantization.zero_points[0]
    assert defined["MODEL_SHA256"] == f'"{materials["int8"].graph.sha256}"'
    assert "MODEL_INPUT_IMAGE_SCALE" not in emit(["c"], materials["float32"])["model_data.h"].decode()


def test_resolver_has_each_op_once_with_the_layers_behind_it(materials):
    text = emit(["resolver"], materials["int8"])["model_op_resolver.h"].decode()
    used = {op.name for _, op in materials["int8"].graph.all_ops()}
    assert f"kCount = {len(used)};" in text
    assert sorted(re.findall(r"resolver\.(\w+)\(\)", text)) == sorted(method(name) for name in used)
    assert "// CONV_2D version 3, int8, once: " in text


def test_resolver_refuses_what_tflm_cannot_register(materials):
    graph = materials["int8"].graph
    ops = tuple(dataclasses.replace(op, name="GELU") for op in graph.main.ops)
    changed = dataclasses.replace(graph, subgraphs=(dataclasses.replace(graph.main, ops=ops),))
    with pytest.raises(BadInputError, match="Received: GELU"):
        resolver(dataclasses.replace(materials["int8"], graph=changed))


def test_every_registered_op_has_a_kernel_in_the_interpreter():
    tflite_micro = pytest.importorskip("tflite_micro")
    (native,) = Path(tflite_micro.__path__[0]).rglob("_runtime*.so")
    content = native.read_bytes()
    # L2_NORMALIZATION's kernel is called L2NORM_REF in the binary.
    missing = [op for op in REGISTERED if f"Register_{op}".encode() not in content and op != "L2_NORMALIZATION"]
    assert missing == []


@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_the_generated_self_test_passes_on_the_real_interpreter(materials, kind, tmp_path):
    folder = written(emit(["project"], materials[kind]), tmp_path) / "model"
    done = self_test(folder)
    lines = done.stderr.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[1:] == ["vector 0: ok (0 wrong)", "vector 1: ok (0 wrong)", "vector 2: ok (0 wrong)", "PASS"]
    assert lines[0] == f"arena: {materials[kind].arena.needed} bytes"


FAULTS = {
    "a wrong golden output": ("model_golden.c", r"(model_golden_output_\w+\[.*\n\s+\{\n\s+)(-?[\d.e-]+f?)", r"\g<1>99"),
    "an arena that is too small": ("model_arena.h", r"(BYTES) \d+", r"\1 1024"),
    "a resolver without room": ("model_op_resolver.h", r"kCount = \d+", "kCount = 2"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_generated_self_test_fails_on(materials, fault, tmp_path):
    folder = written(emit(["project"], materials["int8"]), tmp_path) / "model"
    name, pattern, replacement = FAULTS[fault]
    text, changed = re.subn(pattern, replacement, (folder / name).read_text(), count=0 if "arena" in name else 1)
    assert changed
    (folder / name).write_text(text)
    done = self_test(folder)
    assert done.returncode == 1
    assert "FAIL" in done.stderr


@pytest.fixture(scope="module")
def stepped():
    """The project of one time step of a recurrent model, whose first state is not 0."""
    keras.utils.set_random_seed(0)
    gates = {"activation": "squareplus", "recurrent_activation": "hard_sigmoid"}
    x = keras.Input((8, 2), name="x")
    y = keras.layers.Conv1D(3, 2, padding="causal", name="conv")(x)
    y = keras.layers.LSTM(3, name="lstm", **gates)(
        y, initial_state=[np.full((1, 3), v, "float32") for v in (0.5, -0.5)]
    )
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (32, 8, 2)).astype("float32")}
    model = keras.Model(x, keras.layers.Dense(2, name="out")(y))
    options = {"quantize": "int8", "lowering": "table", "emit": "project", "c_style": CStyle("net")}
    return export(model, step=True, data=data, **options).files


def test_the_runner_of_a_time_step_keeps_its_states(stepped, tmp_path):
    done = self_test(written(stepped, tmp_path) / "net", "net")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-9:] == [*(f"step {place}: ok (0 wrong)" for place in range(8)), "PASS"]
    header = (tmp_path / "net" / "net_runner.h").read_text()
    assert "int net_step(const int8_t* in_x, int8_t* out_out);" in header and "void net_reset(void);" in header


def test_a_runner_that_forgets_its_states_fails_the_self_test(stepped, tmp_path):
    runner = written(stepped, tmp_path) / "net" / "net_runner.cc"
    text, changed = re.subn(r"  memcpy\(now_\w+, net_output.*\n", "", runner.read_text())
    assert changed == 3
    runner.write_text(text)
    done = self_test(runner.parent, "net")
    assert done.returncode > 0 and "FAIL" in done.stderr


OFF = {"int8": {1: 0, -1: 0, 2: 1, -2: 1}, "float32": {4e-6: 0, -4e-6: 0, 3e-5: 1, -3e-5: 1}}
"""How far one golden output is moved (steps; share of the largest output), and the exit code of the self-test."""


@pytest.mark.parametrize(("kind", "by", "code"), [(kind, by, code) for kind in OFF for by, code in OFF[kind].items()])
def test_the_generated_self_test_tolerates_a_rounding_and_no_more(materials, kind, by, code, tmp_path):
    vectors = materials[kind].golden
    first, *others = (values.copy() for values in vectors.outputs)
    place = np.unravel_index(np.abs(first.astype("int32") if kind == "int8" else first).argmin(), first.shape)
    first[place] += by if kind == "int8" else by * np.abs(first).max()
    moved = dataclasses.replace(materials[kind], golden=dataclasses.replace(vectors, outputs=(first, *others)))
    done = self_test(written(emit(["project"], moved), tmp_path) / "model")
    assert done.returncode == code, done.stderr
    assert done.stderr.count("differs (1 wrong)") == code


def self_test(folder: Path, prefix: str = "model", more: Sequence[str] = ()) -> subprocess.CompletedProcess:
    """Builds the folder's program as a library and calls its main beside the interpreter of the wheel."""
    objects = []
    for source in (f"{prefix}_data.c", f"{prefix}_golden.c"):
        objects.append(str(folder / f"{source}.o"))
        compile_ok(["gcc", "-std=c99", "-fPIC", *STRICT, "-c", str(folder / source), "-o", objects[-1]])
    names = ("self_test/main.cc", f"{prefix}_self_test.cc", f"{prefix}_runner.cc")
    sources = [str(folder / source) for source in names]
    library = str(folder / "self_test.so")
    flags = ["-std=c++11", "-fPIC", "-shared", *STRICT, "-Wno-cast-align", f"-I{DECLARATIONS}", f"-I{folder}", *more]
    compile_ok(["g++", *flags, *sources, *objects, "-o", library])
    return subprocess.run([sys.executable, "-c", LOADER, library], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("standard", ["c++11", "c++17"])
def test_the_generated_code_also_compiles_where_tflm_keeps_its_classes_in_tflite(materials, standard, tmp_path):
    folder = written(emit(["project"], materials["int8"]), tmp_path) / "model"
    for source in ("self_test/main.cc", "model_self_test.cc", "model_runner.cc"):
        flags = [f"-std={standard}", *STRICT, "-Wno-cast-align", "-DOLD_NAMESPACE", f"-I{DECLARATIONS}", f"-I{folder}"]
        compile_ok(["g++", *flags, "-c", str(folder / source), "-o", str(folder / "out.o")])


def test_cmake_builds_what_needs_no_tflm(materials, tmp_path):
    folder = written(emit(["project"], materials["int8"]), tmp_path) / "model"
    compile_ok(["cmake", "-S", str(folder), "-B", str(folder / "build")])
    compile_ok(["cmake", "--build", str(folder / "build")])
    assert (folder / "build" / "libmodel_artifacts.a").is_file()


@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_quantize_and_real_are_those_of_the_runtime(materials, kind, tmp_path):
    folder = written(emit(["project"], materials[kind]), tmp_path) / "model"
    if kind == "float32":
        assert "model_quantize" not in (folder / "model_runner.h").read_text()
        return
    tensor = materials[kind].graph.inputs[0]
    scale, zero = tensor.quantization.scales[0], tensor.quantization.zero_points[0]
    reals = np.float32([0, scale * 0.49, -scale * 0.49, 1, -1, scale * (127 - zero), scale * (-128 - zero), 1e6, -1e6])
    listed = ", ".join(float_text(value) for value in reals)
    (folder / "ask.c").write_text(
        '#include <stdio.h>\n#include "model_runner.h"\nint main(void) {\n'
        f"  const float reals[] = {{{listed}}};\n"
        f'  for (int i = 0; i < {len(reals)}; ++i) printf("%d\\n", model_quantize_image(reals[i]));\n  return 0;\n}}\n'
    )
    compile_ok(["gcc", "-std=c99", *STRICT, str(folder / "ask.c"), "-lm", "-o", str(folder / "ask")])
    done = subprocess.run([str(folder / "ask")], capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == interpreters.encode(reals, tensor).tolist()


def test_npz_holds_the_golden_vectors(materials):
    held = np.load(io.BytesIO(emit(["golden"], materials["int8"])["model_golden.npz"]))
    assert np.array_equal(held["input_image"], materials["int8"].golden.inputs[0])
    assert len([name for name in held.files if name.startswith("output_")]) == 2


def test_every_file_is_known_before_and_says_who_made_it(materials, tmp_path):
    for kind in (*FOR_A_CPU, FOR_A_CPU):
        kinds = [kind] if isinstance(kind, str) else kind
        files = emit(kinds, materials["int8"])
        assert sorted(files) == sorted(file.path for file in artefacts(kinds, "model"))
        written(files, tmp_path / kinds[0])
        check_own(tmp_path / kinds[0], artefacts(kinds, "model"))


def test_artefacts_are_the_same_every_time(materials):
    assert emit(FOR_A_CPU, materials["int8"]) == emit(FOR_A_CPU, materials["int8"])


BAD = {
    "an unknown kind": (lambda m: emit(["rust"], m), r"--emit must list one or more of c, resolver, golden, project"),
    "no compiled file": (lambda m: emit(["vela"], m), "--target ethos-u55"),
    "no golden vectors": (lambda m: emit(["golden"], dataclasses.replace(m, golden=None)), "must come from a run"),
    "no arena": (lambda m: emit(["project"], dataclasses.replace(m, arena=None)), "needs the measured arena"),
    "a keyword for a prefix": (lambda m: CStyle("class"), "must be a C identifier"),
    "a prefix with a blank": (lambda m: CStyle("my model"), "must be a C identifier"),
    "a section with a quote": (lambda m: CStyle("m", '.x"'), "must be a section's name"),
    "a qualifier with a brace": (lambda m: CStyle("m", "", "const {"), "must consist of words"),
    "vectors of another type": (
        lambda m: emit(
            ["golden"],
            dataclasses.replace(
                m, golden=Golden((m.golden.inputs[0].astype("f"), m.golden.inputs[1]), m.golden.outputs, "")
            ),
        ),
        "must have the file's types",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(materials, case):
    call, message = BAD[case]
    with pytest.raises(BadInputError, match=message):
        call(materials["int8"])


QUALIFIERS = [
    "static",
    "extern",
    "register",
    "int",
    "const const",
    "restrict",
    "const static",
    "9",
    "_Atomic",
    "const  x",
]


@pytest.mark.parametrize("qualifier", QUALIFIERS)
def test_a_qualifier_that_does_not_compile_is_refused(qualifier):
    with pytest.raises(BadInputError, match="each once: const, volatile, or a macro of the platform. Received"):
        CStyle(qualifier=qualifier)


@pytest.mark.parametrize("qualifier", ["", "const", "volatile", "const volatile", "const PROGMEM"])
def test_a_qualifier_that_is_taken_compiles(materials, qualifier, tmp_path):
    style = CStyle("net", "", qualifier)
    folder = written(emit(["c"], dataclasses.replace(materials["int8"], style=style)), tmp_path)
    command = ["gcc", "-std=c99", *STRICT, "-DPROGMEM=", "-c", str(folder / "net_data.c"), "-o"]
    compile_ok([*command, str(folder / "out.o")])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("serving_default_image:0", "serving_default_image_0"),
        ("Größe", "gr_e"),
        ("2nd", "n2nd"),
        ("a//b", "a_b"),
        ("*/", ""),
    ],
)
def test_identifiers(name, expected):
    assert identifier(name) == expected


def test_names_in_c_are_distinct_and_short():
    names = ("a_2", "a", "A", "b" * 100_000, "b" * 100_001, "_" * 300)
    found = [port.name for port in ports("OUTPUT", tuple(types.SimpleNamespace(name=name) for name in names))]
    assert found == ["a_2", "a", "a_2_2", "b" * 200, "b" * 200 + "_4", "5"]


def test_texts_cannot_leave_their_comment_or_string():
    assert "*/" not in comment_text('evil */ int x; /* "')
    assert string_text('a"b\\c??/\n') == "a'b/c? ?/_"


@pytest.mark.parametrize("value", [0.0, 1.0, -1.5, 3.4028235e38, 1e-45, 0.1, 123456789.0])
def test_float_literals_read_back_to_the_same_bits(value):
    text = float_text(value)
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", text) and ("." in text or "e" in text)
    assert np.float32(text[:-1]).tobytes() == np.float32(value).tobytes()


@pytest.mark.parametrize(("size", "count"), [(1, 8), (10_000, 3), (1_000_000, 1), (0, 8)])
def test_golden_vectors_fit_the_flash(size, count):
    assert count_for(size) == count


def test_op_comments_name_every_type(materials):
    rows = (OpRow("CONV_2D", "int8", 3, 1, ("a",)), OpRow("CONV_2D", "float32", 1, 2, ("b", "c")))
    report = dataclasses.replace(materials["int8"].report, ops=rows)
    text = resolver(dataclasses.replace(materials["int8"], report=report))["model_op_resolver.h"]
    assert "// CONV_2D version 3, int8, once: a\n  // CONV_2D version 1, float32, 2 times: b, c\n" in text

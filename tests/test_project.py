"""The emitted project as firmware engineers use it: without a C++ runtime, with a shared arena, in other builds."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from sqp_tflite.emit import CStyle, emit
from sqp_tflite.flatbuffer.edit import NewOp
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.run import interpreters
from test_emit import CORES, DECLARATIONS, HARD_FLOAT, HERE, LOADER, STRICT, arm, compile_ok, material, self_test
from test_emit import written as put
from written import Written

__all__ = ["arm"]

CXX = ["g++", "-std=c++11", "-fPIC", "-shared", *STRICT, "-Wno-cast-align"]


@pytest.fixture(scope="module")
def made():
    pytest.importorskip("tflite_micro", reason="golden outputs come from the interpreter of the tflite-micro wheel")
    return material("two_inputs_int8.tflite")


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return put(emit(["project"], made), tmp_path) / "model"


def called(folder: Path, source: str, *more: str) -> subprocess.CompletedProcess:
    """Compiles a program around the runner and calls its main beside the interpreter of the wheel."""
    (folder / "use.cc").write_text(source)
    objects = []
    for path in [*folder.glob("*.c"), *(Path(one) for one in more)]:
        objects.append(f"{path}.o")
        compile_ok(["gcc", "-std=c99", "-fPIC", *STRICT, "-c", str(path), "-o", objects[-1]])
    runners = [str(path) for path in (*folder.glob("*_runner.cc"), *folder.glob("*_self_test.cc"))]
    flags = [f"-I{DECLARATIONS}", f"-I{folder}"]
    compile_ok([*CXX, *flags, str(folder / "use.cc"), *runners, *objects, "-o", str(folder / "use.so")])
    loaded = [sys.executable, "-c", LOADER, str(folder / "use.so")]
    return subprocess.run(loaded, capture_output=True, text=True, check=False)


BEFORE = """
#include "model_runner.h"
#include "model_arena.h"
extern "C" int main() {
  if (model_run() != MODEL_NOT_PREPARED || model_arena_used() != 0) return 1;
  if (model_input_image() != nullptr || model_output_scores() != nullptr) return 2;
  alignas(16) static unsigned char memory[MODEL_ARENA_BYTES + 16];
  if (model_prepare_in(memory + 1, MODEL_ARENA_BYTES) != MODEL_SMALL_ARENA) return 3;
  if (model_prepare_in(memory, 512) != MODEL_SMALL_ARENA || model_input_image() != nullptr) return 4;
  for (int i = 0; i < 3; ++i) {
    if (model_prepare_in(memory, MODEL_ARENA_BYTES) != MODEL_OK || model_run() != MODEL_OK) return 5;
    if (model_arena_used() == 0 || model_self_test() != 0) return 6;
    model_release();
    model_release();
    if (model_run() != MODEL_NOT_PREPARED) return 7;
  }
  return 0;
}
"""


def test_before_prepare_there_is_an_error_and_afterwards_it_starts_anew(folder):
    output = re.search(r"model_output_\w+", (folder / "model_runner.h").read_text())[0]
    done = called(folder, BEFORE.replace("model_output_scores", output))
    assert done.returncode == 0, done.stderr


SHARED = """
#include "one_arena.h"
#include "one_runner.h"
#include "two_arena.h"
#include "two_runner.h"
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
alignas(16) static unsigned char memory[LARGER(ONE_ARENA_BYTES, TWO_ARENA_BYTES)];
extern "C" int main() {
  for (int i = 0; i < 2; ++i) {
    if (one_prepare_in(memory, sizeof memory) != ONE_OK || one_run() != ONE_OK) return 1;
    one_release();
    if (two_prepare_in(memory, sizeof memory) != TWO_OK || two_run() != TWO_OK) return 2;
    two_release();
  }
  return one_self_test() + two_self_test();
}
"""


def test_two_models_share_one_arena_as_the_readme_says(made, tmp_path):
    for prefix, kind in (("one", "int8"), ("two", "float32")):
        files = emit(["project"], material(f"two_inputs_{kind}.tflite", CStyle(prefix)))
        put({path.partition("/")[2]: content for path, content in files.items()}, tmp_path)
    done = called(tmp_path, SHARED)
    assert done.returncode == 0 and done.stderr.count("PASS") == 2, done.stderr


def test_the_smallest_arena_is_found_from_above(made, folder):
    done = self_test(folder, more=["-DMODEL_FIND_ARENA"])
    sizes = [int(size) for size in re.findall(r"arena of (\d+) bytes: ok", done.stderr)]
    assert sizes[0] == made.arena.needed and sizes == sorted(sizes, reverse=True)
    assert set(np.diff(sizes)) == {-16} and made.arena.head < sizes[-1] < made.arena.needed


def test_a_32_bit_target_gets_its_own_bound(made, folder, arm):
    source = folder / "size.c"
    source.write_text('#include "model_arena.h"\nint size = MODEL_ARENA_BYTES;\n')
    ran = subprocess.run(
        ["arm-none-eabi-gcc", *CORES["cortex-m4"], "-E", str(source)], capture_output=True, text=True, check=True
    )
    assert f"int size = {made.arena.high};" in ran.stdout and made.arena.high < made.arena.needed


UNWANTED = r"__cxa_|__gxx_|__aeabi_atexit|__dso_handle|_ZTI|_ZTV|__aeabi_unwind|(?<!_)\b(roundf|floorf)\b"


@pytest.fixture
def headers(tmp_path) -> str:
    """What the compiler for Cortex-M lacks without a C library: declarations of the few functions that are used."""
    (tmp_path / "libc").mkdir()
    copy = '#include <stddef.h>\nextern "C" void* memcpy(void*, const void*, size_t);\n'
    (tmp_path / "libc" / "string.h").write_text(copy)
    (tmp_path / "libc" / "math.h").write_text('extern "C" double fabs(double);\n')
    return f"-isystem{tmp_path / 'libc'}"


@pytest.mark.parametrize("fault", [False, True])
def test_the_runner_needs_no_c_plus_plus_runtime(folder, arm, headers, fault):
    """With the flags of the emitted CMakeLists.txt; `_ZTV` of the resolver is in TFLM's own template."""
    text = (folder / "CMakeLists.txt").read_text()
    flags = re.findall(
        r"(?:COMPILE_LANGUAGE:CXX>:)?(-f[\w-]+)", text.partition("add_compile_options(")[2].partition("\n\n")[0]
    )
    assert {"-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-ffunction-sections"} <= set(flags)
    runner = folder / "model_runner.cc"
    if fault:  # As a static object, as it was: its destructor is registered for the end of the program.
        planted = (
            "static MicroInterpreter held(model, *resolver, static_cast<uint8_t*>(memory), bytes);\n"
            "  (void)held;\n  MicroInterpreter* made"
        )
        runner.write_text(runner.read_text().replace("MicroInterpreter* made", planted, 1))
    target = [*CORES["cortex-m4"], *HARD_FLOAT, "-Os", "-std=c++17", *flags, headers, f"-I{DECLARATIONS}"]
    compile_ok(["arm-none-eabi-g++", *target, "-c", str(runner), "-o", str(folder / "runner.o")])
    ran = subprocess.run(
        ["arm-none-eabi-nm", "-u", str(folder / "runner.o")], capture_output=True, text=True, check=True
    )
    assert bool(re.search(UNWANTED, ran.stdout)) == fault, ran.stdout


def test_text_goes_through_the_hook(folder):
    """Builds for TARGET=cortex_m_generic print nothing until a function is registered."""
    (folder / "board.cc").write_text(
        "#include <stdio.h>\n"
        'extern "C" void model_print(const char* text) { fprintf(stderr, "UART: %s", text); }\n'
        'extern "C" void RegisterDebugLogCallback(void (*print)(const char*)) { print("registered\\n"); }\n'
    )
    done = self_test(folder, more=[str(folder / "board.cc"), "-DMODEL_NO_STDIO"])
    assert done.returncode == 0 and "UART: registered" in done.stderr, done.stderr


TYPES = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t"}


@pytest.mark.parametrize("scale", [0.5, 0.0280652, 1.0 / 3])
def test_codes_of_ties_and_beyond_are_those_of_quantize(made, folder, scale, tmp_path):
    """One rounding in C, in Python and in the interpreters: halves away from 0, NaN and infinities to the ends."""
    halves = np.arange(-140, 140, dtype=np.float32) * np.float32(scale) / 2
    near = [np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf)]
    inside = np.concatenate([halves, *near, np.float32([0, -0.0, 1000 * scale, -1000 * scale])])
    # What is no integer of 32 bits: the interpreters' conversion is undefined there.
    reals = np.concatenate([inside, np.float32([1e30, -1e30, np.inf, -np.inf, np.nan])])
    model = Written()
    x, codes = model.value(1, len(inside), name="x"), model.value(1, len(inside), name="codes", scale=scale)
    model.editor.add_op(NewOp("QUANTIZE", (x,), (codes,), "QuantizeOptions"))
    content = model.ends([x], [codes])
    tensor = read(content).outputs[0]
    python = interpreters.encode(reals, tensor)
    (row,) = interpreters.run("tflm", content, (inside[None],)).codes
    assert np.array_equal(row.ravel(), python[: len(inside)])
    (row,) = interpreters.run("litert", content, (inside[None],)).codes  # Its fast kernel rounds halves to even.
    apart = np.flatnonzero(row.ravel() != python[: len(inside)])
    steps = inside[apart] / np.float32(tensor.quantization.scales[0])
    assert np.abs(np.abs(steps - np.trunc(steps)) - 0.5).max() < 1e-5
    header = (folder / "model_runner.h").read_text()
    header = re.sub(r"MODEL_INPUT_IMAGE_SCALE", repr(float(tensor.quantization.scales[0])) + "f", header)
    (folder / "model_runner.h").write_text(re.sub(r"MODEL_INPUT_IMAGE_ZERO_POINT", "0", header))
    reals.tofile(tmp_path / "reals")
    (folder / "ask.c").write_text(
        '#include <stdio.h>\n#include "model_runner.h"\nint main(void) {\n  float real;\n'
        '  while (fread(&real, sizeof real, 1, stdin) == 1) printf("%d\\n", model_quantize_image(real));\n'
        "  return 0;\n}\n"
    )
    compile_ok(["gcc", "-std=c99", *STRICT, str(folder / "ask.c"), "-o", str(folder / "ask")])
    with open(tmp_path / "reals", "rb") as file:
        done = subprocess.run([str(folder / "ask")], stdin=file, capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == python.tolist()


ESP = """
function(idf_component_register)
  cmake_parse_arguments(GIVEN "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  message("SOURCES ${GIVEN_SRCS} IN ${GIVEN_INCLUDE_DIRS}")
endfunction()
set(ESP_PLATFORM 1)
include(${FOLDER}/CMakeLists.txt)
"""
ZEPHYR = """
function(zephyr_library_named)
endfunction()
function(zephyr_include_directories)
  message("IN ${ARGN}")
endfunction()
function(zephyr_library_sources)
  message("SOURCES ${ARGN}")
endfunction()
set(CONFIG_TENSORFLOW_LITE_MICRO 1)
include(${FOLDER}/CMakeLists.txt)
"""


@pytest.mark.parametrize(("script", "inner"), [(ESP, ""), (ZEPHYR, "zephyr")])
def test_other_build_systems_take_every_source_and_no_main(script, inner, folder, tmp_path):
    (tmp_path / "stub.cmake").write_text(script)
    command = ["cmake", f"-DFOLDER={folder / inner}", "-P", str(tmp_path / "stub.cmake")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    named = re.search(r"SOURCES (.*?)(?: IN|\n)", done.stderr)[1].replace(";", " ").split()
    listed = {(folder / inner / name).resolve() for name in re.findall(r"[\w./]+\.cc?", " ".join(named))}
    assert listed == {path.resolve() for path in (*folder.glob("*.c"), *folder.glob("*.cc"))}


def test_the_descriptions_of_libraries_are_well_formed(folder):
    pairs = dict(
        line.split("=", 1)
        for line in (folder / "library.properties").read_text().splitlines()
        if not line.startswith("#")
    )
    needed = "name version author maintainer sentence paragraph category url architectures includes"
    assert list(pairs) == needed.split() and all(pairs.values())
    assert (folder / pairs["includes"]).is_file() and re.fullmatch(r"\d+\.\d+\.\d+", pairs["version"])
    described = json.loads((folder / "library.json").read_text())
    taken = [entry[2:-1] for entry in described["build"]["srcFilter"] if entry.startswith("+<")]
    assert sorted(taken) == sorted(path.name for path in (*folder.glob("*.c"), *folder.glob("*.cc")))
    component = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert "espressif/esp-tflite-micro" in component["dependencies"]
    module = yaml.safe_load((folder / "zephyr" / "module.yml").read_text())
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    sketch = folder / "examples" / "model_self_test" / "model_self_test.ino"
    assert "model_self_test()" in sketch.read_text()
    # Arduino compiles what is in the folder itself: a main there would be a second one.
    assert not any("int main" in path.read_text() for path in folder.glob("*.cc"))


def test_a_sketch_compiles_and_calls_the_self_test(folder):
    """As Arduino does it: the sketch is C++ behind `#include <Arduino.h>`."""
    sketch = (folder / "examples" / "model_self_test" / "model_self_test.ino").read_text()
    board = (
        "#include <stdio.h>\n"
        "static struct { void begin(int) {} explicit operator bool() const { return true; }\n"
        '  void println(const char* text) { fprintf(stderr, "Serial: %s\\n", text); } } Serial;\n'
    )
    done = called(folder, board + sketch + '\nextern "C" int main() { setup(); loop(); return 0; }\n')
    assert done.returncode == 0 and "Serial: PASS" in done.stderr, done.stderr


def test_cmake_builds_the_self_test_for_a_core(folder, arm, headers, tmp_path):
    """The program's parts: there is no board to link for."""
    build = str(tmp_path / "build")
    options = {
        "CMAKE_TOOLCHAIN_FILE": folder / "arm-none-eabi.cmake",
        "CMAKE_CXX_FLAGS": headers,
        "TFLM_INCLUDE": DECLARATIONS,
    }
    defined = [f"-D{name}={value}" for name, value in options.items()]
    compile_ok(["cmake", "-S", str(folder), "-B", build, *defined])
    compile_ok(["cmake", "--build", build, "--target", "model"])
    assert (tmp_path / "build" / "libmodel.a").is_file()


def test_readme_names_every_file(folder):
    text = (folder / "README.md").read_text()
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "README.md":
            shown = path.relative_to(folder).as_posix()
            stem = re.sub(r"\.(c|cc|npz)$", "", path.name)
            assert shown in text or stem in text, shown


def test_no_text_of_the_project_derives_a_size_from_what_is_used():
    for path in (HERE.parent / "tflite/sqp_tflite/emit/templates/project").iterdir():
        assert not re.search(r"keep 16|what was used", path.read_text()), path.name

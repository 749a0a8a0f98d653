"""tflite/mcu/sqp.h against its Python reference: on the host as C99 and C++11, and on emulated Cortex-M cores."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mcu import count
from tools.mcu import emulator, jobs, reference, targets

CHECK = emulator.HERE / "check.c"
EDGES = emulator.HERE / "edges.c"
STRICT = ["-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", f"-I{emulator.INCLUDE}"]
HOST = {
    "c99": ["gcc", "-std=c99"],
    "c99, integer root by division": ["gcc", "-std=c99", "-DSQP_SQRT=SQP_SQRT_DIVIDE"],
    "c99, integer root bit by bit": ["gcc", "-std=c99", "-DSQP_SQRT=SQP_SQRT_BITWISE"],
    "c++11": ["g++", "-std=c++11", "-x", "c++"],
    "undefined behaviour": ["gcc", "-std=c99", "-fsanitize=undefined", "-fno-sanitize-recover=all"],
    "undefined behaviour, integer root by division": [
        *("gcc", "-std=c99", "-DSQP_SQRT=SQP_SQRT_DIVIDE", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    ],
}
CLANG = {
    "clang, c99": ["clang", "-std=c99"],
    "clang, integer root bit by bit": ["clang", "-std=c99", "-DSQP_SQRT=SQP_SQRT_BITWISE"],
}
EMULATED = [(core, std) for core in emulator.CORES for std in (("c99", "gnu11") if core.fused else ("c99",))]
WIDE_INT = "UINT_MAX == 0xFFFFFFFF && !SQP_ROOT_BITWISE"
INPUTS = jobs.float_inputs(6000)


def skip_aloud(request: pytest.FixtureRequest, reason: str) -> None:
    """Skips, and says so on the terminal: a quiet run shows no reasons."""
    request.config.pluginmanager.getplugin("terminalreporter").write_line(f"\n{reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def host(request):
    for compiler in ("gcc", "g++"):
        if shutil.which(compiler) is None:
            skip_aloud(request, f"The host checks of sqp.h did not run: no {compiler} here. Install gcc and g++.")


@pytest.fixture(scope="module")
def toolchain(request):
    try:
        emulator.ensure_toolchain()
    except emulator.ToolchainMissingError as error:
        skip_aloud(request, f"The checks on emulated Cortex-M cores did not run: {error}")


def with_fault(was: str, now: str) -> str:
    """Returns the text of sqp.h in which `now` is planted for `was`."""
    text = (emulator.INCLUDE / "sqp.h").read_text()
    assert text.count(was) == 1
    return text.replace(was, now)


def compile_host(compiler: list[str], source: Path, program: Path, include: Path = emulator.INCLUDE) -> None:
    subprocess.run([*compiler, f"-I{include}", *STRICT, str(source), "-lm", "-o", str(program)], check=True)


def differences_on_the_host(compiler: list[str], folder: Path) -> list[str]:
    compile_host(compiler, CHECK, folder / "check")
    jobs.write(folder / "in.bin", INPUTS)
    subprocess.run([str(folder / "check")], cwd=folder, check=True)
    return jobs.differences(jobs.read(folder / "out.bin", len(INPUTS)), INPUTS, fused=False)


@pytest.mark.parametrize("variant", HOST)
def test_every_kernel_matches_the_reference_bit_by_bit_on_the_host(host, variant, tmp_path):
    assert differences_on_the_host(HOST[variant], tmp_path) == []


@pytest.mark.large
@pytest.mark.parametrize("variant", CLANG)
def test_every_kernel_matches_the_reference_bit_by_bit_with_clang(request, variant, tmp_path):
    try:
        emulator.install(("clang",), lambda: shutil.which("clang") is not None)
    except emulator.ToolchainMissingError as error:
        skip_aloud(request, f"The checks with clang did not run: {error}")
    assert differences_on_the_host(CLANG[variant], tmp_path) == []


@pytest.mark.large
@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.name)
def test_every_kernel_gives_on_other_cores_what_it_gives_on_the_host(host, request, target, tmp_path):
    try:
        targets.ensure(target)
    except emulator.ToolchainMissingError as error:
        skip_aloud(request, f"The checks on {target.name} did not run: {error}")
    expected = targets.digest(targets.HOST, tmp_path)
    assert list(expected) == ["int16", "int8", "roots", "codes", "float"]
    assert targets.digest(target, tmp_path) == expected


@pytest.mark.large
def test_a_fault_of_16_bit_int_is_seen_on_avr(host, request, tmp_path):
    target = targets.TARGETS[0]
    try:
        targets.ensure(target)
    except emulator.ToolchainMissingError as error:
        skip_aloud(request, f"The checks on {target.name} did not run: {error}")
    (tmp_path / "sqp.h").write_text(with_fault(WIDE_INT, "1"))
    expected, found = targets.digest(targets.HOST, tmp_path), targets.digest(target, tmp_path, include=tmp_path)
    assert {name for name in expected if found[name] != expected[name]} >= {"int16"}


def narrow_int_compiler(request: pytest.FixtureRequest) -> list[str]:
    for compiler in (["clang", "--target=msp430", "-ffreestanding"], ["avr-gcc", "-mmcu=atmega1284p"]):
        if shutil.which(compiler[0]) is not None:
            return compiler
    return skip_aloud(request, "sqp.h was not compiled for 16-bit int: no clang and no avr-gcc. Install clang.")


@pytest.mark.parametrize("faulty", [False, True])
def test_nothing_is_cut_to_a_16_bit_int(request, faulty, tmp_path):
    compiler = narrow_int_compiler(request)
    (tmp_path / "string.h").write_text("#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n")
    (tmp_path / "unit.c").write_text('#include "sqp.h"\n')
    (tmp_path / "sqp.h").write_text(with_fault(WIDE_INT, "1") if faulty else (emulator.INCLUDE / "sqp.h").read_text())
    command = [*compiler, "-std=c99", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{tmp_path}"]
    done = subprocess.run([*command, str(tmp_path / "unit.c")], capture_output=True, text=True)
    assert ("__builtin_clz" in done.stderr) if faulty else (done.returncode == 0), done.stderr


@pytest.mark.large
def test_every_kernel_matches_the_reference_bit_by_bit_with_the_code_of_an_m23(toolchain, tmp_path):
    program = emulator.build(emulator.M23, CHECK, tmp_path)
    jobs.write(tmp_path / "in.bin", INPUTS)
    emulator.run(emulator.M23, program.path, tmp_path)
    assert jobs.differences(jobs.read(tmp_path / "out.bin", len(INPUTS)), INPUTS, fused=False) == []
    assert program.libm == ()


@pytest.mark.parametrize(("core", "standard"), EMULATED, ids=[f"{core.name}-{std}" for core, std in EMULATED])
def test_every_kernel_matches_the_reference_bit_by_bit_on_the_core(toolchain, core, standard, tmp_path):
    program = emulator.build(core, CHECK, tmp_path, standard=standard)
    jobs.write(tmp_path / "in.bin", INPUTS)
    emulator.run(core, program.path, tmp_path)
    answers = jobs.read(tmp_path / "out.bin", len(INPUTS))
    assert jobs.differences(answers, INPUTS, fused=standard != "c99") == []
    assert program.libm == ()


@pytest.mark.parametrize("method", ["SQP_SQRT_DIVIDE", "SQP_SQRT_BITWISE"])
def test_integer_root_rounds_as_the_machine_does_for_every_fraction(host, method, tmp_path):
    compile_host(["gcc", "-std=c99", f"-DSQP_SQRT={method}"], emulator.HERE / "roots.c", tmp_path / "roots")
    done = subprocess.run([str(tmp_path / "roots")], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


@pytest.mark.parametrize(
    ("was", "now", "seen_in"),
    [
        ("((root + 8) >> 4)", "(root >> 4)", "integer square root"),  # rounds down instead of to nearest
        ("(0.5f * b) / twice", "0.5f * twice - size", "stable"),  # the cancellation is back
        ("(0.5f * b) / twice", "(0.25f * b) / (0.5f * twice)", "stable, b=0.0"),  # 0/0 for the smallest numbers
        ("if (rest >= 0.5f)", "if (rest > 0.5f)", "int8 codes"),
        ("if (rest >= 0.5f)", "if (steps + 0.5f >= (float)code + 1.0f)", "int8 table (0.0"),  # rounds twice
        ("+ p->out_zero;", ";", "int8 without a table"),
        ("scale * ((float)code", "2 * scale * ((float)code", "reals"),
        ("(below >> 1) >> (31 - 2 * more)", "0u", "int16"),  # the fraction of b is lost
        ("middle[x[i]]", "middle[x[i] & 127]", "int8 kernel"),
        ("+ UINT32_C(23210)", "+ UINT32_C(29000)", "int16"),  # a poor first guess
    ],
)
def test_a_planted_fault_in_the_header_is_seen(host, was, now, seen_in, tmp_path):
    (tmp_path / "sqp.h").write_text(with_fault(was, now))
    shutil.copy(CHECK, tmp_path)
    compile_host(HOST["c99"], tmp_path / "check.c", tmp_path / "check", include=tmp_path)
    jobs.write(tmp_path / "in.bin", INPUTS)
    subprocess.run([str(tmp_path / "check")], cwd=tmp_path, check=True)
    found = jobs.differences(jobs.read(tmp_path / "out.bin", len(INPUTS)), INPUTS, fused=False)
    assert any(line.startswith(seen_in) for line in found), found


def test_the_reference_fuses_as_exact_arithmetic_does():
    # Oracle: long double has 64 bits; x*x has 48, so with c of like size the sum is exact and is rounded only once.
    generator = np.random.default_rng(5)
    x = generator.uniform(-4, 4, 20000).astype(np.float32)
    wide = x.astype(np.longdouble) ** 2 + np.longdouble(np.float32(1.5238))
    np.testing.assert_array_equal(
        reference.multiply_add(x, np.float32(1.5238), fused=True), wide.astype(np.float32), strict=True
    )


def test_reference_kernels_are_as_accurate_as_the_header_says():
    x = np.concatenate([np.linspace(-1e4, 1e4, 40001), np.linspace(-10, 10, 20001)]).astype(np.float32)
    exact = reference.exact(x, 4.0)
    # Each rounding is 2^-24. In the root s: of x*x and of the sum, both halved by the root, and its own; then x + s.
    root = np.sqrt(x.astype(np.float64) ** 2 + 4)
    assert np.max(np.abs(reference.plain(x, 4.0) - exact) / root) < 2 * 2.0**-24
    # As above for the right half, all of it relative, and one division for the left.
    assert np.max(np.abs(reference.stable(x, 4.0) / exact - 1)) < 4 * 2.0**-24


@pytest.mark.parametrize("job", jobs.INT8_JOBS)
def test_table_is_within_half_a_step_for_all_256_codes(job):
    b, in_scale, in_zero, out_scale, out_zero = job
    q = np.arange(-128, 128)
    steps = reference.exact((q - in_zero) * np.float64(np.float32(in_scale)), np.float32(b))
    steps = np.clip(steps / np.float64(np.float32(out_scale)) + out_zero, -128, 127)
    # Half a step, plus float32 rounding of a value of up to 2^9 steps.
    assert np.max(np.abs(reference.table(*job) - steps)) <= 0.5 + 2.0**-13


@pytest.mark.parametrize("job", jobs.INT16_JOBS)
def test_fixed_point_is_within_half_a_step_for_all_65536_codes(job):
    b, in_scale, out_scale = job
    q = np.arange(-32768, 32768)
    scale_in, scale_out = np.float64(np.float32(in_scale)), np.float64(np.float32(out_scale))
    steps = np.clip(reference.exact(q * scale_in, np.float32(b)) / scale_out, 0, 32767)
    # Half an output step, and what the header says: 0.001 input steps, and float32's rounding of the ratio and of b.
    allowed = 0.5 + 0.001 * scale_in / scale_out + steps * 2.0**-23
    wrong = np.abs(reference.fixed_point(*job) - steps) > allowed
    assert not wrong.any(), (q[wrong][:5], steps[wrong][:5])


def test_the_ends_of_all_ranges_are_safe(host, tmp_path):
    compile_host(HOST["undefined behaviour"], EDGES, tmp_path / "edges")
    done = subprocess.run([str(tmp_path / "edges")], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "end"


@pytest.mark.parametrize(
    ("was", "now", "seen"),
    [
        ("(0.5f * b) / twice", "(0.25f * b) / (0.5f * twice)", "4 "),
        ("scale * ((float)code - (float)zero)", "scale * (float)(code - zero)", "cannot be represented"),
        ("tables[256 * c", "tables[0 * c", "13 "),
        ("sqp_i16(*x++, p + c)", "sqp_i16(*x++, p)", "14 "),
        ("if (in_zero < -128 ||", "if (", "2 "),
    ],
)
def test_a_planted_fault_at_the_ends_is_seen(host, was, now, seen, tmp_path):
    (tmp_path / "sqp.h").write_text(with_fault(was, now))
    compile_host(HOST["undefined behaviour"], EDGES, tmp_path / "edges", include=tmp_path)
    done = subprocess.run([str(tmp_path / "edges")], capture_output=True, text=True)
    assert seen in done.stdout + done.stderr and not done.stdout.startswith("end")


@pytest.mark.parametrize("core", emulator.CORES, ids=[core.name for core in emulator.CORES])
def test_the_emulated_clock_counts_instructions(toolchain, core, tmp_path):
    program = emulator.build(core, count.SOURCE, tmp_path, "-DKERNEL_calibrate", startup="minimal")
    # Two instructions a turn; 64 calls of some 15 instructions for 16384 elements add less than 0.1.
    assert count.instructions(core, program.path, tmp_path) == pytest.approx(2.05, abs=0.05)


def test_counts_repeat_exactly_and_squareplus_costs_what_relu_costs(toolchain, tmp_path):
    core = next(core for core in emulator.CORES if core.name == "M4F")
    kernels = ("relu", "sqp_f32", "sqp_f32_halved", "softplus")
    first, second = (count.measure(core, tmp_path / turn, kernels) for turn in ("first", "second"))
    assert first == second
    # Counts of one compiler release; these bounds are what the project promises, not what it measured.
    assert first["sqp_f32"]["instructions"] <= first["relu"]["instructions"] + 2
    assert first["softplus"]["instructions"] >= 10 * first["sqp_f32"]["instructions"]
    assert first["sqp_f32"]["libm"] == [] and first["softplus"]["libm"] != []


def test_without_fno_math_errno_only_sqrtf_is_linked(toolchain, tmp_path):
    core = next(core for core in emulator.CORES if core.name == "M4F")
    program = emulator.build(core, count.SOURCE, tmp_path, "-DKERNEL_sqp_f32", "-fmath-errno", startup="minimal")
    assert "sqrtf" in program.libm and not {"expf", "logf"} & set(program.libm)


def test_a_missing_toolchain_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(emulator.ToolchainMissingError, match="gcc-arm-none-eabi, picolibc-arm-none-eabi"):
        emulator.ensure_toolchain()


def test_a_failing_installation_is_reported_with_the_installer_s_words(monkeypatch, tmp_path):
    installer = tmp_path / "apt-get"
    installer.write_text("#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n")
    installer.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(emulator.os, "geteuid", lambda: 0)
    with pytest.raises(emulator.ToolchainMissingError, match=r"`apt-get update` failed: E: Unable to locate package"):
        emulator.ensure_toolchain()


def test_a_skipped_check_says_so_on_a_quiet_terminal(tmp_path):
    # An empty PATH, as on a machine without compilers.
    root = emulator.HERE.parents[1]
    command = [sys.executable, "-m", "pytest", "-q", "-k", "on_the_host", str(Path(__file__)), "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=root, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert "The host checks of sqp.h did not run: no gcc here. Install gcc and g++." in done.stdout
    assert f"\n{'s' * len(HOST)} " in done.stdout

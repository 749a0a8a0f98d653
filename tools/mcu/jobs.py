"""The jobs that check.c is given on the host and on every core, and the comparison of its answers with reference.py."""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.mcu import reference

F32 = np.float32
BLOCK = 128
B_VALUES = (0.0, 1e-3, 1.5238, 4 * float(np.log(2.0)) ** 2, 4.0, 100.0)
INT8_JOBS = (  # b, in_scale, in_zero, out_scale, out_zero
    (4.0, 12 / 255, -1, 6.16 / 255, -128),
    (1.5238, 0.05, 3, 0.031, -128),
    (4.0, 0.02, 100, 0.05, 20),
    (0.0, 0.1, 0, 0.1, -128),
    (4.0, 1.0, 0, 1e-3, -128),
    (0.0, 0.49999997, 0, 1.0, 0),  # the float below half a step: not rounded up
)
INT16_JOBS = (  # b, in_scale, out_scale
    (4.0, 8 / 32768, 8.25 / 32768),
    (1.5238, 20 / 32768, 20.1 / 32768),
    (0.0, 1 / 32768, 1 / 32768),
    (4.0, 1000 / 32768, 1000 / 32768),
    (4.0, 0.1 / 32768, 1.1 / 32768),
    (4.0, 3.1, 3.1 / 16),  # b is less than half a squared input step, output steps are finer
    (1e-9, 1.0, 1 / 16),
)
INT8_CODES = (0.25, 3)  # scale, zero point
INT16_CODES = (0.001, -20000)
NAMES = ("plain", "halved", "stable", "square root", "integer square root")


@dataclass(frozen=True, slots=True)
class Answers:
    """What check.c wrote: per float job NAMES, codes and reals, per int8 and int16 job what its kernels gave."""

    floats: tuple[dict[str, np.ndarray], ...]
    tables: tuple[np.ndarray, ...]
    applied: tuple[np.ndarray, ...]
    direct: tuple[np.ndarray, ...]
    fixed: tuple[np.ndarray, ...]


def float_inputs(count: int) -> np.ndarray:
    """Returns float32 inputs: the useful range, all exponents that the kernels accept, and the special values."""
    generator = np.random.default_rng(20210)
    near = generator.uniform(-10, 10, count // 2).astype(F32)
    bits = generator.integers(0, 2**32, count // 2, dtype=np.uint64).astype(np.uint32).view(F32)
    special = [0.0, -0.0, 1e-45, -1e-45, 1.1754944e-38, 1.0, -1.0, 1.8e19, -1.8e19, np.inf, -np.inf, np.nan]
    ties = np.arange(-9, 9) * 0.25 + 0.125  # half a step of INT8_CODES
    special += [*ties, *np.nextafter(ties.astype(F32), F32(0))]
    return np.concatenate([near, bits[np.isnan(bits) | (np.abs(bits) < 1.8e19)], np.array(special, F32)])


def write(path: Path, x: np.ndarray) -> None:
    """Writes in.bin."""
    parts = [struct.pack("<I", len(B_VALUES))]
    parts += [struct.pack("<fI", b, len(x)) + x.tobytes() for b in B_VALUES]
    parts += [struct.pack("<I", len(INT8_JOBS))] + [struct.pack("<ffifi", *job) for job in INT8_JOBS]
    parts += [struct.pack("<I", len(INT16_JOBS))] + [struct.pack("<fff", *job) for job in INT16_JOBS]
    path.write_bytes(b"".join(parts))


def read(path: Path, n: int) -> Answers:
    """Returns the contents of out.bin; `n` is the number of float inputs."""
    data, at = path.read_bytes(), 0

    def take(dtype: type, count: int) -> np.ndarray:
        nonlocal at
        values: np.ndarray = np.frombuffer(data, dtype, count, at)
        at += values.nbytes
        return values

    floats, tables, applied, direct, fixed = [], [], [], [], []
    kinds = {**dict.fromkeys(NAMES, F32), "int8 codes": np.int8, "int16 codes": np.int16, "reals": F32}
    for _ in B_VALUES:
        blocks = [[take(kind, min(BLOCK, n - start)) for kind in kinds.values()] for start in range(0, n, BLOCK)]
        floats.append({name: np.concatenate([block[i] for block in blocks]) for i, name in enumerate(kinds)})
    for _ in INT8_JOBS:
        tables.append(take(np.int8, 256))
        applied.append(take(np.int8, 256))
        direct.append(take(np.int8, 256))
    for job in INT16_JOBS:
        code = int(take(np.int32, 1)[0])
        if code != 0:
            raise ValueError(f"sqp_i16_setup refused b, in_scale, out_scale = {job}: it returned {code}.")
        fixed.append(take(np.int16, 65536))
    if at != len(data):
        raise ValueError(f"out.bin holds {len(data)} bytes, {at} were expected.")
    return Answers(tuple(floats), tuple(tables), tuple(applied), tuple(direct), tuple(fixed))


def differences(answers: Answers, x: np.ndarray, *, fused: bool) -> list[str]:
    """Returns one line for each array that differs in any bit from the reference; a NaN may be any NaN."""
    found = []

    def compare(what: str, got: np.ndarray, expected: np.ndarray) -> None:
        same = got.view(f"u{got.itemsize}") == expected.astype(got.dtype).view(f"u{got.itemsize}")
        if got.dtype == F32:
            same |= np.isnan(got) & np.isnan(expected)
        if not same.all():
            i = int(np.argmin(same))
            found.append(f"{what}: {np.count_nonzero(~same)} of {got.size}, first at {i}: {got[i]} for {expected[i]}")

    with np.errstate(all="ignore"):
        for b, arrays in zip(B_VALUES, answers.floats, strict=True):
            compare(f"plain, b={b}", arrays["plain"], reference.plain(x, b, fused=fused))
            compare(f"halved, b={b}", arrays["halved"], reference.halved(F32(0.5) * x, b / 4, fused=fused))
            compare(f"stable, b={b}", arrays["stable"], reference.stable(x, b, fused=fused))
            for name in ("square root", "integer square root"):
                compare(f"{name}, b={b}", arrays[name], np.sqrt(x))
            codes16 = reference.quantize(x, *INT16_CODES, np.int16)
            compare("int8 codes", arrays["int8 codes"], reference.quantize(x, *INT8_CODES, np.int8))
            compare("int16 codes", arrays["int16 codes"], codes16)
            compare("reals", arrays["reals"], reference.dequantize(codes16, *INT16_CODES))
        for job, made, applied, direct in zip(INT8_JOBS, answers.tables, answers.applied, answers.direct, strict=True):
            expected = reference.table(*job, fused=fused)
            compare(f"int8 table {job}", made, expected)
            compare(f"int8 kernel {job}", applied, expected)
            compare(f"int8 without a table {job}", direct, reference.fixed_point_int8(*job))
        for job16, codes in zip(INT16_JOBS, answers.fixed, strict=True):
            compare(f"int16 {job16}", codes, reference.fixed_point(*job16))
    return found

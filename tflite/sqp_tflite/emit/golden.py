"""Golden vectors: inputs with the outputs of the target's interpreter, for a self-test on the device."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.literals import comment_text, float_text
from sqp_tflite.codegen.naming import Golden, Port
from sqp_tflite.emit.material import Material
from sqp_tflite.errors import BadInputError

FLOAT_TOLERANCE = 1e-5
"""Share of an output's largest value. A kernel that sums in another order, or with fused multiply-add, changes the last
bits of a float32 (6e-8 of its size); 1e-5 allows for a chain of sums of a few hundred products."""

INTEGER_TOLERANCE = 1
"""Steps. Kernels optimised for a processor round halves up; the reference kernels round them away from zero."""

_LARGEST_BYTES = 32768
_MOST = 8


def count_for(graph_bytes_per_vector: int) -> int:
    """Returns how many vectors fit in 32 KiB of flash, at least 1 and at most 8."""
    return max(1, min(_MOST, _LARGEST_BYTES // max(graph_bytes_per_vector, 1)))


def golden(material: Material) -> dict[str, str | bytes]:
    """Returns the vectors as C and as npz: {"model_golden.h": ..., "model_golden.c": ..., "model_golden.npz": ...}.

    Raises:
        BadInputError: There are no vectors, or their types or shapes are not the model's.
    """
    vectors = material.golden
    if vectors is None or not len(vectors):
        raise BadInputError(
            "Golden vectors must come from a run of the target's interpreter. Received: none. "
            "Install the runtime of the target, or omit `golden` from --emit."
        )
    _check(material, vectors)
    name = f"{material.style.prefix}_golden"
    return {
        f"{name}.h": _header(material, vectors),
        f"{name}.c": _source(material, vectors),
        f"{name}.npz": npz(material, vectors),
    }


def npz(material: Material, vectors: Golden) -> bytes:
    """Returns an .npz file with one array per input and output, named input_<name> and output_<name>."""
    arrays = {f"input_{port.name}": values for port, values in zip(material.inputs, vectors.inputs, strict=True)}
    arrays |= {f"output_{port.name}": values for port, values in zip(material.outputs, vectors.outputs, strict=True)}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def tolerance(port: Port, values: NDArray[Any]) -> str:
    """Returns the max difference between a device's output and the golden one, as a C literal."""
    if np.issubdtype(values.dtype, np.floating):
        return float_text(FLOAT_TOLERANCE * max(float(np.abs(values).max(initial=0.0)), 1e-30))
    return str(INTEGER_TOLERANCE)


def _check(material: Material, vectors: Golden) -> None:
    for ports, arrays in ((material.inputs, vectors.inputs), (material.outputs, vectors.outputs)):
        for port, values in zip(ports, arrays, strict=True):
            wanted = (len(vectors), *(max(size, 1) for size in port.tensor.shape))
            if values.dtype != np.dtype(port.tensor.dtype) or values.size != np.prod(wanted):
                raise BadInputError(
                    f"Golden vectors must have the file's types. Received: `{port.tensor.name}` as {values.dtype} "
                    f"{values.shape}, the file has {port.tensor.dtype} {wanted}."
                )
            if not np.isfinite(values.astype(np.float64)).all():
                raise BadInputError(
                    f"Golden vectors must be finite. Received: inf or NaN in `{port.tensor.name}`. Check the model on "
                    "its data with `sqp-check`."
                )


def _header(material: Material, vectors: Golden) -> str:
    macro, prefix = material.style.macro, material.style.prefix
    runtime = comment_text(vectors.runtime)
    lines = [
        f"/* {len(vectors)} inputs of the model and their outputs from {runtime}. Made by sqp-export. */",
        f"#ifndef {macro}_GOLDEN_H_",
        f"#define {macro}_GOLDEN_H_",
        "",
        f'#include "{prefix}_data.h"',
        "",
        f"#define {macro}_GOLDEN_COUNT {len(vectors)}",
        "",
        "/* Max difference between the device's output and the golden one, in the output's unit (steps for codes). */",
    ]
    for port, values in zip(material.outputs, vectors.outputs, strict=True):
        lines.append(f"#define {macro}_GOLDEN_{port.macro}_TOLERANCE {tolerance(port, values)}")
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += [f"extern {_declaration(material, port)};" for port in (*material.inputs, *material.outputs)]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {macro}_GOLDEN_H_ */", ""]
    return "\n".join(lines)


def _declaration(material: Material, port: Port) -> str:
    macro, name = material.style.macro, f"{material.style.prefix}_golden_{port.role.lower()}_{port.name}"
    return f"const {port.c_type} {name}[{macro}_GOLDEN_COUNT][{macro}_{port.macro}_ELEMENTS]"


def _source(material: Material, vectors: Golden) -> str:
    lines = ["/* Inputs and outputs of the model. Made by sqp-export. */"]
    lines += [f'#include "{material.style.prefix}_golden.h"', ""]
    pairs = (*zip(material.inputs, vectors.inputs, strict=True), *zip(material.outputs, vectors.outputs, strict=True))
    for port, values in pairs:
        lines.append(f"{_declaration(material, port)} = {{")
        for row in values.reshape(len(vectors), -1):
            lines += ["    {", *_numbers(row), "    },"]
        lines += ["};", ""]
    return "\n".join(lines)


def _numbers(row: NDArray[Any]) -> Iterable[str]:
    texts = [_number(value) for value in row]
    per_line = 16 if row.dtype.itemsize == 1 else 8
    for start in range(0, len(texts), per_line):
        yield "        " + " ".join(f"{text}," for text in texts[start : start + per_line])


def _number(value: Any) -> str:
    if isinstance(value, np.float64):
        return repr(float(value))
    return float_text(float(value)) if isinstance(value, np.floating) else str(int(value))

"""Inputs and outputs in C: the macros that describe them, and what turns real numbers into codes and back."""

from __future__ import annotations

from collections.abc import Iterable

from sqp_tflite.codegen.arithmetic import RANGES
from sqp_tflite.codegen.literals import comment_text, float_text, string_text
from sqp_tflite.codegen.naming import Port
from sqp_tflite.run.arena import tensor_bytes


def port_lines(port: Port, macro: str) -> Iterable[str]:
    """Yields the macros that tell how an input or output is fed or read.

    Args:
        port: The input or output.
        macro: What the macros' names begin with.
    """
    tensor, key = port.tensor, f"{macro}_{port.macro}"
    shape = [max(size, 1) for size in tensor.shape]
    meaning = "plain numbers" if port.scale is None else "real = SCALE * (code - ZERO_POINT)"
    yield from (
        "",
        f"/* {port.role.capitalize()} {port.index}, `{comment_text(tensor.name)}`: {meaning}. */",
        f'#define {key}_NAME "{string_text(tensor.name)}"',
        f"#define {key}_INDEX {port.index}",
        f"#define {key}_TYPE {port.c_type}",
        f'#define {key}_DTYPE "{tensor.dtype}"',
        f"#define {key}_RANK {len(shape)}",
        f"#define {key}_SHAPE {{{', '.join(map(str, shape)) or '1'}}}",
        f"#define {key}_ELEMENTS {tensor.elements}",
        f"#define {key}_BYTES {tensor_bytes(tensor)}",
        f"#define {key}_QUANTIZED {int(port.scale is not None)}",
    )
    if port.scale is not None:
        yield f"#define {key}_SCALE {float_text(port.scale)}"
        yield f"#define {key}_ZERO_POINT {port.zero_point}"


def conversions(port: Port, prefix: str) -> Iterable[str]:
    """Yields the C functions between real numbers and the codes of a quantised input or output.

    Args:
        port: The input or output; nothing is yielded for one of floats.
        prefix: What the functions' names begin with.
    """
    if port.scale is None or port.tensor.dtype not in RANGES:
        return
    key, low = f"{prefix.upper()}_{port.macro}", RANGES[port.tensor.dtype][0]
    name, high = f"{port.role.lower()}_{port.name}", RANGES[port.tensor.dtype][1]
    yield from (
        "/* The nearest code, half away from zero, within the type's range; the smallest one for NaN. */",
        f"static inline {port.c_type} {prefix}_quantize_{name}(float value)",
        "{",
        f"    const float steps = value / {key}_SCALE;",
        f"    const float low = (float)({low} - {key}_ZERO_POINT), high = (float)({high} - {key}_ZERO_POINT);",
        "    int32_t whole;",
        f"    if (!(steps > low)) return {low};",
        f"    if (steps >= high) return {high};",
        "    whole = (int32_t)steps;",
        "    whole += (steps - (float)whole >= 0.5f ? 1 : 0) - (steps - (float)whole <= -0.5f ? 1 : 0);",
        f"    return ({port.c_type})(whole + {key}_ZERO_POINT);",
        "}",
        "",
        f"static inline float {prefix}_dequantize_{name}({port.c_type} code)",
        "{",
        f"    return {key}_SCALE * (float)((int32_t)code - {key}_ZERO_POINT);",
        "}",
        "",
    )

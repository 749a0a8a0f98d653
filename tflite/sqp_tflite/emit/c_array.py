"""The model as a C array, with macros for everything that is needed to feed and read it. C99 and C++11."""

from __future__ import annotations

from collections.abc import Iterable

from sqp_tflite.codegen.literals import comment_text
from sqp_tflite.codegen.ports import port_lines
from sqp_tflite.emit.material import Material

_PER_LINE = 16

ALIGN = """\
/* TFLM reads 32-bit words directly from the array: it must be aligned to 16 bytes. */
#if defined(__cplusplus)
#define {macro}_ALIGN alignas(16)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define {macro}_ALIGN _Alignas(16)
#elif defined(__GNUC__) || defined(__clang__) || defined(__ARMCC_VERSION)
#define {macro}_ALIGN __attribute__((aligned(16)))
#elif defined(__ICCARM__)
#define {macro}_ALIGN _Pragma("data_alignment=16")
#else
#error "Add how this compiler aligns an array to 16 bytes."
#endif
"""


def c_array(material: Material) -> dict[str, str]:
    """Returns the header and the source: {"model_data.h": ..., "model_data.c": ...}."""
    name = f"{material.style.prefix}_data"
    return {f"{name}.h": _header(material), f"{name}.c": _source(material)}


def _header(material: Material) -> str:
    style, graph = material.style, material.graph
    macro, symbol = style.macro, f"{style.prefix}_data"
    lines = [
        f"/* `{comment_text(material.source)}` as TFLite, {graph.size_bytes} bytes. Made by sqp-export. */",
        f"#ifndef {macro}_DATA_H_",
        f"#define {macro}_DATA_H_",
        "",
        "#include <stdint.h>",
        *(["#include <stdbool.h>"] if _has_bool(material) else []),
        "",
        f"#define {macro}_SIZE {graph.size_bytes}",
        f'#define {macro}_SHA256 "{graph.sha256}"',
        f"#define {macro}_INPUT_COUNT {len(material.inputs)}",
        f"#define {macro}_OUTPUT_COUNT {len(material.outputs)}",
    ]
    for port in (*material.inputs, *material.outputs):
        lines += port_lines(port, macro)
    lines += [
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"extern {_declaration(material)}[{macro}_SIZE];",
        f"extern const unsigned int {symbol}_size;",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {macro}_DATA_H_ */",
        "",
    ]
    return "\n".join(lines)


def _source(material: Material) -> str:
    style = material.style
    macro, symbol = style.macro, f"{style.prefix}_data"
    section = f'__attribute__((section("{style.section}"))) ' if style.section else ""
    return "\n".join(
        [
            "/* The bytes of the model. Made by sqp-export. */",
            f'#include "{symbol}.h"',
            "",
            ALIGN.format(macro=macro),
            f"{macro}_ALIGN {section}{_declaration(material)}[{macro}_SIZE] = {{",
            *bytes_text(material.model),
            "};",
            "",
            f"const unsigned int {symbol}_size = {macro}_SIZE;",
            "",
        ]
    )


def _declaration(material: Material) -> str:
    return f"{material.style.qualifier} unsigned char {material.style.prefix}_data".strip()


def _has_bool(material: Material) -> bool:
    return any(port.tensor.dtype == "bool" for port in (*material.inputs, *material.outputs))


def bytes_text(content: bytes) -> Iterable[str]:
    """Yields the lines of an array's initialiser."""
    for start in range(0, len(content), _PER_LINE):
        yield "    " + " ".join(f"0x{byte:02x}," for byte in content[start : start + _PER_LINE])

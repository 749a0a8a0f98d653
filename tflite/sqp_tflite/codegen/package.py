"""The folder of generated code: sources, self-test, manifest, and what the common build systems need to take it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqp_tflite.codegen.generate import ABI, MADE_BY, Code, generate
from sqp_tflite.codegen.literals import string_text
from sqp_tflite.codegen.naming import CStyle, Golden
from sqp_tflite.codegen.selftest import selftest
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.versions import version

FILES: Mapping[str, str] = {
    "{p}.h": "",
    "{p}.c": "",
    "{p}_selftest.c": "",
    "{p}_manifest.json": "{p}.h",
    "README.md": "",
    "CMakeLists.txt": "",
    "library.properties": "",
    "library.json": "{p}.h",
}
"""Every file, each with the one whose header also speaks for it; the self-test is left out without golden vectors."""

_CMAKE = """\
# {made}
# For CMake, ESP-IDF and Zephyr (add_subdirectory); -ffp-contract=off keeps floats as they were proven.
if(ESP_PLATFORM)
  idf_component_register(SRCS {sources} INCLUDE_DIRS ".")
  target_compile_options(${{COMPONENT_LIB}} PRIVATE -ffp-contract=off)
elseif(ZEPHYR_BASE)
  zephyr_library()
  zephyr_library_sources({sources})
  zephyr_library_compile_options(-ffp-contract=off)
  zephyr_include_directories(.)
else()
  cmake_minimum_required(VERSION 3.13)
  project({prefix} C)
  add_library({prefix} STATIC {sources})
  target_include_directories({prefix} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
  set_target_properties({prefix} PROPERTIES C_STANDARD 99)
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options({prefix} PRIVATE -ffp-contract=off)
  endif()
endif()
"""

_README = """\
# {prefix}: a neural network as C

<!-- {made} -->

`{prefix}.c` computes what the file `{name}` computes on TensorFlow Lite Micro's reference kernels, in every bit.

```c
#include "{prefix}.h"

static {prefix}_arena arena;  /* {arena:,} bytes */

{declaration};  /* call it with &arena */
```

| | bytes |
|---|---:|
| arena, yours | {arena:,} |
| constants | {constants:,} |

Compile with `-std=c99 -O2 -ffp-contract=off`. `{prefix}_selftest` in `{prefix}_selftest.c` runs the golden vectors and
returns how many outputs differ; `{macro}_SELFTEST_BYTES` of memory are enough for it. `{macro}_PORTABLE`, defined
for the compiler, leaves out the instructions of single cores; `{macro}_CONST` and `{macro}_PLACE` place the constants.
"""

_ARDUINO = """\
# {made}
name={prefix}
version=1.0.0
author=sqp-export
maintainer=sqp-export
sentence=A neural network as C.
paragraph=Include {prefix}.h and call {prefix}_run.
category=Data Processing
url=https://github.com/sqp-keras/sqp-keras
architectures=*
includes={prefix}.h
"""


def package(graph: Graph, style: CStyle, name: str, vectors: Golden | None) -> tuple[Code, dict[str, str]]:
    """Returns the code, and the folder's files by their relative paths.

    Args:
        graph: The file.
        style: Names and places of the C symbols.
        name: What comments call the file.
        vectors: For the self-test; None for no self-test.

    Raises:
        RefusedError: Something in the file has no C form.
        BadInputError: An input or output has a type that C lacks.
    """
    code = generate(graph, style, name)
    prefix = style.prefix
    files = {f"{prefix}.h": code.header, f"{prefix}.c": code.source}
    if vectors is not None:
        files[f"{prefix}_selftest.c"] = selftest(graph, style, code.memory.size, vectors)
    sources = " ".join(path for path in files if path.endswith(".c"))
    library = {
        "name": prefix,
        "version": "1.0.0",
        "description": "A neural network as C.",
        "frameworks": "*",
        "platforms": "*",
        "build": {"flags": "-ffp-contract=off"},
    }
    manifest = _manifest(graph, code, name, vectors)
    manifest["files"] = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(files.items())}
    made = {"made": MADE_BY, "prefix": prefix, "sources": sources}
    files[f"{prefix}_manifest.json"] = json.dumps(manifest, indent=2) + "\n"
    files["README.md"] = _README.format(
        **made,
        name=string_text(name).replace("`", "'"),
        macro=style.macro,
        arena=code.memory.size,
        constants=sum(size for _, size in code.constant_bytes),
        declaration=code.declaration,
    )
    files["CMakeLists.txt"] = _CMAKE.format(**made)
    files["library.properties"] = _ARDUINO.format(**made)
    files["library.json"] = json.dumps(library, indent=2) + "\n"
    return code, files


def _manifest(graph: Graph, code: Code, name: str, vectors: Golden | None) -> dict[str, Any]:
    counts: dict[tuple[str, int, str], int] = {}
    for op in graph.main.ops:
        key = (op.name, op.version, op.dtype)
        counts[key] = counts.get(key, 0) + 1
    return {
        "schema": 1,
        "made_by": f"sqp-keras {version('sqp-keras')}",
        "source": name,
        "source_sha256": graph.sha256,
        "abi": ABI,
        "rounding": "tflm",
        "operators": [
            {"op": op, "version": number, "dtype": dtype, "count": count}
            for (op, number, dtype), count in sorted(counts.items())
        ],
        "functions": len(code.plan.steps),
        "macs": code.macs,
        "constant_bytes": dict(code.constant_bytes),
        "arena_bytes": code.memory.size,
        "arena_lower_bound": code.memory.bound,
        "golden_vectors": 0 if vectors is None else len(vectors),
        "golden_from": "" if vectors is None else vectors.runtime,
    }

"""A folder that a firmware engineer can build: model, resolver, arena, runner and a self-test."""

from __future__ import annotations

from typing import Any

from sqp_tflite.codegen.literals import comment_text
from sqp_tflite.emit.c_array import c_array
from sqp_tflite.emit.golden import golden
from sqp_tflite.emit.material import Material
from sqp_tflite.emit.resolver import resolver
from sqp_tflite.emit.templates import template
from sqp_tflite.errors import BadInputError
from sqp_tflite.ops.audit import release_notes
from sqp_tflite.run.arena import peak
from sqp_tflite.run.interpreters import INSTALL
from sqp_tflite.wording import harmless_lines

_TEMPLATES = {
    "README.md": "README.md",
    "CMakeLists.txt": "CMakeLists.txt",
    "arm-none-eabi.cmake": "arm-none-eabi.cmake",
    "main.cc": "self_test/main.cc",
    "self_test.cc": "{prefix}_self_test.cc",
    "library.properties": "library.properties",
    "library.json": "library.json",
    "sketch.ino": "examples/{prefix}_self_test/{prefix}_self_test.ino",
    "idf_component.yml": "idf_component.yml",
    "module.yml": "zephyr/module.yml",
    "zephyr.cmake": "zephyr/CMakeLists.txt",
    "runner.h": "{prefix}_runner.h",
    "runner.cc": "{prefix}_runner.cc",
    "arena.h": "{prefix}_arena.h",
}


def project(material: Material) -> dict[str, str | bytes]:
    """Returns every file of the folder by its relative path.

    Raises:
        BadInputError: The measured arena or the golden vectors, which the self-test needs, are missing.
    """
    if material.arena is None:
        raise BadInputError(
            "A project needs the measured arena. Received: none. Install the interpreter of TensorFlow Lite Micro with "
            f"{INSTALL['tflm']}, or omit `project` from --emit."
        )
    prefix = material.style.prefix
    values = _values(material)
    files: dict[str, str | bytes] = {
        name.format(prefix=prefix): harmless_lines(template(f"project/{source}").render(values))
        for source, name in _TEMPLATES.items()
    }
    return {
        **files,
        **c_array(material),
        **resolver(material),
        **golden(material),
        f"{prefix}.tflite": material.proven or material.model,
    }


def _values(material: Material) -> dict[str, Any]:
    step, tensor = peak(material.graph)
    peak_layer = material.report.memory.peak_layer or tensor.name
    return {
        "m": material,
        "report": material.report,
        "graph": material.graph,
        "arena": material.arena,
        "golden": material.golden,
        "prefix": material.style.prefix,
        "macro": material.style.macro,
        "inputs": material.inputs,
        "outputs": material.outputs,
        "source": comment_text(material.source),
        "description": f"The neural network {comment_text(material.source)} for TensorFlow Lite Micro",
        "floats": sorted({op.name for _, op in material.graph.all_ops() if op.dtype.startswith("float")}),
        "releases": release_notes(material.graph, material.report.target, material.report.stand_in),
        "peak_op": step.name,
        "peak_bytes": step.total,
        "peak_tensor": tensor.name,
        "peak_layer": peak_layer,
        "peak_comment": comment_text(peak_layer),
    }

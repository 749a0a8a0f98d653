"""The whole model as C, in a folder of its own."""

from __future__ import annotations

from sqp_tflite.codegen.package import package
from sqp_tflite.emit.material import Material
from sqp_tflite.errors import BadInputError


def code(material: Material) -> dict[str, str]:
    """Returns the files of the folder by their paths, e.g. {"model_code/model.c": ...}.

    Raises:
        RefusedError: Something in the file has no C form.
        BadInputError: There are no golden vectors for the self-test.
    """
    if material.golden is None:
        raise BadInputError(
            "C code must be proven by golden vectors. Received: none. Install the runtime of the target, or omit "
            "`code` from --emit."
        )
    _, files = package(material.graph, material.style, material.source, material.golden)
    return {f"{material.style.prefix}_code/{path}": text for path, text in files.items()}

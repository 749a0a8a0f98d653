"""What a firmware engineer gets with the file: a C array, an op resolver, golden vectors, a project."""

from sqp_tflite.codegen.naming import CStyle, Golden
from sqp_tflite.emit.emit import KINDS, artefacts, check_known, check_own, emit
from sqp_tflite.emit.material import Material

__all__ = ["KINDS", "CStyle", "Golden", "Material", "artefacts", "check_known", "check_own", "emit"]

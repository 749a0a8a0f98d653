"""What a firmware engineer gets with the file: a C array, an op resolver, golden vectors, a project."""

from sqp_tflite.emit.emit import KINDS, check_known, emit
from sqp_tflite.emit.material import CStyle, Golden, Material

__all__ = ["KINDS", "CStyle", "Golden", "Material", "check_known", "emit"]

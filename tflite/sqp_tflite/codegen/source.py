"""The C source under construction: constants, helpers and functions, each once however often it is asked for."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.helpers import texts
from sqp_tflite.codegen.literals import float_text
from sqp_tflite.flatbuffer.graph import Tensor

C_TYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float32": "float",
}
_WIDTH = 110


@dataclass(slots=True)
class Source:
    """Collects what the C file is made of.

    Attributes:
        prefix: What every name begins with.
        constants: Declaration and values of each array, by its C name.
        functions: Text of each function, by its C name.
        helpers: Names of the helpers that are called.
        constant_bytes: Bytes of all arrays, by their role.
    """

    prefix: str
    constants: dict[str, tuple[str, NDArray[Any]]] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)
    constant_bytes: dict[str, int] = field(default_factory=dict)
    _by_content: dict[tuple[str, bytes], str] = field(default_factory=dict)
    _by_text: dict[str, str] = field(default_factory=dict)

    def call(self, helper: str) -> str:
        """Returns the C name of a helper, which becomes part of the file."""
        self.helpers.add(helper)
        return f"{self.prefix}_{helper}"

    def constant(self, values: NDArray[Any], role: str = "table") -> str:
        """Returns the C name of an array of constants; equal arrays are one.

        Args:
            values: Of a type in `C_TYPES`; any shape, the last axis runs fastest.
            role: "weights" or "table", for the manifest.
        """
        flat = np.ascontiguousarray(values).reshape(-1)
        key = (flat.dtype.name, flat.tobytes())
        if key not in self._by_content:
            name = f"{self.prefix}_c{len(self.constants)}"
            self._by_content[key] = name
            self.constants[name] = (C_TYPES[flat.dtype.name], flat)
            self.constant_bytes[role] = self.constant_bytes.get(role, 0) + flat.nbytes
        return self._by_content[key]

    def pointer(self, tensor: Tensor, names: Mapping[int, str]) -> str:
        """Returns the C name of a pointer to a tensor: to a constant, or to what was computed.

        Args:
            tensor: Of the file.
            names: C names of the pointers to computed tensors, by index.
        """
        values = tensor.values
        return names[tensor.index] if values is None else self.constant(values, "weights")

    def function(self, parameters: list[str], body: list[str]) -> str:
        """Returns the C name of a function; equal ones are one.

        Args:
            parameters: Declarations.
            body: Statements, without the braces.
        """
        text = f"({', '.join(parameters)})\n{{\n{textwrap.indent(chr(10).join(indented(body)), '    ')}\n}}\n"
        if text not in self._by_text:
            name = f"{self.prefix}_k{len(self.functions)}"
            self._by_text[text] = name
            self.functions[name] = f"static {self.prefix.upper()}_APART void {name}{text}"
        return self._by_text[text]

    def constant_texts(self) -> list[str]:
        """Returns the definitions of the constants."""
        macro = self.prefix.upper()
        return [
            f"{macro}_CONST {type_} {name}[{len(flat)}]{macro}_PLACE = {{\n{numbers(flat)}\n}};"
            for name, (type_, flat) in self.constants.items()
        ]

    def helper_texts(self) -> list[str]:
        """Returns the helpers that are called."""
        return texts(self.helpers, self.prefix)


def indented(lines: list[str]) -> list[str]:
    """Returns lines of C indented by their braces."""
    depth, found = 0, []
    for line in lines:
        depth -= line.startswith("}")
        found.append(line if line.startswith("#") else "    " * depth + line)
        depth += line.endswith("{")
    return found


def numbers(flat: NDArray[Any]) -> str:
    """Returns the elements of an initialiser, in lines."""
    if flat.dtype == np.float32:
        words = [float_text(float(value)) for value in flat]
    elif flat.dtype == np.int64:
        words = [f"INT64_C({value})" for value in flat.tolist()]
    else:
        words = [_integer(value) for value in flat.tolist()]
    return textwrap.fill(", ".join(words), _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _integer(value: int) -> str:
    """The smallest 32-bit integer is no literal of its own in C."""
    return "(-2147483647 - 1)" if value == -(2**31) else str(value)


def lines_of(text: str, **values: object) -> list[str]:
    """Returns the lines of a template in which `<name>` stands for a value.

    Args:
        text: The template; its own indentation does not matter.
        values: What stands for each name.
    """
    for name, value in values.items():
        text = text.replace(f"<{name}>", str(value))
    return [line.strip() for line in text.strip().splitlines()]

"""How the symbols of emitted C are called, and what inputs, outputs and golden vectors look like in C."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sqp_tflite import accept
from sqp_tflite.errors import OptionError
from sqp_tflite.flatbuffer.graph import Tensor

_KEYWORDS = frozenset(
    "alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double "
    "else enum explicit export extern false float for friend goto if inline int long mutable namespace new not "
    "operator or private protected public register restrict return short signed sizeof static struct switch template "
    "this throw true try typedef typename union unsigned using virtual void volatile while xor".split()
)

_NO_QUALIFIERS = (_KEYWORDS - {"const", "volatile"}) | frozenset(
    "consteval constinit nullptr static_assert thread_local typeof typeof_unqual wchar_t char8_t char16_t char32_t "
    "_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local".split()
)
"""Words of C and C++ that are no qualifier of an array; another word may be a macro of the platform."""

_C_TYPES = {"float32": "float", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t"}
_C_TYPES |= {"int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "float64": "double", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class CStyle:
    """Names and places of the C symbols.

    Attributes:
        prefix: The start of every symbol, macro and file name; two models in one program need two prefixes.
        section: Linker section of the model array, "" for the compiler's choice.
        qualifier: Qualifier of the array's type. "const" keeps it in flash; with "" the start-up code copies it to
            RAM.
    """

    prefix: str = "model"
    section: str = ""
    qualifier: str = "const"

    def __post_init__(self) -> None:
        for name in ("prefix", "section", "qualifier"):
            accept.text(f"`{name}`", getattr(self, name))
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.prefix) or self.prefix in _KEYWORDS or "__" in self.prefix:
            raise OptionError(
                "The C prefix must be a C identifier that begins with a letter, has no double underscore and is not "
                f"a keyword. Received: {accept.shown(self.prefix)}. Pass --c-prefix with letters, digits and "
                "underscores."
            )
        if not re.fullmatch(r"[A-Za-z0-9_.$,-]*", self.section):
            raise OptionError(
                f"The linker section must be a section's name. Received: {accept.shown(self.section)}. "
                "Pass e.g. --c-section .rodata."
            )
        words = self.qualifier.split(" ") if self.qualifier else []
        wrong = [word for word in words if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word) or word in _NO_QUALIFIERS]
        if wrong or len(words) != len(set(words)):
            raise OptionError(
                "The C qualifier must consist of words that may stand before the array's type, each once: const, "
                f"volatile, or a macro of the platform. Received: {accept.shown(self.qualifier)}. Pass e.g. "
                "--c-qualifier const, or '' to put the array in RAM."
            )

    @classmethod
    def named(cls, name: str) -> CStyle:
        """Returns the style for a model called `name`: the prefix is made from the name, or is "model"."""
        prefix = identifier(name)
        return cls(prefix if prefix and prefix not in _KEYWORDS else "model")

    @property
    def macro(self) -> str:
        """Returns the prefix in upper case, for macros."""
        return self.prefix.upper()


@dataclass(frozen=True, slots=True)
class Golden:
    """Inputs and the target interpreter's outputs, in the file's types (codes for integer tensors).

    Attributes:
        inputs: One array per input, shape (vectors, *tensor shape).
        outputs: One array per output.
        runtime: The interpreter that ran them, with its version.
    """

    inputs: tuple[NDArray[Any], ...]
    outputs: tuple[NDArray[Any], ...]
    runtime: str

    def __len__(self) -> int:
        return len(self.inputs[0]) if self.inputs else 0


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of the model, with its C names.

    Attributes:
        role: "INPUT" or "OUTPUT".
        index: Its place in the interpreter's list.
        tensor: The tensor of the file.
        name: A lower-case C identifier made from the tensor's name, unique among the ports with the same role.
    """

    role: str
    index: int
    tensor: Tensor
    name: str

    @property
    def c_type(self) -> str:
        """Returns the element's C type."""
        try:
            return _C_TYPES[self.tensor.dtype]
        except KeyError:
            raise OptionError(
                f"An {self.role.lower()} must have a type that exists in C. Received: `{self.tensor.name}`, "
                f"{self.tensor.dtype}. Export with --io float32, int8 or int16."
            ) from None

    @property
    def macro(self) -> str:
        """Returns the port's part of a macro's name, e.g. INPUT_IMAGE."""
        return f"{self.role}_{self.name.upper()}"

    @property
    def scale(self) -> float | None:
        """Returns the scale of a quantised tensor, None for a plain one."""
        quantization = self.tensor.quantization
        return None if quantization is None or self.tensor.dtype.startswith("float") else quantization.scales[0]

    @property
    def zero_point(self) -> int | None:
        """Returns the code of 0, None for a plain tensor."""
        quantization = self.tensor.quantization
        return None if quantization is None or self.tensor.dtype.startswith("float") else quantization.zero_points[0]


_LONGEST_NAME = 200
"""Characters of an input's or output's name in C, and in the golden .npz, whose format has two bytes for the length."""


def identifier(name: str) -> str:
    """Returns a lower-case C identifier made from any name; "" if none of its characters are valid in one."""
    found = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", name.lower())).strip("_")
    return f"n{found}" if found[:1].isdigit() else found


def ports(role: str, tensors: tuple[Tensor, ...]) -> tuple[Port, ...]:
    """Returns inputs or outputs with their C names.

    Args:
        role: "INPUT" or "OUTPUT".
        tensors: In order.
    """
    found: list[Port] = []
    for index, tensor in enumerate(tensors):
        name = identifier(tensor.name)[:_LONGEST_NAME].rstrip("_") or str(index)
        while any(port.name == name for port in found):
            name = f"{name}_{index}"
        found.append(Port(role, index, tensor, name))
    return tuple(found)

"""Which number type, lowering and target work together, decided before anything is converted.

A combination works if the target has the kernels that it needs; `ops.json` is the only list of kernels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from sqp_tflite.errors import DataError, OptionError, RefusedError
from sqp_tflite.ops.policy import NAMES, NPUS, TARGETS, hybrid, kernels
from sqp_tflite.report import Finding, Kind

QUANTIZE = ("float32", "float16", "dynamic", "int8", "int16x8")
LOWERINGS = ("algebraic", "table", "integer")
IO = ("float32", "int8", "int16")
INTEGER_IO = {"int8": "int8", "int16x8": "int16"}

_DENSE = "FULLY_CONNECTED"
_FLOAT_FORM = (("MUL", "float32"), ("ADD", "float32"), ("SQRT", "float32"))
_WIDE_FORM = (("MUL", "int16"), ("ADD", "int16"), ("RSQRT", "int16"))
_NEEDS = {
    ("float32", "algebraic"): ((_DENSE, "float32"), *_FLOAT_FORM),
    ("float16", "algebraic"): ((_DENSE, "float32"), ("DEQUANTIZE", "float16"), *_FLOAT_FORM),
    ("dynamic", "algebraic"): ((_DENSE, "float32"), *_FLOAT_FORM),
    ("int8", "algebraic"): ((_DENSE, "int8"), ("DEQUANTIZE", "int8"), ("QUANTIZE", "float32"), *_FLOAT_FORM),
    ("int8", "table"): ((_DENSE, "int8"), ("CAST", "int8"), ("ADD", "int32"), ("GATHER", "int8")),
    ("int8", "integer"): ((_DENSE, "int8"), ("QUANTIZE", "int8"), ("QUANTIZE", "int16"), *_WIDE_FORM),
    ("int16x8", "algebraic"): ((_DENSE, "int16"), ("DEQUANTIZE", "int16"), ("QUANTIZE", "float32"), *_FLOAT_FORM),
    ("int16x8", "integer"): ((_DENSE, "int16"), *_WIDE_FORM),
}
"""The operators that an activation and the dense layers around it need. Float models have one lowering."""

_FASTEST = {
    **{("int8", target): "table" for target in ("tflm", "tflm@2023", *NPUS)},
    **{("int16x8", target): "integer" for target in NPUS},
    **{("float32", target): "table" for target in NPUS},  # For what is proposed instead.
}
"""The lowering that is measured to be the fastest where that is not the float island (`benchmarks/lite_forms.py`,
`benchmarks/mcu`; docs/speed.md has the tables)."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One choice of each, spelled as in the options.

    Attributes:
        quantize: The number type, one of `QUANTIZE`.
        lowering: How an activation is written in an integer model, one of `LOWERINGS`.
        target: The target whose operator table and interpreter decide, one of `TARGETS`.
    """

    quantize: str = "float32"
    lowering: str = "algebraic"
    target: str = "tflm"

    @classmethod
    def chosen(cls, quantize: str | None, lowering: str | None, target: str) -> Combination:
        """Returns a combination in which what was not asked for is what suits the target: its fastest lowering.

        An NPU computes with integers only and leaves a float island to the CPU; it has tables of its own for int8.
        """
        numbers = quantize or ("int8" if target in NPUS else "float32")
        return cls(numbers, lowering or _FASTEST.get((numbers, target), "algebraic"), target)

    @property
    def integer(self) -> bool:
        """Returns whether the model's numbers are integers."""
        return self.quantize in INTEGER_IO

    def __str__(self) -> str:
        return f"--quantize {self.quantize} --lowering {self.lowering} --target {self.target}"


def combinations() -> Iterator[Combination]:
    """Yields all combinations."""
    for quantize in QUANTIZE:
        for lowering in LOWERINGS:
            for target in TARGETS:
                yield Combination(quantize, lowering, target)


def broken(wanted: Combination) -> str | None:
    """Returns why a combination cannot work, None if it can."""
    if (wanted.quantize, wanted.lowering) == ("int16x8", "table"):
        return "A table of an int16 tensor would have 65,536 entries for each activation."
    if wanted.target in NPUS and not wanted.integer:
        return f"{NAMES[wanted.target]} computes with integers only."
    if wanted.quantize == "dynamic" and _DENSE not in hybrid(wanted.target):
        return f"{NAMES[wanted.target]} has no kernels for float inputs with int8 weights."
    lowering = wanted.lowering if wanted.integer else "algebraic"
    has = kernels(wanted.target)
    missing = [(op, dtype) for op, dtype in _NEEDS[wanted.quantize, lowering] if dtype not in has.get(op, ())]
    if not missing:
        return None
    listed = ", ".join(f"{op} for {dtype}" for op, dtype in missing)
    return f"{NAMES[wanted.target]} has no {listed}."


def nearest(wanted: Combination) -> Combination:
    """Returns the closest combination that works: same target first, then the closest type."""

    def distance(other: Combination) -> tuple[bool, int, int]:
        types = abs(QUANTIZE.index(other.quantize) - QUANTIZE.index(wanted.quantize))
        return (
            other.target != wanted.target,
            types,
            abs(LOWERINGS.index(other.lowering) - LOWERINGS.index(wanted.lowering)),
        )

    return min((other for other in combinations() if broken(other) is None), key=distance)


def refuse(wanted: Combination, io: str | None) -> None:
    """Refuses a combination that cannot work, before anything is converted.

    Args:
        wanted: What was requested.
        io: Type of the inputs and outputs; None for the model's own.

    Raises:
        OptionError: A value is not one of the choices, or inputs and outputs have a type that the model does not
            have.
        RefusedError: The combination cannot work; the finding names the nearest one that does.
    """
    for option, given, choices in (
        ("quantize", wanted.quantize, QUANTIZE),
        ("lowering", wanted.lowering, LOWERINGS),
        ("target", wanted.target, TARGETS),
        ("io", io or "float32", IO),
    ):
        if given not in choices:
            raise OptionError(f"`{option}` must be one of {', '.join(choices)}. Received: {json.dumps(given)}.")
    own = INTEGER_IO.get(wanted.quantize, "float32")
    if io not in (None, own, "float32"):
        raise OptionError(
            f"Inputs and outputs at {wanted.quantize} can be {own}"
            f"{'' if own == 'float32' else ' or float32'}. Received: --io {io}. Omit --io for {own}."
        )
    rule = broken(wanted)
    if rule:
        remedy = f"The nearest that works: {nearest(wanted)}."
        finding = Finding("the model", "", wanted.quantize, rule, remedy, Kind.DTYPE)
        raise RefusedError(f"{wanted} cannot work. {rule} {remedy}", (finding,))


def require_data(quantize: str, given: bool) -> None:
    """Raises `DataError` if a type of integers has no data of the user's to take ranges from.

    Args:
        quantize: The number type, one of `INTEGER_IO`.
        given: Whether there are data.
    """
    if not given:
        raise DataError(
            f"`--quantize {quantize}` needs representative inputs: the ranges of all tensors come from them, and "
            "made-up inputs give made-up ranges. Received: no data. Pass --data FILE.npz with a few hundred real "
            "inputs, keyed by the Keras input's name."
        )

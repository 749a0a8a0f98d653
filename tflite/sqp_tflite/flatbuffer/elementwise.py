"""Elementwise operators in any float type of numpy; tables of activations are computed in float64 or wider."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Function = Callable[..., NDArray[Any]]

WIDE = np.longdouble
"""float64 or wider. exp(1000) and its logarithm, which a softplus written with both passes through, stay finite where
the machine has more than float64."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    return np.where(x >= 0, 1.0 / (1.0 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1.0 + np.exp(-np.abs(x))))


def _elu(x: NDArray[Any]) -> NDArray[Any]:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


def _gelu(x: NDArray[Any], options: Mapping[str, Any]) -> NDArray[Any]:
    if options.get("approximate"):
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


UNARY: MappingProxyType[str, Function] = MappingProxyType(
    {
        "ABS": np.abs,
        "CEIL": np.ceil,
        "COS": np.cos,
        "ELU": _elu,
        "EXP": np.exp,
        "FLOOR": np.floor,
        "HARD_SWISH": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
        "LOG": np.log,
        "LOGICAL_NOT": np.logical_not,
        "LOGISTIC": _sigmoid,
        "NEG": np.negative,
        "RELU": lambda x: np.maximum(x, 0.0),
        "RELU6": lambda x: np.clip(x, 0.0, 6.0),
        "RELU_0_TO_1": lambda x: np.clip(x, 0.0, 1.0),
        "RELU_N1_TO_1": lambda x: np.clip(x, -1.0, 1.0),
        "ROUND": np.rint,
        "RSQRT": lambda x: 1.0 / np.sqrt(x),
        "SIGN": np.sign,
        "SIN": np.sin,
        "SQRT": np.sqrt,
        "SQUARE": np.square,
        "TANH": np.tanh,
    }
)
"""Operators of one operand without options; `apply` has those with some: GELU, LEAKY_RELU and CAST."""

BINARY: MappingProxyType[str, Function] = MappingProxyType(
    {
        "ADD": np.add,
        "DIV": np.divide,
        "EQUAL": np.equal,
        "GREATER": np.greater,
        "GREATER_EQUAL": np.greater_equal,
        "LESS": np.less,
        "LESS_EQUAL": np.less_equal,
        "LOGICAL_AND": np.logical_and,
        "LOGICAL_OR": np.logical_or,
        "MAXIMUM": np.maximum,
        "MINIMUM": np.minimum,
        "MUL": np.multiply,
        "NOT_EQUAL": np.not_equal,
        "POW": np.power,
        "PRELU": lambda x, alpha: np.where(x >= 0, x, alpha * x),
        "SQUARED_DIFFERENCE": lambda a, b: np.square(a - b),
        "SUB": np.subtract,
    }
)

_SELECT = ("SELECT", "SELECT_V2")
_WITH_OPTIONS = ("GELU", "LEAKY_RELU", "CAST")

ELEMENTWISE = frozenset((*UNARY, *BINARY, *_SELECT, *_WITH_OPTIONS))
"""Operators whose every output element depends only on the operands' elements at the same place."""

_FUSED: MappingProxyType[str, Function] = MappingProxyType(
    {
        "RELU": UNARY["RELU"],
        "RELU_N1_TO_1": UNARY["RELU_N1_TO_1"],
        "RELU6": UNARY["RELU6"],
        "TANH": UNARY["TANH"],
        "SIGN_BIT": np.sign,
    }
)

FUSABLE = frozenset(("", *_FUSED))
"""What may be fused into an operator, as `graph.Op.fused` names it; a damaged file has others."""


def apply(
    op: str, operands: Sequence[NDArray[Any]], options: Mapping[str, Any], number: type[Any] = WIDE
) -> NDArray[Any]:
    """Returns an operator's result for its operands, in numbers of one type (booleans stay booleans).

    Args:
        op: One of `ELEMENTWISE`.
        operands: In the operator's order, shapes that broadcast.
        options: As `graph.Op.options` holds them; what is fused is one of `FUSABLE`.
        number: The type, such as `np.float16`, in which each step of the operator is rounded.
    """
    wide = [x if x.dtype == bool else x.astype(number) for x in operands]
    with np.errstate(all="ignore"):
        result = _applied(op, wide, options, number)
        fused = options.get("fusedActivationFunction", "NONE")
        return result if fused == "NONE" else _FUSED[fused](result)


def _applied(op: str, wide: list[NDArray[Any]], options: Mapping[str, Any], number: type[Any]) -> NDArray[Any]:
    if op in UNARY:
        return UNARY[op](wide[0])
    if op in BINARY:
        return BINARY[op](*wide)
    if op in _SELECT:
        return np.where(wide[0].astype(bool), wide[1], wide[2])
    if op == "GELU":
        return _gelu(wide[0], options)
    if op == "LEAKY_RELU":
        return np.where(wide[0] >= 0, wide[0], number(options["alpha"]) * wide[0])
    if op == "CAST":
        return wide[0].astype(number)
    raise ValueError(f"`op` must be elementwise. Received: {op}.")

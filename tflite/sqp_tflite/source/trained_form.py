"""Finds squareplus as it is trained in a frozen graph, as a SavedModel holds it, and writes it as a device runs it.

    max(x + tail, tail)    tail = c / (z + max(sqrt(min(z*z, limit) + c), z)), z = abs(x)/2, c = b/4

is (x + sqrt(x*x + b)) / 2 without cancellation; see `sqp_keras.activation.formulas`. Older releases wrote
max(x, 0) + tail.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqp_keras import forms
from sqp_keras.activation.formulas import LARGEST_SQUARE_ROOT
from sqp_tflite.layer_names import FORM_SCOPE
from sqp_tflite.source.frozen import Frozen

LIMITS = re.compile(rf"{re.escape(forms.LIMITS_SCOPE)}(_\d+)?")

_SAME = frozenset("Identity IdentityN PlaceholderWithDefault StopGradient".split())
"""Operations whose first output is their first input."""


def in_export_form(graph: Frozen, op: Any) -> None:
    """Writes a sum that is squareplus in its training form as x/2 + sqrt(x/2*x/2 + c).

    Args:
        graph: The graph; changed.
        op: A Maximum or an AddV2.
    """
    found = _squareplus(graph, op)
    if found is None:
        return
    x, c = found
    scope = f"{op.name.rpartition('/')[0]}/{FORM_SCOPE}".lstrip("/")
    half = graph.add("Mul", scope, [graph.name_of(x), graph.constant(scope, _half(op))], like=op)
    square = graph.add("Mul", scope, [half, half], like=op)
    above = graph.add("AddV2", scope, [square, graph.name_of(c)], like=op)
    root = graph.add("Sqrt", scope, [above], like=op)
    # A node of the same name would not be in the scope.
    graph.replace(op, "Identity", [graph.add("AddV2", scope, [half, root], like=op)])


def _half(op: Any) -> Any:
    return op.outputs[0].dtype.as_numpy_dtype(0.5)


def _squareplus(graph: Frozen, op: Any) -> tuple[Any, Any] | None:
    """Returns the tensors (x, c) if an operation is squareplus in its training form."""
    for one, end in _pairs(op):
        tail = _made(end, "RealDiv")
        x = _without_tail(graph, op, one, end) if tail is not None else None
        below = _made(tail.inputs[1], "AddV2") if x is not None else None
        for z, root in _pairs(below) if below is not None else ():
            if _is_half(graph, z, x) and _is_root(graph, root, z, tail.inputs[0]):
                return x, tail.inputs[0]
    return None


def _without_tail(graph: Frozen, op: Any, one: Any, tail: Any) -> Any:
    """Returns x if an operation of `one` and a tail is max(x + tail, tail) or max(x, 0) + tail, else None."""
    if op.type == "Maximum":
        total = _made(one, "AddV2")
        return next((x for x, end in _pairs(total) if _same(end, tail)), None) if total is not None else None
    positive = _made(one, "Maximum")
    pairs = _pairs(positive) if positive is not None else ()
    return next((x for x, bound in pairs if _is(graph, bound, lambda value: value == 0.0)), None)


def _is_half(graph: Frozen, z: Any, x: Any) -> bool:
    """Whether z is abs(x)/2."""
    product = _made(z, "Mul")
    for whole, half in _pairs(product) if product is not None else ():
        turned = _made(whole, "Abs")
        if turned is not None and _same(turned.inputs[0], x) and _is(graph, half, lambda value: value == 0.5):
            return True
    return False


def _is_root(graph: Frozen, root: Any, z: Any, c: Any) -> bool:
    """Whether root is sqrt(z*z + c), or with z*z bounded the larger of that and z."""
    larger = _made(root, "Maximum")
    for one, other in _pairs(larger) if larger is not None else [(root, z)]:
        made = _made(one, "Sqrt")
        total = _made(made.inputs[0], "AddV2") if made is not None and _same(other, z) else None
        for square, added in _pairs(total) if total is not None else ():
            if _same(added, c) and _is_square(graph, square, z):
                return True
    return False


def _is_square(graph: Frozen, square: Any, z: Any) -> bool:
    """Whether it is z*z, bounded or not."""
    bounded = _made(square, "Minimum")
    if bounded is not None:
        least = LARGEST_SQUARE_ROOT["float32"] ** 2
        square = next((one for one, most in _pairs(bounded) if _is(graph, most, lambda value: value >= least)), None)
    product = _made(square, "Mul") if square is not None else None
    return product is not None and all(_same(part, z) for part in product.inputs)


def _pairs(op: Any) -> list[tuple[Any, Any]]:
    """The inputs of an operation in both orders."""
    return [(op.inputs[0], op.inputs[1]), (op.inputs[1], op.inputs[0])]


def _through(tensor: Any) -> Any:
    while tensor.op.type in _SAME and tensor.op.inputs:
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def _made(tensor: Any, kind: str) -> Any:
    """The operation that makes a tensor if it is of a kind, else None."""
    op = _through(tensor).op
    return op if op.type == kind else None


def _same(one: Any, other: Any) -> bool:
    return bool(_through(one).name == _through(other).name)


def _is(graph: Frozen, tensor: Any, right: Callable[[float], bool]) -> bool:
    value = graph.value(_through(tensor))
    return value is not None and value.size == 1 and right(float(value.item()))


def without_limits(graph: Frozen, op: Any) -> None:
    """Leaves out what an algebraic activation selects for huge inputs, as every export does.

    Args:
        graph: The graph; changed.
        op: A SelectV2.
    """
    if any(LIMITS.fullmatch(part) for part in op.name.split("/")[:-1]):
        graph.replace(op, "Identity", [graph.name_of(op.inputs[2])])


def passed_through(graph: Frozen, op: Any) -> None:
    """Lets the readers of an IdentityN, in which a SavedModel holds a gradient, read what it passes on.

    Args:
        graph: The graph; changed.
        op: An IdentityN.
    """
    graph.replace_outputs(op, [graph.name_of(tensor) for tensor in op.inputs])

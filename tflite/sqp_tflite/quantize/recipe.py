"""Quantises a float file to integers or half precision, with litert-quantizer and a recipe made for the model.

Runs in a child process: the functions here take and return plain data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import Subgraph
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import kernels
from sqp_tflite.quantize.exact import narrowed, settled
from sqp_tflite.quantize.islands import Islands, islands
from sqp_tflite.quantize.scales import of_tensors, statistics, weight_ranges
from sqp_tflite.quantize.shares import shares
from sqp_tflite.quantize.states import NO_ACCUMULATORS, Accumulators, accumulators

INTEGER_BITS = {"int8": 8, "int16x8": 16}
"""Bits of the activations in the integer types; weights have 8 bits in both."""

_INEXACT = frozenset(("DIV",))
"""Operators whose integer kernels are too far off to be used, where a table can take their place."""

_NO_QUANTIZE = "no_quantize"

_WHOLE: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "int8": {"uint8": (0.0, 255.0), "int8": (-128.0, 127.0)},
    "int16x8": dict.fromkeys(("uint8", "int8", "int16"), (-32767.0, 32767.0)),
}
"""Ranges with a scale of 1, by what the model's input is."""

_SPELLED = {"CONV_2D_TRANSPOSE": "TRANSPOSE_CONV"}
"""Operators that the quantiser spells differently from the schema."""


@dataclass(frozen=True, slots=True)
class Request:
    """How to quantise a file.

    Attributes:
        wanted: The number type, the lowering, and the target whose kernels decide what can stay as it is.
        float_io: Whether inputs and outputs stay float32.
        forms: Outputs of the model that come directly from an activation.
        per_tensor: Whether the weights of dense layers get one scale each, not one per unit.
        states: Pairs (place of an output, place of the input that it goes back into).
        cast: Pairs (place of an input, its type in the model) of inputs that the model casts to float32.
        step: Whether the file is one time step, whose states have types of their own.
    """

    wanted: Combination
    float_io: bool = False
    forms: tuple[str, ...] = ()
    per_tensor: bool = False
    states: tuple[tuple[int, int], ...] = ()
    cast: tuple[tuple[int, str], ...] = ()
    step: bool = False

    @property
    def quantize(self) -> str:
        """Returns the number type."""
        return self.wanted.quantize

    @property
    def lowering(self) -> str:
        """Returns how activations are written."""
        return self.wanted.lowering

    @property
    def target(self) -> str:
        """Returns the target whose kernels decide."""
        return self.wanted.target


@dataclass(frozen=True, slots=True)
class Quantized:
    """The quantised file.

    Attributes:
        content: The file.
        islands: Which of its float tensors belong to an activation or will become a table.
        integer_ends: Whether its inputs and outputs are integers.
        spans: {tensor: (smallest, largest)} that is read of tensors whose codes hold no more than that.
        wide: Its states of 16 bits.
        shares: Its tensors of 16 bits in softmaxes.
    """

    content: bytes
    islands: Islands
    integer_ends: bool = False
    spans: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    wide: Accumulators = NO_ACCUMULATORS
    shares: frozenset[str] = frozenset()


def whole_codes(names: Sequence[str], request: Request) -> dict[str, tuple[float, float]]:
    """Returns the ranges of inputs that are integers in the model: one code for each, whatever the data hold.

    With a scale of 1 the user's integers go in as they are, except for uint8, which int8 takes less 128.

    Args:
        names: Of the inputs' tensors.
        request: What was requested.
    """
    spans = _WHOLE[request.quantize]
    return {names[place]: spans[dtype] for place, dtype in request.cast if dtype in spans}


def quantize_here(content: bytes, request: Request, ranges: dict[str, tuple[float, float]]) -> Quantized:
    """Returns the quantised file.

    Args:
        content: The float file, with unique tensor names.
        request: What was requested.
        ranges: {tensor: (smallest, largest)} on the data; unused for the float types.
    """
    from litert_quantizer import quantizer, recipe_manager

    manager = recipe_manager.RecipeManager()
    if request.quantize not in INTEGER_BITS:
        _add_float_recipe(manager, request.quantize)
        found = quantizer.Quantizer(content, manager.get_quantization_recipe()).quantize(enable_progress_report=False)
        return Quantized(bytes(found.quantized_model), Islands(frozenset(), frozenset()))
    graph = read(content).main
    wider = shares(graph, request.target) if INTEGER_BITS[request.quantize] == 8 else frozenset()
    chosen = _islands(graph, request).without(wider)
    # Around tables, and where an output is also read inside, float inputs and outputs are added afterwards: the
    # quantiser writes them in float for all that reads them, or leaves them integers.
    integer_ends = not request.float_io or bool(chosen.tables) or _outputs_are_read(graph)
    wide_states = _accumulators(graph, request, chosen)
    integer_ends = integer_ends or bool(wide_states.places)
    _add_integer_recipe(manager, request, chosen, wider, integer_ends)
    exact = settled(ranges, graph, chosen.tables) if request.quantize == "int8" else {}
    _widen(manager, wide_states)
    spans = statistics(graph, {**ranges, **exact})
    weights = weight_ranges(graph, spans, INTEGER_BITS[request.quantize])
    spans |= of_tensors(graph, weights) if request.per_tensor else weights
    recipe = manager.get_quantization_recipe()
    found = quantizer.Quantizer(content, recipe).quantize(spans, enable_progress_report=False)
    editor = Editor(bytes(found.quantized_model))
    editor.retype_dead_outputs()
    editor.give_own_names()
    return Quantized(editor.bytes(), chosen, integer_ends, narrowed(ranges, graph) if exact else {}, wide_states, wider)


def _accumulators(graph: Subgraph, request: Request, chosen: Islands) -> Accumulators:
    if not request.step or INTEGER_BITS[request.quantize] == 16:
        return NO_ACCUMULATORS
    return accumulators(graph, request.states, chosen.activations | chosen.tables)


def _widen(manager: Any, wide: Accumulators) -> None:
    """Gives states that are sums, and what adds them up, 16 bits; conversions appear by themselves."""
    from litert_quantizer import qtyping

    names = qtyping.TFLOperationName
    for scopes, which in ((wide.ops, names.ALL_SUPPORTED), (wide.inputs, names.INPUT), (wide.outputs, names.OUTPUT)):
        for scope in _scopes(scopes):
            manager.add_static_config(scope, which, 16, 8)


def _outputs_are_read(graph: Subgraph) -> bool:
    return not {index for op in graph.ops for index in op.inputs}.isdisjoint(graph.outputs)


def _add_float_recipe(manager: Any, kind: str) -> None:
    from litert_quantizer import qtyping

    every = qtyping.TFLOperationName.ALL_SUPPORTED
    if kind == "float16":
        manager.add_weight_only_config(".*", every, num_bits=16, algorithm_key="float_casting")
    else:
        manager.add_dynamic_config(".*", every, num_bits=8)
        # tflite-runtime 2.14 reads only one scale from a dense layer's weights, and silently ignores the rest.
        dense = qtyping.TFLOperationName.FULLY_CONNECTED
        manager.add_dynamic_config(".*", dense, num_bits=8, granularity=qtyping.QuantGranularity.TENSORWISE)


def _add_integer_recipe(
    manager: Any, request: Request, chosen: Islands, wider: frozenset[str], integer_ends: bool
) -> None:
    from litert_quantizer import qtyping

    names = qtyping.TFLOperationName
    bits = INTEGER_BITS[request.quantize]
    manager.add_static_config(".*", names.ALL_SUPPORTED, bits, 8)
    if request.per_tensor:
        manager.add_static_config(".*", names.FULLY_CONNECTED, bits, 8, qtyping.QuantGranularity.TENSORWISE)
    # LiteRT and tflite-runtime read only the first scale of a constant matrix, and silently ignore the rest.
    manager.add_static_config(".*", names.BATCH_MATMUL, bits, 8, qtyping.QuantGranularity.TENSORWISE)
    if not integer_ends:
        for end in (names.INPUT, names.OUTPUT):
            manager.add_quantization_config(".*", end, algorithm_key=_NO_QUANTIZE)
    wide = wider
    if request.lowering == "integer" and bits == 8:
        wide |= chosen.activations - chosen.tables
    for scope in _scopes(wide):
        manager.add_static_config(scope, names.ALL_SUPPORTED, 16, 8)
    kept = chosen.tables | (chosen.activations if request.lowering == "algebraic" else frozenset())
    for scope in _scopes(kept):
        manager.add_quantization_config(scope, names.ALL_SUPPORTED, algorithm_key=_NO_QUANTIZE)
    # Scopes match tensor names, and an input or output of the model may have the same name.
    for scope in _scopes(kept | wide):
        for end in (names.INPUT, names.OUTPUT):
            if not integer_ends:
                manager.add_quantization_config(scope, end, algorithm_key=_NO_QUANTIZE)
            else:
                manager.add_static_config(scope, end, bits, 8)


def _scopes(names: frozenset[str]) -> list[str]:
    """One expression that matches operators by the exact names of their output tensors; none without names.

    It is a single expression because every operator is matched against every expression.
    """
    return [f"^({'|'.join(re.escape(name) for name in sorted(names))});$"] if names else []


def _islands(graph: Subgraph, request: Request) -> Islands:
    has = kernels(request.target)
    bits = INTEGER_BITS[request.quantize]
    static = _static_ops(bits)

    def native(op: str) -> bool:
        return op in static and op not in _INEXACT and f"int{bits}" in has.get(op, ())

    found = islands(graph, request.lowering, native, request.forms)
    if bits == 8:
        return found
    # Tables of 65,536 entries are not made: what would be one stays in float, where float is allowed.
    kept = found.tables if request.lowering == "algebraic" else frozenset()
    return Islands(found.activations | kept, frozenset())


def _static_ops(bits: int) -> frozenset[str]:
    """Operators that the quantiser can give static integer activations."""
    from litert_quantizer import qtyping, recipe_manager

    names = qtyping.TFLOperationName
    manager = recipe_manager.RecipeManager()
    manager.add_static_config(".*", names.ALL_SUPPORTED, bits, 8)
    spelled = {name: _SPELLED.get(name.value, name.value) for name in names}
    known = set(schema.names("BuiltinOperator").values())
    return frozenset(
        op
        for name, op in spelled.items()
        if op in known and manager.get_quantization_configs(name, "any;")[0] != _NO_QUANTIZE
    )

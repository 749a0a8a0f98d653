"""Lists the conversions of an integer file, for users who want none."""

from __future__ import annotations

from sqp_tflite.flatbuffer.graph import FLOAT_DTYPES, TYPE_CHANGES, Graph, Op, Subgraph
from sqp_tflite.layer_names import INNER, LayerNames
from sqp_tflite.quantize.recipe import Request
from sqp_tflite.report import Finding, Kind

_SCALES = (
    "Numbers of two scales meet here: scale the inputs so that both have the same range, or omit --no-conversions."
)


def conversions(graph: Graph, layers: LayerNames, request: Request) -> tuple[Finding, ...]:
    """Returns a finding for each QUANTIZE and DEQUANTIZE, except those of float inputs and outputs that were asked for.

    Args:
        graph: The integer file.
        layers: Layer names, for messages.
        request: What was requested.
    """
    main = graph.main
    ends = {*main.inputs, *main.outputs} if request.float_io else set()
    found = []
    for op in main.ops:
        if op.name not in TYPE_CHANGES or not ends.isdisjoint((*op.inputs, *op.outputs)):
            continue
        source, result = (main.tensors[index] for index in (op.inputs[0], op.outputs[0]))
        rule = f"{op.name} from {source.dtype} to {result.dtype} is not wanted (--no-conversions)."
        layer = layers.of(result.name.removesuffix(INNER))
        found.append(Finding(layer, op.name, op.dtype, rule, _remedy(main, op, request), Kind.DTYPE))
    return tuple(found)


def _remedy(main: Subgraph, op: Op, request: Request) -> str:
    types = {main.tensors[index].dtype for index in (*op.inputs, *op.outputs)}
    if len(types) == 1:
        return _SCALES
    if request.quantize == "int8":
        return "Use --lowering table."
    return "Use --lowering integer." if types & set(FLOAT_DTYPES) else _SCALES

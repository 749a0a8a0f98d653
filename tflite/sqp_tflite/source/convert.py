"""A traced function to the bytes of a float TFLite file, by TensorFlow's converter in a child process."""

from __future__ import annotations

import re
from typing import Any

from sqp_tflite import private
from sqp_tflite.errors import CrashedError, RefusedError
from sqp_tflite.flatbuffer.ends import separate
from sqp_tflite.report import Finding, Kind
from sqp_tflite.source.trace import Traced
from sqp_tflite.wording import said
from sqp_tflite.worker import ChildError, Worker

IMPORTS = ("sqp_tflite.source.convert", "tensorflow")
"""What a worker for `convert` may import ahead of time."""

_EVERYWHERE = frozenset(("Const", "Identity", "NoOp", "Placeholder"))
"""Operations that every graph holds: that a message names them says nothing."""

_MOST_NAMED = 6

_OTHERWISE = "Take it out of the exported model, or write it with other operations."
_FEATURES = "It computes features: compute them before the model, in your firmware, and export the layers behind it."
_INSTEAD = {
    **dict.fromkeys(
        "AsString StringToHashBucketFast StringToHashBucketStrong SparseCross Bucketize".split(), _FEATURES
    ),
    **dict.fromkeys(
        ("ResizeBicubic", "ScaleAndTranslate"), 'Use interpolation="bilinear" or "nearest", which files can hold.'
    ),
    **dict.fromkeys(
        ("PyFunc", "EagerPyFunc", "PyFuncStateless"),
        "Python code does not run on a device: write it with operations of keras.ops.",
    ),
    **dict.fromkeys(
        ("MaxPool3D", "AvgPool3D"),
        "Pool in two steps: a TimeDistributed(MaxPooling2D(...)), or AveragePooling2D, over rows and columns, then, "
        "behind a Reshape that joins them, a MaxPooling2D((depth, 1)), or AveragePooling2D.",
    ),
    "ExtractImagePatches": "Take patches side by side, with strides equal to their sizes.",
}
"""What helps against single operations."""


def convert(traced: Traced, worker: Worker) -> bytes:
    """Returns the float32 file: built-in ops only, inputs and outputs named and ordered as in Keras.

    Args:
        traced: What `trace` returned.
        worker: The child process to convert in.

    Raises:
        RefusedError: Ops that have no built-in counterpart, each with its Keras layer.
        CrashedError: The converter died.
    """
    inputs = tuple(spec.name for spec in traced.inputs)
    try:
        content: bytes = worker.call(
            "sqp_tflite.source.convert:convert_graph", traced.graph_def, inputs, traced.outputs
        )
    except ChildError as error:
        findings = _missing_ops(error.text, traced)
        if not findings:
            raise CrashedError(
                f"TensorFlow's converter refused the model. Received: {_first_line(error.text)}. "
                f"{_mentioned(error.text, traced)}Run again with --debug for its whole output."
            ) from error
        raise RefusedError(f"{len(findings)} op(s) of the model have no TFLite counterpart.", findings) from error
    # Only with several outputs can two of them be one tensor.
    return separate(content, traced.outputs) if len(traced.outputs) > 1 else content


def convert_graph(graph_def: bytes, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> bytes:
    """Returns the TFLite file of a frozen graph; runs in the child.

    Args:
        graph_def: A serialized GraphDef without variables.
        inputs: Names of the placeholders, in the order of the file.
        outputs: Names of the output nodes, in order.
    """
    import tensorflow as tf

    graph = tf.Graph()
    definition = tf.compat.v1.GraphDef.FromString(graph_def)
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    tensors = [[graph.get_tensor_by_name(f"{name}:0") for name in names] for names in (inputs, outputs)]
    converter = private.require("converter")(definition, *tensors)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    return converter.convert()


_ODD = ("float64", "float16", "bfloat16", "uint64", "int8", "uint8", "uint16")
"""Types of numbers for which few operators exist."""


def _missing_ops(text: str, traced: Traced) -> tuple[Finding, ...]:
    """The converter names one place and lists the other ops by type only; the graph says where they are."""
    types = set(re.findall(r"'tf\.(\w+)' op is neither a custom op", text))
    for listed in re.findall(r"(?:Custom|Flex) ops: ([\w, ]+)", text):
        types |= {name.strip() for name in listed.split(",")}
    places = _places(traced, types) or [("the model", op, "") for op in sorted(types)]
    return tuple(_missing(layer, op, dtype) for layer, op, dtype in places)


def _missing(layer: str, op: str, dtype: str) -> Finding:
    if dtype:
        rule = f"`{op}` has no TFLite operator for {dtype}."
        return Finding(layer, op, dtype, rule, 'Compute it in float32: keras.ops.cast(x, "float32").', Kind.DTYPE)
    rule = f"`{op}` has no built-in TFLite operator."
    return Finding(layer, op, "", rule, _INSTEAD.get(op, _OTHERWISE), Kind.OP)


def _places(traced: Traced, types: set[str]) -> list[tuple[str, str, str]]:
    """Returns (layer, operation, one of `_ODD` if it computes in that, else "") of every operation of these types."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(traced.graph_def)
    bodies = [definition.node, *(function.node_def for function in definition.library.function)]
    odd = {tf.as_dtype(name).as_datatype_enum: name for name in _ODD}
    found = [
        (traced.layers.of(node.name), node.op, next((odd[type_] for type_ in _types(node) if type_ in odd), ""))
        for nodes in bodies
        for node in nodes
        if node.op in types
    ]
    return list(dict.fromkeys(found))


def _types(node: Any) -> list[int]:
    """Returns the types that an operation is about, as TensorFlow numbers them."""
    return [node.attr[name].type for name in ("T", "SrcT", "DstT") if name in node.attr]


def _mentioned(text: str, traced: Traced) -> str:
    """What can be said of a message in unknown words: which operations of the model it names, and their layers."""
    words = set(re.findall(r"\w+", text)) - _EVERYWHERE
    places = [f"`{op}` in `{layer}`" for layer, op, _ in _places(traced, words)][:_MOST_NAMED]
    return f"The message names {', '.join(places)}. " if places else ""


def _first_line(text: str) -> str:
    return said(next((line for line in text.splitlines() if line.strip()), "no message"))

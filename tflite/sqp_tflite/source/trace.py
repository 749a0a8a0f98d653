"""Traces a fresh function of the model in which every activation has the form that the device runs.

Keras's own functions answer differently in the thread that traces (`hooks`), so that sequential, functional, nested and
subclassed models are all reached, none has to be cloned and the user's model is only read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from sqp_keras import forms
from sqp_keras.family.algebraic import evaluate
from sqp_keras.models import sites
from sqp_tflite import collecting, private
from sqp_tflite.errors import RefusedError
from sqp_tflite.layer_names import FORM_SCOPE, MODEL_SCOPE, LayerNames, in_scope, scope_name
from sqp_tflite.report import Finding, Kind, StatePair
from sqp_tflite.source import hooks, safe_half
from sqp_tflite.source.finite import require_constants
from sqp_tflite.source.freezing import FrozenGraph, frozen
from sqp_tflite.source.keras_errors import running
from sqp_tflite.source.load import InputSpec
from sqp_tflite.source.masks import none_masked, watched
from sqp_tflite.source.plan import Plan
from sqp_tflite.source.states import state_pairs
from sqp_tflite.source.unroll import unrolled

_DRAWS = re.compile("Random|Multinomial|^Stateful(Standard|Uniform|Truncated)|^Stateless(Truncated|Parameterized)")
_FUSED = frozenset("BiasAdd AddV2 Sub Mul Relu Relu6 Reshape Squeeze Identity".split())
_WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatterUpdate")


@dataclass(frozen=True, slots=True)
class Traced:
    """A model as one frozen graph at batch 1.

    Attributes:
        graph_def: Serialized GraphDef, weights as constants.
        inputs: The placeholders, named after the inputs.
        outputs: Names of the output nodes: Keras's output names.
        layers: Which layer a node's name belongs to.
        steps: Pairs (recurrent layer, time steps that it is written out for).
        forms: The outputs that an activation's form makes, which their names do not tell.
        states: The outputs that go back in as inputs.
        cast: Pairs (place of an input, its type in the model) where the graph takes float32 instead.
        notes: What its operations cost, in sentences.
    """

    graph_def: bytes
    inputs: tuple[InputSpec, ...]
    outputs: tuple[str, ...]
    layers: LayerNames
    steps: tuple[tuple[str, int], ...] = ()
    forms: tuple[str, ...] = ()
    states: tuple[StatePair, ...] = ()
    cast: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()


def trace(plan: Plan, states: Mapping[str, str] | None = None) -> Traced:
    """Returns the frozen graph of the planned model, which is only read.

    Args:
        plan: The planned model.
        states: {output: input that it goes back into} as the user says; None to find them.

    Raises:
        RefusedError: The model keeps state in variables, draws random numbers or loops over an open time dimension.
        BadInputError: A layer of the model raises an error, or `states` do not fit the model, or it holds NaN.
        EnvironmentMissingError: This TensorFlow cannot write weights into a graph in the known way.
    """
    loaded = plan.loaded
    names: list[str] = []
    steps: dict[str, int] = {}

    def traced(*tensors: tf.Tensor) -> list[tf.Tensor]:
        outputs = loaded.call(tensors)
        names[:] = outputs
        # A separate identity for each output: two outputs may be the same tensor, or an input.
        return [tf.identity(value) for value in outputs.values()]

    specs = [tf.TensorSpec((1, *spec.shape), spec.dtype, name=scope_name(spec.name)) for spec in loaded.inputs]
    with collecting.later(), _exchanged(plan, steps), running(loaded.source):
        concrete = tf.function(traced, autograph=False).get_concrete_function(*specs)
    layers = LayerNames(loaded.layers, owners=loaded.owners)
    _refuse_state(concrete.graph, layers, loaded.model)
    with collecting.later(), running(loaded.source):
        held = frozen(concrete)
    definition = held.definition
    inputs = [tensor.op.name for tensor in held.inputs]
    outputs = _name_outputs(definition, [tensor.name for tensor in held.outputs], names)
    named = tuple(
        InputSpec(node, spec.shape, spec.dtype, spec.categories)
        for node, spec in zip(inputs, loaded.inputs, strict=True)
    )
    behind = _sources(held)
    sources = dict(zip(outputs, (tensor.op.name for tensor in behind), strict=True))
    made = tuple((name, layers.of(source)) for name, source in sources.items())
    fused = tuple((name, layers.of(_contraction(tensor.op).name)) for name, tensor in zip(outputs, behind, strict=True))
    forms_made = tuple(name for name, source in sources.items() if in_scope(source))
    layers = LayerNames(loaded.layers, made, fused, loaded.owners)
    ends = [
        InputSpec(name, tuple(tensor.shape[1:].as_list()) if tensor.shape.rank else (), tensor.dtype.name)
        for name, tensor in zip(names, held.outputs, strict=True)
    ]
    pairs = tuple(
        StatePair(outputs[out], named[into].name, out, into) for out, into in state_pairs(loaded, ends, states)
    )
    require_constants(definition, layers, loaded.source)
    content = definition.SerializeToString(deterministic=True)
    return Traced(content, named, outputs, layers, tuple(steps.items()), forms_made, pairs)


def squareplus_form(x: Any, b: Any) -> Any:
    """Returns squareplus as MUL ADD SQRT ADD, after a halving that the converter folds into the layer in front.

    y = z + sqrt(z*z + b/4)    z = x/2

    Halving is exact in binary floating point, so that a folded half changes no bit of a normal number.
    """
    if isinstance(b, (int, float)) and b == 0:
        return tf.nn.relu(x)
    half = 0.5 * tf.convert_to_tensor(x)
    quarter = tf.cast(tf.convert_to_tensor(b), half.dtype) * 0.25 if not isinstance(b, (int, float)) else b / 4
    return half + tf.sqrt(half * half + quarter)


def _form(name: str, x: Any, **parameters: Any) -> Any:
    with tf.name_scope(FORM_SCOPE):
        if forms.for_halves():
            return safe_half.form(name, x, **parameters)
        if name == "squareplus":
            return squareplus_form(x, parameters["b"])
        if name == "function":
            return parameters["function"](x)
        # The sums consist of ADD, MUL and SQRT already.
        return evaluate(tf.convert_to_tensor(x), parameters["coefficients"])


@contextlib.contextmanager
def _exchanged(plan: Plan, steps: dict[str, int]) -> Iterator[None]:
    model = plan.loaded.model
    with contextlib.ExitStack() as stack:
        stack.enter_context(forms.use(_form, plan.wanted.integer, plan.safe_half))
        stack.enter_context(hooks.stock_squareplus_in_form())
        stack.enter_context(hooks.embedded_by_gather())
        if plan.full:
            stack.enter_context(watched(none_masked(model)))
        if model is not None:
            stack.enter_context(unrolled(model, steps))
            scopes = {id(layer): f"{scope_name(path)}/" for path, layer in sites.paths(model)}
            stack.enter_context(hooks.named_by_path({**scopes, id(model): f"{MODEL_SCOPE}/"}))
        yield


def _name_outputs(definition: Any, tensors: list[str], names: list[str]) -> tuple[str, ...]:
    """Adds an identity named after each Keras output; a name that a node already has gets a number."""
    taken = {node.name for node in definition.node}
    chosen = []
    for tensor, name in zip(tensors, names, strict=True):
        wanted, number = scope_name(name), 0
        while wanted in taken:
            number += 1
            wanted = f"{scope_name(name)}_out{number if number > 1 else ''}"
        taken.add(wanted)
        chosen.append(wanted)
        node = definition.node.add(op="Identity", name=wanted, input=[tensor.removesuffix(":0")])
        node.attr["T"].type = tf.float32.as_datatype_enum
        source = next(n for n in definition.node if n.name == tensor.partition(":")[0])
        if "T" in source.attr:
            node.attr["T"].CopyFrom(source.attr["T"])
    return tuple(chosen)


def _sources(held: FrozenGraph) -> list[Any]:
    """The tensors behind the identities that `traced` puts around each output."""
    found = []
    for tensor in held.outputs:
        while tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        found.append(tensor)
    return found


def _contraction(op: Any) -> Any:
    """The convolution or product into which the converter fuses an operation: it scales, adds and clips its result."""
    while op.type in _FUSED and op.inputs:
        op = op.inputs[0].op
    return op


_AUGMENTING = "keras.src.layers.preprocessing"
"""Where Keras has the layers that change images at random in training; some draw numbers at any time."""


def _refuse_state(graph: Any, layers: LayerNames, model: Any) -> None:
    findings = []
    kinds = {path: type(layer) for path, layer in sites.paths(model)} if model is not None else {}
    for op in _all_ops(graph):
        layer = layers.of(op.name)
        stateful = op.type in _WRITES or _DRAWS.search(op.type)
        if stateful and (kind := kinds.get(layer)) and kind.__module__.startswith(_AUGMENTING):
            rule = f"{kind.__name__} draws random numbers, which the exported model may not."
            remedy = "It is for training: build the model that you export without it, with the same weights."
            findings.append(Finding(layer, "", "", rule, remedy, Kind.STATE))
            continue
        if op.type in _WRITES:
            rule = "A device's file holds no variables, so the model may not write one."
            remedy = "Make the state an input and an output of the model."
        elif _DRAWS.search(op.type):
            rule = "The exported model may not draw random numbers."
            remedy = "Export the part in front of it (for a variational encoder: the mean)."
        elif "HashTable" in op.type or op.type.startswith("LookupTable"):
            rule = "A device's file holds no lookup tables."
            remedy = "Look the values up outside of the model, and export the layers behind the lookup."
        else:
            continue
        dtype = op.outputs[0].dtype.name if op.outputs else ""
        findings.append(Finding(layer, op.type, dtype, rule, remedy, Kind.STATE))
    if findings:
        raise RefusedError(f"{len(findings)} op(s) of the model cannot be exported.", tuple(dict.fromkeys(findings)))


def _all_ops(graph: Any) -> Iterator[Any]:
    yield from graph.get_operations()
    for function in graph.as_graph_def().library.function:
        inner = private.graph_function(graph, function.signature.name)
        if inner is not None:
            yield from inner.get_operations()

"""Writes activations of a finished float file as sums of square roots, and squareplus in the form for devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sqp_keras.family.algebraic import evaluate
from sqp_keras.family.coefficients import Sum, find
from sqp_tflite.flatbuffer.arithmetic import Value, Writer
from sqp_tflite.flatbuffer.chains import Chain
from sqp_tflite.flatbuffer.edit import Editor, NewOp
from sqp_tflite.flatbuffer.functions import Found
from sqp_tflite.flatbuffer.graph import Subgraph, Tensor
from sqp_tflite.flatbuffer.softmaxes import Softmax
from sqp_tflite.layer_names import FORM_SCOPE, LayerNames

_CONTRACTING = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@dataclass(frozen=True, slots=True)
class Bend:
    """A squareplus: its b, and the floor that is added to it."""

    b: float
    floor: float = 0.0


Written = Sum | Bend
"""What an activation becomes."""


def replace(
    editor: Editor, activations: Mapping[Found, Written], softmaxes: tuple[Softmax, ...] = ()
) -> dict[int, tuple[str, ...]]:
    """Puts sums in the place of activations, and returns {tensor: the operators that compute it now}.

    Args:
        editor: Of a file that was not changed since it was opened.
        activations: Each activation and what it becomes.
        softmaxes: Those that become sums, too.
    """
    main = editor.graph.main
    makers, numbers, layers = main.makers(), dict[float, int](), LayerNames()
    replaced: dict[int, list[NewOp]] = {}

    def write(source: int, result: int) -> tuple[Writer, Value]:
        writer = Writer(editor, layers.of(main.tensors[result].name), numbers)
        return writer, writer.value(source, main.tensors[source].shape)

    for found, becomes in activations.items():
        chain = found.chain
        writer, x = write(chain.source, chain.result)
        if isinstance(becomes, Bend):
            y = squareplus(x, becomes.b, halved=_halved(editor, main, found.chain))
            if becomes.floor:
                y + becomes.floor
        else:
            evaluate(x, becomes, writer)
        replaced[makers[chain.result].index] = writer.finished(chain.result)
    for one in softmaxes:
        writer, x = write(one.source, one.result)
        softmax(x, writer, one.beta)
        replaced[makers[one.result].index] = writer.finished(one.result)
    for result in {ops[-1].outputs[0] for ops in replaced.values()} - set(main.outputs):
        # The name says that only an activation's form made it: a quantiser treats such tensors differently.
        editor.rename(result, f"{layers.of(main.tensors[result].name)}/{FORM_SCOPE}/Result_{result}")
    if replaced:
        editor.replace_ops(replaced)
        editor.drop_unused()
    return {ops[-1].outputs[0]: tuple(op.name for op in ops) for ops in replaced.values()}


def squareplus(x: Value, b: float, halved: bool = False) -> Value:
    """Writes z + sqrt(z*z + b/4) for z = x/2: MUL ADD SQRT ADD, and a MUL for the half unless x is halved already."""
    half = x if halved else x * 0.5
    return half + x.writer.sqrt(half * half + b / 4.0)


def softmax(x: Value, writer: Writer, beta: float) -> Value:
    """Writes softmax over the last axis, without exp and without a division, as `sqp_keras.family.algebraic` does."""
    scaled = x if beta == 1.0 else x * beta
    below = scaled - writer.reduced("REDUCE_MAX", scaled)
    root = evaluate(below * 0.25, dataclasses.replace(find("exponential", None, 1.0, 0.0), low=None), writer)
    square = root * root
    power = square * square
    size = writer.shape(power)[-1]
    total = writer.reduced("MEAN", power) * float(size)
    return power * writer.op("RSQRT", total * total)


def can_halve(main: Subgraph, chain: Chain) -> bool:
    """Returns whether the half of a squareplus can go into the weights and the bias in front.

    Args:
        main: Holds it.
        chain: The squareplus.
    """
    return bool(_in_front(main, chain))


def _in_front(main: Subgraph, chain: Chain) -> tuple[Tensor, ...]:
    """The weights and the bias of the operator in front of a chain, if nothing else depends on them."""
    op, readers = main.makers().get(chain.source), main.readers()
    if op is None or op.name not in _CONTRACTING or op.fused or chain.source in main.outputs:
        return ()
    constants = tuple(main.tensors[index] for index in op.inputs[1:] if index >= 0)
    plain = all(one.values is not None and one.dtype == "float32" and len(readers[one.index]) == 1 for one in constants)
    alone = set(chain.ops).issuperset(reader.index for reader in readers[chain.source])
    return constants if plain and alone else ()


def _halved(editor: Editor, main: Subgraph, chain: Chain) -> bool:
    constants = _in_front(main, chain)
    for tensor in constants:
        editor.set_values(tensor.index, np.asarray(tensor.values) * np.float32(0.5))
    return bool(constants)

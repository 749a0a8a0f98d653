"""Refuses numbers that are not finite in a model: the samples need not come across them, users of the device will."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from sqp_keras.models import sites
from sqp_tflite.errors import WeightsError
from sqp_tflite.layer_names import LayerNames
from sqp_tflite.ops.finite import amiss
from sqp_tflite.wording import LONGEST_NAME, harmless, joined, shortened

_MOST_LISTED = 3

_REMEDY = (
    "A training that diverged leaves such numbers: load an earlier checkpoint, or train again with a lower learning "
    "rate or with clipnorm."
)
_CONSTANT_REMEDY = "Compute the constant without a division by 0 and without a root or logarithm of a negative number."

_WEIGHED = frozenset(
    "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Conv2D Conv3D DepthwiseConv2dNative Conv2DBackpropInput "
    "Conv3DBackpropInputV2 BiasAdd GatherV2 ResourceGather FusedBatchNormV3".split()
)
"""Operations whose constants are weights. Elsewhere an infinity may have a meaning: in a mask, or around a pooling."""

_PASSING = frozenset("Identity Reshape Transpose Cast ExpandDims Squeeze ReadVariableOp".split())


def require_weights(model: Any, source: str) -> None:
    """Raises if a weight of a Keras model, trainable or not, used or not, is not finite, or a variance is negative.

    Args:
        model: The model.
        source: What messages call it.

    Raises:
        WeightsError: At least one weight is not; the first ones are named.
    """
    owners: dict[int, str] = {}
    for path, layer in sites.paths(model):  # Parents come first, so that the innermost layer stays.
        if isinstance(layer, keras.layers.Layer):
            owners |= dict.fromkeys(map(id, layer.weights), path)
    _require_variances(model, source)
    _require(((f"{owners.get(id(weight), model.name)}: {weight.name}", weight) for weight in model.weights), source)


def _require_variances(model: Any, source: str) -> None:
    """Raises if a variance has no root: what a norm computes with it is NaN for every input."""
    found = []
    for path, layer in sites.paths(model):
        held, least = None, 0.0
        if isinstance(layer, keras.layers.BatchNormalization):
            held, least = getattr(layer, "moving_variance", None), -float(layer.epsilon)
        elif isinstance(layer, keras.layers.Normalization):
            held = getattr(layer, "variance", None)
        bad = 0 if held is None else int(np.count_nonzero(np.asarray(held) < least))
        if held is not None and bad:
            found.append(f"{bad} negative value{'s' if bad > 1 else ''} in `{_short(f'{path}: {held.name}')}`")
    if found:
        raise WeightsError(
            f"Every variance of `{source}` must be 0 or more. Received: {_several(found)}. Set the variance that the "
            "training measured, or train the model again."
        )


def variables_of(held: Any) -> tuple[Any, ...]:
    """Returns the variables that a loaded SavedModel lists under `variables`, where the file may hold anything."""
    import tensorflow as tf

    own = getattr(held, "variables", ())
    return tuple(one for one in own if isinstance(one, tf.Variable)) if isinstance(own, (list, tuple)) else ()


def require_variables(variables: Iterable[Any], source: str) -> None:
    """Raises if a variable of a SavedModel is not finite.

    Args:
        variables: Of TensorFlow.
        source: What messages call the SavedModel.

    Raises:
        WeightsError: At least one is not.
    """
    each = {id(variable): variable for variable in variables}
    _require(((variable.name, variable) for variable in each.values()), source)


def require_constants(definition: Any, layers: LayerNames, source: str) -> None:
    """Raises if a graph holds NaN, or an infinity among its weights.

    Args:
        definition: A frozen GraphDef.
        layers: Names the layer of a node.
        source: What messages call the model.

    Raises:
        WeightsError: It does.
    """
    import tensorflow as tf

    nodes = {node.name: node for node in definition.node}
    weights = set(_weights(nodes))
    found = []
    for name, node in nodes.items():
        if node.op != "Const" or not tf.as_dtype(node.attr["dtype"].type).is_floating:
            continue
        what = amiss(tf.make_ndarray(node.attr["value"].tensor), infinite=name in weights)
        if what:
            found.append(f"{what} of a constant of `{_short(layers.of(name))}`")
    if found:
        raise WeightsError(
            f"The constants of `{source}` must be finite. Received: {_several(found)}. {_CONSTANT_REMEDY}"
        )


def _weights(nodes: Mapping[str, Any]) -> Iterator[str]:
    """Yields the constants that a weighing operation reads."""
    for node in nodes.values():
        if node.op not in _WEIGHED:
            continue
        for given in node.input:
            source = nodes.get(given.partition(":")[0])
            while source is not None and source.op in _PASSING:
                source = nodes.get(source.input[0].partition(":")[0])
            if source is not None and source.op == "Const":
                yield source.name


def _require(weights: Iterable[tuple[str, Any]], source: str) -> None:
    found = []
    for name, weight in weights:
        if "float" not in str(getattr(weight.dtype, "name", weight.dtype)):
            continue
        what = amiss(np.asarray(weight))
        if what:
            found.append(f"{what} of `{_short(name)}`")
    if found:
        raise WeightsError(f"Every weight of `{source}` must be finite. Received: {_several(found)}. {_REMEDY}")


def _short(name: str) -> str:
    return shortened(harmless(name), LONGEST_NAME)


def _several(found: list[str]) -> str:
    return joined(found, _MOST_LISTED, "more like it")

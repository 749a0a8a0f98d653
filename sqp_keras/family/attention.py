"""Keras's attention layers with algebraic activations: the same arguments and weights, without exp."""

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras
from keras import ops

from sqp_keras import private
from sqp_keras.family.algebraic_layer import Algebraic, AlgebraicSoftmax, masked

SOFTMAX, TANH = "softmax_activation", "tanh_activation"
"""The attributes in which `AlgebraicDotAttention` and `AlgebraicAdditiveAttention` hold what Keras has in its code."""


_Grouped: Any = getattr(keras.layers, "GroupQueryAttention", None) or keras.layers.GroupedQueryAttention
"""Its name differs between releases of Keras."""


@keras.saving.register_keras_serializable(package="sqp_keras")
class AlgebraicAttention(keras.layers.MultiHeadAttention):
    """Returns multi-head attention whose softmax is algebraic; arguments and weights of `MultiHeadAttention`."""

    def _build_attention(self, rank: int) -> None:
        super()._build_attention(rank)
        _make_algebraic(self)

    def _compute_attention(self, *args: Any, **kwargs: Any) -> Any:
        # Keras has a fused kernel with an exp inside; it calls `_softmax` instead if the scores are asked for.
        bound = inspect.signature(super()._compute_attention).bind(*args, **kwargs)
        bound.arguments["return_attention_scores"] = True
        return super()._compute_attention(*bound.args, **bound.kwargs)


@keras.saving.register_keras_serializable(package="sqp_keras")
class AlgebraicGroupedQueryAttention(_Grouped):
    """Returns attention with shared keys whose softmax is algebraic; as Keras's `GroupedQueryAttention`."""

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        """Makes the weights and the softmax."""
        super().build(query_shape, value_shape, key_shape)
        _make_algebraic(self)

    def _compute_attention(self, *args: Any, **kwargs: Any) -> Any:
        # As above: past the fused kernel.
        private.ask_for_scores(self)
        return super()._compute_attention(*args, **kwargs)


def _make_algebraic(layer: Any) -> None:
    stock = private.attention_softmax(layer)
    if not isinstance(stock, keras.layers.Softmax):
        private.warn(private.ATTENTION_SOFTMAX)
        return
    layer._softmax = AlgebraicSoftmax(stock.axis, dtype=layer.dtype_policy)
    # Keras goes on listing the layer that was there first.
    private.unlist(layer, stock)


class _Shown(keras.layers.Attention):
    """What `Attention` and `AdditiveAttention` compute, with activations that can be exchanged.

    Args:
        softmax_activation: Of the scores; None for `AlgebraicSoftmax()`.
        tanh_activation: Inside a sum of scores; None for `Algebraic("tanh")`. Unused where scores are products.
        **kwargs: Arguments of Keras's layer.
    """

    def __init__(self, *args: Any, softmax_activation: Any = None, tanh_activation: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if TANH in held_in_code(self):
            tanh = Algebraic("tanh", dtype=self.dtype_policy) if tanh_activation is None else tanh_activation
            self.tanh_activation = keras.activations.get(tanh)
        softmax = AlgebraicSoftmax(dtype=self.dtype_policy) if softmax_activation is None else softmax_activation
        self.softmax_activation = keras.activations.get(softmax)

    def _apply_scores(self, scores: Any, value: Any, scores_mask: Any = None, training: bool = False) -> Any:
        if scores_mask is not None and len(scores_mask.shape) == 2:
            scores_mask = ops.expand_dims(scores_mask, axis=-2)
        if scores_mask is None:
            weights = self.softmax_activation(scores)
        elif isinstance(self.softmax_activation, AlgebraicSoftmax):
            weights = self.softmax_activation(scores, mask=scores_mask)
        else:
            weights = self.softmax_activation(masked(scores, scores_mask))
        if training and self.dropout > 0:
            weights = keras.random.dropout(weights, self.dropout, seed=self.seed_generator)
        return ops.matmul(weights, value), weights

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        held = {name: keras.activations.serialize(getattr(self, name)) for name in held_in_code(self)}
        return {**super().get_config(), **held}


@keras.saving.register_keras_serializable(package="sqp_keras")
class AlgebraicDotAttention(_Shown):
    """Returns attention whose softmax, and tanh of `score_mode="concat"`, are algebraic; as Keras's `Attention`."""

    def _calculate_scores(self, query: Any, key: Any) -> Any:
        if self.score_mode == "dot":
            return super()._calculate_scores(query, key)
        both = _pairs(query, key)
        return self.concat_score_weight * ops.sum(
            self.tanh_activation(both if self.scale is None else self.scale * both), axis=-1
        )


@keras.saving.register_keras_serializable(package="sqp_keras")
class AlgebraicAdditiveAttention(_Shown, keras.layers.AdditiveAttention):
    """Returns additive attention whose tanh and softmax are algebraic; as Keras's `AdditiveAttention`."""

    def _calculate_scores(self, query: Any, key: Any) -> Any:
        values = self.tanh_activation(_pairs(query, key))
        return ops.sum(values if self.scale is None else self.scale * values, axis=-1)


def _pairs(query: Any, key: Any) -> Any:
    """Returns the sum of each query and each key, shape (batch, queries, keys, size)."""
    return ops.expand_dims(query, axis=-2) + ops.expand_dims(key, axis=-3)


def held_in_code(layer: Any) -> tuple[str, ...]:
    """Returns the attributes in which the algebraic form of an attention layer holds what Keras has in its code.

    Args:
        layer: Any layer; () for one that is no `Attention` or `AdditiveAttention`.
    """
    if isinstance(layer, keras.layers.AdditiveAttention):
        return TANH, SOFTMAX
    if isinstance(layer, keras.layers.Attention):
        return (SOFTMAX,) if layer.score_mode == "dot" else (TANH, SOFTMAX)
    return ()


WITH_SCORES: Mapping[type, Any] = MappingProxyType(
    {
        keras.layers.Attention: AlgebraicDotAttention,
        keras.layers.AdditiveAttention: AlgebraicAdditiveAttention,
    }
)
"""Keras's layers with softmax in their own code, and the same with activations that can be exchanged."""

WITH_SOFTMAX: Mapping[type, Any] = MappingProxyType(
    {
        keras.layers.MultiHeadAttention: AlgebraicAttention,
        _Grouped: AlgebraicGroupedQueryAttention,
    }
)
"""Keras's layers that hold a softmax but call it only sometimes, and the same with an algebraic one."""


def own_code_of(layer: Any) -> Any:
    """Returns the class of Keras's attention that a class of the user's is made from; None for other layers.

    Its methods may compute something else than Keras's do, so it is never made an instance of an algebraic class. One
    that is made from such a class is None, too.

    Args:
        layer: Any layer or operation.
    """
    both = {**WITH_SCORES, **WITH_SOFTMAX}
    if type(layer) in both or isinstance(layer, tuple(both.values())):
        return None
    return next((stock for stock in type(layer).__mro__ if stock in both), None)


STOCK: Mapping[str, Any] = MappingProxyType({SOFTMAX: keras.activations.softmax, TANH: keras.activations.tanh})
"""What Keras computes in the place of each attribute."""

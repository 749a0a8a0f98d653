"""Squareplus for Keras: a smooth rectifier without exp and log, right in every dtype and derivative."""

from sqp_keras import private
from sqp_keras.activation.constants import B_CURVATURE, B_MINIMAX, B_VALUE
from sqp_keras.activation.functional import squareplus, squareplus_inverse
from sqp_keras.activation.layer import Squareplus
from sqp_keras.activation.registry import register, unregister
from sqp_keras.family.algebraic import algebraic
from sqp_keras.family.algebraic_layer import Algebraic, AlgebraicSoftmax
from sqp_keras.family.attention import (
    AlgebraicAdditiveAttention,
    AlgebraicAttention,
    AlgebraicDotAttention,
    AlgebraicGroupedQueryAttention,
)
from sqp_keras.models.distill import Distillation, distill
from sqp_keras.models.heads import Head, drop_head
from sqp_keras.models.replace import Replacement, ReplacementReport, Unchanged, replace_activations

__version__ = "0.1.0"

__all__ = [
    "B_CURVATURE",
    "B_MINIMAX",
    "B_VALUE",
    "Algebraic",
    "AlgebraicAdditiveAttention",
    "AlgebraicAttention",
    "AlgebraicDotAttention",
    "AlgebraicGroupedQueryAttention",
    "AlgebraicSoftmax",
    "Distillation",
    "Head",
    "Replacement",
    "ReplacementReport",
    "Squareplus",
    "Unchanged",
    "algebraic",
    "distill",
    "drop_head",
    "register",
    "replace_activations",
    "squareplus",
    "squareplus_inverse",
    "unregister",
]

register()
private.check()

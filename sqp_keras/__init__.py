"""Squareplus for Keras: a smooth rectifier without exp and log, right in every dtype and derivative."""

from sqp_keras.constants import B_CURVATURE, B_MINIMAX, B_VALUE
from sqp_keras.functional import squareplus, squareplus_inverse
from sqp_keras.layer import Squareplus
from sqp_keras.registry import register, unregister

__version__ = "0.1.0"

__all__ = ["B_CURVATURE", "B_MINIMAX", "B_VALUE", "Squareplus", "squareplus", "squareplus_inverse", "unregister"]

register()

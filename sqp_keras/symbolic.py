"""Which layer a function of this package becomes in a functional model.

A functional model can hold, save and show a layer, but not a call of `squareplus`. The layers register themselves
here, so that the functions, which are lower, need not import them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import keras

Layer = TypeVar("Layer", bound=Callable[..., Any])

_LAYERS: dict[str, Callable[..., Any]] = {}


def layer_of(function: str) -> Callable[[Layer], Layer]:
    """Returns a decorator that makes a layer class the one that `call` uses for the function of that name."""

    def enter(layer: Layer) -> Layer:
        _LAYERS[function] = layer
        return layer

    return enter


def call(function: str, x: Any, **arguments: Any) -> Any:
    """Returns the symbolic tensor that the function's layer, made with `arguments`, returns for `x`.

    The layer computes in the dtype of `x`, as the function does, whatever the global policy is; integers in `floatx`.
    """
    dtype = keras.backend.standardize_dtype(x.dtype)
    return _LAYERS[function](**arguments, dtype=dtype if "float" in dtype else keras.config.floatx())(x)

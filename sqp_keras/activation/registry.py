"""The meaning of the string "squareplus" in Keras.

Keras looks a string up in one table of its own; registered names and custom objects do not reach it. The entry is
exchanged for this package's function, which has the same name and the same default, so that a model that uses the
string is saved as the plain string and opens in stock Keras too.
"""

import importlib
import warnings
from collections.abc import Callable, MutableMapping
from typing import Any

from sqp_keras.activation.functional import squareplus

_NAME = "squareplus"
_replaced: list[Callable[..., Any] | None] = []
_warned: list[bool] = []


def register() -> bool:
    """Makes the string "squareplus" mean this package's function; returns whether it does now."""
    table = _table()
    if table is None:
        if not _warned:
            _warned.append(True)
            warnings.warn(
                'This Keras release hides the table of activation names, so the string "squareplus" keeps its stock '
                "meaning. Pass `activation=sqp_keras.squareplus` instead; everything else works.",
                stacklevel=3,
            )
        return False
    if table.get(_NAME) is not squareplus:
        _replaced.append(table.get(_NAME))
        table[_NAME] = squareplus
    return True


def unregister() -> None:
    """Gives the string "squareplus" back the meaning it had before; models that exist keep what they use."""
    table = _table()
    if table is None or table.get(_NAME) is not squareplus:
        return
    stock = _replaced.pop() if _replaced else None
    if stock is None:
        del table[_NAME]
    else:
        table[_NAME] = stock


def _table() -> MutableMapping[str, Callable[..., Any]] | None:
    """Returns Keras's table from strings to activations, None if this release keeps it elsewhere."""
    try:
        module = importlib.import_module("keras.src.activations")
    except ImportError:
        return None
    table = getattr(module, "ALL_OBJECTS_DICT", None)
    return table if isinstance(table, MutableMapping) else None

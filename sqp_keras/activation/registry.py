"""The meaning of the string "squareplus" in Keras.

Keras looks a string up in one table of its own; registered names and custom objects do not reach it. The entry is
exchanged for this package's function, which has the same name and the same default, so that a model that uses the
string is saved as the plain string and opens in stock Keras too.
"""

from collections.abc import Callable
from typing import Any

from sqp_keras import private
from sqp_keras.activation.functional import squareplus

_NAME = "squareplus"
_replaced: list[Callable[..., Any] | None] = []


def register() -> bool:
    """Makes the string "squareplus" mean this package's function; returns whether it does now."""
    table = private.activation_table()
    if table is None:
        private.warn(private.ACTIVATION_TABLE)
        return False
    if table.get(_NAME) is not squareplus:
        _replaced.append(table.get(_NAME))
        table[_NAME] = squareplus
    return True


def unregister() -> None:
    """Gives the string "squareplus" back the meaning it had before; models that exist keep what they use."""
    table = private.activation_table()
    if table is None or table.get(_NAME) is not squareplus:
        return
    stock = _replaced.pop() if _replaced else None
    if stock is None:
        del table[_NAME]
    else:
        table[_NAME] = stock

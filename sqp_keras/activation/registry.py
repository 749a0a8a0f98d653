"""The meaning of the string "squareplus" in Keras.

Keras looks strings up in its own table, which registered names and custom objects do not change. The entry is
replaced by this package's function. It has the same name and the same default, so a model that uses the string is
saved with the plain string and also opens in stock Keras.
"""

from collections.abc import Callable
from typing import Any

from sqp_keras import private
from sqp_keras.activation.functional import squareplus

_NAME = "squareplus"
_replaced: list[Callable[..., Any] | None] = []


def register() -> bool:
    """Makes the string "squareplus" mean this package's function; returns whether that worked."""
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

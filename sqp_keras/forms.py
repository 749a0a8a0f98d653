"""The form in which an activation is written: as trained, or as a device runs it.

Export traces a model once more with every activation written in the form that suits the target. Functions of this
package ask `current()` first, so that they are reached wherever user code calls them, subclassed models included.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

Form = Callable[..., Any]
"""Called as `form(name, x, **parameters)`, e.g. `form("squareplus", x, b=4.0)`; returns the tensor."""

LIMITS_SCOPE = "sqp.limits"
"""The name scope in which an activation is written for inputs that its form for a device leaves out."""

SHARE_SCOPE = "sqp.share"
"""The name scope of a softmax's last steps, from the powers to their share of the sum: int16 in a model of int8."""

_CURRENT: ContextVar[Form | None] = ContextVar("sqp_keras_form", default=None)


_INTEGERS: ContextVar[bool] = ContextVar("sqp_keras_for_integers", default=False)


_HALVES: ContextVar[bool] = ContextVar("sqp_keras_for_halves", default=False)


def current() -> Form | None:
    """Returns the form in use, None while training or predicting."""
    return _CURRENT.get()


def for_integers() -> bool:
    """Returns whether what is written will be a model of integers, which have one step for all values of a tensor."""
    return _INTEGERS.get()


def for_halves() -> bool:
    """Returns whether what is written must stay finite in half precision."""
    return _HALVES.get()


@contextlib.contextmanager
def use(form: Form | None, integers: bool = False, halves: bool = False) -> Iterator[None]:
    """Writes every activation of this package through `form` while the block runs; None writes it as trained.

    Args:
        form: See `Form`.
        integers: What `for_integers` returns in the block.
        halves: What `for_halves` returns in the block.
    """
    tokens = _CURRENT.set(form), _INTEGERS.set(integers), _HALVES.set(halves)
    try:
        yield
    finally:
        _CURRENT.reset(tokens[0])
        _INTEGERS.reset(tokens[1])
        _HALVES.reset(tokens[2])

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

_CURRENT: ContextVar[Form | None] = ContextVar("sqp_keras_form", default=None)


def current() -> Form | None:
    """Returns the form in use, None while training or predicting."""
    return _CURRENT.get()


@contextlib.contextmanager
def use(form: Form | None) -> Iterator[None]:
    """Writes every activation of this package through `form` while the block runs; None writes it as trained."""
    token = _CURRENT.set(form)
    try:
        yield
    finally:
        _CURRENT.reset(token)

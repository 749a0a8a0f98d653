"""Parts of Keras that answer differently in the thread that traces a model, and as always in every other one.

A hook asks a context variable first. It is in place while at least one block needs it and is taken away afterwards, so
that exports in several threads, and training beside them, do not see each other. The user's layers are never touched.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from sqp_keras import forms
from sqp_tflite import private

_ABSENT = object()


@dataclass(slots=True)
class _Placed:
    """A hook in its place: what was there before (`_ABSENT` for nothing), what is now, and how many blocks need it."""

    stock: Any
    replacement: Any
    needed_by: int = 0


_PLACED: dict[tuple[Any, str], _Placed] = {}
_LOCK = threading.Lock()


@contextlib.contextmanager
def hooked(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Keeps a hook in place while the block runs; blocks of several threads share one.

    Args:
        owner: A module or a class.
        name: Its attribute.
        make: Returns the hook, given what the attribute holds; None is given where the owner itself holds nothing.
    """
    key = owner, name
    with _LOCK:
        placed = _PLACED.get(key)
        if placed is None:
            stock = vars(owner).get(name, _ABSENT)
            placed = _PLACED[key] = _Placed(stock, make(None if stock is _ABSENT else stock))
            setattr(owner, name, placed.replacement)
        placed.needed_by += 1
    try:
        yield
    finally:
        with _LOCK:
            placed.needed_by -= 1
            if not placed.needed_by:
                _take_away(owner, name, placed)
                del _PLACED[key]


def _take_away(owner: Any, name: str, placed: _Placed) -> None:
    if vars(owner).get(name) is not placed.replacement:
        return  # Somebody else has put something around the hook; what they keep leads to the stock part.
    if placed.stock is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, placed.stock)


@contextlib.contextmanager
def setting(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Gives a context variable a value while the block runs."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def stock_squareplus_in_form() -> Iterator[None]:
    """Writes Keras's own squareplus in the form that `forms.current()` gives."""
    found = private.find("squareplus")
    if found is None:
        yield
        return
    with hooked(found.owner, found.name, _squareplus):
        yield


def _squareplus(stock: Any) -> Any:
    @functools.wraps(stock)
    def squareplus(x: Any, b: Any = 4) -> Any:
        form = forms.current()
        return stock(x, b) if form is None else form("squareplus", x, b=b)

    return squareplus


Change = Callable[[Any, Any], Any]
"""Is told an operation, or a layer, and what it has made, and returns that or something in its place."""

_CHANGE: ContextVar[Change | None] = ContextVar("sqp_tflite_change", default=None)


@contextlib.contextmanager
def changed(change: Change) -> Iterator[None]:
    """Changes what the operations of functional models, and whoever asks `changes`, make."""
    with hooked(keras.Operation, "__call__", _operate), setting(_CHANGE, change):
        yield


def changes() -> Change | None:
    """Returns what changes the results in the block that runs, None outside of one."""
    return _CHANGE.get()


_SCOPES: ContextVar[Mapping[int, str]] = ContextVar("sqp_tflite_scopes", default=MappingProxyType({}))


@contextlib.contextmanager
def named_by_path(scopes: Mapping[int, str]) -> Iterator[None]:
    """Names a layer's nodes by its path only: Keras numbers its own scopes by how often they were opened.

    Args:
        scopes: {id of the layer or operation: its scope}.
    """
    found = private.find("name_scope")
    with contextlib.ExitStack() as stack:
        if found is not None:
            stack.enter_context(hooked(found.owner, found.name, _open_name_scope))
        stack.enter_context(hooked(keras.Operation, "__call__", _operate))
        stack.enter_context(setting(_SCOPES, scopes))
        yield


def _open_name_scope(stock: Any) -> Any:
    @functools.wraps(stock)
    def open_name_scope(layer: Any) -> Any:
        scope = _SCOPES.get().get(id(layer))
        return stock(layer) if scope is None else tf.name_scope(scope)

    return open_name_scope


def _operate(stock: Any) -> Any:
    """An operation of a functional model, keras.ops.exp(x), has a name but opens no scope."""

    @functools.wraps(stock)
    def operate(operation: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(operation, keras.layers.Layer):
            return stock(operation, *arguments, **named)
        scope = _SCOPES.get().get(id(operation))
        with contextlib.nullcontext() if scope is None else tf.name_scope(scope):
            made, change = stock(operation, *arguments, **named), changes()
        return made if change is None else change(operation, made)

    return operate


_FLIPS: ContextVar[bool] = ContextVar("sqp_tflite_flips", default=False)


@contextlib.contextmanager
def flipped_by_hand() -> Iterator[None]:
    """Reverses sequences by taking them apart: REVERSE_V2 has no integer form here, UNPACK and PACK have."""
    found = private.find("flip")
    if found is None:
        yield
        return
    with hooked(found.owner, found.name, _flip), setting(_FLIPS, True):
        yield


def _flip(stock: Any) -> Any:
    @functools.wraps(stock)
    def flip(x: Any, axis: Any = None) -> Any:
        if not _FLIPS.get() or not isinstance(axis, int) or x.shape[axis] is None:
            return stock(x, axis)
        return tf.stack(tf.unstack(x, axis=axis)[::-1], axis=axis)

    return flip


_TRACES: ContextVar[bool] = ContextVar("sqp_tflite_traces", default=False)
_LOOKS_UP: ContextVar[bool] = ContextVar("sqp_tflite_looks_up", default=False)


@contextlib.contextmanager
def embedded_by_gather() -> Iterator[None]:
    """Lets an Embedding look its rows up by GATHER only: Keras adds a SELECT, for indices that count from the end."""
    found = private.find("take")
    if found is None:
        yield
        return
    with (
        hooked(found.owner, found.name, _take),
        hooked(keras.layers.Embedding, "call", _call_embedding),
        setting(_TRACES, True),
    ):
        yield


def _call_embedding(stock: Any) -> Any:
    @functools.wraps(stock)
    def call(layer: Any, *arguments: Any, **named: Any) -> Any:
        with setting(_LOOKS_UP, _TRACES.get()):
            return stock(layer, *arguments, **named)

    return call


def _take(stock: Any) -> Any:
    @functools.wraps(stock)
    def take(x: Any, indices: Any, axis: Any = None) -> Any:
        plain = _LOOKS_UP.get() and isinstance(indices, tf.Tensor) and axis == 0
        return tf.gather(tf.convert_to_tensor(x), indices) if plain else stock(x, indices, axis)

    return take


Called = Callable[[Any, Any], None]
"""Is told a recurrent layer and the sequences that it is called with."""

_UNROLLED: ContextVar[Mapping[int, Called]] = ContextVar("sqp_tflite_unrolled", default=MappingProxyType({}))


@contextlib.contextmanager
def unrolled(layers: Mapping[int, Called], classes: set[type]) -> Iterator[None]:
    """Lets recurrent layers trace one copy of their cell per time step.

    Args:
        layers: {id of the layer: what is told each call of it}.
        classes: The layers' classes.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(hooked(keras.layers.RNN, "unroll", _unroll))
        for owner in {next(base for base in kind.__mro__ if "call" in vars(base)) for kind in classes}:
            stack.enter_context(hooked(owner, "call", _call))
        stack.enter_context(setting(_UNROLLED, layers))
        yield


def _unroll(_: Any) -> Any:
    def read(layer: Any) -> bool:
        if id(layer) in _UNROLLED.get():
            return True
        try:
            return bool(vars(layer)["unroll"])
        except KeyError:
            raise AttributeError(f"{type(layer).__name__!r} object has no attribute 'unroll'") from None

    def write(layer: Any, value: Any) -> None:
        vars(layer)["unroll"] = value

    return property(read, write)


def _call(stock: Any) -> Any:
    @functools.wraps(stock)
    def call(layer: Any, *arguments: Any, **named: Any) -> Any:
        told = _UNROLLED.get().get(id(layer))
        if told is not None:
            told(layer, next(iter((*arguments, *named.values()))))
        return stock(layer, *arguments, **named)

    return call


Weighed = Callable[[int], None]
"""Is told the bytes of each weight before Keras makes it."""

_WEIGHED: ContextVar[Weighed | None] = ContextVar("sqp_tflite_weighed", default=None)


@contextlib.contextmanager
def weighing(tell: Weighed) -> Iterator[None]:
    """Tells the size of each weight that a layer is about to make: a configuration may ask for any.

    Args:
        tell: May raise, and the weight is not made.
    """
    with hooked(keras.layers.Layer, "add_weight", _add_weight), setting(_WEIGHED, tell):
        yield


def _add_weight(stock: Any) -> Any:
    @functools.wraps(stock)
    def add_weight(layer: Any, *arguments: Any, **named: Any) -> Any:
        tell = _WEIGHED.get()
        if tell is not None:
            shape = named.get("shape", arguments[0] if arguments else None)
            sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
            # float32 at most: what is not a size, Keras refuses itself.
            tell(4 * math.prod(size for size in sizes if isinstance(size, int)))
        return stock(layer, *arguments, **named)

    return add_weight


_WIDENED: ContextVar[frozenset[int]] = ContextVar("sqp_tflite_widened", default=frozenset())
_FLOAT32 = "float32"


@contextlib.contextmanager
def in_float32(layers: frozenset[int]) -> Iterator[None]:
    """Lets layers of mixed precision compute in float32.

    Args:
        layers: Their ids.
    """
    with contextlib.ExitStack() as stack:
        if layers:
            policy = keras.DTypePolicy(_FLOAT32)
            for name, value in (("dtype_policy", policy), ("compute_dtype", _FLOAT32), ("variable_dtype", _FLOAT32)):
                stack.enter_context(hooked(keras.layers.Layer, name, functools.partial(_widened, value)))
        stack.enter_context(setting(_WIDENED, layers))
        yield


def _widened(value: Any, stock: Any) -> Any:
    return property(lambda layer: value if id(layer) in _WIDENED.get() else stock.fget(layer), stock.fset)

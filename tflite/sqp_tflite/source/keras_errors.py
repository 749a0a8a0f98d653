"""What an error from inside Keras tells the user: the layer, the reason and a remedy, in one short line."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import keras

from sqp_tflite.errors import ExportError, ModelError
from sqp_tflite.wording import said


def cause(error: BaseException) -> str:
    """Returns the layer in which an error occurred, if it is known, and the reason.

    Keras puts the configuration of each layer around the reason, from the model down: only the reason is kept. To know
    the layer, the error must have been raised in `whole_tracebacks`.
    """
    inmost = _chain(error)[-1]
    words = said(inmost) or type(inmost).__name__
    if isinstance(inmost, RecursionError):
        words = "nested deeper than Python can follow"
    elif isinstance(inmost, MemoryError):
        words = f"out of memory ({words})"
    elif isinstance(inmost, (KeyError, IndexError, AttributeError)):  # Their words are of use only with their kind.
        words = f"{type(inmost).__name__}: {words}"
    layer = _layer(error)
    return f"{layer}: {words}" if layer else words


def out_of_memory(error: BaseException) -> bool:
    """Returns whether an error, or one behind it, says that the machine has too little memory."""
    tensorflow = sys.modules.get("tensorflow")
    kinds = (MemoryError, tensorflow.errors.ResourceExhaustedError) if tensorflow else (MemoryError,)
    return any(isinstance(link, kinds) for link in _linked(error))


def raised_in(error: BaseException, package: str) -> bool:
    """Returns whether a package's own code raised an error, not what it called.

    Args:
        error: Raised in `whole_tracebacks`.
        package: Its name.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    module = frames[-1].f_globals.get("__name__", "") if frames else ""
    return module.partition(".")[0] == package


@contextlib.contextmanager
def whole_tracebacks() -> Iterator[None]:
    """Lets errors that pass through Keras in this thread keep their words and frames; Keras replaces both otherwise."""
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        if filtered:
            keras.config.enable_traceback_filtering()


@contextlib.contextmanager
def running(source: str) -> Iterator[None]:
    """Turns whatever a model's layers raise in the block into one line that names the layer.

    Args:
        source: What messages call the model.

    Raises:
        ModelError: A layer raised an error. An `ExportError` from inside a layer is raised as it was.
    """
    try:
        with whole_tracebacks():
            yield
    except ExportError:
        raise
    except Exception as error:  # The layers' code, the user's own included, raises every kind.
        own = next((link for link in _linked(error) if isinstance(link, ExportError)), None)
        if own is not None:
            raise own from None
        raise ModelError(f"Keras must be able to run `{source}`. Received: {cause(error)}. {_way(error)}") from error


def _way(error: Exception) -> str:
    if out_of_memory(error):
        return "Use fewer or smaller samples, or a machine with more memory."
    return "Call the model on one sample in Keras to see it there; repair that layer or take it out."


def _linked(error: BaseException) -> list[BaseException]:
    """An error and all errors behind it."""
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in found:
        found.append(link)
        link = link.__cause__ or link.__context__
    return found


def _chain(error: BaseException) -> list[BaseException]:
    """An error and the errors behind it that it only repeats, at the end of its own words."""
    linked = _linked(error)
    found = linked[:1]
    for link in linked[1:]:
        words = str(link).strip()
        if not words or not str(found[-1]).strip().rstrip(".").endswith(words.rstrip(".")):
            break
        found.append(link)
    return found


def _layer(error: BaseException) -> str:
    """The innermost layer that was made from its configuration, built or called when the error occurred."""
    found = ""
    for link in _chain(error):
        for frame, _ in traceback.walk_tb(link.__traceback__):
            found = _at(frame) or found
    return found


def _at(frame: FrameType) -> str:
    held = frame.f_locals
    own, config = held.get("self"), held.get("config")
    if isinstance(own, keras.layers.Layer):
        name = getattr(own, "name", None)
        return f"`{name}` ({type(own).__name__})" if isinstance(name, str) else ""
    inner: Any = config.get("config", config) if isinstance(config, dict) else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return f"`{said(name, 60)}`" if isinstance(name, str) else ""

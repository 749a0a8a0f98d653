"""Values that users pass by mistake, and how to look at what a function makes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

LONGEST = 400
"""Characters of a message."""


class Like:
    """Stands for a path or an array, as far as its methods let it."""

    def __init__(self, **methods: Callable[[], Any]):
        for name, method in methods.items():
            setattr(type(self), f"__{name}__", lambda self, *_, method=method, **__: method())


def _like(**methods: Callable[[], Any]) -> Any:
    return type("Stranger", (Like,), {})(**methods)


def _fails() -> Any:
    raise RuntimeError("Can't call numpy() on a tensor that requires grad.")


def values(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yields names and values; each value is made anew.

    Args:
        folder: An existing one, for values that are paths.
    """
    yield from {
        "None": None,
        "5": 5,
        "-1": -1,
        "0": 0,
        "True": True,
        "a huge number": 10**5000,
        "a fraction": 0.5,
        "nan": float("nan"),
        "inf": float("inf"),
        "complex": 1j,
        "an empty string": "",
        "x": "x",
        "-": "-",
        "a blank": " ",
        "=": "=,=",
        "a null": "a\0b",
        "a long string": "x" * 100_000,
        "a long path": "no/such/" * 300,
        "bytes": b"x",
        "no bytes": b"",
        "a bytearray": bytearray(b"x"),
        "an empty list": [],
        "an empty dict": {},
        "a list of None": [None],
        "a list of numbers": [1, 2],
        "a list of words": ["x", "y"],
        "a tuple of words": ("x", 5),
        "a set": {"x"},
        "ragged": [[1, 2], [3]],
        "a dict of wrong keys": {"wrong": np.ones((2, 4))},
        "a dict of numbers": {5: 5},
        "a dict of None": {"x": None},
        "a dict of ragged": {"x": [[1, 2], [3]]},
        "a generator": (i for i in range(3)),
        "an object": object(),
        "a class": dict,
        "a function": len,
        "no such path": Path("no/such/file"),
        "a folder": folder,
        "a folder as text": str(folder),
        "a path-like": _like(fspath=lambda: "no/such/file"),
        "a path-like of bytes": _like(fspath=lambda: b"no/such/file"),
        "a path-like of nothing": _like(fspath=lambda: 5),
        "numpy's int": np.int64(5),
        "numpy's float": np.float32(0.5),
        "numpy's bool": np.bool_(True),
        "numpy's string": np.str_("x"),
        "an array": np.ones((2, 4)),
        "an array without axes": np.array(5),
        "an array of words": np.array(["x", "y"]),
        "an array of objects": np.array([None, {}], object),
        "an empty array": np.ones((0, 4)),
        "a tensor": tf.ones((2, 4)),
        "a tensor without axes": tf.constant(5),
        "a dataset": tf.data.Dataset.from_tensors(np.ones((2, 4))),
        "a ragged tensor": tf.ragged.constant([[1.0, 2.0], [3.0]]),
        "a sparse tensor": tf.sparse.from_dense(np.eye(2)),
        "like a torch tensor": _like(array=lambda: np.ones((2, 4))),
        "like one with a gradient": _like(array=_fails),
    }.items()


def _quoted(value: Any, message: str) -> bool:
    """Whether a message shows the string or path that it is about."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, Path) else ""
    if isinstance(value, Like) and "__fspath__" in vars(type(value)) and isinstance(value.__fspath__(), str):
        text = value.__fspath__()
    return bool(text) and text[:80] in message


def faults(
    name: str,
    call: Callable[[Any], Any],
    folder: Path,
    errors: tuple[type[Exception], ...],
    words: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> list[str]:
    """Returns one line per value for which the call neither works nor says what is wrong with which parameter.

    Args:
        name: The parameter.
        call: Takes a value for it.
        folder: As in `values`.
        errors: What may be raised.
        words: Other words for the parameter, one of which a message may have in its place.
        without: Values to leave out.
    """
    found = []
    for what, value in values(folder):
        if what in without:
            continue
        try:
            call(value)
        except errors as error:
            message = str(error)
            if not (_quoted(value, message) or any(word in message for word in (f"`{name}`", f"{name}=", *words))):
                found.append(f"{name}, {what}: does not name it: {message[:200]!r}")
            if len(message) > LONGEST or "\n" in message:
                found.append(
                    f"{name}, {what}: {len(message)} characters, {message.count(chr(10))} breaks: {message[:200]!r}"
                )
        except Exception as error:  # Anything else that is raised is what this looks for.
            found.append(f"{name}, {what}: {type(error).__name__}: {str(error)[:200]!r}")
    return found

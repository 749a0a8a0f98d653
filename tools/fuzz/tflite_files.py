"""Edits of TFLite files: fields of the schema's objects, and bytes."""

from __future__ import annotations

import copy
import struct
from random import Random
from typing import Any

import numpy as np

from sqp_tflite.flatbuffer import schema
from tools.fuzz.records import plain
from tools.fuzz.values import NUMBERS, REALS, TEXTS, edit_bytes

_UNPACKABLE = (struct.error, ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError, AssertionError)
"""What the schema's writer raises on values that do not fit their field."""


def edit_tflite(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns a TFLite file with one thing changed, and what that was."""
    if rng.random() < 0.35:
        return edit_bytes(rng, content)
    for _ in range(20):
        model = schema.unpack(content)
        said = [_edit_object(rng, model) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
        try:
            packed = schema.pack(model)
        except _UNPACKABLE:
            continue
        except Exception as error:  # The builder's own errors, which have a class each.
            if type(error).__module__.startswith("flatbuffers"):
                continue
            raise
        return packed, "; ".join(said)
    return edit_bytes(rng, content)


def objects(held: Any, path: str = "model") -> list[tuple[str, Any]]:
    """Returns every table of a file with its path."""
    found = [(path, held)]
    for name, inner in vars(held).items():
        if isinstance(inner, list):
            for place, item in enumerate(inner):
                if hasattr(item, "__dict__"):
                    found += objects(item, f"{path}.{name}[{place}]")
        elif hasattr(inner, "__dict__") and not isinstance(inner, np.ndarray):
            found += objects(inner, f"{path}.{name}")
    return found


def _edit_object(rng: Random, model: Any) -> str:
    path, held = rng.choice(objects(model))
    if not vars(held):
        return f"{path}: nothing to change"
    name = rng.choice(sorted(vars(held)))
    old = getattr(held, name)
    made = _changed(rng, old, name)
    setattr(held, name, made)
    return f"{path}.{name} = {plain(made)}"


def _changed(rng: Random, old: Any, name: str) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice((*NUMBERS, old + 1, old - 1, 1000, rng.randrange(256)))
    if isinstance(old, float):
        return rng.choice(REALS)
    if isinstance(old, (str, bytes)):
        return rng.choice((*TEXTS, b"\xff\xfe", None))
    if old is None:
        return rng.choice((None, [], [1, -1], [2**31 - 1] * 3, b"x", ""))
    if isinstance(old, (list, np.ndarray)):
        return _changed_list(rng, list(old), name)
    return None


def _changed_list(rng: Random, items: list[Any], name: str) -> Any:
    if not items:
        return rng.choice((None, [0], [-1], [1, 2, 3]))
    place = rng.randrange(len(items))
    way = rng.choice(("drop", "twice", "none", "empty", "reverse", "item", "item", "item"))
    if way == "drop":
        del items[place]
    elif way == "twice":
        items.insert(place, copy.copy(items[place]))
    elif way == "reverse":
        items.reverse()
    elif way in ("none", "empty"):
        return None if way == "none" else []
    elif hasattr(items[place], "__dict__"):
        items[place] = copy.copy(rng.choice(items))
    elif isinstance(items[place], (float, np.floating)):
        items[place] = rng.choice(REALS)
    else:
        items[place] = rng.randrange(256) if name == "data" else rng.choice((0, 1, -1, 5, 1000, 2**31 - 1, -(2**31)))
    return items

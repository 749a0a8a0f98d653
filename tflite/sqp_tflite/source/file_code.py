"""Finds Python code in the configuration of a Keras file, where code can stand; it is decoded and never run."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras

from sqp_tflite.errors import CodeInFileError
from sqp_tflite.wording import listed

_CALLS = "inbound_nodes"
"""Where a functional model says what its layers are called with: `value=x` is a tensor there."""

_CODE = 0x63
"""How Python's marshal begins code; the highest bit may be set."""

_OF_LAMBDA = ("function", "output_shape", "mask")


def refuse_code(config: Any, path: Path, objects: Mapping[str, Any]) -> None:
    """Raises if a file holds code.

    Args:
        config: The file's configuration.
        path: Names it in messages.
        objects: What names in the file stand for, besides what is registered: a `Lambda` layer may hold one of these.

    Raises:
        CodeInFileError: It does.
    """
    where = list(_code(config, "the model", objects))
    if where:
        raise CodeInFileError(
            f"A model file must hold data, not code. Received: a lambda (Python bytecode) in "
            f"{listed(dict.fromkeys(where))} of `{path}`; it "
            "was not run. Use a named activation or layer instead, or pass --trust-code if you trust the file's author."
        )


def _code(value: Any, layer: str, objects: Mapping[str, Any], called: bool = False) -> Iterator[str]:
    """Yields the layer of each piece of code."""
    if isinstance(value, list):
        for part in value:
            yield from _code(part, layer, objects, called)
    elif isinstance(value, dict):
        inner = value.get("config")
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            layer = inner["name"]
        # Keras writes a lambda given as activation without its class: bytecode, defaults, closure.
        bare = not called and _bytecode(value.get("value"))
        if bare or value.get("class_name") == "__lambda__" or _lambda_layer(value, objects):
            yield layer
        for key, part in value.items():
            yield from _code(part, layer, objects, called or key == _CALLS)


def _lambda_layer(node: dict[str, Any], objects: Mapping[str, Any]) -> bool:
    """Whether it is a Lambda layer with more than functions that the user has named or imported."""
    if node.get("class_name") != "Lambda":
        return False
    held = node.get("config")
    parts = [held.get(name) for name in _OF_LAMBDA] if isinstance(held, dict) else []
    functions = [part for part in parts if isinstance(part, dict)]
    return not functions or not all(_known(part, objects) for part in functions) or any(map(_bytecode, parts))


def _known(function: dict[str, Any], objects: Mapping[str, Any]) -> bool:
    name = function.get("config")
    return (
        function.get("class_name") == "function"
        and isinstance(name, str)
        and (name in objects or keras.saving.get_registered_object(name) is not None)
    )


def _bytecode(value: Any) -> bool:
    """Whether it is what Keras makes of a function: its bytecode, its defaults, its closure."""
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[0], str):
        return False
    try:
        code = binascii.a2b_base64(value[0].encode("ascii"))
    except (UnicodeEncodeError, binascii.Error):  # Keras then takes the text itself.
        code = value[0].encode("raw_unicode_escape")
    # Code begins with its kind and its number of arguments, four bytes of which only the first is in use.
    return len(code) > 5 and code[0] & 0x7F == _CODE and code[2:5] == b"\0\0\0"

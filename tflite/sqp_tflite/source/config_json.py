"""The JSON inside a model file: an object that is not nested too deeply, as everything that reads it expects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqp_tflite.errors import ModelFileError
from sqp_tflite.wording import said

MOST_LEVELS = 250
"""A model inside a model takes four levels. Python follows about 1000 calls, and Keras needs several for each level."""

_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}


def parsed(text: str | bytes, what: str) -> dict[str, Any]:
    """Returns a JSON object.

    Args:
        text: The JSON.
        what: Names it in messages.

    Raises:
        ModelFileError: Not JSON, not an object, or nested too deeply.
    """
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise _too_deep(what) from error
    except ValueError as error:
        raise ModelFileError(
            f"{what} must be JSON. Received: {said(error)}. The file may be damaged: copy it or save the model again."
        ) from error
    if not isinstance(found, dict):
        raise ModelFileError(
            f"{what} must be a JSON object. Received: {_KINDS[type(found)]}. The file may be damaged: copy it or save "
            "the model again."
        )
    if not _within(found, MOST_LEVELS):
        raise _too_deep(what)
    return found


def _too_deep(what: str) -> ModelFileError:
    return ModelFileError(
        f"{what} must be nested in at most {MOST_LEVELS} levels. Received: more. Build the model with fewer models "
        "inside each other, and save it again."
    )


def _within(value: Any, levels: int) -> bool:
    held = [value]
    for _ in range(levels):
        inner = [list(node.values()) if isinstance(node, dict) else node for node in held]
        held = [child for children in inner for child in children if isinstance(child, (dict, list))]
        if not held:
            return True
    return False


def nodes(config: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every object in a model's configuration, with the name of the layer that it is in."""
    yield from ((layer, node) for layer, _, node in placed(config))


def placed(config: Any, layer: str = "the model", key: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields every object in a model's configuration, with the layer that it is in and the key that it stands under.

    Args:
        config: The configuration or a part of it.
        layer: What it is in.
        key: What it stands under, also in a list.
    """
    if isinstance(config, dict):
        inner = config.get("config")
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            layer = inner["name"]
        yield layer, key, config
        for inside, value in config.items():
            yield from placed(value, layer, inside)
    elif isinstance(config, list):
        for value in config:
            yield from placed(value, layer, key)


def words(config: Any) -> Iterator[str]:
    """Yields every text in a configuration that is not a key."""
    if isinstance(config, str):
        yield config
    elif isinstance(config, dict | list):
        for value in config.values() if isinstance(config, dict) else config:
            yield from words(value)

"""What names meant when Keras 2 wrote a file: hard_sigmoid had another slope, GRU another default.

These are the differences that change numbers without an error. They were found by running files of Keras 2 with each
activation and layer in both; all others computed the same, or do not open.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from sqp_keras.family.keras2 import hard_sigmoid_keras2
from sqp_keras.models import sites
from sqp_tflite.errors import ModelFileError
from sqp_tflite.source.config_json import nodes
from sqp_tflite.source.keras2_config import before_keras3
from sqp_tflite.source.model_file import Opened
from sqp_tflite.wording import listed

KERAS2, KERAS3 = "keras2", "keras3"

_NAME = "hard_sigmoid"
_GATED = ("GRU", "GRUCell")


def as_written(opened: Opened, path: Path, choice: str | None) -> tuple[str, ...]:
    """Gives a model's parts the meaning that they had when its file was written; returns what the user should know.

    Args:
        opened: The file's content; its model is changed.
        path: Names it in messages.
        choice: Whose hard_sigmoid is meant, `KERAS2` or `KERAS3`; None for that of the writer.

    Raises:
        ModelFileError: It is not known which is meant, or the choice changes nothing.
    """
    return _hard_sigmoid(opened, path, choice) + _reset_after(opened)


def refuse_choice(choice: str | None, source: str) -> None:
    """Raises for a choice that is about something else than a file with names.

    Args:
        choice: As in `as_written`.
        source: Names the model in the message.

    Raises:
        ModelFileError: There is one.
    """
    if choice is not None:
        raise ModelFileError(
            f"`--hard-sigmoid` says what a name in a .keras or .h5 file means. Received: `{source}`, which holds the "
            "arithmetic itself. Leave it out."
        )


def refuse_other(choice: str | None, source: str) -> None:
    """Raises for another meaning than that of Keras 2, where its own package computes.

    Args:
        choice: As in `as_written`.
        source: Names the model in the message.

    Raises:
        ModelFileError: It is another one.
    """
    if choice == KERAS3:
        raise ModelFileError(
            f"`--hard-sigmoid keras3` is about a file that Keras 3 opens. Received: `{source}`, which only tf-keras "
            "opens, with the meaning that it had in Keras 2. Leave it out."
        )


def _hard_sigmoid(opened: Opened, path: Path, choice: str | None) -> tuple[str, ...]:
    found = [site for site in sites.sites(opened.model) if site.activation.name == _NAME]
    if not found:
        if choice is not None:
            raise ModelFileError(
                f"`--hard-sigmoid {choice}` says what the file's hard_sigmoid means. Received: `{path}`, which has "
                "none. Leave it out."
            )
        return ()
    where = listed([site.label for site in found])
    if choice is None and not opened.writer:
        raise ModelFileError(
            f"hard_sigmoid must have one meaning: x/5 + 1/2 in Keras 2, x/6 + 1/2 in Keras 3, clipped to 0 and 1. "
            f"Received: {where} in `{path}`, which does not say what wrote it. Add --hard-sigmoid keras2 or keras3."
        )
    old = before_keras3(opened.writer)
    meant = choice or (KERAS2 if old else KERAS3)
    if meant == KERAS2:
        for site in found:
            _exchange(site, path)
    if not old and choice in (None, KERAS3):
        return ()
    slope, other = ("1/5", KERAS3) if meant == KERAS2 else ("1/6", KERAS2)
    by = f"Keras {opened.writer}" if opened.writer else "an unknown Keras"
    own = "as it was there" if (meant == KERAS2) == old else "as you asked, not as it was there"
    return (
        f"`{path}` was written by {by}; hard_sigmoid (in {where}) has the slope {slope}, {own}: Keras 2 computes "
        f"x/5 + 1/2, Keras 3 x/6 + 1/2. The other one is --hard-sigmoid {other}",
    )


def _exchange(site: sites.Site, path: Path) -> None:
    owner, attribute = site.owner, site.attribute
    if isinstance(owner, keras.layers.Activation):
        attribute = "activation"
    if not attribute:
        raise ModelFileError(
            f"`--hard-sigmoid keras2` is about layers that name the activation. Received: `{site.path}` in `{path}`, "
            "an operation that only Keras 3 writes. Leave the option out."
        )
    setattr(owner, attribute, hard_sigmoid_keras2)


def _reset_after(opened: Opened) -> tuple[str, ...]:
    """Files from before Keras 2.1.3 do not say where a GRU resets; it was in front, Keras 3's default is behind."""
    if not before_keras3(opened.writer) and opened.writer:
        return ()
    silent = {
        node["config"].get("name")
        for _, node in nodes(opened.config)
        if node.get("class_name") in _GATED and isinstance(node.get("config"), dict)
        if "reset_after" not in node["config"]
    }
    cells: list[tuple[str, Any]] = []
    for path, layer in sites.paths(opened.model):
        if isinstance(layer, (keras.layers.GRU, keras.layers.GRUCell)) and layer.name in silent:
            cells.append((path, layer.cell if isinstance(layer, keras.layers.GRU) else layer))
    for _, cell in cells:
        cell.reset_after = False
    if not cells:
        return ()
    return (
        f"{listed([path for path, _ in cells])} (GRU) is from before Keras had `reset_after`: it resets in front of "
        "the recurrent product, as it did then",
    )

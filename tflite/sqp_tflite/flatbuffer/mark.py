"""What an export writes into a file about the file itself, so that a later check judges it in the same way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.graph import Graph

NAME = "sqp-keras"
"""The name of the entry in the file's metadata; interpreters skip entries that they do not know."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How a file is meant to differ from its Keras model.

    Attributes:
        limit: Max change against the user's model, over the range of an output; None for that of the number type.
        heads: What was dropped behind each output ("softmax", "" for nothing); () if nothing was.
        hard_sigmoid: Whose hard_sigmoid the user said that the model's file means; None for the writer's.
        runtime: The interpreter that the file was exported for, if that is not TFLM; the others need not run it.
        data: Whether the limit was kept on the user's data, and may not be on made-up inputs.
        step: Whether it computes one time step of a model of sequences.
    """

    limit: float | None = None
    heads: tuple[str, ...] = ()
    hard_sigmoid: str | None = None
    runtime: str | None = None
    data: bool = False
    step: bool = False


def put(editor: Editor, mark: Mark) -> None:
    """Writes a mark into a file's metadata."""
    held: dict[str, Any] = {"limit": mark.limit, "heads": list(mark.heads)}
    held |= {name: getattr(mark, name) for name in ("hard_sigmoid", "runtime", "data", "step") if getattr(mark, name)}
    text = json.dumps(held, sort_keys=True, separators=(",", ":"))
    editor.add_metadata(NAME, memoryview(text.encode()))


def mark_of(graph: Graph) -> Mark:
    """Returns the mark of a file; the empty one for files of other programs and for an entry that is not ours."""
    try:
        held = json.loads(graph.metadata.get(NAME, b"{}"))
        limit, heads, meant = held.get("limit"), tuple(held.get("heads", ())), held.get("hard_sigmoid")
        runtime, data = held.get("runtime"), held.get("data", False) is True
    except (ValueError, AttributeError, TypeError, RecursionError):
        return Mark()
    step = held.get("step", False) is True
    right = limit is None or (isinstance(limit, (int, float)) and 0 < limit < float("inf"))
    right = right and (meant is None or meant in ("keras2", "keras3"))
    right = right and (runtime is None or isinstance(runtime, str)) and all(isinstance(head, str) for head in heads)
    return Mark(limit, heads, meant, runtime, data, step) if right else Mark()

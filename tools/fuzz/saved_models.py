"""Edits of SavedModel folders, as {path: content}: the graph's fields, variables, the files themselves."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.fuzz.records import plain
from tools.fuzz.values import NUMBERS, REALS, TEXTS, edit_bytes

Files = dict[str, bytes]
GRAPH = "saved_model.pb"

_ADDED = ("assets/words.txt", "assets.extra/x", "saved_model.pbtxt", "keras_metadata.pb", "variables/x")

OPS = (
    "WriteFile", "ReadFile", "PyFunc", "EagerPyFunc", "PrintV2", "NoSuchOp", "Identity", "NoOp", "MatMul", "Exp",
    "Assert", "RandomUniform", "VarHandleOp", "ReadVariableOp", "RestoreV2", "SaveV2", "StatefulPartitionedCall", "If",
    "While", "Placeholder", "Const", "StringJoin", "DecodeRaw", "Where", "Unique", "TensorListReserve", "HashTableV2",
)  # fmt: skip


def edit_saved_model(rng: Random, files: Files) -> tuple[Files, str]:
    """Returns the files with one thing changed, and what that was."""
    made, roll = dict(files), rng.random()
    if roll < 0.6:
        graph = next(path for path in made if path.endswith(GRAPH))
        made[graph], what = edit_graph(rng, made[graph])
        return made, what
    path = rng.choice(sorted(made))
    if roll < 0.85:
        made[path], what = edit_bytes(rng, made[path])
        return made, f"{path}: {what}"
    way = rng.choice(("removed", "empty", "added", "swapped", "folder"))
    if way == "removed":
        del made[path]
    elif way == "empty":
        made[path] = b""
    elif way == "added":
        path = rng.choice(
            ("assets/words.txt", "assets.extra/x", "saved_model.pbtxt", "keras_metadata.pb", "variables/x")
        )
        made[path] = b"x"
    elif way == "swapped":
        made[path] = made[rng.choice(sorted(made))]
    else:
        made[f"{path}/inside"] = made.pop(path)
    return made, f"{path}: {way}"


def edit_graph(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns a `saved_model.pb` with a few fields changed, and what they were."""
    from google.protobuf.message import EncodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel.FromString(content)
    said = [_edit_message(rng, model) for _ in range(rng.choice((1, 1, 2, 4)))]
    try:
        return model.SerializeToString(), "; ".join(said)
    except (EncodeError, ValueError):
        return edit_bytes(rng, content)


def _messages(message: Any, found: list[tuple[str, Any]], path: str = "") -> None:
    """Collects all messages inside one, with their paths."""
    found.append((path, message))
    for field, held in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        where = f"{path}.{field.name}"
        if not field.is_repeated:
            _messages(held, found, where)
        elif hasattr(held, "items"):  # A map; only those to messages matter here.
            for key, inner in held.items():
                if hasattr(inner, "ListFields"):
                    _messages(inner, found, f"{where}[{key}]")
        else:
            for place, inner in enumerate(held):
                _messages(inner, found, f"{where}[{place}]")


def _edit_message(rng: Random, model: Any) -> str:
    found: list[tuple[str, Any]] = []
    _messages(model, found)
    # The outermost messages are few and decide most.
    near = [pair for pair in found if pair[0].count(".") <= 3]
    path, message = rng.choice(near if rng.random() < 0.3 else found)
    held = message.ListFields()
    if not held:
        return f"{path}: nothing to change"
    field, old = rng.choice(held)
    where = f"{path}.{field.name}"[-90:]
    if field.is_repeated:
        return f"{where}: {_edit_repeated(rng, message, field, old)}"
    if field.type == field.TYPE_MESSAGE or rng.random() < 0.2:
        message.ClearField(field.name)
        return f"{where} cleared"
    made = _scalar(rng, field, old)
    try:
        setattr(message, field.name, made)
    except (TypeError, ValueError):
        message.ClearField(field.name)
        return f"{where} cleared"
    return f"{where} = {plain(made)}"


def _scalar(rng: Random, field: Any, old: Any) -> Any:
    if field.name == "op":
        return rng.choice(OPS)
    if isinstance(old, bool):
        return not old
    if isinstance(old, bytes):
        return rng.choice((b"", rng.randbytes(9), edit_bytes(rng, old)[0], b"stdout", b"file://payload-was-run"))
    if isinstance(old, str):
        return rng.choice((*TEXTS, *OPS, old + "x", old[:-1], old[::-1]))
    if isinstance(old, float):
        return rng.choice(REALS)
    return rng.choice((*NUMBERS, old + 1, old - 1, old * 2))


def _edit_repeated(rng: Random, message: Any, field: Any, held: Any) -> str:
    if hasattr(held, "items"):
        key = rng.choice(sorted(held, key=str))
        del held[key]
        return f"[{key}] removed"
    place = rng.randrange(len(held))
    way = rng.choice(("removed", "twice", "cleared", "reversed", "changed"))
    if way == "removed":
        del held[place]
    elif way == "cleared":
        message.ClearField(field.name)
    elif way == "reversed":
        kept = list(held)[::-1]
        del held[:]
        held.extend(kept)
    elif way == "twice":
        held.extend([held[place]])
    elif field.type != field.TYPE_MESSAGE:
        made = _scalar(rng, field, held[place])
        try:
            held[place] = made
        except (TypeError, ValueError):
            del held[place]
            return f"[{place}] removed"
        return f"[{place}] = {plain(made)}"
    else:
        held[place].Clear()
    return f"[{place}] {way}"

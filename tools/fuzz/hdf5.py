"""Edits of HDF5 files: attributes, the configuration in them, datasets, links, bytes."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import h5py
import numpy as np

from tools.fuzz.records import plain
from tools.fuzz.values import REALS, edit_bytes, edit_tree, value

CONFIG = "model_config"


def edit_hdf5(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns an `.h5` file with one thing changed, and what that was."""
    if rng.random() < 0.35:
        return edit_bytes(rng, content)
    buffer = io.BytesIO(content)
    with h5py.File(buffer, "r+") as file:
        ways = [_edit_dataset, _edit_dataset, _edit_link, _edit_attribute]
        ways += [_edit_config] * 6 if CONFIG in file.attrs else []
        what = rng.choice(ways)(rng, file)
    return buffer.getvalue(), what


def _edit_config(rng: Random, file: Any) -> str:
    tree, what = edit_tree(rng, json.loads(file.attrs[CONFIG]))
    if rng.random() < 0.2:
        tree, more = edit_tree(rng, tree)
        what += f"; {more}"
    text = json.dumps(tree)
    # An attribute of more than 64 KiB cannot be stored in the usual way.
    file.attrs[CONFIG] = text if len(text) < 60_000 else text[:60_000]
    return f"{CONFIG}: {what}"


def _objects(file: Any) -> list[Any]:
    found = [file]
    file.visititems(lambda _, held: found.append(held))
    return found


def _edit_attribute(rng: Random, file: Any) -> str:
    held = rng.choice([item for item in _objects(file) if len(item.attrs)] or [file])
    names = [*held.attrs] or ["added"]
    name = CONFIG if CONFIG in names and rng.random() < 0.4 else rng.choice(names)
    makers = (
        lambda: np.float32(1.5),
        lambda: np.arange(3),
        lambda: h5py.Empty("f"),
        lambda: b"\xff\xfe",
        lambda: "",
        lambda: np.array([b"a", b"b"]),
        lambda: np.void(b"\x00\x01"),
        lambda: json.dumps(value(rng))[:50_000],
        lambda: "[" * 30_000 + "]" * 30_000,
        lambda: np.zeros((2, 2), "S3"),
    )
    if rng.random() < 0.2 and name in held.attrs:
        del held.attrs[name]
        return f"attribute {name} of {held.name} removed"
    made = rng.choice(makers)()
    held.attrs[name] = made
    return f"attribute {name} of {held.name} = {plain(made)}"


def _edit_dataset(rng: Random, file: Any) -> str:
    found = [item for item in _objects(file) if isinstance(item, h5py.Dataset)]
    if not found:
        return _edit_attribute(rng, file)
    chosen = rng.choice(found)
    name, shape, old = chosen.name, chosen.shape, chosen[()]
    way = rng.choice(("values", "values", "shape", "dtype", "removed", "a group", "huge", "empty", "external"))
    if way == "values":
        number = rng.choice((*REALS, 1e30))
        with np.errstate(all="ignore"):
            chosen[...] = np.full(shape, number, "f8").astype(chosen.dtype) if chosen.dtype.kind in "fiu" else old
        return f"{name} = {number}"
    del file[name]
    if way == "shape":
        made = rng.choice((np.zeros(()), np.zeros((0, 3)), np.zeros((*shape, 2)), np.zeros(shape)[..., :1], old.T))
        file.create_dataset(name, data=made)
        way = f"shape {made.shape}"
    elif way == "dtype":
        way = rng.choice("f2 f8 i1 i8 c8 S5 u1 i4,f4 vlen".split())
        kind = h5py.string_dtype() if way == "vlen" else np.dtype(way)
        file.create_dataset(name, shape, kind)
    elif way == "a group":
        file.create_group(name)
    elif way == "huge":
        # Declared, not stored: reading it would take terabytes.
        file.create_dataset(name, (10**6, 10**6), "f4", chunks=(100, 100))
    elif way == "empty":
        file[name] = h5py.Empty("f4")
    elif way == "external":
        file.create_dataset(name, shape, "f4", external=[("data.npz", 0, h5py.h5f.UNLIMITED)])
    return f"{name}: {way}"


def _edit_link(rng: Random, file: Any) -> str:
    found = [item for item in _objects(file) if item.name != "/"]
    if not found:
        return _edit_attribute(rng, file)
    name = rng.choice(found).name
    way = rng.choice(("removed", "soft", "circle", "external", "renamed", "twice"))
    if way == "renamed":
        file.move(name, name + rng.choice(("_", "__", "é", " ")))
    elif way == "twice":
        file[f"{name}_copy"] = file[name]
    else:
        del file[name]
        if way in ("soft", "circle"):
            file[name] = h5py.SoftLink("/nowhere" if way == "soft" else name)
        elif way == "external":
            file[name] = h5py.ExternalLink(rng.choice(("data.npz", "nowhere.h5", "net.h5")), "/")
    return f"{name}: {way}"

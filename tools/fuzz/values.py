"""Values that programs stumble over, and edits of bytes and of JSON trees."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

from tools.fuzz.records import plain

NUMBERS = (0, 1, -1, 2, 3, 7, 127, 255, 256, 65536, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, 2**63, -(2**63), 10**30)
REALS = (0.0, -0.0, 0.5, 1e-45, 1e-300, 3.4e38, 1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", " ", "a", "é", "名前", "\U0001f600", "a/b", "../up", "/", ".", "..", "-", "--help", "None", "nan", "0", "1e999",
    "a b", "a:b", "a\nb", "a\tb", "\x1b[31mred\x1b[0m", "\x00", "\u202eabc", "\ud800", "x" * 300, "x" * 20_000, "%s%n",
    "{0}", "{x}", "[red]markup[/red]", "[/]", "`", "<script>", "'", '"', "\\", "${HOME}", "$(true)", ";", "*",
)  # fmt: skip
NAMES = (
    "relu", "softplus", "sigmoid", "tanh", "softmax", "squareplus", "gelu", "silu", "elu", "linear", "leaky_relu",
    "Dense", "Conv2D", "LSTM", "GRU", "Dropout", "Flatten", "Reshape", "Rescaling", "Normalization", "Embedding",
    "BatchNormalization", "LayerNormalization", "MultiHeadAttention", "TimeDistributed", "Bidirectional", "RandomFlip",
    "StringLookup", "IntegerLookup", "TextVectorization", "Discretization", "Hashing", "Sequential", "Functional",
    "Model", "InputLayer", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "RNN", "StackedRNNCells",
    "Wrapper", "Layer", "Masking", "UpSampling2D", "Conv2DTranspose", "Cropping2D", "GaussianNoise", "Permute",
    "RepeatVector", "Lambda", "__lambda__", "__tensor__", "__numpy__", "__keras_tensor__", "__bytes__", "__tuple__",
    "__ellipsis__", "__typespec__", "__none__", "function", "builtin_function_or_method",
)  # fmt: skip
DTYPES = (
    "float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool", "string", "complex64",
    "mixed_float16", "mixed_bfloat16", "int8_from_float32", "float8_e4m3fn", "float8_from_float32", "object",
)  # fmt: skip
MODULES = ("os", "builtins", "keras", "keras.layers", "keras.utils", "subprocess", "no.such.module", "", None)


def value(rng: Random) -> Any:
    """Returns a JSON value that is often not expected."""
    return rng.choice(
        (
            lambda: rng.choice(NUMBERS),
            lambda: rng.choice(REALS),
            lambda: rng.choice(TEXTS),
            lambda: rng.choice(NAMES + DTYPES),
            lambda: rng.choice((None, True, False)),
            lambda: rng.choice(([], {}, [1], [None], [[]], {"a": 1}, {"class_name": "Dense", "config": {}})),
            lambda: nested(rng.choice((5, 40, 90, 200))),
        )
    )()


def nested(depth: int) -> Any:
    """Returns a list in a list in a list ..."""
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value in a JSON tree but the root's."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """Returns the value at a path."""
    for key in path:
        tree = tree[key]
    return tree


def edit_tree(rng: Random, tree: Any) -> tuple[Any, str]:
    """Returns a JSON tree with one thing changed, and what that was."""
    tree = json.loads(json.dumps(tree))  # A copy; `deepcopy` reaches the limit of recursion sooner.
    found = list(places(tree))
    if not found or rng.random() < 0.01:
        made = value(rng)
        return made, f"everything = {plain(made)}"
    # Names and sizes decide more than the many settings of initialisers.
    telling = [p for p in found if str(p[-1]) in _TELLING]
    path = rng.choice(telling if telling and rng.random() < 0.5 else found)
    holder, key = at(tree, path[:-1]), path[-1]
    where = ".".join(map(str, path))[-80:]
    what = rng.choice(_EDITS)(rng, tree, holder, key)
    return tree, f"{where}: {what}"


_TELLING = frozenset(
    "class_name module registered_name name batch_shape batch_input_shape shape dtype activation units filters "
    "kernel_size strides padding axis target_shape inbound_nodes input_layers output_layers layers args kwargs "
    "keras_history build_config input_shape config value layer cell recurrent_activation data_format rate".split()
)


def _replace(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    holder[key] = made = value(rng)
    return f"= {plain(made)}"


def _typical(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    name = str(key)
    choices = NAMES if "name" in name or "activation" in name else DTYPES if "dtype" in name else NUMBERS + TEXTS[:9]
    holder[key] = made = rng.choice(MODULES if name == "module" else choices)
    return f"= {plain(made)}"


def _remove(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    del holder[key]
    return "removed"


def _rename(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
        return "twice"
    made = rng.choice(TEXTS + NAMES)
    holder[made] = holder.pop(key)
    return f"renamed {plain(made)}"


def _wrap(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    old = holder[key]
    holder[key] = rng.choice(([old], {"config": old}, {"class_name": "__tuple__", "items": [old]}, [old] * 50))
    return "wrapped"


def _other_type(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    old = holder[key]
    holder[key] = rng.choice((str(old), repr(old), [], bool(old), str(old).encode("utf-8", "replace").hex()))
    return f"{type(old).__name__} -> {plain(holder[key])}"


def _move(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    other = rng.choice(list(places(tree)))
    holder[key] = copy.deepcopy(at(tree, other))
    return f"copied from {'.'.join(map(str, other))[-60:]}"


def _nudge(rng: Random, tree: Any, holder: Any, key: Any) -> str:
    old = holder[key]
    if isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, (int, float)):
        holder[key] = rng.choice((old + 1, old - 1, -old, old * 1000, old / 2, old * 10**6))
    elif isinstance(old, str):
        place = rng.randrange(len(old) + 1)
        holder[key] = old[:place] + rng.choice(TEXTS) + old[place + rng.randrange(2) :]
    elif isinstance(old, list):
        rng.shuffle(old)
    else:
        return _replace(rng, tree, holder, key)
    return f"{plain(old)} -> {plain(holder[key])}"


_EDITS = (_replace, _typical, _typical, _remove, _rename, _wrap, _other_type, _move, _nudge, _nudge)


def edit_bytes(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Returns bytes with one thing changed, and what that was."""
    if len(content) < 16:
        return rng.randbytes(rng.randrange(64)), "random bytes"
    made = bytearray(content)
    place = rng.randrange(len(made))
    # The headers are at the beginning, or (of a zip archive) at the end.
    place = rng.choice((place, place, rng.randrange(min(len(made), 512)), len(made) - 1 - rng.randrange(16)))
    size = rng.choice((1, 2, 4, 8, 64, 1024))
    what = rng.choice(("bits", "bits", "bits", "cut", "fill", "remove", "repeat", "insert", "number", "append"))
    if what == "bits":
        for _ in range(rng.choice((1, 1, 2, 8, 40))):
            made[min(len(made) - 1, place + rng.randrange(64))] ^= 1 << rng.randrange(8)
    elif what == "cut":
        del made[place:]
    elif what == "fill":
        made[place : place + size] = rng.choice((b"\x00", b"\xff", b"A")) * len(made[place : place + size])
    elif what == "remove":
        del made[place : place + size]
    elif what == "repeat":
        made[place:place] = made[place : place + size]
    elif what == "insert":
        made[place:place] = rng.randbytes(size)
    elif what == "number":
        written = struct.pack(rng.choice(("<q", ">q")), max(-(2**63), min(2**63 - 1, rng.choice(NUMBERS))))
        made[place : place + 4] = written[:4]
    else:
        made += rng.randbytes(size)
    return bytes(made), f"{what} at {place} of {len(content)}, {size} bytes"

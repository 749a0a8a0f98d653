"""What the names of a file's inputs and outputs say: each converter spells those of Keras in its own way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

_ADDED = re.compile(r"(_(int8|uint8|int16|float32|quantized?|dequantized?))+$")
"""What quantisers add where they put a conversion at an end of the graph."""

_CALL = re.compile(r"((?:Stateful)?PartitionedCall(?:_\d+)?):(\d{1,9})$")
"""How TensorFlow names the results of a signature. It numbers them in the order of their names as text, in which
`output_10` is before `output_2`."""

_MOST_CALLS = 10

_BASES = ("output", "outputs", "Identity", "inputs", "input", "args_0", "args", "arg")
"""Names that only say a place in the model's structure: `output_0`, `output_1`, or `inputs`, `inputs_1`."""


def by_name(wanted: Sequence[str], held: Sequence[str]) -> dict[int, int]:
    """Returns which of a file's names is which of a model's, as places in `held` by places in `wanted`.

    The closest spelling decides: the same name, then without the additions of TensorFlow (`serving_default_x:0`), then
    with _ for other characters and in small letters, then a layer's scope (`model/dense_2/BiasAdd`). A name that fits
    two is left out.

    Args:
        wanted: The model's names, each once.
        held: The file's.
    """
    found: dict[int, int] = {}
    for spelt in (str, _bare, _simple, _uncounted):
        ours, theirs = _single(wanted, spelt), _single(held, spelt)
        for name in ours.keys() & theirs.keys():
            if ours[name] not in found and theirs[name] not in found.values():
                found[ours[name]] = theirs[name]
    for place, slot in _by_scope(wanted, held).items():
        if place not in found and slot not in found.values():
            found[place] = slot
    return found


def by_number(held: Sequence[str]) -> dict[int, int]:
    """Returns the places in `held` by the numbers in the names, if these are no names but a complete count from 0."""
    bare = [_ADDED.sub("", name) for name in held]
    calls = [matched for name in bare if (matched := _CALL.match(name))]
    if len(calls) == len(bare):
        same = len({matched[1] for matched in calls}) == 1 and len(calls) <= _MOST_CALLS
        return _counted([int(matched[2]) for matched in calls] if same else [])
    for base in _BASES:
        pattern = re.compile(base + r"(?:_(\d{1,9}))?$")
        numbers = [matched for name in bare if (matched := pattern.match(_bare(name)))]
        if len(numbers) == len(bare):
            found = _counted([int(matched[1] or 0) for matched in numbers])
            if found:
                return found
    return {}


def _counted(numbers: list[int]) -> dict[int, int]:
    complete = sorted(numbers) == list(range(len(numbers)))
    return {number: place for place, number in enumerate(numbers)} if complete else {}


def _single(names: Sequence[str], spelt: Callable[[str], str]) -> dict[str, int]:
    """The places of the names that are there once in a spelling."""
    spellings = [spelt(name) for name in names]
    counts = Counter(spellings)
    return {name: place for place, name in enumerate(spellings) if counts[name] == 1 and name}


def _bare(name: str) -> str:
    return _ADDED.sub("", name).removeprefix("serving_default_").removesuffix(":0")


def _simple(name: str) -> str:
    return re.sub(r"[^0-9a-z]+", "_", _bare(name).lower()).strip("_")


def _uncounted(name: str) -> str:
    """Without what an export adds to an output's name that a node of the graph has too."""
    return re.sub(r"_out\d*$", "", _simple(name))


def _by_scope(wanted: Sequence[str], held: Sequence[str]) -> dict[int, int]:
    """A tensor in the scope of one of the wanted layers, if it is the only one there."""
    places = {name: place for place, name in enumerate(wanted)}
    found: dict[int, list[int]] = {}
    for slot, name in enumerate(held):
        within = places.keys() & set(re.split("[/;]", _bare(name)))
        for layer in within if len(within) == 1 else ():
            found.setdefault(places[layer], []).append(slot)
    return {place: slots[0] for place, slots in found.items() if len(slots) == 1}

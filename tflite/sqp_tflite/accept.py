"""What users pass, brought into the form that the code works with, or refused by its parameter's name.

The command line and the Python API share this grammar: `ram="64k"` is `--ram 64k`. Imports nothing slow.
"""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from sqp_tflite.errors import OptionError
from sqp_tflite.wording import shortened

UNITS = ("k", "M", "G", "T")
"""Units of sizes, each 1024 times the one before; also written kb or kib, in capitals or not."""

_UNITS = {"": 1} | {unit.lower() + end: 1024**n for n, unit in enumerate(UNITS, 1) for end in ("", "b", "ib")}
_LONGEST = 80
_LONGEST_PATH = 4096  # Characters; no system opens a longer one.
LARGEST = 1 << 63  # Bytes: more than any memory has.

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")

Accept = Callable[[str, Any], Any]
"""Takes the parameter's name for messages (with its marks; may be empty) and the value; returns the accepted value."""


def shown(value: Any) -> str:
    """Returns a value as an error message shows it: never long, and never what an object says of itself."""
    if isinstance(value, int) and abs(value) >= LARGEST:
        text = f"an integer of {value.bit_length()} bits"
    elif value is None or isinstance(value, numbers.Real):
        text = str(value)
    elif isinstance(value, (str, Path)):
        text = repr(str(value))
    elif isinstance(value, (list, tuple, dict, set, frozenset, bytes, bytearray)):
        return f"{_kind(value)} of length {len(value)}"
    else:
        return _kind(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def quoted(given: str | Path) -> str:
    """Returns a path or a name between backticks, shortened in the middle if it is long."""
    return f"`{shortened(str(given), 2 * _LONGEST)}`"


def refuse(name: str, rule: str, value: Any, remedy: str) -> NoReturn:
    """Raises `OptionError` in the usual order: the rule, what was received, what to do.

    Args:
        name: The parameter, as the user writes it.
        rule: What it must be, without a full stop.
        value: What was received.
        remedy: A sentence.
    """
    raise OptionError(f"{name} must be {rule}. Received: {shown(value)}. {remedy}".lstrip())


def optional(accept: Accept) -> Accept:
    """Returns `accept` for a parameter that may also be None."""
    return lambda name, value: None if value is None else accept(name, value)


def anything(name: str, value: Any) -> Any:
    """Returns the value: whoever uses it checks it."""
    return value


def flag(name: str, value: Any) -> bool:
    """Returns True or False; numbers and words are refused, since "no" would count as yes."""
    if not _boolean(value):
        refuse(name, "True or False", value, "Pass one of these.")
    return bool(value)


def text(name: str, value: Any) -> str:
    """Returns a string."""
    if not isinstance(value, str):
        refuse(name, "a string", value, "Pass text.")
    return str(value)


def choice(*choices: str) -> Accept:
    """Returns what accepts one of these words."""

    def accept(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            refuse(name, f"one of {', '.join(choices)}", value, f"Pass e.g. {choices[0]!r}.")
        return str(value)

    return accept


def function(name: str, value: Any) -> Any:
    """Returns something that can be called."""
    if not callable(value):
        refuse(name, "a function of one argument", value, "Pass e.g. print.")
    return value


def path(name: str, value: Any) -> Path:
    """Returns the path of a string or of any object that stands for a path."""
    try:
        given = os.fspath(value)
        os.fsencode(given)
    except (TypeError, UnicodeEncodeError):  # No path; half a surrogate pair, which no file name has.
        given = None
    if not isinstance(given, str) or not given or "\0" in given or len(given) > _LONGEST_PATH:
        most = f" of at most {_LONGEST_PATH:,} characters" * (isinstance(given, str) and len(given) > _LONGEST_PATH)
        refuse(name, f"a path{most}", value, "Pass the name of a file as a string or a pathlib.Path.")
    return Path(given)


def path_text(name: str, value: str) -> str:
    """Returns the text of a path unchanged: "./-" would become "-"."""
    path(name, value)
    return value


def output(name: str, value: Any) -> Path:
    """Returns the path of a file to write."""
    if isinstance(value, str) and value == "-":
        remedy = "Standard output is for the command line; './-' is a file of that name."
        refuse(name, "the path of a file", value, remedy)
    path(name, value)
    return Path(output_text(name, os.fspath(value)))


def output_text(name: str, value: str) -> str:
    """Returns the text of the path of a file to write unchanged; a slash at its end names a folder."""
    if os.path.basename(path_text(name, value)) in ("", os.curdir, os.pardir):
        refuse(name, "the path of a file, not of a folder", value, "Add the name of the file.")
    return value


def model(name: str, value: Any) -> Any:
    """Returns a path, or an object that may be a model: only what certainly is not one is refused here."""
    if value is None or isinstance(value, (numbers.Number, bytes, bytearray, list, tuple, set, Mapping)):
        refuse(name, "a Keras model or a path", value, "Pass a keras.Model, or the path of a .keras or .h5 file.")
    return _path_or_object(name, value)


def data(name: str, value: Any) -> Any:
    """Returns a path, or an object that may hold samples: only what certainly does not is refused here."""
    if isinstance(value, (numbers.Number, bytes, bytearray, set)):
        rule = "a path, a mapping of arrays or an array"
        refuse(name, rule, value, "Pass {'x': array} or the path of an .npz file.")
    return _path_or_object(name, value)


def _path_or_object(name: str, value: Any) -> Any:
    if not isinstance(value, (str, os.PathLike)):
        return value
    checked = path(name, value)
    return value if isinstance(value, (str, Path)) else checked


def size(name: str, value: Any) -> int:
    """Returns a number of bytes: an integer, or text with a unit, such as "64k" or "1.5M"."""
    found, whole = -1.0, False
    if isinstance(value, str):
        matched = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", value.strip())
        unit = matched[2].lower() if matched else ""
        if matched and unit in _UNITS:
            found = float(matched[1]) * _UNITS[unit]
            whole = bool(unit) or found.is_integer()
    elif _number(value):
        found = _finite(value)
        whole = found.is_integer()
    if not 1.0 <= found < LARGEST or not whole:
        rule = "a whole number of bytes above 0, below 2**63, with k for 1024, M for 1024 * 1024, G or T"
        refuse(name, rule, value, "For example 200k.")
    return int(found)


def share(name: str, value: Any) -> float:
    """Returns a number of 0 or more."""
    found = _real(value)
    if not 0.0 <= found < math.inf:
        refuse(name, "a finite number of 0 or more", value, "For example 0.001.")
    return found


def positive(name: str, value: Any) -> float:
    """Returns a number above 0."""
    found = _real(value)
    if not 0.0 < found < math.inf:
        refuse(name, "a finite number above 0", value, "For example 0.05.")
    return found


def fraction(name: str, value: Any) -> float:
    """Returns a number between 0 and 1, both excluded."""
    found = _real(value)
    if not 0.0 < found < 1.0:
        refuse(name, "above 0 and below 1", value, "For example 0.0001.")
    return found


def words(*choices: str) -> Accept:
    """Returns what accepts some of these words: a list, or one string with commas."""
    listed = f"one or more of {', '.join(choices)}"

    def accept(name: str, value: Any) -> tuple[str, ...]:
        given = value.split(",") if isinstance(value, str) else value
        found = [part.strip() if isinstance(part, str) else part for part in _several(name, given, f"a list, {listed}")]
        if isinstance(value, str):
            found = [part for part in found if part] or [value]
        unknown = [part for part in found if not isinstance(part, str) or part not in choices]
        if unknown:
            received = ", ".join(shown(part) for part in unknown[:4])
            more = f" For example {','.join(choices[:2])}." if name else ""
            raise OptionError(f"{name} must list {listed}, separated by commas. Received: {received}.{more}".lstrip())
        return tuple(found)

    return accept


def listed(name: str, value: Any) -> tuple[str, ...]:
    """Returns names: from a list, or from one string with commas."""
    given = value.split(",") if isinstance(value, str) else _several(name, value, "a list of names")
    found = [part.strip() if isinstance(value, str) else part for part in given]
    for part in found or [""]:
        if not isinstance(part, str) or not part:
            refuse(name, "NAME,NAME,... or a list of names", part if found else value, "For example first,second.")
    return tuple(found)


def outputs(name: str, value: Any) -> tuple[Path, ...]:
    """Returns the paths of files to write: from a list, or from one path."""
    one = isinstance(value, (str, os.PathLike))
    return tuple(output(name, part) for part in ([value] if one else _several(name, value, "a list of paths")))


def meanings(name: str, value: Any) -> dict[str, str]:
    """Returns what names stand for: from a mapping, or from "NAME=ACTIVATION" or a list of these."""
    if not isinstance(value, Mapping):
        form, example = "NAME=ACTIVATION", "my_softplus=softplus"
        pairs = _several(name, value, f"a mapping, or {form}", f"For example {example}.", one=True)
        return _pairs(name, pairs, form, example)
    for key, meaning in value.items():
        if not (isinstance(key, str) and key and isinstance(meaning, str) and meaning):
            rule = "a mapping from names in the file to activations"
            refuse(name, rule, meaning if isinstance(key, str) else key, "For example {'my_softplus': 'softplus'}.")
    return dict(value)


def modules(name: str, value: Any) -> tuple[str, ...]:
    """Returns modules to import, each "MODULE" or "MODULE:NAME": from a list, or from one string."""
    given = _several(name, value, "a list of modules", one=True)
    for part in given:
        if not isinstance(part, str) or not _MODULE.fullmatch(part) or part.endswith(".py") or len(part) > _LONGEST:
            remedy = "For example my_layers, or my_layers:Scale to take one object out of it."
            if isinstance(part, str) and part.endswith(".py"):
                remedy = f"Leave out the .py: {shortened(Path(part).stem, _LONGEST)}, in the folder where it is."
            refuse(name, "MODULE or MODULE:NAME, as in Python's import", part, remedy)
    return tuple(given)


def states(name: str, value: Any) -> dict[str, str]:
    """Returns {output: input that it goes back into}: from a mapping, or from "OUT=IN" or a list of these.

    "none" says that no output is a state.
    """
    if not isinstance(value, Mapping):
        given = _several(name, value, "a mapping, or OUT=IN", "For example lstm_h=h.", one=True)
        nothing = len(given) == 1 and isinstance(given[0], str) and given[0] == "none"
        return {} if nothing else _pairs(name, given, "OUT=IN", "lstm_h=h", "output", one=False)
    for pair in value.items():
        for end in pair:
            if not (isinstance(end, str) and end):
                refuse(name, "a mapping from outputs to inputs, by their names", end, "For example {'lstm_h': 'h'}.")
    return dict(value)


def rules(name: str, value: Any) -> str | dict[str, Any]:
    """Returns how activations are replaced: one rule for all, or rules by activation or layer."""
    form = "accurate, fast or a list ACT=RULE"
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                refuse(name, "a mapping from activations or layers to rules", key, "For example {'silu': 'accurate'}.")
        return dict(value)
    if isinstance(value, str) and "=" in value:
        return _pairs(name, value.split(","), form, "silu=accurate,tanh=fast")
    if not isinstance(value, str) or value not in ("accurate", "fast"):
        refuse(name, form, value, "For example silu=accurate,tanh=fast.")
    return str(value)


def _pairs(
    name: str, given: Iterable[Any], form: str, example: str, what: str = "activation or layer", one: bool = True
) -> dict[str, str]:
    """Returns the pairs; `one` says whether there may be only one equals sign in each."""
    found: dict[str, str] = {}
    for pair in given:
        key, equals, meaning = pair.strip().partition("=") if isinstance(pair, str) else ("", "", "")
        if not (key and equals and meaning) or (one and "=" in meaning):
            refuse(name, form, pair, f"For example {example}.")
        if key in found:
            raise OptionError(f"{name} must name each {what} once. Received: {shown(key)} twice.")
        found[key] = meaning
    return found


def _several(name: str, value: Any, rule: str, remedy: str = "Pass a list.", one: bool = False) -> list[Any]:
    if value is None or (one and isinstance(value, str)):
        return [] if value is None else [value]
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        refuse(name, rule, value, remedy)
    try:
        return list(value)
    except TypeError:  # An array without axes says that it can be iterated over.
        refuse(name, rule, value, remedy)


def _kind(value: Any) -> str:
    return value.__name__ + " (a class)" if isinstance(value, type) else type(value).__name__


def _boolean(value: Any) -> bool:
    """Whether it is Python's or numpy's boolean; numpy is not imported for that."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not _boolean(value)


def _real(value: Any) -> float:
    """Returns a real number, also from text, and NaN for anything else."""
    if isinstance(value, str):
        try:
            return float(value) if value.isascii() and "_" not in value else math.nan
        except ValueError:
            return math.nan
    return _finite(value) if _number(value) else math.nan


def _finite(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # An integer that no float holds.
        return math.inf

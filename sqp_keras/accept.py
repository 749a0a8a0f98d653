"""What users pass as arguments: checked by name, in one line that says the rule, what was received and what to do."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import keras
import numpy as np

_LONGEST = 80
_SPARSE = ("Sparse", "BCOO", "JAXSparse")
_RAGGED = "Ragged"


def shown(value: Any) -> str:
    """Returns a value as an error message shows it, in a few words."""
    kind = type(value).__name__
    if isinstance(value, type):
        return f"{value.__name__}, a class"
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, numbers.Number | str):
        text = repr(value) if isinstance(value, str) else str(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"
    if isinstance(value, list | tuple) and len(value) <= 4 and all(isinstance(part, numbers.Number) for part in value):
        return repr(value)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{kind} of shape {shape}, dtype {getattr(value, 'dtype', 'unknown')}"
    if isinstance(value, list | tuple | Mapping | set | bytes | bytearray):
        return f"{kind} of length {len(value)}"
    return kind


def wrong_type(name: str, rule: str, value: Any, remedy: str) -> NoReturn:
    """Raises `TypeError`: `name` is `rule`."""
    raise TypeError(f"`{name}` is {rule}. Received: {name}={shown(value)} of type {type(value).__name__}. {remedy}")


def wrong_value(name: str, rule: str, value: Any, remedy: str) -> NoReturn:
    """Raises `ValueError`: `name` is `rule`."""
    raise ValueError(f"`{name}` is {rule}. Received: {name}={shown(value)}. {remedy}")


def is_number(value: Any) -> bool:
    """Returns whether a value is one real number, Python's or numpy's, and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def number(name: str, value: Any, least: float = -math.inf, remedy: str = "Pass e.g. 1.0.") -> float:
    """Returns a finite number of at least `least`."""
    rule = "a number" if least == -math.inf else f"a number of at least {least:g}"
    if not is_number(value):
        wrong_type(name, rule, value, remedy)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not (math.isfinite(found) and found >= least):
        wrong_value(name, rule if math.isfinite(found) else rule.replace("a number", "a finite number"), value, remedy)
    return found


def whole(name: str, value: Any, least: int = 0) -> int:
    """Returns an integer of at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= int(value) < 1 << 63:
        wrong_value(name, f"a whole number of at least {least}", value, f"Pass e.g. {max(least, 1)}.")
    return int(value)


def boolean(name: str, value: Any) -> bool:
    """Returns True or False."""
    if not isinstance(value, bool):
        wrong_type(name, "True or False", value, f"Pass {name}=True or leave it out.")
    return bool(value)


def axes(name: str, value: Any, least: int = 1) -> tuple[int, ...]:
    """Returns one axis or several, at least `least`, as a tuple without repetition."""
    given = list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
    if len(given) < least or not all(
        isinstance(axis, numbers.Integral) and not isinstance(axis, bool) for axis in given
    ):
        wrong_type(name, "an axis or a list of axes", value, "Pass e.g. -1.")
    found = tuple(int(axis) for axis in given)
    if len(set(found)) < len(found) or max(map(abs, found), default=0) > 99:
        wrong_value(name, "an axis or a list of different axes", value, "Pass e.g. -1.")
    return found


def one_of(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """Returns one of the choices, which are strings or None."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        listed = ", ".join(f'"{choice}"' if choice else "None" for choice in choices)
        wrong_value(name, f"one of {listed}", value, f"Pass e.g. {choices[-1]!r}.")
    return value


def name_of_activation(name: str, value: Any) -> str:
    """Returns a string."""
    if not isinstance(value, str):
        wrong_type(name, "the name of an activation", value, "Pass e.g. 'softplus'.")
    return str(value)


def model(name: str, value: Any) -> keras.Model:
    """Returns a Keras model."""
    if not isinstance(value, keras.Model):
        wrong_type(name, "a Keras model", value, "Load one with keras.saving.load_model.")
    return value


def function(name: str, value: Any) -> Callable[..., Any]:
    """Returns something that can be called."""
    if not callable(value):
        wrong_type(name, "a function", value, "Pass a function of a model.")
    return value


def objects(name: str, value: Any) -> dict[str, Any] | None:
    """Returns custom objects by name, or None."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        wrong_type(name, "a dictionary of classes and functions by name", value, "Pass e.g. {'Mine': Mine}.")
    return dict(value)


def names(name: str, value: Any) -> tuple[str, ...]:
    """Returns a list of strings; a single one is refused, since it would be taken letter by letter."""
    given = None if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) else _listed(value)
    if given is None or not all(isinstance(part, str) for part in given):
        wrong_type(name, "a list of names of layers or activations", value, "Pass e.g. ['head'].")
    return tuple(given)


def _listed(value: Any) -> list[Any] | None:
    try:
        return list(value)
    except TypeError:  # Arrays and tensors without axes.
        return None


def part_of_keras(name: str, value: Any, get: Callable[[Any], Any]) -> Any:
    """Returns what one of Keras's `get` functions makes of an identifier: an initialiser, a regulariser ..."""
    try:
        return get(value)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ValueError(
            f"`{name}` is what Keras knows as one: an object, a name or a configuration. Received: "
            f"{name}={shown(value)}. Pass an object of keras.{name.removeprefix('b_')}s."
        ) from error


def is_sparse(value: Any) -> bool:
    """Returns whether a tensor is sparse or ragged."""
    kind = type(value).__name__
    return any(word in kind for word in (*_SPARSE, _RAGGED)) or getattr(value, "sparse", False) is True


def _is_ragged(value: Any) -> bool:
    return _RAGGED in type(value).__name__ or getattr(value, "ragged", False) is True


def dense_rule(value: Any) -> str:
    """Returns why a sparse or ragged tensor has no squareplus."""
    if _is_ragged(value):
        return "Rows of different lengths have no place in it."
    return "squareplus(0) is sqrt(b)/2, so absent entries would not stay absent."


def dense_remedy(name: str, value: Any) -> str:
    """Returns how a sparse or ragged tensor becomes dense."""
    if _is_ragged(value):
        return f"Pass its values, `{name}.flat_values`, or pad it first with `{name}.to_tensor()`."
    return f"Convert it first, e.g. with `tf.sparse.to_dense({name})`."


def tensor(name: str, value: Any) -> Any:
    """Returns a dense tensor of numbers, in a dtype of its own."""
    if is_sparse(value):
        raise TypeError(
            f"`{name}` is a dense tensor. {dense_rule(value)} Received: {type(value).__name__}. "
            f"{dense_remedy(name, value)}"
        )
    try:
        made = keras.ops.convert_to_tensor(value)
        dtype = keras.backend.standardize_dtype(made.dtype)
    except (TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        raise TypeError(
            f"`{name}` is a tensor, an array, a list or a number. Received: {shown(value)}. Rows of a list have one "
            "length."
        ) from error
    if dtype == "bool" or "int" in dtype or dtype in ("float16", "bfloat16", "float32", "float64"):
        return made
    raise TypeError(
        f"`{name}` holds real numbers in float16, bfloat16, float32 or float64. Received: dtype {dtype}. Cast it "
        f"first, e.g. with `keras.ops.cast({name}, 'float32')`."
    )

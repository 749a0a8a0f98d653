"""What export uses of other packages that they don't promise to keep: what for, and what happens without it.

Each entry is looked for when the package in question is imported (`warn`) and with every plan (`notes`); this module
imports none of them, so that the commands start fast. What can be done without leads to a note in the report, what
cannot to an error that names the version and the remedy.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqp_tflite.errors import EnvironmentMissingError
from sqp_tflite.versions import version

TESTED = {"keras": "3.15", "tensorflow": "2.21"}
"""The release of each package with which the tests run."""


@dataclass(frozen=True, slots=True)
class Private:
    """One private part of a package.

    Attributes:
        package: Its distribution.
        owner: Where it is: "module" or "module:attribute".
        name: Of the function, method or attribute.
        purpose: What export uses it for; ends the sentence "... is used to".
        without: What happens without it, in a sentence; "" where export cannot do without.
    """

    package: str
    owner: str
    name: str
    purpose: str
    without: str = ""

    def __str__(self) -> str:
        return f"{self.owner.replace(':', '.')}.{self.name}"


@dataclass(frozen=True, slots=True)
class Found:
    """A private part that is there: its owner and its name."""

    owner: Any
    name: str


USED: dict[str, Private] = {
    "layers": Private(
        "keras",
        "keras.layers:Layer",
        "_flatten_layers",
        "list the layers inside a model",
        "Embeddings and mixed precision inside the user's own layers are overlooked.",
    ),
    "inputs": Private(
        "keras",
        "keras.src.models.functional:Functional",
        "_inputs_struct",
        "call a functional model with its own structure of inputs",
        "The structure of the inputs is read from `model.input`.",
    ),
    "build_shapes": Private(
        "keras",
        "keras.layers:Layer",
        "_build_shapes_dict",
        "know the inputs of a subclassed model",
        "The inputs of a subclassed model are read from its build config, which may lack their names.",
    ),
    "name_scope": Private(
        "keras",
        "keras.layers:Layer",
        "_open_name_scope",
        "name operators by the path of their layer",
        "Operators have Keras's own scopes, so findings may name the wrong one of two layers with the same name.",
    ),
    "squareplus": Private(
        "keras",
        "keras.src.backend:nn",
        "squareplus",
        "write `keras.activations.squareplus` as MUL ADD SQRT ADD",
        "`keras.activations.squareplus` is exported in its training form; `sqp_keras.squareplus` is not affected.",
    ),
    "flip": Private(
        "keras",
        "keras.src.backend:numpy",
        "flip",
        "reverse the sequences of bidirectional layers with UNPACK and PACK",
        "Bidirectional layers hold REVERSE_V2, which has no integer form here.",
    ),
    "take": Private(
        "keras",
        "keras.src.backend:numpy",
        "take",
        "look up the rows of an Embedding with GATHER only",
        "Embeddings hold SELECT, which TensorFlow Lite Micro does not have.",
    ),
    "temporary": Private(
        "keras",
        "keras.src.saving.saving_lib",
        "get_temp_dir",
        "remove what Keras has unpacked of a file that it then refuses",
        "A file that Keras refuses may leave an empty folder among the temporary files.",
    ),
    "freeze": Private(
        "tensorflow",
        "tensorflow.python.framework.convert_to_constants",
        "convert_variables_to_constants_v2",
        "write the weights into the graph",
    ),
    "freezing": Private(
        "tensorflow",
        "tensorflow.python.framework.convert_to_constants",
        "_FunctionConverterDataInEager",
        "read the weights of a graph",
        "Recurrent layers of many time steps take longer to trace.",
    ),
    "constants": Private(
        "tensorflow",
        "tensorflow.python.framework.convert_to_constants",
        "_replace_variables_by_constants",
        "write the weights into the graph without making a function of it",
        "Recurrent layers of many time steps take longer to trace.",
    ),
    "converter": Private(
        "tensorflow",
        "tensorflow:compat.v1.lite",
        "TFLiteConverter",
        "convert a frozen graph with named inputs and outputs",
    ),
    "graph_functions": Private(
        "tensorflow",
        "tensorflow:Graph",
        "_get_function",
        "find state and random numbers inside loops and branches",
        "State and random numbers inside loops and branches are found by the audit, with less exact remedies.",
    ),
    "computing": Private(
        "tensorflow",
        "tensorflow.python.eager.context:Context",
        "_initialized",
        "see whether TensorFlow has begun to compute, which forbids a copy of the process",
        "The converter starts in a fresh process, which takes some seconds longer.",
    ),
    "variables": Private(
        "tflite-micro",
        "tflite_micro.python.tflite_micro.runtime",
        "count_resource_variables",
        "open a file without variables in the interpreter without unpacking it in Python first",
        "Each of the arenas that are tried takes as long as unpacking the file.",
    ),
    "actions": Private(
        "python",
        "argparse:ArgumentParser",
        "_actions",
        "complete the commands' options in a shell",
        "Only file names are completed.",
    ),
}
"""All of them, by what export calls them."""


def find(use: str) -> Found | None:
    """Returns a private part's owner and name, None where the installed package does not have it.

    Args:
        use: A key of `USED`.
    """
    part = USED[use]
    module, _, path = part.owner.partition(":")
    try:
        owner: Any = importlib.import_module(module)
        for name in path.split(".") if path else ():
            owner = getattr(owner, name)
    except (ImportError, AttributeError):
        return None
    return Found(owner, part.name) if hasattr(owner, part.name) or _sets(owner, part.name) else None


def _sets(owner: Any, name: str) -> bool:
    """Returns whether a method of a class uses an attribute of this name, as one set for each object."""
    functions = (inspect.unwrap(value) for value in vars(owner).values() if inspect.isfunction(value))
    return inspect.isclass(owner) and any(name in function.__code__.co_names for function in functions)


def require(use: str) -> Any:
    """Returns a private part that export cannot do without.

    Args:
        use: A key of `USED`.

    Raises:
        EnvironmentMissingError: The installed package does not have it.
    """
    found, part = find(use), USED[use]
    if found is None:
        raise EnvironmentMissingError(
            f"`{part}` is used to {part.purpose}. Received: {part.package} {version(part.package)}, which does not "
            "have it. Install the release that this package is tested with: "
            f"pip install '{part.package}~={TESTED[part.package]}.0'."
        )
    return getattr(found.owner, found.name)


def missing(package: str) -> tuple[Private, ...]:
    """Returns the private parts that an installed package, which must have been imported, does not have."""
    if package not in sys.modules:
        return ()
    # The converter is only looked for where it is used, in the child: it takes a second to import.
    return tuple(part for use, part in USED.items() if part.package == package and part.without and find(use) is None)


def notes() -> tuple[str, ...]:
    """Returns a sentence for each private part that is missing and that export does without."""
    return tuple(
        f"{part.package} {version(part.package)} does not have `{part}`. {part.without}"
        for package in TESTED
        for part in missing(package)
    )


def warn(package: str) -> None:
    """Warns once, when a package has been imported, of the private parts that it does not have."""
    lost = missing(package)
    if lost:
        listed = " ".join(f"`{part}`: {part.without}" for part in lost)
        warnings.warn(f"{package} {version(package)} does not have all that export uses of it. {listed}", stacklevel=2)


def layers(model: Any) -> list[Any]:
    """Returns a Keras model and the layers inside it."""
    flat = getattr(model, USED["layers"].name, None)
    return list(flat()) if flat is not None else list(_listed(model, set()))


def _listed(layer: Any, seen: set[int]) -> Iterable[Any]:
    if id(layer) not in seen:
        seen.add(id(layer))
        yield layer
        for inner in getattr(layer, "layers", ()):
            yield from _listed(inner, seen)


def inputs_structure(model: Any) -> Any:
    """Returns the structure of a functional model's inputs: one, a list, a dict or a nest; None for other models."""
    structure = getattr(model, USED["inputs"].name, None)
    # Functional models list their operations.
    if structure is None and find("inputs") is None and hasattr(model, "operations"):
        return model.input
    return structure


def build_shapes(model: Any) -> dict[str, Any]:
    """Returns {argument of a subclassed model's call: the shape that it was built with}, {} if it was never built."""
    shapes = getattr(model, USED["build_shapes"].name, None)
    if shapes is None and find("build_shapes") is None:
        config = model.get_build_config() or {}
        shapes = config.get("shapes_dict") or {name: shape for name, shape in config.items() if shape}
    return dict(shapes or {})


def graph_function(graph: Any, name: str) -> Any:
    """Returns the graph of a function inside a TensorFlow graph, None where it cannot be had."""
    get = getattr(graph, USED["graph_functions"].name, None)
    if get is None:
        return None
    try:
        return getattr(get(name), "graph", None)
    except (KeyError, ValueError):
        return None


@contextlib.contextmanager
def returning(use: str, value: Any) -> Iterator[None]:
    """Has a private function return a value while the block runs; does nothing where the package does not have it.

    Args:
        use: A key of `USED`.
        value: What it returns, whatever it is called with.
    """
    found = find(use)
    if found is None:
        yield
        return
    own = getattr(found.owner, found.name)
    setattr(found.owner, found.name, lambda *_: value)
    try:
        yield
    finally:
        setattr(found.owner, found.name, own)


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Returns the options and arguments of a command's parser; none where they cannot be had."""
    return list(getattr(parser, USED["actions"].name, ()))


def tensorflow_computes() -> bool:
    """Returns whether TensorFlow has begun to compute, or may have; it must have been imported."""
    found = find("computing")
    if found is None:
        return True
    current = getattr(sys.modules[found.owner.__module__], "context", None)
    return current is None or bool(getattr(current(), found.name, True))

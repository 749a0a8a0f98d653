"""A Keras model in memory, a `.keras` or `.h5` file or a SavedModel folder to one description of it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras

from sqp_keras.models import sites
from sqp_tflite import private
from sqp_tflite.agreement import KERAS
from sqp_tflite.errors import ModelError
from sqp_tflite.files import check_model
from sqp_tflite.limits import Limit, limit
from sqp_tflite.source import declared, finite, keras2, keras2_package, model_file, saved_model
from sqp_tflite.source.arrays import ONLY_INPUT
from sqp_tflite.source.calling import caller
from sqp_tflite.source.custom_objects import Explained, import_all
from sqp_tflite.source.keras_errors import running
from sqp_tflite.wording import joined

private.warn("keras")

_NUMBERS = re.compile(r"(float|bfloat|int|uint|bool)\d*$")
_MOST_LISTED = 4


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of a model.

    Attributes:
        name: Keras's name.
        shape: Without the batch.
        dtype: numpy's name.
        categories: How many values an integer input may take (rows of the embedding behind it), 0 if not known.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    categories: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model, ready for the plan.

    Attributes:
        model: The Keras model; None for a SavedModel, which only holds finished graphs.
        call: Takes the list of input tensors in order, returns {output name: tensor} in Keras's order (in that of the
            names, numbers in them as numbers, for a SavedModel, whose signature has none).
        source: Where it came from, for the report.
        inputs: In the same order.
        layers: Paths of all layers.
        keep: What must stay alive while `call` is used.
        warnings: What the user should know about the file's meaning.
        owners: What has variables in a SavedModel, by its name: a layer of Keras, or a module.
        content: The file, for a model that is a finished TFLite file; empty for others.
    """

    model: Any
    call: Callable[[Sequence[Any]], dict[str, Any]]
    source: str
    inputs: tuple[InputSpec, ...]
    layers: tuple[str, ...]
    keep: Any = None
    warnings: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    content: bytes = field(default=b"", repr=False)

    @property
    def by(self) -> str:
        """Returns what computes the model's outputs here."""
        return "LiteRT" if self.content else KERAS


def load(
    model: Any,
    *,
    names: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
    trust: bool = False,
    hard_sigmoid: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    steps: int = 0,
    allowed: Limit | None = None,
) -> Loaded:
    """Returns the model and what its inputs and outputs are.

    Args:
        model: A built Keras model, or the path of a `.keras` or `.h5` file or of a SavedModel folder.
        names: What an unknown activation name in the file stands for: {"my_softplus": "softplus"}.
        imports: Modules to import before, "MODULE", or objects to take out of one, "MODULE:NAME".
        trust: Whether code that is part of the file (lambdas) or named by it (modules to import) may run.
        hard_sigmoid: Whose hard_sigmoid a file means, "keras2" or "keras3"; None for that of the Keras that wrote it.
        shapes: Shapes per input name, without the batch, for dimensions that the model leaves open.
        steps: Size of a first dimension behind the batch that is still open; 0 to refuse it.
        allowed: How much memory a file's content may take; None for the limit of this machine.

    Raises:
        ModelError: No such file, not a model, damaged, unknown names, code in the file, a model never built, an
            input with an open dimension, a weight that is not finite, a call from inside a graph.
    """
    _require_eager()
    if isinstance(model, (str, Path)):
        path = Path(model)
        if os.path.isdir(path):
            keras2.refuse_choice(hard_sigmoid, str(path))
            import_all(imports)
            return _saved_model(path, trust, allowed or limit(), given=dict(shapes or {}))
        explained = Explained(dict(names or {}), tuple(imports), trust)
        try:
            opened = model_file.open_model(path, explained, allowed or limit())
        except keras2_package.NotInKeras3Error as refusal:
            keras2.refuse_other(hard_sigmoid, str(path))
            return _by_tf_keras(refusal, trust, dict(shapes or {}), allowed or limit())
        warnings = opened.notes + keras2.as_written(opened, path, hard_sigmoid)
        described = _described(opened.model, str(path), dict(shapes or {}), steps)
        return dataclasses.replace(described, warnings=warnings)
    if not isinstance(model, keras.Model):
        raise ModelError(
            f"`model` must be a Keras model or a path. Received: {type(model).__name__}. "
            "Pass a keras.Model, or the path of a .keras or .h5 file."
        )
    keras2.refuse_choice(hard_sigmoid, model.name)
    import_all(imports)
    return _described(model, model.name, dict(shapes or {}), steps)


def _require_eager() -> None:
    """Raises with another backend of Keras, and inside a `tf.function` or a `tf.Graph`, where nothing has a value."""
    if keras.config.backend() != "tensorflow":
        raise ModelError(
            f"Keras must run on TensorFlow to open a model for export. Received: the backend {keras.config.backend()}. "
            "Set the environment variable KERAS_BACKEND=tensorflow."
        )
    import tensorflow as tf

    if not tf.executing_eagerly():
        raise ModelError(
            "A model must be opened where TensorFlow computes right away. Received: a call inside of a tf.function, a "
            "tf.Graph, or after tf.compat.v1.disable_eager_execution(). Call it outside of these."
        )


def reload(loaded: Loaded, model: Any) -> Loaded:
    """Returns the description of a changed copy of a loaded model, whose inputs are the same."""
    paths = tuple(path for path, _ in sites.paths(model))
    return dataclasses.replace(loaded, model=model, call=caller(model, loaded.source), layers=paths)


def _described(model: Any, source: str, shapes: dict[str, tuple[int, ...]], steps: int) -> Loaded:
    symbolic = private.inputs_structure(model) is not None or isinstance(model, keras.Sequential)
    if isinstance(model, keras.Sequential) and not model.layers:
        raise ModelError(f"A model must have at least one layer. Received: `{source}`, which has none. Add one.")
    if not model.built or (isinstance(model, keras.Sequential) and not getattr(model, "inputs", None)):
        raise ModelError(
            f"The model must be built. Received: `{source}`, whose layers have no weights yet. "
            "Begin it with keras.Input(shape=...), or call it once on data before you save or export it."
        )
    raw = _symbolic_inputs(model) if symbolic and getattr(model, "inputs", None) else _recorded_inputs(model, source)
    _require_inputs({name: dtype for name, _, dtype in raw}, source, _lookups(model))
    _require_numbers("outputs", {t.name: _dtype(t) for t in getattr(model, "outputs", None) or ()}, source)
    categories = min((int(layer.input_dim) for layer in _embeddings(model)), default=0)
    if len(raw) == 1 and ONLY_INPUT in shapes:
        shapes = {raw[0][0]: shapes[ONLY_INPUT], **shapes}
    inputs = tuple(
        InputSpec(name, _closed(name, shape, shapes, source, steps), dtype, categories if "int" in dtype else 0)
        for name, shape, dtype in raw
    )
    paths = tuple(path for path, _ in sites.paths(model))
    finite.require_weights(model, source)
    return Loaded(model, caller(model, source), source, inputs, paths)


def _symbolic_inputs(model: Any) -> list[tuple[str, tuple[Any, ...], str]]:
    return [(t.name, _after_batch(t.name, t.shape, model.name), _dtype(t)) for t in model.inputs]


def _after_batch(name: str, shape: Sequence[Any], source: str) -> tuple[Any, ...]:
    if not shape:
        raise ModelError(
            f"Every input must have a batch dimension, and its other dimensions must be known. Received: input "
            f"`{name}` of `{source}` without them. Save the model with inputs of full shape."
        )
    return tuple(shape[1:])


def _dtype(tensor: Any) -> str:
    return str(keras.backend.standardize_dtype(tensor.dtype))


def _lookups(model: Any) -> list[str]:
    """The layers that turn text into numbers."""
    named = ("StringLookup", "TextVectorization", "Hashing", "HashedCrossing")
    kinds = tuple(getattr(keras.layers, name) for name in named)
    return [f"`{path}` ({type(layer).__name__})" for path, layer in sites.paths(model) if isinstance(layer, kinds)]


def _require_inputs(dtypes: Mapping[str, str], source: str, readers: Sequence[str] = ()) -> None:
    """Raises if there is no input, or one of a type that arrays and devices do not have."""
    if not dtypes:
        raise ModelError(f"A model must have at least one input. Received: `{source}` without any. Give it one.")
    _require_numbers("inputs", dtypes, source, readers)
    halves = [f"`{name}`" for name, dtype in dtypes.items() if dtype == "bfloat16"]
    if halves:
        raise ModelError(
            f"An input must have a type that devices have. Received: bfloat16 for {joined(halves, _MOST_LISTED)} in "
            f"`{source}`. Give the model an input of float32, and cast it inside."
        )


def _require_numbers(which: str, dtypes: Mapping[str, str], source: str, readers: Sequence[str] = ()) -> None:
    """Raises if an input or an output is text, or of a type that has no place in a file for a device."""
    bad = [f"`{name}` of type {dtype}" for name, dtype in dtypes.items() if not _NUMBERS.match(dtype)]
    if not bad:
        return
    read = f", read by {', '.join(readers[:_MOST_LISTED])}" if readers else ""
    remedy = "Compute that part outside of the model, and export the rest with numbers in and out."
    if readers:
        remedy = (
            "Look the words up outside of the model, and export the layers behind the lookup with their integers as "
            'input: keras.Input(shape, dtype="int32").'
        )
    raise ModelError(
        f"The {which} of a file for a device must be numbers. Received: {', '.join(bad[:_MOST_LISTED])} in "
        f"`{source}`{read}. {remedy}"
    )


def _recorded_inputs(model: Any, source: str) -> list[tuple[str, tuple[Any, ...], str]]:
    """A subclassed model has no input tensors; Keras keeps the shapes it was built with."""
    shapes = private.build_shapes(model)
    if not shapes:
        raise ModelError(
            f"The inputs of `{source}` must be known. Received: a subclassed model that was never called. "
            "Call it once on data of the right shape before you save or export it."
        )
    found = []
    for argument, shape in shapes.items():
        name = argument.removesuffix("_shape")
        flat = shape if isinstance(shape, dict) else {name: shape}
        for key, value in flat.items():
            nested = value if value and isinstance(value[0], (tuple, list)) else None
            parts = {f"{key}_{i}": part for i, part in enumerate(nested)} if nested else {key: value}
            found += [(part, tuple(dims[1:]), "float32") for part, dims in parts.items()]
    return found


def _closed(
    name: str, shape: tuple[Any, ...], shapes: dict[str, tuple[int, ...]], source: str, steps: int = 0
) -> tuple[int, ...]:
    given = shapes.get(name)
    if given is not None and len(given) == len(shape):
        shape = tuple(theirs if own is None else own for own, theirs in zip(shape, given, strict=True))
    if steps and shape[:1] == (None,):
        shape = (steps, *shape[1:])
    if any(size is None for size in shape):
        raise ModelError(
            f"Every dimension after the batch must be fixed, because a device's memory is. Received: input `{name}` of "
            f"`{source}` with shape {(None, *shape)}. Build the model with keras.Input(shape=...) of full sizes, or "
            "pass --data with samples of the size to export."
        )
    if 0 in shape:
        raise ModelError(
            f"Every dimension must be at least 1, because there is nothing to compare in an empty tensor. Received: "
            f"input `{name}` of `{source}` with shape {(None, *shape)}. Build the model with inputs of the full size."
        )
    return tuple(int(size) for size in shape)


def _embeddings(model: Any) -> list[Any]:
    return [layer for layer in private.layers(model) if isinstance(layer, keras.layers.Embedding)]


def _by_tf_keras(
    refusal: keras2_package.NotInKeras3Error, trust: bool, shapes: dict[str, tuple[int, ...]], allowed: Limit
) -> Loaded:
    source = str(refusal.path)
    with keras2_package.written(refusal, trust) as written:
        ends = dict(enumerate(written.inputs)), dict(enumerate(written.outputs))
        loaded = _saved_model(written.folder, trust, allowed, source, shapes, ends)
    return dataclasses.replace(loaded, warnings=(written.note,))


def _saved_model(
    path: Path,
    trust: bool,
    allowed: Limit,
    source: str = "",
    given: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    names: tuple[dict[int, str], dict[int, str]] = ({}, {}),
) -> Loaded:
    """Describes a SavedModel.

    Args:
        path: The folder.
        trust: Whether its operators may reach outside the model.
        allowed: How much memory its content may take.
        source: What messages call it; "" for the folder.
        given: Shapes for dimensions that it leaves open.
        names: {place: name} of inputs and of outputs where they are called by their places.
    """
    source = source or str(path)
    check_model(path)
    declared.require_saved_model(path, allowed)
    held, signature = saved_model.loaded(path, trust)
    # A signature is stored as a map, which has no order: every process reads another one.
    specs = dict(sorted(signature.structured_input_signature[1].items(), key=_by_name))
    known = {name: spec.shape.as_list() if spec.shape.rank else () for name, spec in specs.items()}
    if len(specs) == 1 and ONLY_INPUT in given:
        given = {names[0].get(0, next(iter(specs))): given[ONLY_INPUT], **given}
    called = {name: names[0].get(place, name) for place, name in enumerate(specs)}
    outputs = sorted(signature.structured_outputs, key=lambda name: _by_name((name, None)))
    ends = {name: names[1].get(place, name) for place, name in enumerate(outputs)}
    _require_inputs({called[name]: spec.dtype.name for name, spec in specs.items()}, source)
    _require_numbers("outputs", {ends[n]: spec.dtype.name for n, spec in signature.structured_outputs.items()}, source)
    single = saved_model.takes_one_sample(specs.values(), source)
    inputs = tuple(
        InputSpec(
            name, _closed(name, _after_batch(name, known[own], source), dict(given), source), specs[own].dtype.name
        )
        for own, name in called.items()
    )
    finite.require_variables((*finite.variables_of(held), *signature.variables), source)

    def call(tensors: Sequence[Any]) -> dict[str, Any]:
        with running(source):
            found = saved_model.call(signature, dict(zip(called, tensors, strict=True)), single)
        return {name: found[own] for own, name in ends.items()}

    return Loaded(None, call, source, inputs, (), keep=held, owners=saved_model.owners(signature.variables))


def _by_name(named: tuple[str, Any]) -> tuple[str, str]:
    """Sorts by name, with the numbers in it as numbers: `output_2` is before `output_10`."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(20), named[0]), named[0]

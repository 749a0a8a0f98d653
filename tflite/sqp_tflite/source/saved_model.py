"""Loads what a SavedModel runs to answer, and nothing else of it.

A SavedModel also holds what trained it: optimizers with their slots, steps of training and of adapting, random
layers. Loading these needs the package that wrote them, may fail without it, and runs none of them. So a copy of
`saved_model.pb` without them is loaded, beside the variables of the original.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqp_tflite.errors import ModelFileError
from sqp_tflite.source import saved_model_code
from sqp_tflite.source.keras_errors import cause, out_of_memory
from sqp_tflite.source.temporary import stand_for
from sqp_tflite.wording import listed

SIGNATURE = "serving_default"
_INNER = "__saved_model"
_UNASKED = ("Value in checkpoint could not be found", "Detecting that an object or model or tf.train.Checkpoint is")
_SIGNATURES = "signatures"
_PLAIN = "_generic_user_object"
"""An object of TensorFlow's with attributes and nothing else."""


def loaded(path: Path, trust: bool) -> tuple[Any, Any]:
    """Returns a SavedModel as TensorFlow loads it, and its signature `serving_default`.

    Args:
        path: The folder.
        trust: Whether its operators may reach outside the model.

    Raises:
        ModelFileError: It is damaged, has no such signature, or reaches outside the model.
    """
    import tensorflow as tf

    whole = saved_model_code.saved_model(path)
    _require_signature(whole, path)
    part = [_for_inference(graph) for graph in whole.meta_graphs]
    if not trust:
        saved_model_code.refuse_code(path, part)
    whole.ClearField("meta_graphs")
    whole.meta_graphs.extend(part)
    try:
        with _beside(path, whole.SerializeToString()) as folder:
            logging.getLogger("tensorflow").addFilter(_asked)  # Once: the same filter is not added again.
            held = tf.saved_model.load(str(folder))
            return held, held.signatures[SIGNATURE]
    except Exception as error:  # TensorFlow's loader raises every kind on damaged files.
        damaged = (
            "Use a machine with more memory." if out_of_memory(error) else "Copy it again, or save the model again."
        )
        index = path / "variables" / "variables.index"
        received = cause(error) if index.is_file() or out_of_memory(error) else f"a folder without {index.name}"
        raise ModelFileError(
            f"`{path}` must be a SavedModel that TensorFlow can load. Received: {received}. {damaged}"
        ) from error


def takes_one_sample(specs: Iterable[Any], source: str) -> bool:
    """Returns whether a signature takes exactly one sample per call; False for any number.

    Args:
        specs: `TensorSpec` of its inputs, each with a batch dimension.
        source: What messages call the model.

    Raises:
        ModelFileError: It takes another number, which a file of one sample cannot hold.
    """
    fixed = {int(spec.shape[0]) for spec in specs if spec.shape.rank and spec.shape[0] is not None}
    if fixed - {1}:
        raise ModelFileError(
            f"A model must take any number of samples, or one. Received: `{source}`, whose signature `{SIGNATURE}` "
            f"takes exactly {max(fixed)}. Save it with None or 1 as the first dimension of its inputs."
        )
    return bool(fixed)


def call(signature: Any, values: Mapping[str, Any], single: bool) -> dict[str, Any]:
    """Returns the outputs of a signature by name, each of shape (samples, ...).

    Args:
        signature: As TensorFlow loads it.
        values: Tensors or arrays by name, each of shape (samples, ...).
        single: Whether it takes one sample per call.
    """
    import tensorflow as tf

    tensors = {name: tf.convert_to_tensor(value) for name, value in values.items()}
    rows = {int(tensor.shape[0]) for tensor in tensors.values()}
    if not single or rows == {1}:
        return dict(signature(**tensors))
    found = [signature(**{name: tensor[row : row + 1] for name, tensor in tensors.items()}) for row in range(max(rows))]
    return {name: tf.concat([part[name] for part in found], axis=0) for name in found[0]}


def _require_signature(whole: Any, path: Path) -> None:
    names = {name for graph in whole.meta_graphs for name in graph.signature_def if not name.startswith(_INNER)}
    if not whole.meta_graphs:
        raise ModelFileError(f"`{path}` must be a readable SavedModel. Received: one without a graph. Save it again.")
    if SIGNATURE not in names:
        raise ModelFileError(
            f"`{path}` must have the signature `{SIGNATURE}`. Received: {listed(sorted(names)) or 'none'}. "
            "Write it with model.export(path) in Keras, or with tf.saved_model.save(model, path, signatures=function)."
        )


@contextlib.contextmanager
def _beside(path: Path, content: bytes) -> Iterator[Path]:
    """Yields a folder with another `saved_model.pb` and everything else of a SavedModel."""
    with tempfile.TemporaryDirectory(prefix="sqp-saved-model-") as name:
        folder = Path(name)
        (folder / "saved_model.pb").write_bytes(content)
        for part in ("variables", "assets"):
            if (path / part).is_dir():
                stand_for(path / part, folder / part)
        yield folder


def _asked(record: logging.LogRecord) -> bool:
    """Whether a warning is not about values in a file that nobody asked for; TensorFlow gives it when a model goes."""
    return not str(record.msg).startswith(_UNASKED)


def _for_inference(graph: Any) -> Any:
    """Returns a MetaGraphDef with what the signature needs; one of TensorFlow 1, which has no objects, as it is."""
    objects = graph.object_graph_def
    signatures = next((child.node_id for child in _children(objects, 0) if child.local_name == _SIGNATURES), None)
    if signatures is None:
        return graph
    made = type(graph)()
    made.CopyFrom(graph)
    objects = made.object_graph_def
    ours = [(child.node_id, child.local_name) for child in _children(objects, signatures)]
    objects.nodes[signatures].ClearField("children")
    for number, name in ours:
        if name == SIGNATURE:
            objects.nodes[signatures].children.add(node_id=number, local_name=name)
    needed = _needed(objects, signatures)
    above = _above(objects, needed)
    for number, node in enumerate(objects.nodes):
        if number in needed:
            continue
        kept = [child for child in node.children if number in above and child.node_id in needed | above]
        children = [(child.node_id, child.local_name) for child in kept]
        node.Clear()
        node.user_object.identifier = _PLAIN
        for target, name in children:
            node.children.add(node_id=target, local_name=name)
    functions = _functions(objects, needed)
    for name in [name for name in objects.concrete_functions if name not in functions]:
        del objects.concrete_functions[name]
    _keep(made.graph_def.library, functions)
    for field in ("saver_def", "collection_def", "signature_def"):
        made.ClearField(field)
    constants = [node for node in made.graph_def.node if node.op == "Const"]  # Objects may stand for these.
    made.graph_def.ClearField("node")
    made.graph_def.node.extend(constants)
    return made


def _children(objects: Any, number: int) -> Any:
    return objects.nodes[number].children if len(objects.nodes) > number else ()


def _needed(objects: Any, start: int) -> set[int]:
    """The objects that an object consists of, with what their functions capture."""
    waiting, found = [start], set[int]()
    while waiting:
        number = waiting.pop()
        if number in found or not 0 <= number < len(objects.nodes):
            continue
        found.add(number)
        node = objects.nodes[number]
        waiting += [child.node_id for child in (*node.children, *node.dependencies)]
        for saveable in node.saveable_objects.values():
            waiting += [saveable.save_function, saveable.restore_function]
        for name in _names(node):
            if name in objects.concrete_functions:
                waiting += list(objects.concrete_functions[name].bound_inputs)
    return found


def _above(objects: Any, needed: set[int]) -> set[int]:
    """The objects that lead from the root to some of them: by these TensorFlow finds the values of variables."""
    parents: dict[int, set[int]] = {}
    for number, node in enumerate(objects.nodes):
        for child in node.children:
            parents.setdefault(child.node_id, set()).add(number)
    waiting, found = list(needed), {0}
    while waiting:
        new = parents.get(waiting.pop(), set()) - found - needed
        found |= new
        waiting += new
    return found


def _names(node: Any) -> set[str]:
    """The concrete functions of an object."""
    return {*node.function.concrete_functions, node.bare_concrete_function.concrete_function_name} - {""}


def _functions(objects: Any, numbers: Iterable[int]) -> set[str]:
    return {name for number in numbers for name in _names(objects.nodes[number])}


def _keep(library: Any, names: set[str]) -> None:
    """Takes all functions but some, and those that they call, out of a library."""
    held = {function.signature.name: function for function in library.function}
    kept = saved_model_code.reachable(names, held)
    functions = [function for function in library.function if function.signature.name in kept]
    library.ClearField("function")
    library.function.extend(functions)
    for field in ("gradient", "registered_gradients"):
        library.ClearField(field)
    for function in library.function:
        for node in function.node_def:
            node.attr.pop("_gradient_op_type", None)


def owners(variables: Sequence[Any]) -> tuple[str, ...]:
    """Returns what has the variables: their scopes, without that of the whole model.

    Args:
        variables: Of a signature.
    """
    paths = [variable.name.partition(":")[0].split("/")[:-1] for variable in variables]
    whole = len({path[0] if path else "" for path in paths}) == 1 and all(len(path) > 1 for path in paths)
    scopes = [path[1:] if whole else path for path in paths]
    return tuple(sorted({"/".join(path[:last]) for path in scopes for last in range(1, len(path) + 1)}))

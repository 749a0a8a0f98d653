"""Looks through a SavedModel for operators that reach outside the model, before TensorFlow loads it.

Loading a SavedModel runs the initialisers of its resources, and comparing runs its signature. Both are graphs of
operators, and some operators read and write files, call Python or talk to other machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqp_tflite.errors import BadInputError

_OUTSIDE = re.compile(
    r"File|^(Save|Restore|MergeV2|Sharded|PyFunc|EagerPyFunc|NumpyFunc|Send|Recv|_Send|_Recv|_HostSend|_HostRecv|Rpc"
    r"|Collective|Configure|Connect|TPU|Infeed|Outfeed|RegisterDataset|DataService|TFRecord|TextLine|SSTable|LMDB)"
    r"|Dataset|Reader|Summary|Iterator|Barrier|StackV2|Xla(Launch|Send|Recv|HostCompute)"
)
"""Operators that read or write files, call Python, use the network, or run work of their own in the background."""

_MODEL_STATE = re.compile(
    r"^(VarHandleOp|VarIsInitializedOp|ReadVariableOp|ResourceGather(Nd)?|DestroyResourceOp|Assign\w*VariableOp|Variable(V2)?"
    r"|\w*PartitionedCall|(Stateless)?(If|While|Case)|Assert|NoOp|Placeholder\w*|Anonymous(Mutable)?HashTable\w*"
    r"|(Mutable)?HashTable(OfTensors)?(V2)?|LookupTable\w*|InitializeTable(V2)?|ResourceScatter\w+|Resource\w*Apply\w+"
    r"|Random\w+|Multinomial|TruncatedNormal|ParameterizedTruncatedNormal|Stateful(Uniform|Standard|Truncated)\w*"
    r"|TensorList\w*|EmptyTensorList|SymbolicGradient)$"
)
"""Stateful operators that keep to the model: its variables, tables, calls, control flow and random numbers."""

_STREAMS = (b"stdout", b"stderr", b"log(info)", b"log(warning)", b"log(error)")
"""Where `tf.print` may write; it can also be told the name of a file."""

_MOST_LISTED = 6


@dataclass(frozen=True, slots=True)
class Suspect:
    """One operator that reaches outside the model; `where` is the function or graph that holds it."""

    op: str
    where: str


def refuse_code(path: Path) -> None:
    """Raises `BadInputError` if loading or running a SavedModel would run more than the arithmetic of a model.

    Args:
        path: Folder of the SavedModel.

    Raises:
        BadInputError: It holds such operators, or `saved_model.pb` is damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    try:
        model = SavedModel.FromString((path / "saved_model.pb").read_bytes())
    except (DecodeError, OSError) as error:
        raise BadInputError(
            f"`{path / 'saved_model.pb'}` must be a readable SavedModel. Received: {error}. Save the model again."
        ) from error
    found = list(dict.fromkeys(suspect for graph in model.meta_graphs for suspect in suspects(graph)))
    if not found:
        return
    listed = ", ".join(f"{suspect.op} in `{suspect.where}`" for suspect in found[:_MOST_LISTED])
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    raise BadInputError(
        f"`{path}` holds operators that reach outside the model: files, Python, the network or custom code. "
        f"Received: {listed}{more}. Export the model without them (compute that part before the model), or pass "
        "--trust-code if you trust whoever made it."
    )


def suspects(meta_graph: Any) -> Iterator[Suspect]:
    """Yields the operators of a MetaGraphDef that reach outside the model.

    The functions that save and restore the model's variables use files by nature. They are left out: loading does not
    run them. One that anything else calls too is looked through.
    """
    library = {function.signature.name: function for function in meta_graph.graph_def.library.function}
    saving = _saving_nodes(meta_graph)
    # The variables stand on both sides; a handle does nothing by itself.
    others = [node for node in meta_graph.graph_def.node if node.name not in saving]
    roots = set(_called(others)) | set(meta_graph.object_graph_def.concrete_functions)
    saver = _reachable(_called(node for node in meta_graph.graph_def.node if node.name in saving), library)
    checked = _reachable(roots, library) | (set(library) - saver)
    yield from _suspects_of(others, "the main graph")
    for name in sorted(checked):
        if name in library:
            yield from _suspects_of(library[name].node_def, name)


def _suspects_of(nodes: Iterable[Any], where: str) -> Iterator[Suspect]:
    from tensorflow.python.framework import op_def_registry

    for node in nodes:
        known = op_def_registry.get(node.op)
        if node.op == "PrintV2":
            outside = node.attr["output_stream"].s not in _STREAMS
        else:
            strange = known is None or (known.is_stateful and not _MODEL_STATE.search(node.op))
            outside = strange or bool(_OUTSIDE.search(node.op))
        if outside:
            yield Suspect(node.op, where)


def _saving_nodes(meta_graph: Any) -> set[str]:
    """The nodes of the main graph that only saving and restoring need."""
    nodes = {node.name: node for node in meta_graph.graph_def.node}
    saver = meta_graph.saver_def
    waiting = [saver.save_tensor_name, saver.restore_op_name, saver.filename_tensor_name]
    found: set[str] = set()
    while waiting:
        name = waiting.pop().lstrip("^").partition(":")[0]
        if name in nodes and name not in found:
            found.add(name)
            waiting += nodes[name].input
    return found


def _called(nodes: Iterable[Any]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        for value in node.attr.values():
            names |= {value.func.name} if value.HasField("func") else set()
            names |= {function.name for function in value.list.func}
    return names - {""}


def _reachable(roots: Iterable[str], library: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in library and name not in found:
            found.add(name)
            waiting += _called(library[name].node_def)
    return found

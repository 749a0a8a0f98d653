"""Looks through a SavedModel for operators that reach outside the model, before TensorFlow loads it.

Loading a SavedModel runs the initialisers of its resources, and comparing runs its signature. Both are graphs of
operators, and some operators read and write files, call Python or talk to other machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqp_tflite.errors import CodeInFileError, InputFileError, ModelFileError, barred
from sqp_tflite.wording import LONGEST_NAME, harmless, joined, said, shortened

_OUTSIDE = {
    "calls Python": re.compile(r"^(PyFunc|EagerPyFunc|NumpyFunc)"),
    "talks to other processes or machines": re.compile(
        r"^(Send|Recv|_Send|_Recv|_HostSend|_HostRecv|Rpc|Collective|Configure|Connect|TPU|Infeed|Outfeed"
        r"|RegisterDataset|DataService)|Xla(Launch|Send|Recv|HostCompute)"
    ),
    "reads or writes files": re.compile(
        r"File|^(Save|Restore|MergeV2|Sharded|TFRecord|TextLine|SSTable|LMDB)|Reader|Summary"
    ),
    "does work of its own in the background": re.compile(r"Dataset|Iterator|Barrier"),
    "ends the process, waits for another one, or shows what is computed": re.compile(
        r"^(Abort|Debug\w+|Copy(Host)?|Fact|GetOptions|Batch(Function)?|Unbatch(Grad)?|Queue\w+|RandomShuffleQueue\w*"
        r"|\w*Accumulator\w*|SdcaOptimizer\w*|Prelinearize\w*)$"
    ),
    "reads the clock": re.compile(r"^Timestamp$"),
}
"""What operators do besides computing; TensorFlow does not call all of them stateful. The first that fits counts."""

_UNKNOWN = "is not one of TensorFlow's"
_KEEPS = "may keep something besides the model's variables"
_ELSEWHERE = "reads a file that the model names"
_PLACED = "is told a place, or a text that may be one"

_MODEL_STATE = re.compile(
    r"^(VarHandleOp|VarIsInitializedOp|ReadVariableOp|ResourceGather(Nd)?|DestroyResourceOp|Assign\w*VariableOp|Variable(V2)?"
    r"|\w*PartitionedCall|(Stateless)?(If|While|Case)|Assert|NoOp|Placeholder\w*|Anonymous(Mutable)?HashTable\w*"
    r"|(Mutable)?HashTable(OfTensors)?(V2)?|LookupTable\w*|InitializeTable(V2)?|ResourceScatter\w+|Resource\w*Apply\w+"
    r"|Random\w+|Multinomial|TruncatedNormal|ParameterizedTruncatedNormal|Stateful(Uniform|Standard|Truncated)\w*"
    r"|TensorList\w*|EmptyTensorList|SymbolicGradient|CheckNumerics(V2)?|(Destroy)?TemporaryVariable)$"
)
"""Stateful operators that keep to the model: its variables, tables, calls, control flow and random numbers."""

_PLACE = re.compile(r"file|path|url|address|region|descriptor|device_name", re.IGNORECASE)
"""In the name of an operator's input or text attribute: it says where something outside is."""

_WORDS = frozenset(
    "allowed_devices bad_indices_policy combiner compression_type config config_proto container data_format dct_method "
    "debug_name dimension_numbers dst_format encoding equation executor_type field_delim fill fill_mode frame_name "
    "input_encoding input_order interpolation kernel_type left_pad message na_value noise padding pattern placeholder "
    "rewrite right_pad row_partition_types separator set_operation shared_name src_format template var_name".split()
)
"""Text attributes whose text is about the computation only. What is not listed may be a place outside the model."""

_RESTORING = re.compile(r"^(Restore(V2|Slice)?|ShardedFile\w+|DisableCopyOnRead)$")
"""What reading the model's variables needs besides the arithmetic of a model."""

_SAVING = re.compile(rf"{_RESTORING.pattern}|^(Save(V2|Slices)?|MergeV2Checkpoints)$")
"""What saving needs too. Neither loading nor running a model does that."""

_FROM_FILE = re.compile(r"^Restore(V2|Slice)?$")
"""Operators that read tensors from the files that their first input names."""

_CALL = re.compile(r"^(Stateful)?PartitionedCall$")
"""Operators that hand their inputs to a function, one by one."""

_NOTHING = re.compile(r"(?!)")

_STREAMS = (b"stdout", b"stderr", b"log(info)", b"log(warning)", b"log(error)")
"""Where `tf.print` may write; it can also be told the name of a file."""

_MOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class Suspect:
    """One operator that reaches outside the model.

    Attributes:
        op: Its name.
        where: The function or graph that holds it.
        does: What it does there, as a predicate.
    """

    op: str
    where: str
    does: str


def refuse_code(path: Path, graphs: Sequence[Any] | None = None) -> None:
    """Raises `CodeInFileError` if loading or running a SavedModel would run more than the arithmetic of a model.

    Args:
        path: Folder of the SavedModel.
        graphs: Its MetaGraphDefs, or what is loaded of them; None to read all of them.

    Raises:
        CodeInFileError: It holds such operators.
        ModelFileError: `saved_model.pb` is damaged.
    """
    found = list(dict.fromkeys(suspect for graph in graphs or meta_graphs(path) for suspect in suspects(graph)))
    if not found:
        return
    listed = (f"{_short(one.op)} in `{_short(one.where)}` ({one.does})" for one in found)
    raise CodeInFileError(
        f"`{path}` holds operators that reach outside the model. Received: {joined(listed, _MOST_LISTED)}. "
        "Export the model without them: compute that part before the model. If its outputs do not depend on them, and "
        "you trust whoever made it, pass --trust-code, which runs them."
    )


def _short(name: str) -> str:
    return shortened(harmless(name), LONGEST_NAME)


def meta_graphs(path: Path) -> Sequence[Any]:
    """Returns the MetaGraphDefs of a SavedModel, of which there is one as a rule.

    Args:
        path: Folder of the SavedModel.

    Raises:
        ModelFileError: `saved_model.pb` is damaged.
    """
    return tuple(saved_model(path).meta_graphs)


def saved_model(path: Path) -> Any:
    """Returns the content of `saved_model.pb`, a protocol buffer.

    Args:
        path: Folder of the SavedModel.

    Raises:
        InputFileError: It may not be read.
        ModelFileError: It is damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    try:
        return SavedModel.FromString((path / "saved_model.pb").read_bytes())
    except PermissionError as error:
        raise InputFileError(barred(error)) from error
    except (DecodeError, OSError) as error:
        raise ModelFileError(
            f"`{path / 'saved_model.pb'}` must be a readable SavedModel. Received: {said(error)}. Save the model again."
        ) from error


def suspects(meta_graph: Any) -> Iterator[Suspect]:
    """Yields the operators of a MetaGraphDef that reach outside the model.

    The parts that save and restore the model's variables use files by nature, and may do that and nothing else. Loading
    a model of TensorFlow 1 runs its part that restores. A function that anything else uses too is no such part.
    """
    library = {function.signature.name: function for function in meta_graph.graph_def.library.function}
    nodes = meta_graph.graph_def.node
    saver = meta_graph.saver_def
    restoring = _needed(nodes, saver.restore_op_name)
    saving = _needed(nodes, saver.save_tensor_name, saver.filename_tensor_name) | restoring
    used = _needed(
        nodes, *_ends(meta_graph), *(name for node in nodes if node.name not in saving for name in node.input)
    )
    main = dict.fromkeys(saving, _SAVING) | dict.fromkeys(restoring, _RESTORING) | dict.fromkeys(used, _NOTHING)
    allowed: dict[str, re.Pattern[str]] = {}
    for pattern in (_NOTHING, _RESTORING, _SAVING):
        roots = _called(node for node in nodes if main.get(node.name, _NOTHING) is pattern)
        roots |= _of_objects(meta_graph.object_graph_def) if pattern is _NOTHING else set()
        for name in reachable(roots, library):
            allowed.setdefault(name, pattern)
    for node in nodes:
        yield from _suspects_of([node], "the main graph", main.get(node.name, _NOTHING))
    for name in sorted(library):
        yield from _suspects_of(library[name].node_def, name, allowed.get(name, _NOTHING))
    told = _Told(library)
    own = saver.filename_tensor_name.partition(":")[0]
    yield from (Suspect(op, "the main graph", _ELSEWHERE) for op, name in told.names(nodes) if name != own)
    for name, function in library.items():
        arguments = [argument.name for argument in function.signature.input_arg]
        others = (op for op, source in told.names(function.node_def) if source not in arguments)
        yield from (Suspect(op, name, _ELSEWHERE) for op in others)


class _Told:
    """Where operators that read files get the names of the files: only the loader may say which.

    The part of a model that restores its variables takes the name as an argument. If a constant stands there instead,
    the model reads any other checkpoint that the user may read.
    """

    def __init__(self, library: dict[str, Any]):
        self._library = library
        self._places: dict[str, frozenset[int] | None] = {}

    def names(self, nodes: Iterable[Any]) -> Iterator[tuple[str, str]]:
        """Yields the operators of a graph that read files, and what gives each a name: a node, an argument, or ""."""
        inside = {node.name: node for node in nodes}
        for node in inside.values():
            if _FROM_FILE.search(node.op):
                yield node.op, _source(node, 0, inside)
            for function in _called([node]) & self._library.keys():
                places = self._arguments(function)
                if places is None or (places and not (_CALL.search(node.op) or node.op == function)):
                    yield node.op, ""
                    continue
                yield from ((node.op, _source(node, place, inside)) for place in sorted(places))

    def _arguments(self, function: str) -> frozenset[int] | None:
        """Which arguments of a function are names of files; None while that is being found out, in a recursion."""
        if function not in self._places:
            self._places[function] = None
            definition = self._library[function]
            arguments = [argument.name for argument in definition.signature.input_arg]
            sources = {source for _, source in self.names(definition.node_def)}
            self._places[function] = frozenset(arguments.index(source) for source in sources & {*arguments})
        return self._places[function]


def _source(node: Any, place: int, inside: dict[str, Any]) -> str:
    """Returns what an input of a node is: the name of a node or an argument, behind any Identity; "" for none."""
    for _ in range(len(inside) + 1):
        if place >= len(node.input):
            return ""
        name = str(node.input[place]).partition(":")[0]
        if name not in inside or inside[name].op != "Identity":
            return name
        node, place = inside[name], 0
    return ""


def _suspects_of(nodes: Iterable[Any], where: str, allowed: re.Pattern[str]) -> Iterator[Suspect]:
    from tensorflow.python.framework import op_def_registry

    for node in nodes:
        known = op_def_registry.get(node.op)
        if known is not None and allowed.search(node.op):
            continue
        does = _does(node, known)
        if does:
            yield Suspect(node.op, where, does)


def _does(node: Any, known: Any) -> str:
    """What an operator does besides computing, "" for nothing; `known` is TensorFlow's definition, None for none."""
    if node.op == "PrintV2":
        return "" if node.attr["output_stream"].s in _STREAMS else "writes to a file"
    if known is None:
        return _UNKNOWN
    named = next((does for does, pattern in _OUTSIDE.items() if pattern.search(node.op)), "")
    if named:
        return named
    if known.is_stateful and not _MODEL_STATE.search(node.op):
        return _KEEPS
    return _PLACED if _told(known) else ""


def _told(definition: Any) -> bool:
    """Whether an operator is told a place outside the model, or a text of which nobody knows what it is."""
    texts = [attr for attr in definition.attr if attr.type in ("string", "list(string)")]
    if any(_PLACE.search(part.name) for part in (*definition.input_arg, *texts)):
        return True
    return any(attr.name not in _WORDS and not attr.allowed_values.list.s for attr in texts)


def _needed(nodes: Iterable[Any], *names: str) -> set[str]:
    """The names of the nodes of the main graph that some of them need, and their own."""
    inputs = {node.name: node.input for node in nodes}
    waiting, found = list(names), set[str]()
    while waiting:
        name = waiting.pop().lstrip("^").partition(":")[0]
        if name in inputs and name not in found:
            found.add(name)
            waiting += inputs[name]
    return found


def _ends(meta_graph: Any) -> Iterator[str]:
    """Yields the tensors and nodes that signatures and collections name; some of these are run."""
    for signature in meta_graph.signature_def.values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            yield info.name
    for collection in meta_graph.collection_def.values():
        yield from collection.node_list.value


def _of_objects(objects: Any) -> set[str]:
    """The functions that the objects of a model refer to."""
    names = set(objects.concrete_functions)
    for node in objects.nodes:
        names |= {*node.function.concrete_functions, node.bare_concrete_function.concrete_function_name}
    return names


def _called(nodes: Iterable[Any]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        names.add(node.op)  # An operator may be a function.
        for value in node.attr.values():
            names |= {value.func.name} if value.HasField("func") else set()
            names |= {function.name for function in value.list.func}
    return names - {""}


def reachable(roots: Iterable[str], library: Mapping[str, Any]) -> set[str]:
    """Returns the functions of a library that some of them call, and these.

    Args:
        roots: Their names.
        library: The functions by name.
    """
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in library and name not in found:
            found.add(name)
            waiting += _called(library[name].node_def)
    return found

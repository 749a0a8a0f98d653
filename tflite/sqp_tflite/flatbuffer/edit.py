"""A TFLite file through the schema's object API: opened, given unambiguous names, packed again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unpack(content: bytes) -> Any:
    """Returns the schema's `ModelT` of a file."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for buffer in model.buffers:
        # Large files hold their data behind the flatbuffer; `pack` writes all of it inside.
        if buffer.offset > 1:
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
    return model


def pack(model: Any) -> bytes:
    """Returns the file of a `ModelT`."""
    import flatbuffers

    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def op_name(model: Any, operator: Any) -> str:
    """Returns an operator's name as the schema spells it; "CUSTOM" for every custom op."""
    from ai_edge_litert import schema_py_generated as schema

    code = model.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    return _names(schema)[number]


def op_code(model: Any, name: str) -> int:
    """Returns the index of an operator in the model's list, which gains it where it isn't there."""
    from ai_edge_litert import schema_py_generated as schema

    number = getattr(schema.BuiltinOperator, name)
    for index, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == number:
            return index
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def dtype_name(tensor: Any) -> str:
    """Returns a tensor's type as numpy spells it."""
    from ai_edge_litert import schema_py_generated as schema

    if not _TYPES:
        _TYPES.update({number: name.lower() for name, number in vars(schema.TensorType).items() if name.isupper()})
    return _TYPES[tensor.type]


def values(model: Any, tensor: Any) -> NDArray[Any] | None:
    """Returns a constant's numbers in its own type and shape; None for a tensor computed at run time."""
    data = model.buffers[tensor.buffer].data
    if data is None or not len(data):
        return None
    shape = tuple(tensor.shape) if tensor.shape is not None else ()
    return np.frombuffer(np.asarray(data, np.uint8).tobytes(), dtype_name(tensor)).reshape(shape)


def name_of(tensor: Any) -> str:
    """Returns a tensor's name as text."""
    return tensor.name.decode("utf-8", "replace") if isinstance(tensor.name, bytes) else (tensor.name or "")


def add_constant(model: Any, graph: Any, name: str, array: NDArray[Any]) -> int:
    """Returns the index of a new constant tensor."""
    from ai_edge_litert import schema_py_generated as schema

    buffer, tensor = schema.BufferT(), schema.TensorT()
    buffer.data = np.frombuffer(array.tobytes(), np.uint8)
    model.buffers.append(buffer)
    tensor.name, tensor.shape, tensor.buffer = name, list(array.shape), len(model.buffers) - 1
    tensor.type = getattr(schema.TensorType, array.dtype.name.upper())
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def with_own_names(content: bytes) -> bytes:
    """Returns the file with a name of its own for every tensor, inputs and outputs keeping theirs.

    Statistics and recipes speak of tensors by name, and the converter calls constants alike.
    """
    model = unpack(content)
    taken: set[str] = set()
    for graph in model.subgraphs:
        first = [*graph.inputs, *graph.outputs]
        rest = [index for index in range(len(graph.tensors)) if index not in set(first)]
        for index in dict.fromkeys([*first, *rest]):
            wanted = base = name_of(graph.tensors[index]) or "tensor"
            number = 1
            while wanted in taken:
                number += 1
                wanted = f"{base}#{number}"
            taken.add(wanted)
            graph.tensors[index].name = wanted
    return pack(model)


def with_io_names(content: bytes, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> bytes:
    """Returns the file with its inputs and outputs called as in Keras; another tensor of such a name gets a new one."""
    model = unpack(content)
    graph = model.subgraphs[0]
    wanted = dict(zip([*graph.inputs, *graph.outputs], [*inputs, *outputs], strict=True))
    if all(name_of(graph.tensors[index]) == name for index, name in wanted.items()):
        return content
    for index, tensor in enumerate(graph.tensors):
        if index in wanted:
            tensor.name = wanted[index]
        elif name_of(tensor) in wanted.values():
            tensor.name = f"{name_of(tensor)}_inner"
    return pack(model)


def drop_unused(model: Any) -> None:
    """Takes tensors, buffers and operator codes that nothing refers to out of a model of one graph.

    Args:
        model: Is changed. Models of several graphs or with signatures stay as they are.
    """
    if len(model.subgraphs) != 1 or model.signatureDefs:
        return
    graph = model.subgraphs[0]
    used = {int(i) for operator in graph.operators for i in [*operator.inputs, *operator.outputs] if i >= 0}
    used |= {int(i) for i in [*graph.inputs, *graph.outputs]}
    place = {old: new for new, old in enumerate(sorted(used))}
    graph.tensors = [graph.tensors[old] for old in place]
    for operator in graph.operators:
        operator.inputs = [place[int(i)] if i >= 0 else -1 for i in operator.inputs]
        operator.outputs = [place[int(i)] for i in operator.outputs]
    graph.inputs, graph.outputs = [place[int(i)] for i in graph.inputs], [place[int(i)] for i in graph.outputs]
    codes = {old: new for new, old in enumerate(sorted({operator.opcodeIndex for operator in graph.operators}))}
    model.operatorCodes = [model.operatorCodes[old] for old in codes]
    for operator in graph.operators:
        operator.opcodeIndex = codes[operator.opcodeIndex]
    # Buffer 0 is the empty one of all computed tensors.
    holders = [*graph.tensors, *(model.metadata or ())]
    buffers = {old: new for new, old in enumerate(sorted({0, *(holder.buffer for holder in holders)}))}
    model.buffers = [model.buffers[old] for old in buffers]
    for holder in holders:
        holder.buffer = buffers[holder.buffer]


def _names(schema: Any) -> dict[int, str]:
    if not _OPS:
        _OPS.update({number: name for name, number in vars(schema.BuiltinOperator).items() if name.isupper()})
    return _OPS


_OPS: dict[int, str] = {}
_TYPES: dict[int, str] = {}

"""The one thing that changes a TFLite file: an `Editor` over the schema's object form."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.graph import Subgraph
from sqp_tflite.flatbuffer.read import opened, subgraph
from sqp_tflite.flatbuffer.sparse import dense
from sqp_tflite.flatbuffer.unused import drop_unused
from sqp_tflite.layer_names import INNER


@dataclass(frozen=True, slots=True)
class NewOp:
    """An operator to be written.

    Attributes:
        name: As the schema spells it.
        inputs: Tensor indices, -1 for an omitted input.
        outputs: Tensor indices.
        table: Name of the schema's options table ("CastOptions"), "" for an operator without one.
        options: Its fields; enums by the schema's names ("INT8").
        version: Of the operator; one that the file has already in this version or a later one is used as it is.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: str = ""
    options: Mapping[str, Any] | None = None
    version: int = 1


class Editor:
    """Changes a file's main graph, step by step, and packs the result once.

    Args:
        content: The file.

    Attributes:
        graph: The file as it was opened, for all that is read while it is edited.

    Raises:
        BadInputError: Not a TFLite file, or one that was cut short.
    """

    def __init__(self, content: bytes):
        self._model, self.graph = opened(content)
        self._content: bytes | None = content
        self._main = self._model.subgraphs[0]
        for graph in self._model.subgraphs:
            _fill(graph, "tensors", "operators", "inputs", "outputs")
            for operator in graph.operators:
                _fill(operator, "inputs", "outputs")

    def main(self) -> Subgraph:
        """Returns the main graph with all changes made so far."""
        return subgraph(self._model, 0)

    def graphs(self) -> tuple[Subgraph, ...]:
        """Returns all graphs with all changes made so far."""
        return tuple(subgraph(self._model, place) for place in range(len(self._model.subgraphs)))

    def bytes(self) -> bytes:
        """Returns the file with all changes made so far; a file without changes as it was given."""
        if self._content is None:
            self._content = schema.pack(self._model)
        return self._content

    def give_own_names(self) -> None:
        """Gives every tensor of all graphs a name that no other has; inputs and outputs come first and keep theirs.

        Statistics and recipes refer to tensors by name, and the converter gives the same name to several constants.
        """
        self._content = None
        taken: set[str] = set()
        for graph in self._model.subgraphs:
            first = [*graph.inputs, *graph.outputs]
            rest = [index for index in range(len(graph.tensors)) if index not in set(first)]
            for index in dict.fromkeys([*first, *rest]):
                wanted = base = _name(graph.tensors[index]) or "tensor"
                number = 1
                while wanted in taken:
                    number += 1
                    wanted = f"{base}#{number}"
                taken.add(wanted)
                graph.tensors[index].name = wanted

    def name_ends(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        """Names inputs and outputs; another tensor that has such a name gets a new one."""
        ends = [*self._main.inputs, *self._main.outputs]
        wanted = dict(zip(ends, [*inputs, *outputs], strict=True))
        if all(_name(self._main.tensors[index]) == name for index, name in wanted.items()):
            return
        self._content = None
        for index, tensor in enumerate(self._main.tensors):
            if index in wanted:
                tensor.name = wanted[index]
            elif _name(tensor) in wanted.values():
                tensor.name = f"{_name(tensor)}{INNER}"

    def rename(self, index: int, name: str) -> None:
        """Gives a tensor another name."""
        self._content = None
        self._main.tensors[index].name = name

    def set_ends(self, inputs: Iterable[int], outputs: Iterable[int]) -> None:
        """Makes other tensors the inputs and outputs."""
        self._content = None
        self._main.inputs, self._main.outputs = list(inputs), list(outputs)

    def drop_signatures(self) -> None:
        """Drops the named ways to call the file."""
        self._content, self._model.signatureDefs = None, []

    def sign(self, key: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Adds a way to call the main graph, with a name for each input and output in order."""
        maps = [
            [
                schema.new("TensorMap", name=name, tensorIndex=int(index))
                for name, index in zip(names, ends, strict=True)
            ]
            for names, ends in ((inputs, self._main.inputs), (outputs, self._main.outputs))
        ]
        signature = schema.new("SignatureDef", signatureKey=key, inputs=maps[0], outputs=maps[1], subgraphIndex=0)
        self._content, self._model.signatureDefs = None, [*(self._model.signatureDefs or ()), signature]

    def read_instead(self, old: int, new: int) -> None:
        """Makes every operator that reads one tensor read another one."""
        self._content = None
        for operator in self._main.operators:
            operator.inputs = [new if int(index) == old else int(index) for index in operator.inputs]

    def set_values(self, index: int, values: NDArray[Any]) -> None:
        """Gives a constant other numbers, plain ones, in their type and shape."""
        self._content = None
        self._model.buffers.append(schema.new("Buffer", data=np.frombuffer(values.tobytes(), np.uint8)))
        tensor = self._main.tensors[index]
        tensor.buffer, tensor.type, tensor.shape = len(self._model.buffers) - 1, _type(values.dtype.name), values.shape
        tensor.sparsity, tensor.quantization = None, schema.new("QuantizationParameters")

    def densify(self, index: int) -> NDArray[Any] | None:
        """Returns the numbers of a sparse constant, zeros among them; None for one in a form that is not known."""
        tensor = self._main.tensors[index]
        data = self._model.buffers[tensor.buffer].data
        return dense(tensor.sparsity, np.asarray(data, np.uint8), self.graph.main.tensors[index])

    def close_shapes(self, shapes: Mapping[int, Sequence[int]]) -> None:
        """Fixes the shapes of tensors of the main graph, by index: no dimension of them is open any more."""
        for index, shape in shapes.items():
            tensor = self._main.tensors[index]
            self._content, tensor.shape, tensor.shapeSignature = None, np.array(shape, np.int32), None

    def add_tensor(
        self, name: str, dtype: str, shape: tuple[int, ...], scale: float | None = None, zero_point: int = 0
    ) -> int:
        """Returns the index of a new tensor that is computed at run time."""
        quantization = schema.new("QuantizationParameters")
        if scale is not None:
            quantization.scale, quantization.zeroPoint = [scale], [zero_point]
        told = not shape and any(tensor.hasRank for tensor in self._main.tensors)
        made = schema.new("Tensor", name=name, shape=list(shape), type=_type(dtype), buffer=0, hasRank=told)
        made.quantization = quantization
        return self._append(made)

    def add_twin(self, index: int, dtype: str) -> int:
        """Returns the index of a new tensor of plain numbers with the name and shape of another one."""
        twin = copy.copy(self._main.tensors[index])
        twin.type, twin.buffer, twin.quantization = _type(dtype), 0, schema.new("QuantizationParameters")
        return self._append(twin)

    def add_constant(
        self, name: str, array: NDArray[Any], *, quantized_as: int | None = None, stored_as: int | None = None
    ) -> int:
        """Returns the index of a new constant tensor.

        Args:
            name: Of the tensor.
            array: Its values, in the type that the file holds.
            quantized_as: A tensor that has the scales of the new one; None for plain numbers.
            stored_as: A constant of the same bytes, which are then stored once; None to store them.
        """
        if stored_as is None:
            self._model.buffers.append(schema.new("Buffer", data=np.frombuffer(array.tobytes(), np.uint8)))
            buffer = len(self._model.buffers) - 1
        else:
            buffer = self._main.tensors[stored_as].buffer
        made = schema.new("Tensor", name=name, shape=list(array.shape), type=_type(array.dtype.name), buffer=buffer)
        if quantized_as is not None:
            made.quantization = copy.deepcopy(self._main.tensors[quantized_as].quantization)
        return self._append(made)

    def set_scale(self, index: int, scale: float, zero_point: int = 0) -> None:
        """Makes a tensor's numbers codes with one scale."""
        self._content = None
        self._main.tensors[index].quantization = schema.new(
            "QuantizationParameters", scale=[scale], zeroPoint=[zero_point]
        )

    def add_op(self, op: NewOp, place: int | None = None) -> None:
        """Inserts an operator at a place of the order of execution; None for the end."""
        self._content = None
        operators = self._main.operators
        operators.insert(len(operators) if place is None else place, self._operator(op))

    def replace_ops(self, replaced: Mapping[int, Sequence[NewOp]]) -> None:
        """Puts new operators in the place of old ones.

        Args:
            replaced: New operators by the place of the old one.
        """
        self._content = None
        operators: list[Any] = []
        for place, old in enumerate(self._main.operators):
            operators += [self._operator(op) for op in replaced[place]] if place in replaced else [old]
        self._main.operators = operators

    def add_metadata(self, name: str, data: memoryview) -> None:
        """Adds an entry to the file's metadata."""
        self._content = None
        self._model.buffers.append(schema.new("Buffer", data=np.frombuffer(data, np.uint8)))
        entry = schema.new("Metadata", name=name, buffer=len(self._model.buffers) - 1)
        self._model.metadata = [*(self._model.metadata or ()), entry]

    def set_metadata(self, name: str, data: builtins.bytes) -> None:
        """Changes an entry of the file's metadata; a file without it stays without."""
        for entry in self._model.metadata or ():
            if schema.text(entry.name) == name:
                self._content = None
                self._model.buffers[entry.buffer].data = np.frombuffer(data, np.uint8)

    def set_versions(self, versions: Sequence[Sequence[int]]) -> None:
        """Gives each operator of each graph a version; operators of one name may have several."""
        self._content = None
        old, codes = self._model.operatorCodes, list[Any]()
        places: dict[tuple[int, int], int] = {}
        for graph, wanted in zip(self._model.subgraphs, versions, strict=True):
            for operator, version in zip(graph.operators, wanted, strict=True):
                key = operator.opcodeIndex, version
                if key not in places:
                    code = copy.copy(old[key[0]])
                    code.version = version
                    places[key] = len(codes)
                    codes.append(code)
                operator.opcodeIndex = places[key]
        self._model.operatorCodes = codes

    def complete_options(self) -> None:
        """Gives an operator without an options table the one that the schema has for it: strict readers want it."""
        for graph in self._model.subgraphs:
            for operator in graph.operators:
                code = self._model.operatorCodes[operator.opcodeIndex]
                table = schema.options_table(schema.op_number(code))
                if operator.builtinOptions is None and operator.builtinOptions2 is None and table:
                    self._content, operator.builtinOptionsType = None, schema.number("BuiltinOptions", table)
                    # A RESHAPE repeats there the shape that it is given.
                    shape = {"newShape": graph.tensors[operator.outputs[0]].shape} if table == "ReshapeOptions" else {}
                    operator.builtinOptions = schema.new_options(table, shape)

    def retype_dead_outputs(self) -> None:
        """Gives outputs that nothing reads the type of their operator's other outputs: the quantiser skips them."""
        graph = self._main
        read = {int(i) for operator in graph.operators for i in operator.inputs} | {int(i) for i in graph.outputs}
        for operator in graph.operators:
            outputs = [graph.tensors[i] for i in operator.outputs]
            given = next((tensor for tensor in outputs if _quantized(tensor)), None)
            for index, tensor in zip(operator.outputs, outputs, strict=True):
                if given is not None and index not in read and not _quantized(tensor):
                    tensor.type, tensor.quantization = given.type, given.quantization
                    self._content = None

    def drop_unused(self) -> None:
        """Drops operators, tensors, buffers and operator codes that nothing depends on."""
        self._content = None
        drop_unused(self._model)

    def _append(self, tensor: Any) -> int:
        self._content = None
        self._main.tensors.append(tensor)
        return len(self._main.tensors) - 1

    def _operator(self, op: NewOp) -> Any:
        made = schema.new("Operator", inputs=list(op.inputs), outputs=list(op.outputs))
        made.opcodeIndex = self._code(op.name, op.version)
        if op.table:
            made.builtinOptionsType = schema.number("BuiltinOptions", op.table)
            made.builtinOptions = schema.new_options(op.table, op.options or {})
        return made

    def _code(self, name: str, version: int) -> int:
        """Returns the place of an operator code, which the file gains where it has none."""
        wanted = schema.number("BuiltinOperator", name)
        for place, code in enumerate(self._model.operatorCodes):
            if schema.op_number(code) == wanted and code.version >= version:
                return place
        # 127 in the old field says that the other one holds the number.
        self._model.operatorCodes.append(
            schema.new("OperatorCode", builtinCode=wanted, deprecatedBuiltinCode=min(wanted, 127), version=version)
        )
        return len(self._model.operatorCodes) - 1


def blank(description: str) -> bytes:
    """Returns a file without tensors and operators, for an `Editor` to fill.

    Args:
        description: What the file says of itself.
    """
    graph = schema.new("SubGraph", name="main", tensors=[], operators=[], inputs=[], outputs=[])
    return schema.pack(
        schema.new(
            "Model",
            version=3,
            description=description,
            operatorCodes=[],
            subgraphs=[graph],
            buffers=[schema.new("Buffer")],
            # The quantiser reads the list, and has no use for a file without one.
            signatureDefs=[],
        )
    )


def _fill(table: Any, *fields: str) -> None:
    """Puts an empty list where a file omits one."""
    for field in fields:
        if getattr(table, field) is None:
            setattr(table, field, [])


def _name(tensor: Any) -> str:
    return schema.text(tensor.name)


def _type(dtype: str) -> int:
    return schema.number("TensorType", dtype.upper())


def _quantized(tensor: Any) -> bool:
    held = tensor.quantization
    return held is not None and held.scale is not None and len(held.scale) > 0

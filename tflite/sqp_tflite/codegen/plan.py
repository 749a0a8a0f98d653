"""Operators of a graph to steps: one loop each, with the elementwise operators that go into it.

Aliases cost nothing, constants are folded, and everything that has no C form is refused together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sqp_tflite.codegen import expressions as ex
from sqp_tflite.codegen.arithmetic import LIMITS
from sqp_tflite.codegen.dense import Dense, pooled
from sqp_tflite.codegen.elementwise import BUILDERS, elementwise, lookup_only
from sqp_tflite.codegen.families import KERNELS, MOVERS, broadcast
from sqp_tflite.codegen.fused import SAME, Fused
from sqp_tflite.codegen.groups import Group, constant, reading
from sqp_tflite.codegen.kernels import Kernel, Mover
from sqp_tflite.codegen.moving import copy_of, view
from sqp_tflite.codegen.pooling import pool_2d
from sqp_tflite.codegen.refusal import Unsupported, finding, of_file, refuse
from sqp_tflite.codegen.source import C_TYPES
from sqp_tflite.errors import RefusedError
from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph, Tensor
from sqp_tflite.npu.tables import of_compiled

ALIASES = frozenset(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"))
"""Operators whose output is their input, with another shape."""


@dataclass(frozen=True, slots=True)
class Step:
    """One function of the C code.

    Attributes:
        ops: What it computes.
        kernel: The loops that make the first value; None for a loop over operands, and for a mover.
        mover: What copies elements.
        fused: What is computed of each element.
        elements: How many the loop makes.
        channels: How many the inner loop makes.
        reads: Computed tensors, in order.
        writes: Tensors that it makes, in order.
    """

    ops: tuple[Op, ...]
    kernel: Kernel | None
    mover: Mover | None
    fused: Fused
    elements: int
    channels: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be written.

    Attributes:
        graph: The graph; constants that were computed are constants in it.
        steps: In order.
        places: For each alias: the tensor that it is part of, and where it begins there, in elements.
        outputs: The tensors that are the model's outputs, in order.
    """

    graph: Subgraph
    steps: tuple[Step, ...]
    places: Mapping[int, tuple[int, int]]
    outputs: tuple[int, ...]

    def root(self, index: int) -> tuple[int, int]:
        """Returns the tensor that holds a tensor's elements, and where they begin, in elements."""
        begin = 0
        while index in self.places:
            index, more = self.places[index]
            begin += more
        return index, begin


def plan(graph: Graph) -> Plan:
    """Returns the steps of a file's main graph.

    Args:
        graph: A file with one subgraph.

    Raises:
        RefusedError: Something has no C form; every reason is a finding.
    """
    builder = _Builder(graph.main)
    compiled = of_compiled(graph, "Pass the file that it was compiled from.")
    findings = list(compiled or of_file(graph))
    for op in () if compiled else graph.main.ops:
        try:
            builder.take(op)
        except Unsupported as error:
            findings.append(finding(graph, error))
            builder.skip(op)
    if findings:
        rows = "".join(f"\n- {finding}" for finding in findings)
        raise RefusedError(f"The file cannot become C code:{rows}", tuple(findings))
    return builder.finish()


@dataclass(slots=True)
class _Builder:
    graph: Subgraph
    groups: list[Group | tuple[Op, Mover]] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    made_in: dict[int, int] = field(default_factory=dict)
    _readers: dict[int, tuple[Op, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._readers = self.graph.readers()

    def take(self, op: Op) -> None:
        operands = self.graph.operands(op)
        if op.fused not in LIMITS:
            refuse(op, f"has one of {', '.join(filter(None, LIMITS))} fused into it, or nothing", op.fused)
        for tensor in (*operands, *(self.graph.tensors[index] for index in op.outputs)):
            if tensor.dtype not in C_TYPES and not tensor.constant:
                refuse(op, "computes with numbers that C has", tensor.dtype)
        if op.name in BUILDERS and all(tensor.constant for tensor in operands) and len(op.outputs) == 1:
            self._fold(op)
        elif op.name in ALIASES:
            self._alias(op, 0)
        elif op.name in BUILDERS and (op.name != "GATHER" or lookup_only(op, self.graph)):
            self._elementwise(op)
        elif op.name == "MAX_POOL_2D" and self._pooled(op):
            pass
        elif op.name in KERNELS:
            self._kernel(op, KERNELS[op.name](op, self.graph))
        elif op.name in MOVERS:
            self._move(op, MOVERS[op.name](op, self.graph))
        else:
            refuse(op, "has no C form", op.dtype)

    def skip(self, op: Op) -> None:
        """Lets the operators behind one that was refused be looked at, too."""
        for index in op.outputs:
            self.made_in[index] = -1

    def _root(self, index: int) -> int:
        """Returns the tensor whose elements an alias of the whole has."""
        while index in self.places and self.places[index][1] == 0 and self._same_size(index):
            index = self.places[index][0]
        return index

    def _same_size(self, index: int) -> bool:
        return self.graph.tensors[index].elements == self.graph.tensors[self.places[index][0]].elements

    def _step_of(self, index: int) -> int:
        while index not in self.made_in and index in self.places:
            index = self.places[index][0]
        return self.made_in.get(index, -1)

    def _fold(self, op: Op) -> None:
        output = self.graph.tensors[op.outputs[0]]
        operands = self.graph.operands(op)
        if op.name == "DEQUANTIZE" and operands[0].dtype == "float16" and operands[0].values is not None:
            values = operands[0].values.astype(np.float32)
        else:
            if operands[0].values is None or output.dtype not in ("float32", "int8", "int16", "int32"):
                refuse(op, "of constants has no C form", f"{operands[0].dtype} to {output.dtype}")
            leaves = [ex.leaf(f"x{place}", _type(tensor)) for place, tensor in enumerate(operands)]
            given = {f"x{place}": tensor.values for place, tensor in enumerate(operands) if tensor.values is not None}
            values = np.broadcast_to(ex.evaluate(elementwise(op, self.graph, leaves), given), output.shape)
        data = memoryview(np.ascontiguousarray(values.astype(output.dtype)).tobytes())
        self._replace(dataclasses.replace(output, data=data))

    def _replace(self, tensor: Tensor) -> None:
        tensors = list(self.graph.tensors)
        tensors[tensor.index] = tensor
        self.graph = dataclasses.replace(self.graph, tensors=tuple(tensors))

    def _alias(self, op: Op, begin: int) -> None:
        source, output = self.graph.tensors[op.inputs[0]], self.graph.tensors[op.outputs[0]]
        if source.constant:
            self._replace(dataclasses.replace(output, data=source.data))
        else:
            self.places[output.index] = (source.index, begin)

    def _elementwise(self, op: Op) -> None:
        output = self.graph.tensors[op.outputs[0]]
        roots = [self.graph.tensors[self._root(index)] for index in op.inputs if index >= 0]
        computed = [tensor for tensor in roots if not tensor.constant]
        elementwise(op, self.graph, [constant(t) or ex.leaf("x", _type(t)) for t in roots])  # Refuses early.
        latest = max((self._step_of(tensor.index) for tensor in computed), default=-1)
        group = self.groups[latest] if latest >= 0 else None
        tables = [tensor for tensor in roots if op.name == "GATHER" and tensor.constant]
        read = [tensor for tensor in roots if tensor not in tables]
        fits = isinstance(group, Group) and group.elements == output.elements and group.largest is None
        if isinstance(group, Group) and fits and all(group.reading(tensor, output) for tensor in read):
            group.add(op, self.graph, roots)
            self.made_in[output.index] = latest
            return
        channels = output.shape[-1] if output.shape else 1
        if all(reading(tensor, output, output.elements, channels) for tensor in read):
            group = Group(output.elements, channels)
            group.add(op, self.graph, roots)
            self.made_in[output.index] = len(self.groups)
            self.groups.append(group)
            return
        self._kernel(op, broadcast(op, self.graph))

    def _kernel(self, op: Op, kernel: Kernel) -> None:
        output = self.graph.tensors[kernel.output]
        group = Group(output.elements, kernel.channels, kernel)
        group.begin(output, op)
        self.made_in[output.index] = len(self.groups)
        self.groups.append(group)

    def _pooled(self, op: Op) -> bool:
        """Takes the maximum where the results are made, if nothing else needs them; returns whether it was."""
        output, pool = self.graph.tensors[op.outputs[0]], pool_2d(op, self.graph)
        at = self.made_in.get(op.inputs[0], -1)
        group = self.groups[at] if at >= 0 else None
        size = (pool.window.y.kernel, pool.window.x.kernel)
        apart = (pool.window.y.stride, pool.window.x.stride) == size and not pool.window.padded
        if not isinstance(group, Group) or not isinstance(group.kernel, Dense) or group.largest:
            return False
        if op.fused or not apart:
            return False
        made = pooled(group.kernel, size)
        own = {op.index, *(one.index for one in group.ops)}
        others = {one.index for value in group.values for one in self._readers.get(value, ())} - own
        inside = not others and not set(group.values) & set(self.graph.outputs)
        if made is None or not inside or any(operand.how == SAME for operand in group.operands.values()):
            return False
        group.kernel, group.largest = made, (op.inputs[0], output.index)
        group.ops.append(op)
        self.made_in[output.index] = at
        return True

    def _move(self, op: Op, mover: Mover) -> None:
        begins = view(mover, self.graph)
        if begins is not None:
            for output, begin in begins.items():
                self.places[output] = (mover.reads[0], begin)
            return
        for index in mover.outputs:
            self.made_in[index] = len(self.groups)
        self.groups.append((op, mover))

    def finish(self) -> Plan:
        """Returns the plan: what is read later is stored, and each output of the model has a tensor of its own."""
        outputs = tuple(self._output(index) for index in self.graph.outputs)
        steps: list[Step] = []
        wanted = {self._holder(index) for index in outputs}
        for group in reversed(self.groups):
            step = self._moving(*group) if isinstance(group, tuple) else self._looping(group, wanted)
            if step is not None and wanted & set(step.writes):
                steps.append(step)
                wanted |= {self._holder(index) for index in step.reads}
        return Plan(self.graph, tuple(reversed(steps)), dict(self.places), outputs)

    def _holder(self, index: int) -> int:
        while index in self.places:
            index = self.places[index][0]
        return index

    def _output(self, index: int) -> int:
        """Returns the tensor that holds an output, a copy if that is no tensor of its own."""
        holder = self._holder(index)
        tensor = self.graph.tensors[holder]
        taken = [self._holder(other) for other in self.graph.outputs[: self.graph.outputs.index(index)]]
        whole = self._root(index) == holder
        if whole and holder in self.made_in and not tensor.constant and holder not in taken:
            return holder
        made = dataclasses.replace(self.graph.tensors[index], index=len(self.graph.tensors), data=None)
        self.graph = dataclasses.replace(self.graph, tensors=(*self.graph.tensors, made))
        self.made_in[made.index] = len(self.groups)
        self.groups.append((_copying(index, made.index), copy_of(self.graph.tensors[index], made)))
        return made.index

    def _moving(self, op: Op, mover: Mover) -> Step:
        return Step((op,), None, mover, Fused({}, {}), 0, 0, mover.reads, mover.outputs)

    def _looping(self, group: Group, wanted: set[int]) -> Step | None:
        own = {index for index in group.values if self.made_in.get(index, -1) >= 0 and not self._read(group, index)}
        results = {index: value for index, value in group.values.items() if index in wanted & own}
        if group.largest is not None:
            value, made = group.largest
            results = {made: group.values[value]} if made in wanted else {}
        if not results:
            return None
        needed = set().union(*(ex.leaves(value) for value in results.values()))
        operands = {name: operand for name, operand in group.operands.items() if name in needed}
        kernel = group.kernel
        read = [*(kernel.reads if kernel else ()), *(one.tensor for one in operands.values())]
        computed = [index for index in dict.fromkeys(read) if not self.graph.tensors[index].constant]
        return Step(
            tuple(group.ops),
            kernel,
            None,
            Fused(operands, results),
            group.elements,
            group.channels,
            tuple(computed),
            tuple(results),
        )

    @staticmethod
    def _read(group: Group, index: int) -> bool:
        return any(operand.tensor == index for operand in group.operands.values())


def _type(tensor: Tensor) -> str:
    return ex.FLOAT if tensor.dtype == "float32" else ex.INT


def _copying(source: int, output: int) -> Op:
    return Op(-1, "COPY", 1, (source,), (output,), "")

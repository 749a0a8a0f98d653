"""A frozen graph of TensorFlow that can be read, with static shapes and values, and changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


class Frozen:
    """A frozen graph: `operations` reads what it was, all other methods change what `serialized` returns.

    New nodes are named after the operation that they stand for. An operation that nobody needs any more may stay: the
    converter leaves it out.

    Args:
        graph_def: A serialized GraphDef.
    """

    INT32 = tf.int32.as_datatype_enum

    def __init__(self, graph_def: bytes):
        self._definition = tf.compat.v1.GraphDef.FromString(graph_def)
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.import_graph_def(self._definition, name="")
        self._nodes = {node.name: node for node in self._definition.node}
        self._moved: dict[str, str] = {}

    def operations(self) -> list[tf.Operation]:
        """Returns the operations of the graph as it was given."""
        return list(self._graph.get_operations())

    def value(self, tensor: tf.Tensor) -> NDArray[Any] | None:
        """Returns a constant's value, None for what is computed from the inputs."""
        return tf.get_static_value(tensor)

    def computed(self, tensor: tf.Tensor) -> NDArray[Any]:
        """Returns the value of a tensor that no input decides; see `reads_inputs`."""
        with tf.compat.v1.Session(graph=self._graph) as session:
            return np.asarray(session.run(tensor))

    def reads_inputs(self, tensor: tf.Tensor) -> bool:
        """Returns whether a tensor is computed from an input of the graph."""
        waiting, seen = [tensor.op], set()
        while waiting:
            op = waiting.pop()
            if op.type == "Placeholder":
                return True
            if op.name not in seen:
                seen.add(op.name)
                waiting += [one.op for one in op.inputs]
        return False

    def node(self, name: str) -> Any:
        """Returns the NodeDef with this name."""
        return self._nodes[name]

    def name_of(self, tensor: tf.Tensor) -> str:
        """Returns what a node's input says for a tensor."""
        return tensor.op.name if tensor.value_index == 0 else tensor.name

    def made_in(self, within: Callable[[str], bool], names: Sequence[str]) -> list[str]:
        """Returns those of some nodes that pass on what a node with a certain name makes.

        Args:
            within: Whether a name is one.
            names: Of the nodes.
        """
        found = []
        for name in names:
            node = self._nodes[name]
            while node.op == "Identity":
                node = self._nodes[node.input[0].partition(":")[0]]
            found += [name] if within(node.name) else []
        return found

    def add(self, op: str, beside: str, inputs: Sequence[str], *, like: tf.Operation | None = None) -> str:
        """Adds a node and returns its name.

        Args:
            op: Its operation.
            beside: The name that its own begins with.
            inputs: Of the node, by name.
            like: An operation with its type of values; None for an operation without one.
        """
        name, number = f"{beside}/{op}", 0
        while name in self._nodes:
            number += 1
            name = f"{beside}/{op}_{number}"
        node = self._definition.node.add(op=op, name=name, input=inputs)
        self._nodes[name] = node
        if like is not None:
            node.attr["T"].type = like.outputs[0].dtype.as_datatype_enum
        return name

    def copy(self, op: tf.Operation, beside: str, inputs: Sequence[str]) -> str:
        """Adds a node with all attributes of an operation and returns its name."""
        name = self.add(op.type, beside, inputs, like=op)
        self._nodes[name].CopyFrom(self._nodes[op.name])
        self._nodes[name].name = name
        self._nodes[name].input[:] = inputs
        return name

    def constant(self, beside: str, value: Any) -> str:
        """Adds a constant and returns its name."""
        name = self.add("Const", beside, ())
        value = np.asarray(value)
        self._nodes[name].attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
        self._nodes[name].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        return name

    def reshaped(self, op: tf.Operation, source: str, shape: Sequence[int]) -> str:
        """Adds a Reshape and returns its name."""
        name = self.add("Reshape", op.name, [source, self.constant(op.name, np.array(shape, np.int32))], like=op)
        self._nodes[name].attr["Tshape"].type = self.INT32
        return name

    def replace(self, op: tf.Operation, kind: str, inputs: Sequence[str]) -> None:
        """Makes an operation with one output another one of the same type of values; its readers keep its name."""
        node = self._nodes[op.name]
        node.Clear()
        node.op, node.name = kind, op.name
        node.input[:] = inputs
        node.attr["T"].type = op.outputs[0].dtype.as_datatype_enum

    def replace_outputs(self, op: tf.Operation, names: Sequence[str]) -> None:
        """Lets the readers of an operation's outputs read other nodes, one for each output."""
        for place, name in enumerate(names):
            self._moved[f"{op.name}:{place}" if place else op.name] = name

    def retype(self, placeholder: tf.Operation, dtype: tf.DType) -> None:
        """Gives an input another type of numbers."""
        self._nodes[placeholder.name].attr["dtype"].type = dtype.as_datatype_enum

    def serialized(self) -> bytes:
        """Returns the changed graph."""
        for node in self._definition.node:
            node.input[:] = [self._moved.get(name.removesuffix(":0"), name) for name in node.input]
        return self._definition.SerializeToString(deterministic=True)

"""Small TFLite files, written operator by operator: no converter, no waiting."""

from __future__ import annotations

import numpy as np

from sqp_tflite.flatbuffer.edit import Editor, NewOp, blank
from sqp_tflite.flatbuffer.graph import Subgraph
from sqp_tflite.flatbuffer.read import read


class Written:
    """A file that grows; each method that adds a tensor returns its index."""

    def __init__(self):
        self.editor = Editor(blank("written by a test"))

    def value(self, *shape, name="", dtype="float32", scale=None) -> int:
        """A computed tensor, of shape (1, 4) by default; int8 where it gets a scale."""
        place = len(self.editor.main().tensors)
        return self.editor.add_tensor(
            name or f"t{place}", "int8" if scale and dtype == "float32" else dtype, shape or (1, 4), scale
        )

    def constant(self, values, name="c", dtype="float32") -> int:
        return self.editor.add_constant(name, np.asarray(values, dtype))

    def op(self, op, *inputs, shape=(1, 4), name="", table="", **options) -> int:
        """An operator of one float output, whose index is returned."""
        output = self.value(*shape, name=name)
        self.editor.add_op(NewOp(op, inputs, (output,), table, options))
        return output

    def ends(self, inputs, outputs) -> bytes:
        """The file with these inputs and outputs."""
        self.editor.set_ends(inputs, outputs)
        return self.editor.bytes()

    def main(self) -> Subgraph:
        return read(self.editor.bytes()).main


def perceptron(weights=None, bias=None, activation="hidden/sqp.act") -> bytes:
    """Two dense layers around squareplus, in float32: FULLY_CONNECTED MUL ADD SQRT ADD FULLY_CONNECTED."""
    generator = np.random.default_rng(0)
    model = Written()
    x = model.value(name="x")
    weights = generator.uniform(-1, 1, (4, 4)) if weights is None else weights
    bias = generator.uniform(-1, 1, 4) if bias is None else bias
    dense = {"table": "FullyConnectedOptions"}
    half = model.op(
        "FULLY_CONNECTED", x, model.constant(weights, "kernel"), model.constant(bias, "bias"), name="hidden", **dense
    )
    square = model.op("MUL", half, half, name=f"{activation}/Mul", table="MulOptions")
    wide = model.op("ADD", square, model.constant(1.0), name=f"{activation}/Add", table="AddOptions")
    root = model.op("SQRT", wide, name=f"{activation}/Sqrt")
    act = model.op("ADD", half, root, name=f"{activation}/Add_1", table="AddOptions")
    head = model.constant(generator.uniform(-1, 1, (4, 4)), "head")
    return model.ends([x], [model.op("FULLY_CONNECTED", act, head, -1, name="y", **dense)])


RANGES = {
    "x": (-1.0, 1.0),
    "hidden": (-4.0, 4.0),
    "hidden/sqp.act/Mul": (0.0, 16.0),
    "hidden/sqp.act/Add": (1.0, 17.0),
    "hidden/sqp.act/Sqrt": (1.0, 4.2),
    "hidden/sqp.act/Add_1": (0.0, 8.2),
    "y": (-9.0, 9.0),
}
"""Of all tensors that `perceptron` computes."""


def weight_only() -> bytes:
    """`perceptron` with weights of 8 bits, a DEQUANTIZE behind each."""
    from litert_quantizer import qtyping, quantizer, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    found = quantizer.Quantizer(perceptron(), manager.get_quantization_recipe())
    return bytes(found.quantize(enable_progress_report=False).quantized_model)

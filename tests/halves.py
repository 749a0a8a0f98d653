"""All finite halves, and a file's operators evaluated on them by numpy, in IEEE half precision."""

import numpy as np

from sqp_tflite.flatbuffer.elementwise import apply
from sqp_tflite.flatbuffer.read import read

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
HALVES = HALVES[np.isfinite(HALVES)]
"""The 63,488 finite numbers of half precision, both zeros among them."""


def by_numpy(content: bytes, x: np.ndarray = HALVES) -> tuple[np.ndarray, ...]:
    """The outputs of a file of elementwise operators for halves, each step of each operator rounded to half.

    Each is of shape (count, channels), with one channel where no constant has more.
    """
    main = read(content).main
    held = {main.inputs[0]: x.astype(np.float16).reshape(-1, 1)}
    for op in main.ops:
        operands = [
            main.tensors[i].values.astype(np.float16) if main.tensors[i].constant else held[i] for i in op.inputs
        ]
        held[op.outputs[0]] = operands[0] if op.name == "RESHAPE" else apply(op.name, operands, op.options, np.float16)
    return tuple(held[index] for index in main.outputs)

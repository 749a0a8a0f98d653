"""The self-test of generated code: golden vectors, and a function that runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.codegen.generate import MADE_BY, parameter
from sqp_tflite.codegen.literals import comment_text
from sqp_tflite.codegen.memory import ALIGNMENT
from sqp_tflite.codegen.naming import CStyle, Golden, Port, ports
from sqp_tflite.codegen.source import numbers
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.run.arena import tensor_bytes

_RUN = """\
/* Runs the model on each vector and returns how many outputs differ; 0 is a pass. `memory` has <M>_SELFTEST_BYTES,
   aligned to <M>_ARENA_ALIGN. */
int32_t <p>_selftest(void *memory)
{
    unsigned char *const a = (unsigned char *)memory;
    int32_t wrong = 0, vector, i;
    for (vector = 0; vector < <count>; vector++) {
        <p>_run(<arguments>);
<compared>
    }
    return wrong;
}
"""


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def selftest(graph: Graph, style: CStyle, arena: int, vectors: Golden) -> str:
    """Returns the C source of the self-test.

    Args:
        graph: The file.
        style: Names and places of the C symbols.
        arena: Bytes of the arena.
        vectors: Inputs and outputs, exact to the bit.
    """
    inputs, outputs = ports("INPUT", graph.inputs), ports("OUTPUT", graph.outputs)
    lines = [
        f"/* {len(vectors)} inputs and their outputs from {comment_text(vectors.runtime)}. {MADE_BY} */",
        f'#include "{style.prefix}.h"',
        "",
    ]
    arguments, compared, at = ["a"], [], arena
    for port, values in zip(inputs, vectors.inputs, strict=True):
        lines += _array(style, port, values.reshape(len(vectors), -1))
        arguments.append(_row(style, port))
    for port, values in zip(outputs, vectors.outputs, strict=True):
        lines += _array(style, port, values.reshape(len(vectors), -1))
        place = f"({port.c_type} *)(a + {at})"
        arguments.append(place)
        compared += [
            f"        for (i = 0; i < {port.tensor.elements}; i++) {{",
            f"            wrong += ((const {port.c_type} *)(a + {at}))[i] != {_row(style, port)}[i];",
            "        }",
        ]
        at += _rounded(tensor_bytes(port.tensor))
    text = _RUN.replace("<M>", style.macro).replace("<p>", style.prefix).replace("<count>", str(len(vectors)))
    text = text.replace("<arguments>", ", ".join(arguments)).replace("<compared>", "\n".join(compared))
    return "\n".join([*lines, text])


def _name(style: CStyle, port: Port) -> str:
    return f"{style.prefix}_golden_{parameter(port)}"


def _row(style: CStyle, port: Port) -> str:
    return f"({_name(style, port)} + vector * {port.tensor.elements})"


def _array(style: CStyle, port: Port, rows: NDArray[Any]) -> list[str]:
    flat = np.ascontiguousarray(rows).reshape(-1)
    return [f"static const {port.c_type} {_name(style, port)}[{len(flat)}] = {{", numbers(flat), "};", ""]

"""Which option of sqp-export writes the operators of a finished file in another form."""

from __future__ import annotations

from sqp_tflite.flatbuffer.graph import Graph, numbers
from sqp_tflite.flatbuffer.heads import ends_in

_MENDED = frozenset("EXP LOG LOGISTIC TANH SOFTMAX LOG_SOFTMAX ELU GELU POW".split())
"""Operators that activations are spelled with; recurrent ones and others stay as they are."""


def for_activations(graph: Graph) -> str:
    """Returns the option that exchanges the activations of a file of this number type, "" where nothing does."""
    return {"int8": "--lowering table", "int16x8": ""}.get(numbers(graph), "--replace accurate")


def away_from(op: str, graph: Graph) -> str:
    """Returns the option that leaves an operator out of a file, "" where none is known to.

    Args:
        op: As the schema spells it.
        graph: The file.
    """
    if op not in _MENDED:
        return ""
    ends = {head.name for head in ends_in(graph.main) if head is not None}
    return "--head logits" if op in ends else for_activations(graph)

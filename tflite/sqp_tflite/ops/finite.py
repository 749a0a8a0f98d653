"""Finds constants of a file that are not finite: NaN anywhere, an infinity among weights or in a scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.flatbuffer.graph import Graph, Op, Subgraph, Tensor
from sqp_tflite.report import Finding, Kind

_TYPES = ("float16", "float32", "float64")

_WEIGHED = frozenset(
    "CONV_2D CONV_3D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D_TRANSPOSE FULLY_CONNECTED BATCH_MATMUL GATHER MUL "
    "EMBEDDING_LOOKUP SVDF UNIDIRECTIONAL_SEQUENCE_LSTM UNIDIRECTIONAL_SEQUENCE_RNN".split()
)
"""Operators whose constants are weights. Elsewhere an infinity may have a meaning: in a mask, or as padding."""

Readers = Mapping[int, tuple[Op, ...]]
"""What `Subgraph.readers` returns."""

_PASSING = ("DEQUANTIZE", "RESHAPE", "TRANSPOSE", "CAST")

_REMEDY = "Export the Keras model with finite weights, and with variances of batch norms that are not negative."
_TOO_LARGE = (
    "Export the Keras model with finite weights; what is beyond 65,504 becomes an infinity in float16: "
    "use `--quantize float32`."
)


def amiss(values: NDArray[Any], infinite: bool = True) -> str:
    """Returns what is not finite in an array, as "NaN in 4 of 40 values"; "" if nothing is.

    Args:
        values: Of any float type.
        infinite: Whether infinities count.
    """
    bad = np.isnan(values)
    kind = "NaN" if bad.any() else "infinity"
    if infinite:
        endless = np.isinf(values)
        kind = "NaN and infinity" if bad.any() and endless.any() else kind
        bad = bad | endless
    count = int(np.count_nonzero(bad))
    return f"{kind} in {count:,} of {bad.size:,} value{'s' if bad.size > 1 else ''}" if count else ""


def not_finite(graph: Graph) -> Iterator[tuple[Subgraph, Op | None, Finding]]:
    """Yields a finding per constant that is not finite, with the operator that reads it; the layer is the tensor.

    Args:
        graph: What `read` returned.
    """
    for subgraph in graph.subgraphs:
        readers = subgraph.readers()
        for tensor in subgraph.tensors:
            reader = _first(readers, tensor.index)
            what = _scales(tensor) or _constant(tensor, subgraph, readers)
            if what:
                rule = f"The numbers of a file must be finite, `{tensor.name}` has {what}."
                remedy = _REMEDY if what.startswith("NaN") else _TOO_LARGE
                yield subgraph, reader, Finding(tensor.name, "", tensor.dtype, rule, remedy, Kind.WEIGHTS)


def _first(readers: Readers, index: int) -> Op | None:
    return readers.get(index, (None,))[0]


def _scales(tensor: Tensor) -> str:
    held = tensor.quantization
    what = amiss(np.asarray(held.scales)) if held else ""
    return f"{what} of its scale" if what else ""


def _constant(tensor: Tensor, subgraph: Subgraph, readers: Readers) -> str:
    if tensor.data is None or tensor.dtype not in _TYPES:
        return ""
    width = np.dtype(tensor.dtype).itemsize
    values = np.frombuffer(tensor.data[: len(tensor.data) // width * width], tensor.dtype)
    what = amiss(values)
    return what if not what or _weighs(tensor.index, subgraph, readers) else amiss(values, infinite=False)


def _weighs(index: int, subgraph: Subgraph, readers: Readers) -> bool:
    op = _first(readers, index)
    for _ in subgraph.ops:
        if op is None or op.name not in _PASSING or not op.outputs:
            break
        op = _first(readers, op.outputs[0])
    return op is not None and op.name in _WEIGHED

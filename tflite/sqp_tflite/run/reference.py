"""What Keras computes: the reference that every file is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.source.load import Loaded
from sqp_tflite.source.samples import Samples

_CHUNK = 64


def reference(loaded: Loaded, inputs: Samples) -> tuple[NDArray[Any], ...]:
    """Returns Keras's outputs for the samples, one array per output, shape (samples, ...), float32.

    Args:
        loaded: The model.
        inputs: The samples.
    """
    chunks = []
    for start in range(0, len(inputs), _CHUNK):
        outputs = loaded.call([array[start : start + _CHUNK] for array in inputs.inputs])
        chunks.append([np.asarray(value, dtype=np.float32) for value in outputs.values()])
    return tuple(np.concatenate(parts) for parts in zip(*chunks, strict=True))

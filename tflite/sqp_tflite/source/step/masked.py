"""Masked steps: a step is there or it is not fed, so a file of one step needs sequences without them."""

from __future__ import annotations

import dataclasses

import numpy as np

from sqp_tflite.errors import RefusedError
from sqp_tflite.report import Finding, Kind
from sqp_tflite.source.load import Loaded
from sqp_tflite.source.masks import masked_samples
from sqp_tflite.source.samples import Samples

NOT_FED = "leave out the call of the file for a masked step: its states and its last output stay, as in Keras."
"""What a device does; ends a sentence."""


def unmasked(loaded: Loaded, inputs: Samples) -> Samples:
    """Returns sequences without a masked step: the user's as they are, made-up ones with others in their place.

    Args:
        loaded: The model of sequences.
        inputs: The samples.

    Raises:
        RefusedError: The model masks steps of the user's data, or of everything that could be made up.
    """
    found = masked_samples(loaded, inputs)
    if not any(found.values()):
        return inputs
    if not inputs.given:
        # Embedding masks 0; the other numbers are as good.
        counted = tuple(np.maximum(array, 1) if array.dtype.kind in "iu" else array for array in inputs.inputs)
        inputs = dataclasses.replace(inputs, inputs=counted)
        odd = set().union(*masked_samples(loaded, inputs).values())
        whole = [place for place in range(len(inputs)) if place not in odd]
        if whole:
            places = [whole[0] if place in odd else place for place in range(len(inputs))]
            return dataclasses.replace(inputs, inputs=tuple(array[places] for array in inputs.inputs))
    findings = tuple(_refused(path, len(odd), inputs) for path, odd in found.items() if odd)
    raise RefusedError("The file may not ship.", findings)


def _refused(path: str, count: int, inputs: Samples) -> Finding:
    which = f"{count} of the {len(inputs)} samples" if inputs.given else "made-up samples"
    rule = f"With --step the samples must be sequences without masked steps. Received: `{path}` masks steps of {which}."
    return Finding(path, "", "", rule, f"Pass --data with full sequences only; on the device {NOT_FED}", Kind.SHAPE)

"""What reads an option's text: the grammar that the Python API has for its parameter."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from sqp_tflite import accept
from sqp_tflite.errors import BadInputError
from sqp_tflite.options import ARTEFACTS


def _read(accepted: accept.Accept) -> Callable[[str], Any]:
    """Returns a reader of an option's text with the grammar that the Python API has for its parameter."""

    def read(text: str) -> Any:
        try:
            return accepted("", text)
        except BadInputError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


artefacts = _read(accept.words(*ARTEFACTS))
size = _read(accept.size)
listed = _read(accept.listed)
bound = _read(accept.fraction)
positive = _read(accept.positive)
share = _read(accept.share)
path = _read(accept.path_text)
output = _read(accept.output_text)

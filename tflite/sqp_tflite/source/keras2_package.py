"""Opens with tf-keras, the package of Keras 2, what Keras 3 cannot: as a SavedModel, since the two share no layers."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqp_tflite import worker
from sqp_tflite.errors import CrashedError, ModelFileError
from sqp_tflite.wording import said

INSTALL = "pip install 'sqp-keras[keras2]'"

_CHILD = "sqp_tflite.source.tf_keras_child:write"
CALLS = frozenset(["ClassMethod", "InstanceMethod", "InstanceProperty"])
"""Layers that call whatever method the file names."""


class NotInKeras3Error(ModelFileError):
    """A file of Keras 2 that Keras 3 cannot open; tf-keras can.

    Attributes:
        cause: What Keras 3 says, in a few words.
    """

    def __init__(self, path: Path, writer: str, cause: str):
        by = f", written by Keras {writer}," if writer else ""
        super().__init__(
            f"`{path}`{by} has what Keras 3 cannot open. Received: {cause}. Install tf-keras, with which it is opened: "
            f"{INSTALL}."
        )
        self.path, self.writer, self.cause = path, writer, cause


@dataclass(frozen=True, slots=True)
class Written:
    """A model as a SavedModel.

    Attributes:
        folder: The SavedModel, whose inputs are `input_0` and so on, and outputs `output_0` and so on.
        inputs: The names of the inputs, in order.
        outputs: The same of the outputs.
        note: What the user should know.
    """

    folder: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    note: str


@contextlib.contextmanager
def written(refusal: NotInKeras3Error, trust: bool) -> Iterator[Written]:
    """Yields a file's model as tf-keras writes it; the folder is gone when the block ends.

    Args:
        refusal: What Keras 3 said of the file.
        trust: Whether code in the file may run.

    Raises:
        NotInKeras3Error: tf-keras is not installed.
        ModelFileError: It cannot open the file either.
    """
    if importlib.util.find_spec("tf_keras") is None:
        raise refusal
    version = importlib.metadata.version("tf-keras")
    with tempfile.TemporaryDirectory(prefix="sqp-keras2-") as folder:
        try:
            inputs, outputs = worker.run(_CHILD, str(refusal.path), folder, trust)
        except (worker.ChildError, CrashedError) as error:
            raise ModelFileError(
                f"`{refusal.path}` must be a model that Keras 3 or tf-keras {version} can open. Received: "
                f"{refusal.cause}; from tf-keras: {said(getattr(error, 'text', error))}. Save the model again with the "
                "Keras that wrote it, or see all of it with --debug."
            ) from error
        note = (
            f"`{refusal.path}` was opened with tf-keras {version}, since Keras 3 cannot ({refusal.cause}): its "
            "activations are exported as they are and cannot be exchanged"
        )
        yield Written(Path(folder), tuple(inputs), tuple(outputs), note)

"""Which Keras layer a tensor of a TFLite file comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass

FORM_SCOPE = "sqp.act"
"""The TensorFlow name scope of every activation that export writes; tensor names show it."""


_SCOPE = re.compile(rf"(^|/){re.escape(FORM_SCOPE)}(_\d+)?/")


@dataclass(frozen=True, slots=True)
class LayerNames:
    """The paths of a model's layers and the names of its outputs; empty for a file without its model.

    Attributes:
        paths: For example "encoder/dense_2"; parents before children.
        outputs: Pairs (output's name in the file, path of the layer that makes it).
    """

    paths: tuple[str, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()

    def of(self, tensor: str) -> str:
        """Returns the deepest layer whose scope the tensor's name begins with; without a model, the scope itself.

        Args:
            tensor: A tensor's name, e.g. "encoder/dense_2/MatMul;encoder/dense_2/BiasAdd".
        """
        made = dict(self.outputs).get(tensor)
        if made:
            return made
        for part in reversed(tensor.split(";")):
            within = [path for path in self.paths if f"{part}/".startswith(f"{scope_name(path)}/")]
            if within:
                return max(within, key=len)
        scopes = [segment for segment in tensor.split(";")[-1].split("/")[:-1] if segment != FORM_SCOPE]
        return "/".join(scopes) or tensor


def scope_name(path: str) -> str:
    """Returns a path as a name that TensorFlow allows: ASCII letters, digits and _ . - / only."""
    cleaned = "".join(c if c.isascii() and (c.isalnum() or c in "_.-/") else "_" for c in path)
    return cleaned if cleaned[:1].isalnum() else f"x{cleaned}"


def in_scope(name: str) -> bool:
    """Returns whether a tensor's name says that only the form of an activation made it."""
    return all(_SCOPE.search(part) for part in name.split(";"))

"""Which Keras layer a tensor of a TFLite file comes from."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

FORM_SCOPE = "sqp.act"
"""The TensorFlow name scope of every activation that export writes; tensor names show it."""

SHARE_SCOPE = "sqp.share"
"""That of `sqp_keras.forms.SHARE_SCOPE`, the last steps of a softmax; the import would bring Keras into every child."""

MODEL_SCOPE = "sqp.model"
"""The scope of what a model computes itself, outside of its layers."""

INNER = "_inner"
"""What a tensor's name gains where an end of the file has to be called by it."""

THE_MODEL = "the model"
"""What such operators are said to belong to: Keras numbers models, and no user calls them by that name."""

_SCOPES = {scope: re.compile(rf"(^|/){re.escape(scope)}(_\d+)?/") for scope in (FORM_SCOPE, SHARE_SCOPE)}


_CONTRACTS = re.compile(
    r"(convolution|conv_transpose|conv[123]d|depthwise|separable_conv[12]d|matmul|tensordot|einsum)(_?\d+)?(#\d+)?$",
    re.IGNORECASE,
)
"""The end of a name of what a convolution or a dense layer computes: the converter fuses what follows into it."""

_CALL = re.compile(r"(Stateful)?PartitionedCall(_\d+)?$")
"""The scope of a function's call in a SavedModel: it is nobody's layer."""

_NUMBER = re.compile(r"_\d+$")

FUSING = frozenset("CONV_2D CONV_3D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED BATCH_MATMUL".split())
"""The operators into which the converter fuses what follows: scales, offsets, clips."""


@dataclass(frozen=True, slots=True)
class LayerNames:
    """The paths of a model's layers and the names of its outputs; empty for a file without its model.

    Attributes:
        paths: For example "encoder/dense_2"; parents before children.
        outputs: Pairs (output's name in the file, path of the layer that makes it).
        fused: The same for an output that comes out of a fused operator: the layer of its convolution or product.
        owners: Names of what has variables in a SavedModel, which has no layers: "dense_2", "lstm/lstm_cell".
    """

    paths: tuple[str, ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()
    fused: tuple[tuple[str, str], ...] = ()
    owners: tuple[str, ...] = ()

    def of(self, tensor: str, op: str = "") -> str:
        """Returns the deepest layer whose scope the tensor's name begins with; without a model, the scope itself.

        Args:
            tensor: A tensor's name, e.g. "encoder/dense_2/MatMul;encoder/dense_2/BiasAdd".
            op: The operator that writes it. Of a fused one the name has a part for each layer, and the convolution or
                the product decides.
        """
        tensor = tensor.removesuffix(INNER) if tensor.removesuffix(INNER) in dict(self.outputs) else tensor
        made = (dict(self.fused).get(tensor) if op in FUSING else None) or dict(self.outputs).get(tensor)
        if made:
            return made
        parts = tensor.split(";")[::-1]
        parts.sort(key=lambda part: not _CONTRACTS.match(part.rsplit("/", 1)[-1]))
        for part in parts:
            within = [path for path in self.paths if f"{part}/".startswith(f"{scope_name(path)}/")]
            if within:
                return max(within, key=len)
        scopes = [segment for segment in parts[0].split("/")[:-1] if segment not in _SCOPES]
        if MODEL_SCOPE in scopes:
            return THE_MODEL
        own = [segment for segment in scopes if not _CALL.match(segment)]
        # Outside of every scope but those of calls, it is what the model's function computes itself.
        return self._owner(own) or "/".join(own) or (THE_MODEL if scopes else tensor)

    def _owner(self, scopes: list[str]) -> str:
        """The deepest owner of variables in a scope; Keras numbers the scopes of layers that it calls again."""
        plain = [_NUMBER.sub("", segment) for segment in scopes]
        found = [
            (last, name)
            for name in self.owners
            for last in range(len(scopes), 0, -1)
            if _ends_with(scopes[:last], plain[:last], name.split("/"))
        ]
        return max(found, key=lambda one: (one[0], len(one[1])))[1] if found else ""


def _ends_with(scopes: list[str], plain: list[str], name: list[str]) -> bool:
    ends = zip(scopes[-len(name) :], plain[-len(name) :], name, strict=False)
    return len(name) <= len(scopes) and all(part in (own, bare) for own, bare, part in ends)


@functools.lru_cache(maxsize=4096)
def scope_name(path: str) -> str:
    """Returns a path as a name that TensorFlow allows: ASCII letters, digits and _ . - / only."""
    cleaned = "".join(c if c.isascii() and (c.isalnum() or c in "_.-/") else "_" for c in path)
    return cleaned if cleaned[:1].isalnum() else f"x{cleaned}"


def in_scope(name: str, scope: str = FORM_SCOPE) -> bool:
    """Returns whether a tensor's name says that only the form of an activation made it, or only another scope."""
    return all(_SCOPES[scope].search(part) for part in name.split(";"))

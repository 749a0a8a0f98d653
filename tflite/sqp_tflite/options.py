"""What an export was asked for, as one value. Imports nothing slow: the command line makes it before TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqp_tflite import accept
from sqp_tflite.ops.combinations import IO, LOWERINGS, QUANTIZE, Combination
from sqp_tflite.ops.policy import ACCELERATOR, NPUS, ONE_SCALE, TARGETS

if TYPE_CHECKING:
    from sqp_tflite.emit import CStyle
    from sqp_tflite.source.samples import GivenData

HEADS = ("keep", "logits")
"""What can be done about a final softmax or sigmoid."""

HARD_SIGMOIDS = ("keras2", "keras3")
"""Whose hard_sigmoid a file's name means: the slope is 1/5 or 1/6."""

REQUIREMENTS = ("runs", "free", "both")
"""What an inspected file may have to be: run by the target, free of exp and log, or both."""

ARTEFACTS = ("c", "resolver", "golden", "project", "code", "vela")
"""The firmware artefacts."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What an export was asked for: the parameters of `sqp_tflite.export`, which says what each means.

    Attributes:
        model: The Keras model or its path.
        wanted: `quantize`, `lowering` and `target`.
        finished: What a model that is a TFLite file computes with, in the words of `quantize`; None for other models.
    """

    model: Any
    output: Path | None = None
    wanted: Combination = field(default_factory=Combination)
    accelerator: str | None = None
    npu_only: bool = False
    io: str | None = None
    per_tensor: bool = False
    no_conversions: bool = False
    state: Mapping[str, str] | None = None
    step: bool = False
    data: GivenData = None
    names: Mapping[str, str] | None = None
    imports: tuple[str, ...] = ()
    trust_code: bool = False
    hard_sigmoid: str | None = None
    replace: str | Mapping[str, Any] | None = None
    head: str = "keep"
    max_error: float | None = None
    positive: bool = False
    max_change: float | None = None
    dry_run: bool = False
    emit: tuple[str, ...] = ()
    c_style: CStyle | None = None
    ram: int | None = None
    flash: int | None = None
    max_memory: int | None = None
    reference: Any = None
    faithful: bool = False
    half: bool = False
    safe_half: bool = False
    finished: str | None = None
    reports: tuple[Path, ...] = ()
    command: str = ""

    @property
    def one_scale(self) -> bool:
        """Returns whether the weights of dense layers get one scale each: asked for, or the target takes no others."""
        return self.per_tensor or (self.wanted.integer and self.wanted.target in ONE_SCALE)

    @property
    def variant(self) -> str:
        """Returns the variant of the target's NPU that the file is compiled for, "" for a target without one."""
        return self.accelerator or ACCELERATOR[self.wanted.target] if self.wanted.target in NPUS else ""

    @property
    def artefacts(self) -> tuple[str, ...]:
        """Returns what is written besides the file: what was asked for, and for an NPU the compiled file."""
        return tuple(dict.fromkeys((*self.emit, "vela"))) if self.variant else self.emit

    @property
    def source(self) -> str:
        """Returns what reports call the model before it is loaded."""
        return str(self.model) if isinstance(self.model, (str, Path)) else getattr(self.model, "name", "the model")


def asked(**given: Any) -> ExportOptions:
    """Returns what the parameters of `sqp_tflite.export` ask for.

    Args:
        **given: The parameters, as the user passed them.

    Raises:
        BadInputError: A parameter has a value of a kind that it does not take.
    """
    found = {name: _ACCEPT[name](f"`{name}`", value) for name, value in given.items()}
    wanted = Combination.chosen(found.pop("quantize"), found.pop("lowering"), found.pop("target"))
    return ExportOptions(wanted=wanted, **found)


def _c_style(name: str, value: Any) -> CStyle:
    from sqp_tflite.emit import CStyle

    if not isinstance(value, CStyle):
        accept.refuse(name, "a sqp_tflite.CStyle", value, "For example CStyle(prefix='net').")
    return value


_ACCEPT: Mapping[str, accept.Accept] = {
    "model": accept.model,
    "output": accept.optional(accept.output),
    "quantize": accept.optional(accept.choice(*QUANTIZE)),
    "lowering": accept.optional(accept.choice(*LOWERINGS)),
    "io": accept.optional(accept.choice(*IO)),
    "per_tensor": accept.flag,
    "no_conversions": accept.flag,
    "state": accept.optional(accept.states),
    "step": accept.flag,
    "target": accept.choice(*TARGETS),
    "accelerator": accept.optional(accept.text),
    "npu_only": accept.flag,
    "data": accept.optional(accept.data),
    "names": accept.optional(accept.meanings),
    "imports": accept.modules,
    "trust_code": accept.flag,
    "hard_sigmoid": accept.optional(accept.choice(*HARD_SIGMOIDS)),
    "replace": accept.optional(accept.rules),
    "head": accept.choice(*HEADS),
    "max_error": accept.optional(accept.fraction),
    "positive": accept.flag,
    "max_change": accept.optional(accept.positive),
    "dry_run": accept.flag,
    "emit": accept.words(*ARTEFACTS),
    "c_style": accept.optional(_c_style),
    "ram": accept.optional(accept.size),
    "flash": accept.optional(accept.size),
    "max_memory": accept.optional(accept.size),
    "reference": accept.optional(accept.model),
    "faithful": accept.flag,
    "half": accept.flag,
    "safe_half": accept.flag,
    "reports": accept.outputs,
    "command": accept.text,
}
"""What each parameter of an export may be; `validate` then decides whether they can work together."""

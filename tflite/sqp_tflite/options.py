"""What an export was asked for, as one value. Imports nothing slow: the command line makes it before TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqp_tflite.ops.combinations import Combination

if TYPE_CHECKING:
    from sqp_tflite.emit import CStyle
    from sqp_tflite.source.samples import GivenData

HEADS = ("keep", "logits")
"""What can be done about a final softmax or sigmoid."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What an export was asked for: the parameters of `sqp_tflite.export`, which says what each means.

    Attributes:
        model: The Keras model or its path.
        wanted: `quantize`, `lowering` and `target`.
    """

    model: Any
    output: Path | None = None
    wanted: Combination = field(default_factory=Combination)
    io: str | None = None
    data: GivenData = None
    names: Mapping[str, str] | None = None
    trust_code: bool = False
    replace: str | Mapping[str, Any] | None = None
    head: str = "keep"
    max_error: float | None = None
    max_change: float | None = None
    dry_run: bool = False
    emit: tuple[str, ...] = ()
    c_style: CStyle | None = None
    ram: int | None = None
    flash: int | None = None
    reports: tuple[Path, ...] = ()
    command: str = ""

    @property
    def source(self) -> str:
        """Returns what reports call the model before it is loaded."""
        return str(self.model) if isinstance(self.model, (str, Path)) else getattr(self.model, "name", "the model")

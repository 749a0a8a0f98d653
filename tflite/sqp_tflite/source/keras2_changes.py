"""What was changed in the configuration of a file of Keras 2, for the report."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from sqp_tflite.wording import listed

_MOST_LAYERS = 3


class Kind(enum.Enum):
    """What kind of change it is."""

    IDLE = "left out, without effect"
    FUNCTION = "functions of TensorFlow as layers"
    OTHER = "written in another way"


@dataclass(slots=True)
class Changes:
    """What was changed, and in which layers.

    Attributes:
        done: {(kind, what): the layers}, in the order of the file.
    """

    done: dict[tuple[Kind, str], dict[str, None]] = field(default_factory=dict)

    def add(self, kind: Kind, what: str, layer: str) -> None:
        """Notes one change.

        Args:
            kind: What kind of change it is.
            what: The key, the function, or in a few words what was done.
            layer: The layer's name in the file.
        """
        self.done.setdefault((kind, what), {})[layer] = None

    def note(self, source: str, writer: str) -> str:
        """Returns all of it as one sentence, "" for nothing.

        Args:
            source: Names the file.
            writer: The version of the Keras that wrote it, "" where that is not known.
        """
        parts = []
        for kind in Kind:
            ofs = [
                f"{what} ({listed(list(at), _MOST_LAYERS)})" for (other, what), at in self.done.items() if other is kind
            ]
            parts += [f"{kind.value}: {', '.join(ofs)}"] if ofs else []
        if not parts:
            return ""
        by = f"Keras {writer}" if writer else "an unknown Keras"
        return f"`{source}` was written by {by} and read in the form of Keras 3: {'; '.join(parts)}"

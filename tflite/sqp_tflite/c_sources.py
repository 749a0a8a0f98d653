"""Where the C sources for the device are, such as sqp.h."""

from __future__ import annotations

from pathlib import Path


def include_dir() -> Path:
    """Returns the folder that holds `sqp.h`, for a compiler's `-I`.

    An installed package has the folder inside it; in a checkout or an editable install it is `tflite/mcu`.
    """
    package = Path(__file__).resolve().parent
    inside = package / "mcu"
    return inside if inside.is_dir() else package.parent / "mcu"

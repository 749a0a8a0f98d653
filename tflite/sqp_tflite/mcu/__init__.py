"""The C sources for the device, such as `sqp.h`, and where to find them."""

from __future__ import annotations

from pathlib import Path


def include_dir() -> Path:
    """Returns the folder that holds `sqp.h`, for a compiler's `-I`.

    A wheel has the sources in this package; in a checkout or an editable install they are in `tflite/mcu`.
    """
    here = Path(__file__).resolve().parent
    return here if (here / "sqp.h").is_file() else here.parents[1] / "mcu"

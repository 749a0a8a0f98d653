"""How much memory the content of a file may take: a stated limit that declared sizes are held against before reading.

A few kilobytes can declare terabytes: an archive that unpacks to zeros, a header that claims a shape, a dataset that
was never written. Nothing of a file is read before its declared size was compared with the limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqp_tflite.accept import LARGEST, UNITS
from sqp_tflite.errors import EnvironmentMissingError, MemoryLimitError

SHARE = 8
"""The limit is the free memory over this. At its peak an export of 64 MB of weights takes fifteen times as much in all
its processes, and ten times in the largest: as file, variables, frozen graph, the converter's copies and those of three
interpreters. Samples are copied less often. At an eighth, a file that is let in fits or almost fits."""

SMALLEST = 128 << 20
"""The default is never less: TensorFlow and the interpreters take several times as much before any model is read, so
that a smaller limit would protect nothing."""

UNKNOWN = 2 << 30
"""The default where the system does not say how much memory is free."""

_LIBRARIES = (("RLIMIT_AS", 2560 << 20, "-v"), ("RLIMIT_DATA", 480 << 20, "-d"))
"""The least with which the smallest model is exported (measured on two cores: 2.4 GiB do not do, 2.8 do; 469 MiB of
data do not do, 488 do), and the option of `ulimit`. Below that native code ends the process without a word."""

_NUMPY = (("RLIMIT_AS", 256 << 20, "-v"),)
"""The least with which a file is inspected (measured on two cores: 117 MiB do not do, 196 do). With less, the threads
of NumPy's linear algebra fail to start, and the process may not end."""

_NAMES = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(frozen=True, slots=True)
class Limit:
    """How much memory what is read may take.

    Attributes:
        size: In bytes.
        origin: Where the number comes from, in words.
    """

    size: int
    origin: str

    def require(self, needed: int, what: str, remedy: str = "Make it smaller") -> None:
        """Raises if something does not fit.

        Args:
            needed: Bytes.
            what: What needs them, as the beginning of a sentence that goes on with their number.
            remedy: What to do, the beginning of a sentence that goes on with "or allow more".

        Raises:
            MemoryLimitError: It does not fit.
        """
        if needed > self.size:
            more = f", or allow more with --max-memory {as_option(needed)} (in Python: `max_memory`)"
            raise MemoryLimitError(
                f"What is read must fit into memory. Received: {what} {in_words(needed)}; the limit is "
                f"{in_words(self.size)} ({self.origin}). {remedy}{more if needed < LARGEST // 2 else ''}."
            )


def limit(max_memory: int | None = None) -> Limit:
    """Returns the limit that the user set, or that of this machine.

    Args:
        max_memory: In bytes; None for an eighth of the memory that is free.
    """
    return machine() if max_memory is None else Limit(max_memory, "--max-memory")


def machine(root: Path = Path("/")) -> Limit:
    """Returns the limit for this machine, or for the container around this process where that has less.

    Args:
        root: Of the file system, for tests.
    """
    free = _free_here(root)
    left = min(_left_in_groups(root), default=None)
    if left is not None and (free is None or left < free):
        free, whose = left, "that this control group (container) may still take"
    else:
        whose = "that is free on this machine"
    if free is None:
        return Limit(UNKNOWN, "the default where the free memory is not known")
    if free // SHARE < SMALLEST:
        return Limit(SMALLEST, f"the least default: only {in_words(free)} of memory {whose}")
    return Limit(free // SHARE, f"an eighth of the memory {whose}")


def require_libraries() -> None:
    """Raises `EnvironmentMissingError` if this process may not take the memory that importing TensorFlow takes."""
    _require("TensorFlow", _LIBRARIES)


def require_numpy() -> None:
    """Raises `EnvironmentMissingError` if this process may not take the memory that importing NumPy takes."""
    _require("NumPy", _NUMPY)


def _require(package: str, needs: Sequence[tuple[str, int, str]]) -> None:
    try:
        import resource
    except ImportError:  # Not on Windows.
        return
    for name, least, option in needs:
        most = resource.getrlimit(getattr(resource, name))[0]
        if most != resource.RLIM_INFINITY and most < least:
            raise EnvironmentMissingError(
                f"{package} needs memory before any model is read: at least {least >> 10:,} KiB where {name} limits "
                f"it. Received: {most >> 10:,} KiB. Allow this process more (ulimit {option} unlimited)."
            )


_MOST = 10**30
"""What is larger is shown as this: a damaged shape may declare more bytes than a float can count."""


def in_words(size: int) -> str:
    """Returns a size as people write it: 6.4 GiB."""
    value, name = float(min(size, _MOST)), "bytes"
    for larger in _NAMES:
        if value < 1024:
            break
        value, name = value / 1024, larger
    return f"{size:,} bytes" if name == "bytes" else f"{value:,.1f} {name}"


def as_option(size: int) -> str:
    """Returns the next round size as --max-memory takes it: 8G."""
    unit = next((place for place in range(len(UNITS), 0, -1) if size >= 1024**place), 1)
    return f"{-(-size // 1024**unit)}{UNITS[unit - 1]}"


def _free_here(root: Path) -> int | None:
    """Returns the bytes of physical memory that are free, all of it where only that is known."""
    for line in _lines(root / "proc" / "meminfo"):
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        if root == Path("/") and name in getattr(os, "sysconf_names", {}):
            return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    return None


def _left_in_groups(root: Path) -> Iterator[int]:
    """Yields what each control group around this process may still take, in versions 1 and 2."""
    mounts = root / "sys" / "fs" / "cgroup"
    for line in _lines(root / "proc" / "self" / "cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, inside = rest.partition(":")
        if not controllers:
            yield from _left(mounts, inside, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _left(mounts / "memory", inside, names)


def _left(mount: Path, inside: str, names: tuple[str, str, str]) -> Iterator[int]:
    # Inside a container the path may be the host's and not be there; its own group is then at the mount itself.
    folder = mount / inside.strip("/")
    for group in (folder, *folder.parents):
        most, used = (next(iter(_lines(group / name)), "").strip() for name in names[:2])
        if most.isdecimal():
            cached = sum(int(line.split()[1]) for line in _lines(group / "memory.stat") if line.split()[0] == names[2])
            yield max(0, int(most) - max(0, int(used or 0) - cached))
        if group == mount:
            return


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        return []

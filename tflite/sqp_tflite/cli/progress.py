"""Progress of the long steps, only on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import IO

STEPS = {
    "load": "Reading the model",
    "trace": "Writing the activations in their form for the device",
    "convert": "Converting with TensorFlow",
    "quantize": "Quantising",
    "calibrate": "Calibrating on the data",
    "lower": "Writing the tables",
    "measure": "Measuring the memory on the interpreter",
    "compare": "Comparing with Keras on every interpreter",
    "emit": "Writing the firmware files",
}


@contextlib.contextmanager
def progress(err: IO[str], shown: bool) -> Iterator[Callable[[str], None]]:
    """Yields a function that takes each step's name and shows it with its elapsed time until the next step.

    Args:
        err: Where to show it.
        shown: Whether to show anything; nothing is shown if `err` is not a terminal.
    """
    if not shown or not err.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=err), transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def tell(step: str) -> None:
            bar.reset(task, description=STEPS.get(step, step), total=None)

        yield tell

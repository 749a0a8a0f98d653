"""What an operator that has no C form raises; the plan makes one finding of each."""

from __future__ import annotations

from typing import NoReturn

from sqp_tflite.flatbuffer.graph import Op


class Unsupported(Exception):
    """An operator that has no C form.

    Attributes:
        op: The operator.
        rule: What it would have to be, after its name.
        received: What it is.
    """

    def __init__(self, op: Op, rule: str, received: str):
        super().__init__(f"{op.name} {rule}. Received: {received}.")
        self.op, self.rule, self.received = op, rule, received


def refuse(op: Op, rule: str, received: object) -> NoReturn:
    """Raises `Unsupported`.

    Args:
        op: The operator.
        rule: Goes on behind the operator's name.
        received: What it is instead.
    """
    raise Unsupported(op, rule, str(received))

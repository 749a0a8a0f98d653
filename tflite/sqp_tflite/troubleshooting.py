"""The page about troubleshooting, docs/troubleshooting.md: the entry of each kind of finding, and its address.

The entries of errors are their `code` (`errors.py`).
"""

from __future__ import annotations

PAGE = "https://sqp-keras.github.io/sqp-keras/troubleshooting/"

FINDINGS = {
    "op": "SQP-E101",
    "version": "SQP-E102",
    "dtype": "SQP-E103",
    "budget": "SQP-E104",
    "shape": "SQP-E105",
    "state": "SQP-E106",
    "data": "SQP-E107",
    "weights": "SQP-E108",
    "graph": "SQP-E109",
    "npu": "SQP-E110",
}
"""By `report.Kind`."""


def address(code: str) -> str:
    """Returns where a code is explained."""
    return f"{PAGE}#{code.lower()}"

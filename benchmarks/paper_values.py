"""The measured figures under short keys, and the places in texts that quote them.

A quotation stands between two comments, which no renderer shows:

    squareplus takes <!-- result:mcu.M4F.sqp_f32.instructions -->9<!-- /result --> instructions

`rewrite` brings a text up to date, `stale` says where it is not; a test runs `stale` on every text of the project.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

SPAN = re.compile(r"<!-- result:(?P<key>\S+) -->(?P<value>.*?)<!-- /result -->", re.DOTALL)


def slug(text: str) -> str:
    """Returns a name as it stands in a key: lower case, words joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def significant(value: float, digits: int = 3) -> str:
    """Returns a number with so many significant digits, never in powers of ten."""
    rounded = float(f"{value:.{digits}g}")
    exponent = math.floor(math.log10(abs(rounded))) if rounded else digits - 1
    return f"{rounded:.{max(0, digits - 1 - exponent)}f}"


def instructions(value: float) -> str:
    """Returns a count per element: whole from 20 on, with one digit below where it is not whole."""
    return f"{value:.0f}" if value >= 20 or abs(value - round(value)) < 0.05 else f"{value:.1f}"


def values(results: dict[str, Any]) -> dict[str, str]:
    """Returns every figure of results.json that a text can quote, formatted."""
    return dict(
        [*_table_values(results), *_mcu_values(results), *_interpreter_values(results), *_machine_values(results)]
    )


def _table_values(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for part in ("cpu", "gpu"):
        for section, rows in results.get(part, {}).get("sections", {}).items():
            for name, row in rows.items():
                key = f"table1.{part}.{section}.{name}"
                yield f"{key}.ms", significant(row["median"])
                yield f"{key}.to_relu", significant(row["to_relu"])
                yield f"{key}.to_softplus", significant(row["to_softplus"])


def _mcu_values(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for core, kernels in results.get("mcu", {}).get("cores", {}).items():
        ours = kernels["sqp_f32"]["instructions"]
        for kernel, row in kernels.items():
            key = f"mcu.{core}.{kernel}"
            yield f"{key}.instructions", instructions(row["instructions"])
            yield f"{key}.to_squareplus", significant(row["instructions"] / ours, 2)
            yield f"{key}.flash", str(row["flash"])
            yield f"{key}.ram", str(row["ram"])
            yield f"{key}.libm", ", ".join(row["libm"]) or "none"


def _interpreter_values(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for runtime, rows in results.get("interpreters", {}).get("runtimes", {}).items():
        relu = {row["group"]: row["timing"]["median"] for row in rows if row["name"] == "relu" and row["timing"]}
        for row in rows:
            if row["timing"]:
                key = f"lite.{runtime}.{slug(row['group'])}.{slug(row['name'])}"
                yield f"{key}.us", significant(row["timing"]["median"] * 1000)
                if row["group"] in relu:
                    yield f"{key}.to_relu", significant(row["timing"]["median"] / relu[row["group"]], 2)


def _machine_values(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in results.get("machine", {}).items():
        if isinstance(value, str):
            yield f"machine.{name}", value


def rewrite(text: str, known: dict[str, str]) -> str:
    """Returns the text with every quotation brought up to date.

    Raises:
        ValueError: A quotation has a key that does not exist.
    """
    unknown = sorted({match["key"] for match in SPAN.finditer(text)} - set(known))
    if unknown:
        raise ValueError(f"A quoted result must exist. Received: {', '.join(unknown)}. See the keys in results.json.")
    return SPAN.sub(lambda match: f"<!-- result:{match['key']} -->{known[match['key']]}<!-- /result -->", text)


def stale(text: str, known: dict[str, str]) -> list[str]:
    """Returns one line for each quotation that is not the measured figure, and for comments that do not pair up."""
    found = []
    for match in SPAN.finditer(text):
        if match["key"] not in known:
            found.append(f"{match['key']}: no such result")
        elif match["value"] != known[match["key"]]:
            found.append(f"{match['key']}: quoted {match['value']!r}, measured {known[match['key']]!r}")
    openings, closings = text.count("<!-- result:"), text.count("<!-- /result -->")
    pairs = len(SPAN.findall(text))
    if not openings == closings == pairs:
        found.append(f"{openings} comments open a result, {closings} close one, {pairs} pair up")
    return found

"""The table of what each target's interpreter runs: read, compared, written and rendered; the probe fills it."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from sqp_tflite.ops.policy import ADMITTED, NAMES, PROBED


def stored() -> dict[str, Any]:
    """Returns the content of `ops.json`."""
    return json.loads(importlib.resources.files("sqp_tflite.ops").joinpath("ops.json").read_text("utf-8"))


def dumps(content: dict[str, Any]) -> str:
    """Returns the table as JSON with one operator per line, so that diffs are small."""
    parts = []
    for section, entries in content.items():
        inner = []
        for key, entry in entries.items():
            if isinstance(entry, dict):
                lines = ",\n".join(f"   {json.dumps(op)}: {json.dumps(types)}" for op, types in entry.items())
                inner.append(f"  {json.dumps(key)}: {{\n{lines}\n  }}")
            else:
                inner.append(f"  {json.dumps(key)}: {json.dumps(entry)}")
        parts.append(f" {json.dumps(section)}: {{\n" + ",\n".join(inner) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def merged(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Returns a table with the targets of another one that it lacks, in the order of `policy.PROBED`.

    Args:
        now: A table of some or all targets.
        before: The stored one.
    """
    known = {target: now if target in now["targets"] else before for target in PROBED}
    return {
        section: {target: table[section][target] for target, table in known.items() if target in table[section]}
        for section in now
    }


def differences(now: dict[str, Any], before: dict[str, Any]) -> tuple[str, ...]:
    """Returns a sentence for each thing that a target gained or lost between two tables.

    Args:
        now: A table as `table` returns it, of some or all targets.
        before: The stored one.
    """
    lines = []
    for target in now["targets"]:
        lines += [f"{target} {line}" for line in _changed(_pairs(now, target), _pairs(before, target))]
        new, old = now["op_versions"].get(target, {}), before["op_versions"].get(target, {})
        lines += [
            f"{target} takes {op} up to version {new.get(op)}, not {old.get(op)}."
            for op in sorted({*new, *old})
            if new.get(op) != old.get(op)
        ]
    return tuple(lines)


def _pairs(content: dict[str, Any], target: str) -> set[str]:
    pairs = {f"{op} for {dtype}" for op, types in content["targets"].get(target, {}).items() for dtype in types}
    return pairs | {f"{op} for float32 with int8 weights" for op in content["hybrid"].get(target, ())}


def _changed(new: set[str], old: set[str]) -> list[str]:
    return [f"now has {pair}." for pair in sorted(new - old)] + [f"no longer has {pair}." for pair in sorted(old - new)]


def markdown(content: dict[str, Any]) -> str:
    """Returns the operator page of the documentation."""
    targets = tuple(content["targets"])
    packages = ", ".join(f"{target}: {package}" for target, package in content["versions"].items())
    ops = sorted({op for target in targets for op in content["targets"][target]} | set(ADMITTED))
    head = ("op", "admitted", *targets)
    lines = [_INTRODUCTION.format(packages=packages), "", _row(*head), _row(*["---"] * len(head))]
    for op in ops:
        cells = [_cell(content, target, op) for target in targets]
        lines.append(_row(f"`{op}`", "yes" if op in ADMITTED else "no", *cells))
    lines += ["", _HYBRID, ""]
    for target in targets:
        names = ", ".join(f"`{op}`" for op in content["hybrid"][target])
        lines.append(f"- {NAMES[target]}: {names or 'none'}")
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(content: dict[str, Any], target: str, op: str) -> str:
    types = content["targets"][target].get(op)
    if not types:
        return "-"
    version = content["op_versions"].get(target, {}).get(op)
    return ", ".join(types) + (f" (v{version})" if version else "")


_INTRODUCTION = """# Operators

Written by `python -m sqp_tflite.ops.probe --docs`; do not edit. For every operator and type, a model with only that
operator was built and run on the real interpreters
({packages}).
A type is listed if the model could be allocated and invoked. The number in brackets is the highest version of the
operator that the interpreter accepts (TFLM ignores versions). Two are left out that tflm@2023 runs in such a model and
that are still wrong there: CAST from bool leaves its output as it was, and TRANSPOSE_CONV for int16 crashes without a
bias. A file may contain an operator if it is admitted and the target has it for its type and version. Exponentials,
logarithms, operators made of them, and operators without an integer kernel or a small kernel are not admitted."""

_HYBRID = """## Float activations with int8 weights

What `--quantize dynamic` needs:"""

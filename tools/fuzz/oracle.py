"""What must hold after every call, whatever the input was; each thing that does not is a fault."""

from __future__ import annotations

import itertools
import json
import os
import re
from dataclasses import dataclass
from pathlib import PurePath

from sqp_tflite.emit import CStyle
from tools.fuzz.records import INSIDE, PAYLOAD, Case, Ran

CODES = {"sqp-export": (0, 1, 2, 3), "sqp-inspect": (0, 1, 2), "sqp-check": (0, 2, 3)}
"""The exit codes that each command may have, from its help."""

LONGEST_LINE = 1000
"""Characters of a line on standard error: a few hundred, and the names of files and layers in it."""

MOST_CPU = 90.0
"""Seconds of processor time that a case may take; the dearest good call needs about 20."""

MOST_MEMORY = 2 << 30
"""Bytes of the largest process; TensorFlow's imports need about 600 MB."""

_LEAVING = ("--help", "--help-all", "-h", "--version", "--c-include", "--completion")
"""Options that print something and leave."""

_UNFORESEEN = re.compile(r"unexpected \w+.*please report|please report", re.DOTALL)
_VARYING = re.compile(r"`.*?`|'.*?'|\".*?\"|0x[0-9a-f]+|[0-9]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Fault:
    """One promise that did not hold: its kind, a word, and what was seen."""

    kind: str
    text: str

    @property
    def signature(self) -> str:
        """Returns what faults of one cause have in common: numbers, names and paths are left out."""
        return f"{self.kind}: {_VARYING.sub('_', self.text)[:120]}"


def faults(case: Case, ran: Ran) -> list[Fault]:
    """Returns everything that is wrong with what a call did; nothing if all promises held."""
    found = [fault for check in _CHECKS for fault in check(case, ran)]
    return list(dict.fromkeys(found))


def asked(case: Case) -> tuple[set[str], set[str]]:
    """Returns the paths that a call names as outputs, and beginnings of the paths of artefacts beside them."""
    outputs, prefixes, given = [], [], list(case.arguments)
    reports = []
    for place, word in enumerate(given):
        name, equals, value = word.partition("=")
        follows = value if equals else given[place + 1] if place + 1 < len(given) else ""
        if name in ("-o", "--output"):
            outputs.append(follows)
        elif word.startswith("-o") and len(word) > 2 and not word.startswith("--"):
            outputs.append(word[2:])
        elif name == "--report":
            reports.append(follows)
        elif name == "--c-prefix":
            prefixes.append(follows)
    if case.program == "sqp-check":
        return set(), set()
    if case.program == "sqp-export" and not [name for name in outputs if name]:
        stems = [PurePath(word).with_suffix("") for word in given if PurePath(word).name]
        outputs = [f"{stem}{end}" for stem in stems for end in (".tflite", "_sqp.tflite")]
    links = {name: target for name, kind, target in case.special if kind == "link"}
    paths = {_inside(links.get(name, name)) for name in [*outputs, *reports] if name}
    starts = set()
    if any(word.startswith("--emit") for word in given):
        for output in outputs:
            names = [CStyle.named(PurePath(output).stem).prefix, "model", *prefixes]
            starts |= {_inside(f"{PurePath(output).parent}/{name}") for name in names if name}
    return paths, starts


def _inside(name: str) -> str:
    return os.path.normpath(f"{INSIDE}/{name}")


def _end(case: Case, ran: Ran) -> list[Fault]:
    if ran.timed_out:
        return [Fault("hang", f"had to be ended after {ran.seconds:.0f} s")]
    if ran.code not in CODES[case.program]:
        last = next((line for line in reversed(ran.err.splitlines()) if line.strip()), "")
        return [Fault("exit code", f"{ran.code} is not one of {CODES[case.program]}; {last[:200]}")]
    return []


def _words(case: Case, ran: Ran) -> list[Fault]:
    found, debug = [], "--debug" in case.arguments
    printed = f"{ran.out}\n{ran.err}"
    if "Traceback (most recent call last)" in printed and not debug:
        last = next((line for line in reversed(printed.splitlines()) if line.strip()), "")
        found.append(Fault("traceback", last[:200]))
    if _UNFORESEEN.search(ran.err) and not debug:
        line = next(line for line in ran.err.splitlines() if "please report" in line)
        found.append(Fault("unforeseen", line[:300]))
    if debug:
        return found
    longest = max(ran.err.splitlines(), key=len, default="")
    if len(longest) > LONGEST_LINE:
        found.append(Fault("long line", f"{len(longest)} characters: {longest[:150]}"))
    control = (None if _piped(case) else _CONTROL.search(ran.out)) or _CONTROL.search(ran.err)
    if control:
        around = control.string[max(0, control.start() - 60) : control.end() + 20]
        found.append(Fault("control character", ascii(around)))
    return found


def _message(case: Case, ran: Ran) -> list[Fault]:
    seen = 2 not in case.streams
    # The verdict of an inspection or a check is the result, and --quiet leaves results out.
    verdict = case.program != "sqp-export" and ran.code in (1, 3)
    if verdict and 1 in case.streams:
        return []
    if ran.code > 0 and seen and not ran.err.strip() and not (verdict and (ran.out.strip() or _quiet(case))):
        return [Fault("silent", f"exit code {ran.code} without a word on standard error")]
    return []


def _leaves(case: Case) -> bool:
    return any(word.startswith(_LEAVING) for word in case.arguments)


def _piped(case: Case) -> bool:
    """Whether a file goes to standard output."""
    words = case.arguments
    after = {word for name, word in itertools.pairwise(words) if name in ("-o", "--output", "--report")}
    return "-" in after or bool({"-o-", "-o=-", "--output=-", "--report=-"} & set(words))


def _quiet(case: Case) -> bool:
    return "--quiet" in case.arguments


def _json(case: Case, ran: Ran) -> list[Fault]:
    words = set(case.arguments)
    if "--json" not in words or "--debug" in words or ran.code not in (0, 1, 3) or 1 in case.streams:
        return []
    if _leaves(case) or _piped(case):
        return []
    if not ran.out.strip():
        return [] if ran.code else [Fault("json", "exit code 0 and no JSON")]
    try:
        held = json.loads(ran.out, parse_constant=_no_constant)
    except ValueError as error:
        return [Fault("json", str(error)[:200])]
    ok = isinstance(held, dict) and (held.get("verdict") == "ok") == (ran.code == 0)
    return [] if ok else [Fault("json", f"the verdict does not go with exit code {ran.code}")]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _files(case: Case, ran: Ran) -> list[Fault]:
    paths, starts = asked(case)
    may = ran.code == 0 or (case.program == "sqp-inspect" and ran.code == 1)
    found = []
    for path in sorted({*ran.before, *ran.after}):
        was, now = ran.before.get(path), ran.after.get(path)
        if was == now:
            continue
        if os.path.basename(path).startswith(PAYLOAD):
            found.append(Fault("ran", f"code in the input created {path}"))
            continue
        wanted = path in paths or path.startswith(tuple(starts)) if may else False
        if not wanted:
            what = "was removed" if now is None else "appeared" if was is None else "was changed"
            found.append(Fault("file", f"{os.path.basename(path)[:80]} {what}, exit code {ran.code}"))
    elsewhere = _leaves(case) or _piped(case) or "--dry-run" in case.arguments
    if case.program == "sqp-export" and ran.code == 0 and not elsewhere and not paths & set(ran.after):
        found.append(Fault("no file", f"exit code 0 and none of {sorted(paths)[:3]}"))
    found += [Fault("temporary", f"{re.sub('[a-z0-9_]{8}', '*', name)} stays") for name in ran.temporary[:1]]
    return found


def _bounds(case: Case, ran: Ran) -> list[Fault]:
    found = []
    if ran.cpu > MOST_CPU:
        found.append(Fault("time", f"{ran.cpu:.0f} s of processor time"))
    if ran.peak > MOST_MEMORY:
        found.append(Fault("memory", f"{ran.peak >> 20} MiB"))
    if ran.left:
        found.append(Fault("process", f"{ran.left} process(es) outlive the command"))
    return found


_CHECKS = (_end, _words, _message, _json, _files, _bounds)

"""Reproduces the paper's table and figures on this machine, and the speed of everything around them.

python -m benchmarks.paper                  everything, under ten minutes; writes docs/results.md and what it quotes
python -m benchmarks.paper --only mcu       one part anew, the others as they were
python -m benchmarks.paper --readme         no measuring: only brings the figures quoted in README and docs up to date
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import paper_machine, paper_report, paper_values
from tools.mcu import emulator

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


class PartFailedError(RuntimeError):
    """A part ended with an error; the text holds the end of what it printed."""


def child(module: str, *arguments: str) -> str:
    """Returns what a module printed, run in a process of its own: frameworks do not share one well.

    Raises:
        PartFailedError: It did not end with 0.
    """
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        ending = "\n".join((done.stderr or done.stdout).splitlines()[-15:])
        raise PartFailedError(f"`{' '.join(command)}` ended with code {done.returncode}:\n{ending}")
    return done.stdout


def _json_of(module: str, *arguments: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        child(module, *arguments, "--json", str(file))
        return json.loads(file.read_text())


def cpu(folder: Path) -> dict[str, Any]:
    """Returns Table 1 on the CPU, one process per framework."""
    sections: dict[str, Any] = {}
    for framework in ("jax", "tensorflow", "numpy"):
        sections |= _json_of("benchmarks.paper_table", "--framework", framework)["sections"]
    return {"sections": sections}


def gpu(folder: Path) -> dict[str, Any]:
    """Returns Table 1 on a GPU, {"missing": reason} where there is none."""
    seen = child("benchmarks.paper_table", "--find-gpu").strip()
    if seen == "no":
        return {"missing": "JAX sees no GPU on this machine."}
    return _json_of("benchmarks.paper_table", "--framework", "jax", "--device", "gpu")


def figures(folder: Path) -> dict[str, Any]:
    """Draws the figures into the output folder."""
    drawn = child("benchmarks.paper_figures", "--folder", str(folder / "figures")).split()
    return {"files": [Path(path).name for path in drawn]}


def interpreters(folder: Path) -> dict[str, Any]:
    """Returns the latencies on the TFLite interpreters."""
    return {"runtimes": _json_of("benchmarks.interpreters")}


def mcu(folder: Path) -> dict[str, Any]:
    """Returns the counts on emulated cores, {"missing": reason} where the tools cannot be had."""
    try:
        emulator.ensure_toolchain()
    except emulator.ToolchainMissingError as error:
        return {"missing": str(error)}
    return {"cores": _json_of("benchmarks.mcu.count")}


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "cpu": cpu,
    "gpu": gpu,
    "figures": figures,
    "mcu": mcu,
    "interpreters": interpreters,
}


def measure(folder: Path, names: list[str], results: dict[str, Any]) -> dict[str, Any]:
    """Returns `results` with the named parts measured anew; says what it does on standard error."""
    results = {"machine": paper_machine.describe(), **{name: results[name] for name in PARTS if name in results}}
    for name in names:
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        start = time.monotonic()
        results[name] = PARTS[name](folder)
        results[name]["seconds"] = round(time.monotonic() - start, 1)
        print(f"{results[name]['seconds']:.0f} s", file=sys.stderr)
    return results


def write(folder: Path, results: dict[str, Any]) -> None:
    """Writes results.json and results.md."""
    results = {**results, "values": paper_values.values(results)}
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "results.md").write_text(paper_report.render(results))


def quoting_texts() -> list[Path]:
    """Returns the texts of the project that quote results."""
    texts = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    return [path for path in texts if paper_values.SPAN.search(path.read_text())]


def update_quotations() -> list[Path]:
    """Brings every quoted figure up to date with docs/results.json; returns the texts that changed."""
    known = json.loads((DOCS / "results.json").read_text())["values"]
    changed = []
    for path in quoting_texts():
        text = path.read_text()
        fresh = paper_values.rewrite(text, known)
        if fresh != text:
            path.write_text(fresh)
            changed.append(path)
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description="Reproduces the paper's table and figures on this machine.")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part anew, keep the others")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder for results.md, results.json and figures/")
    parser.add_argument("--gpu-json", type=Path, help="take the GPU's figures from this file of benchmarks.paper_table")
    parser.add_argument("--readme", action="store_true", help="only bring quoted figures up to date")
    options = parser.parse_args()
    folder = options.output.resolve()
    if not options.readme:
        folder.mkdir(parents=True, exist_ok=True)
        old = folder / "results.json"
        known = json.loads(old.read_text()) if options.only and old.is_file() else {}
        names = [name for name in PARTS if name in (options.only or PARTS) or name not in known]
        if options.gpu_json:
            known["gpu"] = json.loads(options.gpu_json.read_text())
            names = [name for name in names if name != "gpu"]
        try:
            write(folder, measure(folder, names, known))
        except PartFailedError as error:
            print(f"\n{error}", file=sys.stderr)
            return 1
        print(folder / "results.md")
    if folder == DOCS:
        for path in update_quotations():
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

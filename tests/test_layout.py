"""The shape of the project: imports go down only, the commands start fast."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"sqp_keras": ROOT / "sqp_keras", "sqp_tflite": ROOT / "tflite" / "sqp_tflite"}


def imports(source: str, module: str) -> set[str]:
    """Returns the project's modules that a source text imports, wherever in the text."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in PACKAGES and name != module}


def modules() -> dict[str, str]:
    texts = {}
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            texts[name] = path.read_text("utf-8")
    return texts


def circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Returns the circles of an import graph, each as the path that closes it."""
    found, done = [], set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            found.append((*path[path.index(name) :], name))
            return
        if name in done:
            return
        for other in sorted(graph.get(name, ())):
            visit(other, (*path, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())
    return found


def import_graph() -> dict[str, set[str]]:
    texts = modules()
    graph = {name: {other for other in imports(text, name) if other in texts} for name, text in texts.items()}
    # A package's __init__ re-exports its modules; what matters is that modules don't go through it in circles.
    return {
        name: {other for other in others if other not in PACKAGES}
        for name, others in graph.items()
        if name not in PACKAGES
    }


def test_training_never_imports_export():
    upward = {
        name: imports(text, name)
        for name, text in modules().items()
        if name.startswith("sqp_keras") and any(i.startswith("sqp_tflite") for i in imports(text, name))
    }
    assert upward == {}


def test_imports_go_down_only():
    assert circles(import_graph()) == []


def test_a_circle_is_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == [("a", "b", "c", "a")]


OF_BENCHMARKS = {
    "test_architectures.py",
    "test_kinds.py",
    "test_mcu_kernels.py",
    "test_older_tflm.py",
    "test_paper_results.py",
}
"""Tests of the benchmarks themselves: the only ones that import them."""


def imported_folders(source: str) -> set[str]:
    """Returns the first part of every name that a source text imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def crossings(folder: Path, forbidden: set[str]) -> set[tuple[str, str]]:
    """Returns (file, import) for every import of a forbidden name under a folder."""
    return {
        (path.name, name)
        for path in folder.rglob("*.py")
        for name in imported_folders(path.read_text("utf-8")) & forbidden
    }


def test_tests_and_benchmarks_do_not_lean_on_each_other():
    modules_of_tests = {path.stem for path in (ROOT / "tests").glob("*.py")} | {"tests"}
    assert crossings(ROOT / "benchmarks", modules_of_tests) == set()
    assert crossings(ROOT / "tools", modules_of_tests | {"benchmarks"}) == set()
    assert {name for name, _ in crossings(ROOT / "tests", {"benchmarks"})} == OF_BENCHMARKS


@pytest.mark.parametrize("line", ["import zoo", "from zoo import build", "import zoo.parts as z"])
def test_a_crossing_import_is_seen(line, tmp_path):
    (tmp_path / "table.py").write_text(f"def late():\n    {line}\n")
    assert crossings(tmp_path, {"zoo"}) == {("table.py", "zoo")}


def test_tflite_folder_is_no_package():
    assert not (ROOT / "tflite" / "__init__.py").exists()


def test_commands_import_no_tensorflow():
    code = (
        "import sys, sqp_tflite.cli.commands; print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"

"""The rooms: each import goes to a lower room, each room says what it is for, no module and no function grows large."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"sqp_keras": ROOT / "sqp_keras", "sqp_tflite": ROOT / "tflite" / "sqp_tflite"}

ORDER = {
    "sqp_keras": "accept private forms symbolic activation backends family models".split(),
    "sqp_tflite": "mcu wording troubleshooting agreement device report errors accept limits versions collecting "
    "private layer_names places files worker flatbuffer ops source "
    "run npu quantize codegen emit options solution validate journal comparison making disagreement finished "
    "inspection parity pipeline cli".split(),
}
"""Rooms and root modules, lowest first; `docs/architecture.md` describes them."""

LINES_OF_A_MODULE = 350
LINES_OF_A_FUNCTION = 60


def sources(package: str) -> dict[tuple[str, ...], ast.Module]:
    """Returns the syntax trees of a package's modules by their path inside it."""
    folder = PACKAGES[package]
    paths = {path.relative_to(folder).with_suffix("").parts: path for path in folder.rglob("*.py")}
    return {parts: ast.parse(path.read_text("utf-8")) for parts, path in paths.items() if parts != ("__init__",)}


def imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Yields the room of every import of the package itself, anywhere in a module."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module == package
            names = [f"{package}.{alias.name}" for alias in node.names] if whole else [node.module]
        yield from (name.split(".")[1] for name in names if name.startswith(f"{package}."))


def upward(trees: dict[tuple[str, ...], ast.Module], package: str, order: list[str]) -> list[str]:
    """Returns the imports that do not go down, as "module -> room"."""
    found = set()
    for parts, tree in trees.items():
        for other in imported(tree, package):
            if other != parts[0] and other in order and order.index(other) >= order.index(parts[0]):
                found.add(f"{'.'.join(parts)} -> {other}")
    return sorted(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_has_its_place_in_the_order(package):
    assert {parts[0] for parts in sources(package)} - {"__main__"} <= set(ORDER[package])


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_to_lower_rooms_only(package):
    assert upward(sources(package), package, ORDER[package]) == []


def test_an_upward_import_is_seen():
    planted = {
        ("ops", "audit"): ast.parse("def f():\n    from sqp_tflite.emit.page import html"),
        ("emit", "page"): ast.parse("from sqp_tflite import pipeline\nimport sqp_tflite.ops.audit"),
    }
    assert upward(planted, "sqp_tflite", ORDER["sqp_tflite"]) == ["emit.page -> pipeline", "ops.audit -> emit"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_says_what_it_is_for(package):
    silent = [
        folder.name
        for folder in PACKAGES[package].iterdir()
        if (folder / "__init__.py").exists() and not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ]
    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_page_names_every_room(package):
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = [folder.name for folder in PACKAGES[package].iterdir() if (folder / "__init__.py").exists()]
    assert [room for room in rooms if f"`{room}/`" not in page] == []


def test_modules_and_functions_stay_small():
    large = []
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            text = path.read_text("utf-8")
            if text.count("\n") > LINES_OF_A_MODULE:
                large.append(f"{path.name}: {text.count(chr(10))} lines")
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    # The docstring and the parameters are the contract, not the work.
                    length = node.end_lineno - node.body[0].lineno + 1
                    if ast.get_docstring(node) and len(node.body) > 1:
                        length = node.end_lineno - node.body[1].lineno + 1
                    if length > LINES_OF_A_FUNCTION:
                        large.append(f"{package}/{path.name}: {node.name}, {length} lines")
    assert large == []

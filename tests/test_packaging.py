"""What is uploaded to a package index: the sdist and the wheel are complete, and their metadata is right."""

import ast
import email
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sqp_keras
import sqp_tflite
from sqp_tflite.cli import commands

ROOT = Path(__file__).parent.parent
PACKAGES = {"sqp_keras": ROOT / "sqp_keras", "sqp_tflite": ROOT / "tflite" / "sqp_tflite"}
AROUND = tuple(ROOT / name for name in ("tests", "benchmarks", "examples", "tools"))


@dataclass(frozen=True)
class Built:
    """A built sdist and the wheel made from it."""

    sdist: Path
    wheel: Path

    def sdist_files(self) -> set[str]:
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}

    def wheel_files(self) -> set[str]:
        return set(zipfile.ZipFile(self.wheel).namelist())

    def metadata(self) -> email.message.Message:
        archive = zipfile.ZipFile(self.wheel)
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))

    def requirements(self) -> list[Requirement]:
        return [Requirement(text) for text in self.metadata().get_all("Requires-Dist")]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


def project_files(root: Path) -> set[str]:
    """Returns the project's files: what git tracks or would track, or all that .gitignore does not name."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout
        return {name for name in listed.split("\0") if name and (root / name).exists()}
    ignored = [line.strip("/") for line in (root / ".gitignore").read_text().splitlines() if line]
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    kept = (path for path in paths if not any(fnmatch(part, name) for part in path.parts for name in ignored))
    return {path.as_posix() for path in kept} - {"PKG-INFO"}


def test_sdist_holds_every_file_of_the_project(built):
    assert built.sdist_files() - {"PKG-INFO"} == project_files(ROOT)


def test_outside_git_the_project_is_what_gitignore_leaves(tmp_path):
    (tmp_path / ".gitignore").write_text("build/\n*.egg-info/\n/demo-output/\n")
    for name in ("a.py", "build/b.py", "c.egg-info/PKG-INFO", "demo-output/d", "docs/e.md", "PKG-INFO"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert project_files(tmp_path) == {".gitignore", "a.py", "docs/e.md"}


def test_wheel_holds_both_packages_and_no_tflite_folder(built):
    names = {name.split("/")[0] for name in built.wheel_files()}
    assert {name for name in names if not name.startswith("sqp_keras-")} == {"sqp_keras", "sqp_tflite"}


def test_wheel_holds_the_data_files_and_the_c_sources(built):
    for package, folder in (*PACKAGES.items(), ("sqp_tflite/mcu", ROOT / "tflite" / "mcu")):
        files = [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"]
        assert {f"{package}/{p.relative_to(folder).as_posix()}" for p in files} - built.wheel_files() == set()
    assert {f"{package}/py.typed" for package in PACKAGES} <= built.wheel_files()


def test_the_folder_of_sqp_h_is_found_in_a_checkout_and_in_a_wheel(built, tmp_path, monkeypatch, capsys):
    assert (sqp_tflite.include_dir() / "sqp.h").is_file()
    zipfile.ZipFile(built.wheel).extractall(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, "-c", "import sqp_tflite; print(sqp_tflite.include_dir())"]
    found = Path(subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout.strip())
    assert found == tmp_path / "sqp_tflite" / "mcu" and (found / "sqp.h").is_file()
    with pytest.raises(SystemExit) as ended:
        commands.export_main(["--c-include"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"{sqp_tflite.include_dir()}\n"


def test_metadata_and_description_pass_the_check_of_an_index(built):
    command = [sys.executable, "-m", "twine", "check", "--strict", str(built.sdist), str(built.wheel)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stdout.count("PASSED") == 2, checked.stdout


def test_there_is_one_version(built):
    version = sqp_keras.__version__
    assert sqp_tflite.__version__ == version
    assert built.metadata()["Version"] == version
    assert built.sdist.name == f"sqp_keras-{version}.tar.gz"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == version
    releases = re.findall(r"^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert releases[0] == version


NAMESPACES = {"ethosu": "ethos-u-vela", "google.protobuf": "protobuf"}
"""Modules whose distribution their name does not tell: several share it, or none is installed; and the distribution."""


def imported(*folders: Path) -> dict[str, str]:
    """Returns {imported name: a file that imports it}, without the standard library and the project's own."""
    own = {path.stem for folder in AROUND for path in folder.rglob("*.py")} | {folder.name for folder in AROUND}
    found: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            else:
                continue
            found |= {root(name): path.name for name in names}
    return {name: file for name, file in found.items() if name not in own | PACKAGES.keys() | sys.stdlib_module_names}


def root(name: str) -> str:
    """Returns the part of a module's name that belongs to one distribution."""
    return next((shared for shared in NAMESPACES if f"{name}.".startswith(f"{shared}.")), name.split(".")[0])


def distributions(names: dict[str, str]) -> dict[str, str]:
    """Returns {distribution that holds an imported name: a file that imports it}."""
    known = {**importlib.metadata.packages_distributions(), **{name: [held] for name, held in NAMESPACES.items()}}
    return {canonicalize_name(known.get(name, [name])[0]): file for name, file in names.items()}


OF_AN_EXTRA = {
    "ethos-u-vela": "ethos-u",
    "jax": "paper",
    "tf-keras": "keras2",
    "tflite-runtime": "tflite-runtime",
    "torch": "torch",
}
"""What the packages import only where it is installed, and the extra that installs it."""


def test_what_the_packages_import_is_declared_and_nothing_else(built):
    core = {canonicalize_name(needed.name) for needed in built.requirements() if "extra" not in str(needed.marker)}
    found = distributions(imported(*PACKAGES.values()))
    assert found.keys() - OF_AN_EXTRA.keys() == core
    for name, extra in OF_AN_EXTRA.items():
        assert any(
            needed.name == name and f'extra == "{extra}"' in str(needed.marker) for needed in built.requirements()
        )


def test_what_tests_and_benchmarks_import_is_declared(built):
    declared = {canonicalize_name(needed.name) for needed in built.requirements()}
    found = distributions(imported(*AROUND))
    assert {name: file for name, file in found.items() if name not in declared} == {}


def test_an_undeclared_import_is_seen(tmp_path):
    (tmp_path / "new.py").write_text(
        "import os\ndef late():\n    from not_declared.part import thing\n    import keras\n"
    )
    assert distributions(imported(tmp_path)) == {"not-declared": "new.py", "keras": "new.py"}


def test_a_plain_install_brings_the_interpreter_of_the_default_target(built):
    (micro,) = (n for n in built.requirements() if n.name == "tflite-micro" and "extra" not in str(n.marker))
    assert micro.specifier.prereleases and micro.specifier.contains("0.dev20261023182759")
    here = {"sys_platform": "linux", "platform_machine": "x86_64"}
    assert micro.marker.evaluate(here)
    assert not micro.marker.evaluate({**here, "sys_platform": "darwin"})
    assert not micro.marker.evaluate({**here, "platform_machine": "aarch64"})


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_parses_and_calls_targets_that_exist(path):
    flow = yaml.safe_load(path.read_text("utf-8"))
    assert flow["name"] and flow["permissions"] and flow[True]  # YAML 1.1 reads the key `on` as true.
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    assert steps and all("uses" in step or "run" in step for step in steps)
    called = {name for step in steps for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert called <= targets


def test_every_supported_python_is_tested_by_a_workflow(built):
    (flow,) = (yaml.safe_load(path.read_text("utf-8")) for path in WORKFLOWS if path.name == "test.yml")
    prefix = "Programming Language :: Python :: 3."
    supported = {c.rpartition(" ")[2] for c in built.metadata().get_all("Classifier") if c.startswith(prefix)}
    assert set(flow["jobs"]["package"]["strategy"]["matrix"]["python"]) == supported
    assert set(flow["jobs"]["test"]["strategy"]["matrix"]["python"]) <= supported


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.name)
def test_an_issue_form_asks_for_what_a_report_needs(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    labels = " ".join(
        part["attributes"].get("label", "") + part["attributes"].get("description", "") for part in form["body"]
    )
    assert form["name"] and form["description"]
    if path.name != "idea.yml":
        assert "sqp-export --version" in labels
    if path.name == "wrong-or-refused.yml":
        assert "--report report.json" in labels


USER = """
import sqp_keras
import sqp_tflite

exported = sqp_tflite.export("model.keras", quantize="int8", data={"x": [[1.0]]})
verdict: str = exported.report.verdict
layer = sqp_keras.Squareplus(b=4.0, learn_b="channel")
wrong: int = exported.report.verdict
"""


def test_a_users_type_checker_sees_the_types(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    call = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "user.py"]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tflite")))
    ran = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": path})
    errors = [line for line in ran.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in errors] == ["8"], ran.stdout
    assert 'expression has type "str", variable has type "int"' in errors[0]

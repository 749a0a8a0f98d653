"""What `import sqp_keras` gives: every public name, without TensorFlow, whatever else is imported."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import sqp_keras

WITHOUT_TENSORFLOW = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "ai_edge_litert", "sqp_tflite"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np, keras, sqp_keras
x = np.float32([[-1.0, 0.0, 2.0]])
y = (x + np.sqrt(x * x + 4)) / 2
np.testing.assert_allclose(sqp_keras.squareplus(x), y, rtol=1e-6)
np.testing.assert_allclose(sqp_keras.Squareplus()(x), y, rtol=1e-6)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "softplus")])
new, report = sqp_keras.replace_activations(model)
assert [row.was for row in report.replacements] == ["softplus"]
np.testing.assert_allclose(new(x), model(x), atol=1e-3)
assert not [name for name in sys.modules if name.split(".")[0] == "tensorflow"]
print("done with", keras.config.backend())
"""


def python(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code, *arguments],
        env={"PATH": "", "PYTHONPATH": str(Path(sqp_keras.__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
    )


def test_runs_without_tensorflow_on_jax():
    ran = python(WITHOUT_TENSORFLOW, KERAS_BACKEND="jax")
    assert ran.stdout == "done with jax\n", ran.stderr


def test_every_public_name_is_there_and_documented():
    for name in sqp_keras.__all__:
        public = getattr(sqp_keras, name)
        assert not inspect.ismodule(public), name
        assert isinstance(public, float) or inspect.getdoc(public), name


def test_no_module_has_the_name_of_a_public_function():
    children = {module.name for module in pkgutil.iter_modules(sqp_keras.__path__)}
    assert not children & set(sqp_keras.__all__)


def test_public_names_stay_what_they_are_when_every_module_is_imported():
    before = {name: getattr(sqp_keras, name) for name in sqp_keras.__all__}
    names = [module.name for module in pkgutil.walk_packages(sqp_keras.__path__, "sqp_keras.")]
    assert {"sqp_keras.models.distill", "sqp_keras.family.algebraic"} <= set(names)
    for name in names:
        importlib.import_module(name)
    assert {name: getattr(sqp_keras, name) for name in sqp_keras.__all__} == before
    for name in ("algebraic", "distill", "drop_head", "replace_activations", "squareplus"):
        assert inspect.isfunction(getattr(sqp_keras, name))


def test_the_package_says_that_it_is_typed():
    assert (Path(sqp_keras.__file__).parent / "py.typed").is_file()
